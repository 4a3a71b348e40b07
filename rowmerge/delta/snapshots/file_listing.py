"""The list of a version's data files as the engine sees it: absolute paths, typed partition values, bounds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.files.columns import struct_of
from rowmerge.delta.files.live_files import Block, LiveFiles
from rowmerge.delta.files.paths import absolute_paths
from rowmerge.delta.files.statistics_reading import bounds_type, nulls_type
from rowmerge.delta.files.text_values import from_text
from rowmerge.delta.metadata.actions import Metadata
from rowmerge.errors import CorruptLog
from rowmerge.table.metadata.schema import DataType, Field, arrow_type
from rowmerge.table.snapshots.files import FileListing, file_listing


def files_of(files: LiveFiles, location: str, paths: Collection[str]) -> LiveFiles:
    """The files of these absolute plain paths."""
    wanted = pa.array(sorted(paths), pa.string())
    return files.filter(lambda block: pc.is_in(_paths(block, location), value_set=wanted))


def has_vectors(block: Block) -> pa.ChunkedArray:
    """Which files of a block have deletion vectors."""
    return pc.is_valid(block.rows["deletionVector"])


def list_files(files: LiveFiles, location: str, metadata: Metadata, columns: Collection[str] = ()) -> FileListing:
    """Files as `rowmerge.table.snapshots.files.file_listing` says, with bounds of the columns asked for.

    Partition columns have their values in `partition` and no bounds. Raises CorruptLog for a partition value that is none of its type.
    """
    pairs = list(zip(metadata.schema, metadata.stored_schema, strict=True))
    chosen = [pair for pair in pairs if pair[0].name in columns and pair[0].name not in metadata.partition_columns]
    wanted, held = [field for field, _ in chosen], [field for _, field in chosen]
    partition = [field for name in metadata.partition_columns if (field := metadata.schema.find(name)) is not None]
    partition_type = pa.struct([(field.name, arrow_type(field.type)) for field in partition])
    shape = file_listing(partition_type, bounds_type(wanted), nulls_type(wanted))
    if not files.count:
        return FileListing(shape.empty_table())
    statistics = [block.source.read(held, block.numbers) for block in files.blocks]
    found = [
        _chunked([_paths(block, location) for block in files.blocks]),
        files.column("size"),
        pa.chunked_array([part.records for part in statistics], pa.int64()),
        _chunked([block.cached("deleted", partial(_deleted, block)) for block in files.blocks]),
        pa.chunked_array([_partition_values(block, partition, metadata.stored_partition_columns, location) for block in files.blocks]),
        _named([part.lower for part in statistics], shape.field("lower").type),
        _named([part.upper for part in statistics], shape.field("upper").type),
        _named([part.nulls for part in statistics], shape.field("nulls").type),
    ]
    return FileListing(pa.Table.from_arrays(found, schema=shape))


def _paths(block: Block, location: str) -> pa.ChunkedArray:
    return block.cached(("paths", location), lambda: absolute_paths(location, block.rows["path"]))


def _deleted(block: Block) -> pa.ChunkedArray:
    return pc.fill_null(pc.struct_field(block.rows["deletionVector"], ["cardinality"]), 0)


def _chunked(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks])


def _named(chunks: Sequence[pa.StructArray], type_: pa.StructType) -> pa.ChunkedArray:
    """Structs of the same shape under the table's own names, on every level."""
    return pa.chunked_array([chunk if chunk.type.equals(type_) else chunk.view(type_) for chunk in chunks], type_)


def _partition_values(block: Block, fields: Sequence[Field], stored: Sequence[str], location: str) -> pa.StructArray:
    types = [arrow_type(field.type) for field in fields]

    def column(field: Field, name: str) -> pa.Array:
        return _typed(pc.struct_field(block.rows["partition"].combine_chunks(), [name]), field, location)

    children = [
        block.cached(("partition", name, type_), partial(column, field, name))
        for field, name, type_ in zip(fields, stored, types, strict=True)
    ]
    return struct_of(children, [pa.field(field.name, type_) for field, type_ in zip(fields, types, strict=True)], block.rows.num_rows)


def _typed(texts: pa.Array, field: Field, location: str) -> pa.Array:
    """Typed values of one partition column; each distinct text is converted once."""
    encoded = pc.dictionary_encode(pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts))
    return _converted(encoded.dictionary, field.type, field.name, location).take(encoded.indices)


def _converted(texts: pa.Array, type_: DataType, name: str, location: str) -> pa.Array:
    try:
        return from_text(texts, type_)
    except pa.ArrowInvalid as error:
        raise CorruptLog(f"{location}/_delta_log", f"a value of the partition column {name} is none of its type: {error}") from error
