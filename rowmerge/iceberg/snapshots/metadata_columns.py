"""The metadata columns of an Iceberg table, with Iceberg's names, types and nullability, and the struct `_metadata`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import pyarrow as pa
from pyiceberg.table.metadata import TableMetadata

from rowmerge.iceberg.manifests.content import Entry
from rowmerge.iceberg.snapshots.partition_structs import partition_array, partition_type
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import Lineage
from rowmerge.table.snapshots.metadata_columns import (
    DELETED,
    FILE,
    FIRST_ROW_ID,
    LAST_UPDATED,
    PARTITION,
    PATH,
    POSITION,
    ROW_ID,
    SPEC_ID,
    VERSION,
    MetadataColumns,
    metadata_struct,
)

FindEntries = Callable[[Sequence[str]], Mapping[str, Entry]]
"""A function that returns the manifest entries of data files by path."""


def metadata_columns(metadata: TableMetadata, row_lineage: Lineage | None, find_entries: FindEntries) -> MetadataColumns:
    """Return the metadata columns of a snapshot.

    Args:
        metadata: The metadata of the table.
        row_lineage: The columns of data files with the ids of rows, or None before format version 3.
        find_entries: The function that returns the entries of data files of the snapshot.
    """
    partition = partition_type(metadata)
    columns = [
        Field(FILE, Primitive("string"), nullable=False),
        Field(POSITION, Primitive("long"), nullable=False),
        Field(DELETED, Primitive("boolean"), nullable=False),
        Field(SPEC_ID, Primitive("integer")),
        Field(PARTITION, partition),
    ]
    properties = {FILE, SPEC_ID} | ({PARTITION} if partition.fields else set())
    row_ids: tuple[str, ...] = ()
    if row_lineage is not None:
        columns += [Field(ROW_ID, Primitive("long")), Field(LAST_UPDATED, Primitive("long"))]
        properties |= {FIRST_ROW_ID, VERSION}
        row_ids = ("row_id", "row_commit_version")
    columns.append(metadata_struct(row_ids, nullable=True))

    def read_properties(paths: Sequence[str], names: Collection[str]) -> pa.Table:
        return _properties(find_entries(paths), names, metadata, partition)

    return MetadataColumns(Struct(tuple(columns)), frozenset(properties), read_properties, row_lineage)


def _properties(entries: Mapping[str, Entry], names: Collection[str], metadata: TableMetadata, partition: Struct) -> pa.Table:
    """Return properties of the data files of these entries: see `MetadataColumns`."""
    files = [entry.file for entry in entries.values()]
    readers: dict[str, Callable[[], pa.Array]] = {
        FILE: lambda: pa.array([file.path for file in files], pa.string()),
        SPEC_ID: lambda: pa.array([file.spec_id for file in files], pa.int32()),
        PARTITION: lambda: partition_array([(file.spec_id, file.partition) for file in files], metadata, partition),
        FIRST_ROW_ID: lambda: pa.array([file.first_row_id for file in files], pa.int64()),
        VERSION: lambda: pa.array([entry.sequence_number for entry in entries.values()], pa.int64()),
    }
    arrays = [pa.array(entries, pa.string()), *(readers[name]() for name in names)]
    schema = pa.schema([pa.field(name, array.type, name not in (PATH, FILE)) for name, array in zip((PATH, *names), arrays, strict=True)])
    return pa.Table.from_arrays(arrays, schema=schema)
