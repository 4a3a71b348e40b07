"""The file table: Arrow tables of live files and of tombstones, and their conversion from and to the structs of the log.

Each row describes one file. `key` identifies a logical file by its decoded path and its deletion vector, if any (PROTOCOL.md, Add File and
Remove File). `partition` contains the partition values as strings, as in the log. `stats` contains the statistics as JSON strings, and
`parsed` contains them as structs if a checkpoint does. Statistics of live files are stored separately (`rowmerge.delta.files.live_files`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from rowmerge.delta.files.paths import percent_decoded

TEXT, INT, LONG, BOOLEAN = pa.string(), pa.int32(), pa.int64(), pa.bool_()
TEXT_MAP = pa.map_(TEXT, TEXT)
VECTOR = pa.struct({"storageType": TEXT, "pathOrInlineDv": TEXT, "offset": INT, "sizeInBytes": INT, "cardinality": LONG})
_SHARED = {"path": TEXT, "size": LONG, "deletionVector": VECTOR, "baseRowId": LONG, "defaultRowCommitVersion": LONG, "dataChange": BOOLEAN}
ADD = {**_SHARED, "modificationTime": LONG, "stats": TEXT, "clusteringProvider": TEXT}
REMOVE = {**_SHARED, "deletionTimestamp": LONG, "extendedFileMetadata": BOOLEAN}
_ENCODED_UUID_LENGTH = 20
"""The number of characters of a UUID (16 bytes) in Z85."""
_ENDS_WITH_UUID = rf"[0-9A-Za-z.\-:+=^!/*?&<>()\[\]{{}}@%$#]{{{_ENCODED_UUID_LENGTH}}}$"
"""A regular expression for the path of a deletion vector in the table's folder, which ends with a UUID in Z85."""


def partition_type(columns: Sequence[str]) -> pa.StructType:
    """Return the Arrow type of the partition values of a file: a struct with one string field per partition column."""
    return pa.struct([(name, pa.string()) for name in columns])


def file_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema for the live files of a table with these partition columns, including the statistics."""
    return pa.schema({"key": TEXT, **ADD, "tags": TEXT_MAP, "partition": partition_type(columns)})


def row_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema for the live files of a table with these partition columns, without the statistics."""
    return pa.schema([field for field in file_schema(columns) if field.name != "stats"])


def tombstone_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema for the removed files (tombstones) of a table with these partition columns."""
    return pa.schema({"key": TEXT, **REMOVE, "partition": partition_type(columns)})


def read_json_lines(data: pa.Buffer | bytes, schema: pa.Schema, longest_line: int) -> pa.Table:
    """Parse newline-delimited JSON with Arrow, with one object per line.

    Args:
        data: The content to parse, in UTF-8.
        schema: The fields to read. Other fields are ignored, and missing fields become null.
        longest_line: The length of the longest line in bytes. Arrow rejects a line that is longer than the block size.

    Raises:
        pa.ArrowException: A line is not valid JSON, or a value does not have the type of its field.
    """
    # A block must contain a whole line with its line break. Two of them leave a margin.
    block_size = max(1 << 20, 2 * (longest_line + 1))
    return pyarrow.json.read_json(
        pa.BufferReader(data),
        read_options=pyarrow.json.ReadOptions(block_size=block_size),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def file_rows(actions: pa.ChunkedArray, schema: pa.Schema) -> pa.Table:
    """Return file actions as rows of the file table.

    Args:
        actions: The `add` or `remove` column of a commit or a checkpoint. It is null in each row with a different action.
        schema: The schema of the result, from `file_schema`, `row_schema` or `tombstone_schema`.

    Raises:
        ValueError: An action has no path or size, or an invalid deletion vector.
    """
    actions = actions.filter(pc.is_valid(actions))
    fields = {field.name: pc.struct_field(actions, [field.name]) for field in actions.type}
    is_live = "modificationTime" in schema.names  # only `add` actions have this field
    _check_files(fields, len(actions), is_live=is_live)
    return pa.Table.from_arrays([_file_column(column.name, column.type, fields, len(actions)) for column in schema], schema=schema)


def _file_column(name: str, type_: pa.DataType, fields: Mapping[str, pa.ChunkedArray], length: int) -> pa.ChunkedArray:
    """Return a column of the file table, converted from the fields of file actions. Return nulls if the actions lack the field.

    Args:
        name: The name of the column. Except for `key` and `partition`, it is also the name of the field.
        type_: The type of the column.
        fields: The values of each field of the actions, by field name.
        length: The number of actions.
    """
    if name == "key":
        return file_keys(fields["path"], fields.get("deletionVector"))
    if name == "partition":
        return _partition_values(fields, type_, length)
    if name not in fields:
        return nulls(length, type_)
    if name == "deletionVector":
        return _vector_descriptors(fields["deletionVector"])
    if name == "tags":
        return _tag_maps(fields["tags"])
    return fields[name].cast(type_)


def _check_files(fields: Mapping[str, pa.ChunkedArray], length: int, *, is_live: bool) -> None:
    """Raise ValueError if a file action has no path, or if a live file has no size."""
    paths, sizes = fields.get("path"), fields.get("size")
    if paths is None or paths.null_count or pc.any(pc.equal(paths, "")).as_py():
        raise ValueError("a file action has no path")
    if length and is_live and (sizes is None or sizes.null_count or (pc.min(sizes).as_py() or 0) < 0):
        raise ValueError("a file action has no size")


def file_keys(paths: pa.ChunkedArray, vectors: pa.ChunkedArray | None) -> pa.ChunkedArray:
    """Return the key of each logical file. It is the decoded path, followed by a line break and the id of any deletion vector.

    Args:
        paths: The percent-encoded paths from the log.
        vectors: The descriptors of the deletion vectors, null for a file without one. None if no file has a deletion vector.
    """
    decoded_paths = percent_decoded(paths)
    if vectors is None or vectors.null_count == len(vectors):
        return decoded_paths
    # `binary_join_element_wise` returns null if an argument is null. So `coalesce` selects "" for a null offset, and the path alone for a
    # null descriptor. The id of a deletion vector is its `uniqueId` in PROTOCOL.md: storage type, path, and "@" with the offset.
    offset = pc.struct_field(vectors, ["offset"]).cast(pa.string())
    offset_suffix = pc.coalesce(pc.binary_join_element_wise("@", offset, ""), "")
    storage_type, path_or_data = (pc.struct_field(vectors, [name]) for name in ("storageType", "pathOrInlineDv"))
    vector_id = pc.binary_join_element_wise(storage_type, path_or_data, offset_suffix, "")
    return pc.coalesce(pc.binary_join_element_wise(decoded_paths, vector_id, "\n"), decoded_paths)


def nulls(length: int, type_: pa.DataType) -> pa.ChunkedArray:
    """Return a column that contains only nulls.

    Args:
        length: The number of rows.
        type_: The type of the column.
    """
    return pa.chunked_array([pa.nulls(length, type_)], type_)


def struct_of(children: Sequence[pa.Array], fields: Sequence[pa.Field], length: int) -> pa.StructArray:
    """Return a struct array. Structs without fields, which `pa.StructArray.from_arrays` does not support, are allowed.

    Args:
        children: The values of each field, in the order of `fields`.
        fields: The names and types of the fields.
        length: The number of structs.
    """
    if not fields:
        return pa.Array.from_buffers(pa.struct([]), length, [None], children=[])
    return pa.StructArray.from_arrays(list(children), fields=list(fields))


def to_map(struct: pa.StructArray) -> pa.MapArray:
    """Convert structs of strings to maps. Each field of a struct becomes an entry of the map."""
    names = [field.name for field in struct.type]
    length, width = len(struct), len(names)
    # `concat_arrays` returns the values column by column. A map array requires them row by row.
    row_order = (np.arange(width)[None, :] * length + np.arange(length)[:, None]).ravel()
    values = [pc.struct_field(struct, [name]) for name in names]
    items = pa.concat_arrays(values).take(pa.array(row_order)) if values else pa.nulls(0, pa.string())
    map_keys = pa.array(names, pa.string()).take(pa.array(np.tile(np.arange(width), length), pa.int64()))
    return pa.MapArray.from_arrays(pa.array(np.arange(length + 1) * width, pa.int32()), map_keys, items)


def repartitioned(table: pa.Table, type_: pa.StructType) -> pa.Table:
    """Return the file table with the column `partition` converted to a new type.

    Args:
        table: A table of live or removed files.
        type_: The new type. Partition columns that are not in `table` become null, and those that are not in `type_` are dropped.
    """
    index = table.schema.get_field_index("partition")
    if table.schema.field(index).type == type_:
        return table
    return table.set_column(index, "partition", _select_fields(table["partition"], type_))


def _partition_values(fields: Mapping[str, pa.ChunkedArray], type_: pa.StructType, length: int) -> pa.ChunkedArray:
    """Return the partition values of file actions as structs of strings. `length` is the number of actions."""
    # A checkpoint may contain only the typed form.
    values = fields.get("partitionValues", fields.get("partitionValues_parsed"))
    return nulls(length, type_) if values is None else _select_fields(values, type_)


def _select_fields(values: pa.ChunkedArray, type_: pa.StructType) -> pa.ChunkedArray:
    """Convert structs or maps to structs of `type_`."""
    if pa.types.is_map(values.type):
        children = [pc.map_lookup(values, field.name, "first").combine_chunks() for field in type_]
    else:
        children = [_child(values, field) for field in type_]
    return pa.chunked_array([struct_of(children, list(type_), len(values))])


def _child(structs: pa.ChunkedArray, field: pa.Field) -> pa.Array:
    """Return the values of a struct field, cast to the type of `field`. Return nulls if the structs lack the field."""
    if not any(child.name == field.name for child in structs.type):
        return pa.nulls(len(structs), field.type)
    return pc.struct_field(structs, [field.name]).cast(field.type).combine_chunks()


def _vector_descriptors(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert descriptors to the type VECTOR. An empty descriptor becomes null. Raises ValueError if a descriptor is incomplete."""
    children = [_child(values, field) for field in VECTOR]
    is_absent = reduce(pc.and_, (pc.is_null(child) for child in children))
    vectors = pa.StructArray.from_arrays(children, fields=list(VECTOR), mask=is_absent)
    _check_vectors(vectors.drop_null())
    return pa.chunked_array([vectors])


def _check_vectors(vectors: pa.StructArray) -> None:
    """Check the descriptors of deletion vectors (PROTOCOL.md, Deletion Vector Descriptor Schema).

    Raises:
        ValueError: A descriptor has a missing or invalid storage type, path, offset, size or cardinality.
    """
    if not len(vectors):
        return
    storage_type, path, offset, size, cardinality = vectors.flatten()
    # u: a file in the table's folder, named by a UUID. p: a file with an absolute path. i: the deletion vector itself, inline.
    is_valid_type = pc.is_in(storage_type, value_set=pa.array(["u", "p", "i"]))
    is_valid_path = pc.or_(pc.not_equal(storage_type, "u"), _is_path_with_uuid(path))
    are_valid_numbers = [pc.greater_equal(numbers, 0) for numbers in (size, cardinality, pc.fill_null(offset, 0))]
    is_valid = pc.fill_null(reduce(pc.and_, [is_valid_type, is_valid_path, *are_valid_numbers]), False)
    if not pc.all(is_valid).as_py():
        invalid_vector = vectors.filter(pc.invert(is_valid))[0].as_py()
        raise ValueError(f"the descriptor of a deletion vector is invalid: {invalid_vector!r:.200}")


def _is_path_with_uuid(paths: pa.StringArray) -> pa.BooleanArray:
    """Return a mask of the vector paths that end with a UUID and do not leave the table's folder."""
    prefixes = pc.utf8_slice_codeunits(paths, 0, -_ENCODED_UUID_LENGTH)
    leads_out = pc.match_substring_regex(prefixes, r"(^|/)\.\.?(/|$)")
    return pc.and_(pc.match_substring_regex(paths, _ENDS_WITH_UUID), pc.invert(leads_out))


def _tag_maps(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert tags to maps. Tags from JSON are structs, in which a tag that the file does not have is null."""
    if pa.types.is_map(values.type):
        return values.cast(TEXT_MAP)
    if not values.type.num_fields:
        return nulls(len(values), TEXT_MAP)
    maps = [None if row is None else [(k, v) for k, v in row.items() if v is not None] for row in values.to_pylist()]
    return pa.chunked_array([pa.array(maps, TEXT_MAP)])
