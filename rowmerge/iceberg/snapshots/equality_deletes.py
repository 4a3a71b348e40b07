"""The equality deletes that apply to data files (Iceberg spec, Scan Planning)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from pyiceberg.schema import Schema

from rowmerge.errors import UnsupportedTableFeature
from rowmerge.iceberg.manifests.content import Entry
from rowmerge.iceberg.metadata.types import columns_of
from rowmerge.iceberg.snapshots.live_files import LiveFiles
from rowmerge.table.metadata.schema import Field, Struct
from rowmerge.table.snapshots.files import EqualityDeletes

_Deletes = tuple[tuple[int, ...], frozenset[str]]
"""The field ids of the columns that equality deletes compare, and the paths of the delete files."""
_REWRITE = "Rewrite the table's data files in the engine that wrote the deletes."


def find_equality_deletes(table: str, live: LiveFiles, paths: Sequence[str], schemas: Sequence[Schema]) -> tuple[EqualityDeletes, ...]:
    """Return the equality deletes of data files, grouped by files. `schemas`: newest first. Raises UnsupportedTableFeature."""
    paths_by_deletes: dict[_Deletes, list[str]] = defaultdict(list)
    for path, entry in live.by_path(paths).items():
        for deletes in _group_by_columns(table, live.equality_deletes_of(entry)):
            paths_by_deletes[deletes].append(path)
    equality_deletes = []
    for (field_ids, delete_paths), data_paths in paths_by_deletes.items():
        columns = Struct(tuple(_column_by_id(table, field_id, schemas) for field_id in field_ids))
        equality_deletes.append(EqualityDeletes(columns, tuple(sorted(delete_paths)), tuple(data_paths)))
    return tuple(equality_deletes)


def _group_by_columns(table: str, deletes: Sequence[Entry]) -> list[_Deletes]:
    """Group the equality deletes of one data file by their columns."""
    by_columns: dict[tuple[int, ...], set[str]] = defaultdict(set)
    for delete in deletes:
        if delete.file.format.upper() != "PARQUET":
            feature = f"equality deletes in {delete.file.format} files"
            raise UnsupportedTableFeature(table, feature, action="read", advice=_REWRITE)
        by_columns[tuple(sorted(delete.file.equality_ids))].add(delete.file.path)
    return [(ids, frozenset(paths)) for ids, paths in by_columns.items()]


def _column_by_id(table: str, field_id: int, schemas: Sequence[Schema]) -> Field:
    """Return the column with a field id, from the first schema that has the column. Raises UnsupportedTableFeature if none has it."""
    fields = [field for schema in schemas for field in schema.fields if field.field_id == field_id]
    if not fields:
        feature = f"equality deletes by the field {field_id}, which is no top-level column"
        raise UnsupportedTableFeature(table, feature, action="read", advice=_REWRITE)
    (column,) = columns_of(Schema(fields[0]), table)
    return column
