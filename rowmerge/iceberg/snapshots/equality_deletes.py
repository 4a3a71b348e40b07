"""The equality deletes that apply to data files (Iceberg spec, Scan Planning)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from pyiceberg.schema import Schema

from rowmerge.errors import UnsupportedTableFeature
from rowmerge.iceberg.metadata.types import columns_of
from rowmerge.iceberg.snapshots.live_files import LiveFiles
from rowmerge.table.metadata.schema import Field, Struct
from rowmerge.table.snapshots.files import EqualityDeletes

_REWRITE = "Rewrite the table's data files in the engine that wrote the deletes."


def equality_deletes(table: str, live: LiveFiles, paths: Sequence[str], schemas: Sequence[Schema]) -> tuple[EqualityDeletes, ...]:
    """Return the equality deletes that apply to these data files, grouped by data files with the same deletes.

    `schemas`: the table's schemas, newest first. Raises UnsupportedTableFeature.
    """
    data_files: dict[tuple[tuple[int, ...], frozenset[str]], list[str]] = defaultdict(list)
    for path, entry in live.by_path(paths).items():
        by_columns: dict[tuple[int, ...], set[str]] = defaultdict(set)
        for delete in live.equality_deletes_of(entry):
            if delete.file.format.upper() != "PARQUET":
                told = f"equality deletes in {delete.file.format} files"
                raise UnsupportedTableFeature(table, told, action="read", advice=_REWRITE)
            by_columns[tuple(sorted(delete.file.equality_ids))].add(delete.file.path)
        for ids, deletes in by_columns.items():
            data_files[ids, frozenset(deletes)].append(path)
    columns = {ids: Struct(tuple(_field_of(table, id_, schemas) for id_ in ids)) for ids, _ in data_files}
    return tuple(
        EqualityDeletes(columns[ids], tuple(sorted(deletes)), tuple(applies_to)) for (ids, deletes), applies_to in data_files.items()
    )


def _field_of(table: str, id_: int, schemas: Sequence[Schema]) -> Field:
    """Return the column with an id, from an older schema if the table has dropped it."""
    for schema in schemas:
        for field in schema.fields:
            if field.field_id == id_:
                (column,) = columns_of(Schema(field), table)
                return column
    told = f"equality deletes by the field {id_}, which is no top-level column"
    raise UnsupportedTableFeature(table, told, action="read", advice=_REWRITE)
