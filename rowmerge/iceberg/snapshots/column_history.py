"""The former names and types of an Iceberg table's columns, which older data files may have."""

from __future__ import annotations

from pyiceberg.schema import Schema, index_by_id, index_name_by_id
from pyiceberg.table.metadata import TableMetadata

from rowmerge.table.snapshots.snapshot import ColumnHistory


def column_history(metadata: TableMetadata, schema: Schema) -> ColumnHistory:
    """Return whether older data files may have other names or types of columns than a schema.

    Args:
        metadata: The metadata of the table, with all its schemas.
        schema: The schema with which rows are read.
    """
    names, fields = index_name_by_id(schema), index_by_id(schema)
    ids = {name: id_ for id_, name in names.items()}
    renamed = promoted = False
    for old in metadata.schemas:
        old_fields = index_by_id(old)
        for id_, name in index_name_by_id(old).items():
            renamed |= names.get(id_, name) != name or ids.get(name, id_) != id_
            if id_ in fields and fields[id_].field_type.is_primitive:
                promoted |= fields[id_].field_type != old_fields[id_].field_type
    return ColumnHistory(metadata.last_column_id, renamed, promoted)
