"""Find the equality deletes that apply to the data files of a snapshot ("Equality Delete Files" in the Iceberg specification)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain

from pyiceberg.schema import Schema

from rowmerge.errors import UnsupportedTableFeature
from rowmerge.iceberg.manifests.content import Entry
from rowmerge.iceberg.metadata.types import columns_of
from rowmerge.iceberg.snapshots.live_files import LiveFiles
from rowmerge.table.metadata.schema import Field, Struct
from rowmerge.table.snapshots.files import EqualityDeletes

_DeleteGroup = tuple[tuple[int, ...], frozenset[str]]
"""The field ids of the columns that equality deletes compare, and the paths of the delete files with these columns."""
_REWRITE = "Rewrite the table's data files with the engine that wrote the deletes."


def find_equality_deletes(table: str, live: LiveFiles, paths: Sequence[str], schemas: Sequence[Schema]) -> tuple[EqualityDeletes, ...]:
    """Return the equality deletes that apply to data files. Data files with the same delete files form one group.

    Args:
        table: The name of the table in messages.
        live: The live files of the snapshot.
        paths: The absolute paths of the data files. Paths that are not live are ignored.
        schemas: The schemas in which to look for the compared columns, the newest first. A column may have been dropped since.

    Raises:
        UnsupportedTableFeature: A delete file is not a Parquet file, or compares a field that is not a top-level column.
    """
    paths_by_group: dict[_DeleteGroup, list[str]] = defaultdict(list)
    for path, entry in live.by_path(paths).items():
        for group in _group_by_columns(table, live.equality_deletes_of(entry)):
            paths_by_group[group].append(path)
    equality_deletes = []
    for (field_ids, delete_paths), data_paths in paths_by_group.items():
        columns = Struct(tuple(_column_by_id(table, field_id, schemas) for field_id in field_ids))
        equality_deletes.append(EqualityDeletes(columns, tuple(sorted(delete_paths)), tuple(data_paths)))
    return tuple(equality_deletes)


def _group_by_columns(table: str, deletes: Sequence[Entry]) -> list[_DeleteGroup]:
    """Return equality-delete files grouped by the columns that they compare. Raises UnsupportedTableFeature unless they are Parquet."""
    by_columns: dict[tuple[int, ...], set[str]] = defaultdict(set)
    for delete in deletes:
        if delete.file.format.upper() != "PARQUET":
            feature = f"equality deletes in {delete.file.format} files"
            raise UnsupportedTableFeature(table, feature, action="read", advice=_REWRITE)
        by_columns[tuple(sorted(delete.file.equality_ids))].add(delete.file.path)
    return [(ids, frozenset(paths)) for ids, paths in by_columns.items()]


def _column_by_id(table: str, field_id: int, schemas: Sequence[Schema]) -> Field:
    """Return the column with a field id, from the first schema that has the column. Raises UnsupportedTableFeature for an unknown id."""
    all_fields = chain.from_iterable(schema.fields for schema in schemas)
    fields = [field for field in all_fields if field.field_id == field_id]
    if not fields:
        feature = f"equality deletes by the field {field_id}, which is not a top-level column"
        raise UnsupportedTableFeature(table, feature, action="read", advice=_REWRITE)
    (column,) = columns_of(Schema(fields[0]), table)
    return column
