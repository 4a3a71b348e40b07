"""The list of a version's data files as the engine sees it: absolute paths, typed partition values, bounds."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.actions import Metadata
from rowmerge.delta.columns import struct_of
from rowmerge.delta.paths import absolute_paths
from rowmerge.delta.statistics_reading import bounds_type, nulls_type, read_statistics
from rowmerge.delta.text_values import from_text
from rowmerge.errors import CorruptLog
from rowmerge.table.files import file_listing
from rowmerge.table.schema import DataType, Field, arrow_type

_BATCH = 100_000


def list_files(files: pa.Table, location: str, metadata: Metadata, columns: Collection[str] = ()) -> pa.Table:
    """Rows of `rowmerge.delta.columns` as `rowmerge.table.files.file_listing` says, with bounds of the columns asked for.

    Partition columns have their values in `partition` and no bounds. Raises CorruptLog for a partition value that is none of its type.
    """
    pairs = list(zip(metadata.schema, metadata.stored_schema, strict=True))
    chosen = [pair for pair in pairs if pair[0].name in columns and pair[0].name not in metadata.partition_columns]
    wanted, held = [field for field, _ in chosen], [field for _, field in chosen]
    partition = [field for name in metadata.partition_columns if (field := metadata.schema.find(name)) is not None]
    partition_type = pa.struct([(field.name, arrow_type(field.type)) for field in partition])
    shape = file_listing(partition_type, bounds_type(wanted), nulls_type(wanted))
    if not files.num_rows:
        return shape.empty_table()
    paths = absolute_paths(location, files["path"])
    sizes, vectors = files["size"], pc.struct_field(files["deletionVector"], ["cardinality"])
    values = _partition_values(files["partition"], partition, metadata.stored_partition_columns, location)
    statistics = [read_statistics(batch, held) for batch in _statistics_columns(files).to_batches(max_chunksize=_BATCH)]
    found = [
        paths,
        sizes,
        pa.chunked_array([part.records for part in statistics], pa.int64()),
        pc.fill_null(vectors, 0),
        values,
        _named([part.lower for part in statistics], shape.field("lower").type),
        _named([part.upper for part in statistics], shape.field("upper").type),
        _named([part.nulls for part in statistics], shape.field("nulls").type),
    ]
    return pa.Table.from_arrays(found, schema=shape)


def _statistics_columns(files: pa.Table) -> pa.Table:
    return files.select([name for name in ("stats", "parsed") if name in files.column_names])


def _named(chunks: Sequence[pa.StructArray], type_: pa.StructType) -> pa.ChunkedArray:
    """Structs of the same shape under the table's own names, on every level."""
    return pa.chunked_array([chunk if chunk.type.equals(type_) else chunk.view(type_) for chunk in chunks], type_)


def _partition_values(texts: pa.ChunkedArray, fields: Sequence[Field], stored: Sequence[str], location: str) -> pa.ChunkedArray:
    struct = texts.combine_chunks()
    children = [_typed(pc.struct_field(struct, [name]), field, location) for field, name in zip(fields, stored, strict=True)]
    return pa.chunked_array([struct_of(children, [pa.field(f.name, arrow_type(f.type)) for f in fields], len(struct))])


def _typed(texts: pa.Array, field: Field, location: str) -> pa.Array:
    """Typed values of one partition column; each distinct text is converted once."""
    encoded = pc.dictionary_encode(pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts))
    return _converted(encoded.dictionary, field.type, field.name, location).take(encoded.indices)


def _converted(texts: pa.Array, type_: DataType, name: str, location: str) -> pa.Array:
    try:
        return from_text(texts, type_)
    except pa.ArrowInvalid as error:
        raise CorruptLog(f"{location}/_delta_log", f"a value of the partition column {name} is none of its type: {error}") from error
