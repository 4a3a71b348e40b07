"""Metadata columns: the file, the position, the partition and the id of each row, as hidden columns of a table in queries.

They have the names and types of those of Iceberg and Delta Lake on Spark. No star contains them, and a column of the table with the same
name takes precedence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import Lineage
from rowmerge.table.snapshots.files import RowOrigin

FILE, POSITION, DELETED, SPEC_ID, PARTITION = "_file", "_pos", "_deleted", "_spec_id", "_partition"
ROW_ID, LAST_UPDATED, METADATA = "_row_id", "_last_updated_sequence_number", "_metadata"
METADATA_COLUMNS = (FILE, POSITION, DELETED, SPEC_ID, PARTITION, ROW_ID, LAST_UPDATED, METADATA)
"""The names of all metadata columns. Delta tables have only the last one, a struct."""
PATH, MODIFIED, FIRST_ROW_ID, VERSION = "path", "modified", "first_row_id", "version"
"""Properties of files beside FILE, SPEC_ID and PARTITION: the path, the time of the last modification, and the members of `RowOrigin`."""
_STRING, _LONG = Primitive("string"), Primitive("long")


@dataclass(frozen=True)
class MetadataColumns:
    """The metadata columns of one version of a table.

    `columns`: the columns. `properties`: the names of the properties of data files in the metadata of the table. `read_properties`:
    returns some of them for data files, after the column PATH. A field that is not nullable has a value for each file. `row_lineage`: the
    columns of data files with the ids of rows from other files, or None for a table whose rows have no ids.
    """

    columns: Struct
    properties: frozenset[str]
    read_properties: Callable[[Sequence[str], Collection[str]], pa.Table]
    row_lineage: Lineage | None = None

    def hidden_by(self, schema: Struct) -> Struct:
        """Return the metadata columns whose names no column of the table has."""
        return Struct(tuple(column for column in self.columns if schema.find(column.name) is None))

    def row_origins(self, paths: Sequence[str]) -> dict[str, RowOrigin]:
        """Return for each data file the id of its first row and the version that added it, by the path of the file."""
        files = self.read_properties(paths, (FIRST_ROW_ID, VERSION))
        columns = (files[name].to_pylist() for name in (PATH, FIRST_ROW_ID, VERSION))
        return {path: RowOrigin(first_row_id, version) for path, first_row_id, version in zip(*columns, strict=True)}


def metadata_struct(row_ids: Sequence[str], *, nullable: bool = False) -> Field:
    """Return the column METADATA.

    Args:
        row_ids: The names of its last fields, which are ids of rows and versions.
        nullable: Whether these can be NULL.
    """
    types = {
        **dict.fromkeys(("file_path", "file_name"), _STRING),
        **dict.fromkeys(("file_size", "file_block_start", "file_block_length"), _LONG),
        "file_modification_time": Primitive("timestamp"),
        "row_index": _LONG,
    }
    fields = [Field(name, type_, nullable=False) for name, type_ in types.items()]
    return Field(METADATA, Struct((*fields, *(Field(name, _LONG, nullable) for name in row_ids))), nullable=False)
