"""The Arrow columns in which a table's files and tombstones are held, and their way from and to the log's own structs.

One row a file. `key` identifies a logical file: its plain path and, where it has one, its deletion vector (PROTOCOL.md, Add File and
Remove File). `partition` holds the log's strings, by partition column. Statistics are `stats`, JSON, and `parsed`, which is there when a
checkpoint gave them as a struct; of live files they are kept apart (`rowmerge.delta.files.live_files`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.files.paths import plain_paths

TEXT_MAP = pa.map_(pa.string(), pa.string())
VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
SHARED = (
    ("path", pa.string()),
    ("size", pa.int64()),
    ("deletionVector", VECTOR),
    ("baseRowId", pa.int64()),
    ("defaultRowCommitVersion", pa.int64()),
    ("dataChange", pa.bool_()),
)
ADD = (*SHARED, ("modificationTime", pa.int64()), ("stats", pa.string()), ("clusteringProvider", pa.string()))
_UUID_LENGTH = 20
_ENDS_WITH_UUID = rf"[0-9A-Za-z.\-:+=^!/*?&<>()\[\]{{}}@%$#]{{{_UUID_LENGTH}}}$"
"""The path of a vector in the table's folder is a prefix and an id in Z85."""
REMOVE = (*SHARED, ("deletionTimestamp", pa.int64()), ("extendedFileMetadata", pa.bool_()))


def partition_type(columns: Sequence[str]) -> pa.StructType:
    return pa.struct([(name, pa.string()) for name in columns])


def file_schema(columns: Sequence[str]) -> pa.Schema:
    """The rows of live files of a table with these partition columns."""
    return pa.schema([("key", pa.string()), *ADD, ("tags", TEXT_MAP), ("partition", partition_type(columns))])


def row_schema(columns: Sequence[str]) -> pa.Schema:
    """The same without the statistics."""
    return pa.schema([field for field in file_schema(columns) if field.name != "stats"])


def tombstone_schema(columns: Sequence[str]) -> pa.Schema:
    """The rows of removed files."""
    return pa.schema([("key", pa.string()), *REMOVE, ("partition", partition_type(columns))])


def rows_of(actions: pa.ChunkedArray, schema: pa.Schema) -> pa.Table:
    """The rows of an `add` or `remove` column, nulls left out, in the shape of `schema`.

    Raises ValueError when an action lacks a field without which its file cannot be read.
    """
    present = actions.filter(pc.is_valid(actions))
    fields = {field.name for field in present.type}
    columns = {name: pc.struct_field(present, [name]) for name in fields}
    _check_files(columns, len(present), is_live="modificationTime" in schema.names)
    found: list[pa.ChunkedArray] = []
    for field in schema:
        if field.name == "key":
            found.append(keys(columns["path"], columns.get("deletionVector")))
        elif field.name == "partition":
            found.append(_partition(columns, field.type, len(present)))
        elif field.name == "deletionVector" and field.name in columns:
            found.append(_vector(columns[field.name]))
        elif field.name == "tags" and field.name in columns:
            found.append(_tags(columns[field.name]))
        elif field.name in columns:
            found.append(columns[field.name].cast(field.type))
        else:
            found.append(nulls(len(present), field.type))
    return pa.Table.from_arrays(found, schema=schema)


def _check_files(columns: dict[str, pa.ChunkedArray], length: int, *, is_live: bool) -> None:
    """Raise ValueError for a file action without a path, or a live file without a size."""
    paths, sizes = columns.get("path"), columns.get("size")
    if paths is None or paths.null_count or pc.any(pc.equal(paths, "")).as_py():
        raise ValueError("a file action has no path")
    if length and is_live and (sizes is None or sizes.null_count or (pc.min(sizes).as_py() or 0) < 0):
        raise ValueError("a file action has no size")


def keys(paths: pa.ChunkedArray, vectors: pa.ChunkedArray | None) -> pa.ChunkedArray:
    """What identifies each logical file: the plain path, and the vector's unique id behind a line break."""
    plain = plain_paths(paths)
    if vectors is None or vectors.null_count == len(vectors):
        return plain
    offset = pc.struct_field(vectors, ["offset"]).cast(pa.string())
    at = pc.coalesce(pc.binary_join_element_wise("@", offset, ""), "")
    text = [pc.struct_field(vectors, [name]) for name in ("storageType", "pathOrInlineDv")]
    return pc.coalesce(pc.binary_join_element_wise(plain, pc.binary_join_element_wise(*text, at, ""), "\n"), plain)


def nulls(length: int, type_: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([pa.nulls(length, type_)], type_)


def struct_of(children: Sequence[pa.Array], fields: Sequence[pa.Field], length: int) -> pa.StructArray:
    """A struct array, also one without any fields."""
    if not fields:
        return pa.Array.from_buffers(pa.struct([]), length, [None], children=[])
    return pa.StructArray.from_arrays(list(children), fields=list(fields))


def to_map(struct: pa.StructArray) -> pa.MapArray:
    """A struct of strings as maps with an entry for each field."""
    names = [field.name for field in struct.type]
    length, width = len(struct), len(names)
    order = (np.arange(width)[None, :] * length + np.arange(length)[:, None]).ravel()
    values = [pc.struct_field(struct, [name]) for name in names]
    items = pa.concat_arrays(values).take(pa.array(order)) if values else pa.nulls(0, pa.string())
    keys_ = pa.array(names, pa.string()).take(pa.array(np.tile(np.arange(width), length), pa.int64()))
    return pa.MapArray.from_arrays(pa.array(np.arange(length + 1) * width, pa.int32()), keys_, items)


def repartitioned(table: pa.Table, type_: pa.StructType) -> pa.Table:
    """The rows with the partition values of these columns, null where they had no such value."""
    index = table.schema.get_field_index("partition")
    if table.schema.field(index).type == type_:
        return table
    return table.set_column(index, "partition", _from_struct(table["partition"], type_, table.num_rows))


def _partition(columns: dict[str, pa.ChunkedArray], type_: pa.StructType, length: int) -> pa.ChunkedArray:
    values = columns.get("partitionValues")
    if values is not None and pa.types.is_map(values.type):
        found = [pc.map_lookup(values, field.name, "first").combine_chunks() for field in type_]
        return pa.chunked_array([struct_of(found, list(type_), length)])
    if values is None:
        # A checkpoint may hold the typed form alone.
        values = columns.get("partitionValues_parsed")
    if values is None:
        return nulls(length, type_)
    return _from_struct(values, type_, length)


def _from_struct(values: pa.ChunkedArray, type_: pa.StructType, length: int) -> pa.ChunkedArray:
    there = {field.name for field in values.type}
    found = [
        (pc.struct_field(values, [field.name]).cast(pa.string()) if field.name in there else nulls(length, pa.string())).combine_chunks()
        for field in type_
    ]
    return pa.chunked_array([struct_of(found, list(type_), length)])


def _vector(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Descriptors in our shape: fields that a writer left out are null, those it added are dropped, a struct of nulls is null.

    Raises ValueError for a descriptor that does not say where its vector is.
    """
    there = {field.name for field in values.type}
    children = [
        (pc.struct_field(values, [field.name]).cast(field.type) if field.name in there else nulls(len(values), field.type)).combine_chunks()
        for field in VECTOR
    ]
    absent = reduce(pc.and_, (pc.is_null(child) for child in children))
    vectors = pa.StructArray.from_arrays(children, fields=list(VECTOR), mask=absent)
    _check_vectors(vectors.drop_null())
    return pa.chunked_array([vectors])


def _check_vectors(vectors: pa.StructArray) -> None:
    if not len(vectors):
        return
    kind, text, offset, size, rows = (pc.struct_field(vectors, [field.name]) for field in VECTOR)
    leaves_table = pc.match_substring_regex(pc.utf8_slice_codeunits(text, 0, -_UUID_LENGTH), r"(^|/)\.\.?(/|$)")
    is_named = pc.or_(pc.not_equal(kind, "u"), pc.and_(pc.match_substring_regex(text, _ENDS_WITH_UUID), pc.invert(leaves_table)))
    is_sized = pc.and_(pc.and_(pc.greater_equal(size, 0), pc.greater_equal(rows, 0)), pc.greater_equal(pc.fill_null(offset, 0), 0))
    is_complete = pc.fill_null(pc.and_(pc.and_(is_named, is_sized), pc.is_in(kind, value_set=pa.array(["u", "p", "i"]))), False)
    if not pc.all(is_complete).as_py():
        first = vectors.filter(pc.invert(is_complete))[0].as_py()
        raise ValueError(f"a deletion vector's descriptor does not say where it is: {first!r:.200}")


def _tags(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_map(values.type):
        return values.cast(TEXT_MAP)
    if not values.type.num_fields:
        return nulls(len(values), TEXT_MAP)
    maps = [None if row is None else [(k, v) for k, v in row.items() if v is not None] for row in values.to_pylist()]
    return pa.chunked_array([pa.array(maps, TEXT_MAP)])
