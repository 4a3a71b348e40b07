"""Convert Arrow values between a file and a table: names, wider types, order of columns, missing fields, and UUIDs as strings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

UUID_TEXT = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
"""A regular expression for canonical UUID strings. Spark represents UUIDs as strings, and data files contain their 16 bytes."""

CODES = pa.dictionary(pa.int32(), pa.string())
"""The type of text columns that Arrow reads as codes with a dictionary."""
_FIELD_ID = b"PARQUET:field_id"
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_DIGIT_PLACES = [place for place in range(36) if place not in (8, 13, 18, 23)]
"""The indexes of the digits in a UUID string, which also contains hyphens."""
_VALUES_OF_DIGITS = np.full(256, 255, np.uint8)
"""For each ASCII code, the value of the hexadecimal digit, or 255 for any other character."""
for digits in (_DIGITS, np.frombuffer(b"0123456789ABCDEF", np.uint8)):
    _VALUES_OF_DIGITS[digits] = np.arange(16)


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows with exactly the columns and types of `schema`. Codes with a dictionary stay codes if their values have the type.

    Args:
        rows: Rows with these columns, and possibly others, in any order. Columns and fields have the same names as in `schema`.
        schema: The columns to return, with their types.
    """
    if rows.schema.equals(schema):
        return rows
    columns = [_map_chunks(rows[field.name], field.type, lambda chunk, type_: to_table_type(chunk, type_, type_)) for field in schema]
    return _table(columns, schema)


def to_file_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows of a table with the names and types of a file's columns and fields.

    Args:
        rows: The rows, with the same columns as the file, in the same order.
        schema: The schema of the file.
    """
    if rows.schema.equals(schema, check_metadata=True):
        return rows
    columns = [_map_chunks(column, field.type, to_file_type) for column, field in zip(rows.columns, schema, strict=True)]
    return _table(columns, schema)


def file_column_indexes(file_schema: pa.Schema, columns: pa.Schema, *, by_field_id: bool) -> list[int | None]:
    """Return the index of each column in a file, None for a column that the file lacks.

    Args:
        file_schema: The schema in the footer of the file.
        columns: The columns to find, with the names and field ids that they have in files.
        by_field_id: Whether columns are identified by field id instead of name.
    """
    return _field_indexes(pa.struct(list(file_schema)), columns, by_field_id)


def column_paths(file_schema: pa.Schema, columns: pa.Schema, *, by_field_id: bool) -> list[str]:
    """Return the dotted paths of the columns to read from a file. Of a struct, only the fields in `columns` are read.

    Args:
        file_schema: The schema in the footer of the file.
        columns: The columns to read, with the names and field ids that they have in files. The file may lack some of them.
        by_field_id: Whether columns and fields are identified by field id instead of name.
    """
    return _paths_in(pa.struct(list(file_schema)), columns, by_field_id)


def _paths_in(struct: pa.StructType, fields: Iterable[pa.Field], by_field_id: bool) -> list[str]:
    """Return the paths of fields in a struct of a file. See `column_paths`."""
    paths = []
    for index, field in zip(_field_indexes(struct, fields, by_field_id), fields, strict=True):
        if index is not None:
            file_field, nested = struct.field(index), list[str]()
            if pa.types.is_struct(file_field.type) and pa.types.is_struct(field.type):
                # Without any of the fields, another one is read, because only its values show which structs are NULL.
                nested = _paths_in(file_field.type, field.type, by_field_id) or _simple_fields(file_field.type)[:1]
            paths += [f"{file_field.name}.{path}" for path in nested] or [file_field.name]
    return paths


def _simple_fields(struct: pa.StructType) -> list[str]:
    """Return the names of the fields without fields, dates and times. Arrow cannot convert nested dates of the old calendar of Spark 2."""
    return [field.name for field in struct if not pa.types.is_nested(field.type) and not pa.types.is_temporal(field.type)]


def fields_at(
    fields: Iterable[pa.Field], file_fields: Iterable[pa.Field], paths: Collection[tuple[str, ...]]
) -> tuple[list[pa.Field], list[pa.Field]]:
    """Return the fields at paths in a table's schema and in that of a file. Structs contain only the fields at the paths.

    Args:
        fields: The fields of the table.
        file_fields: The same fields in the same order, with the names and types that they have in the file.
        paths: The names of fields of the table, each followed by the names of nested fields.
    """
    pairs = []
    for field, file_field in zip(fields, file_fields, strict=True):
        nested_paths = {path[1:] for path in paths if path[0] == field.name}
        if nested_paths and () not in nested_paths:
            nested, file_nested = fields_at(field.type, file_field.type, nested_paths)
            pairs.append((field.with_type(pa.struct(nested)), file_field.with_type(pa.struct(file_nested))))
        elif nested_paths:
            pairs.append((field, file_field))
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def has_field_ids(file_schema: pa.Schema) -> bool:
    """Return whether any column of a file has a field id. If none has one, columns cannot be identified by field id."""
    return any(_field_id(field) is not None for field in file_schema)


def to_table_rows(
    rows: pa.Table,
    schema: pa.Schema,
    file_schema: pa.Schema,
    *,
    by_field_id: bool,
    initial_values: Mapping[str, pa.Array] | None = None,
    keeps_codes: bool = False,
) -> pa.Table:
    """Return rows of a data file with the names and types of the table's columns.

    Args:
        rows: Rows with the columns of the file.
        schema: The columns of the table.
        file_schema: The same columns, with the names, field ids and types that they have in files.
        by_field_id: Whether columns are identified by the field ids of `file_schema` instead of its names.
        initial_values: By name in the table, the values of columns that the file lacks, as arrays of one value. Other missing columns are
            NULL.
        keeps_codes: Whether text columns of the type CODES stay codes.
    """
    if not by_field_id and rows.schema.equals(schema) and file_schema.equals(schema):
        return pa.Table.from_arrays(rows.columns, schema=schema)
    file_indexes = file_column_indexes(rows.schema, file_schema, by_field_id=by_field_id)
    columns = []
    for index, field, file_field in zip(file_indexes, schema, file_schema, strict=True):
        if index is None:
            columns.append(pa.chunked_array([_missing_values(field, rows.num_rows, initial_values or {})], field.type))
        else:
            column = rows.column(index)
            is_text = field.type == file_field.type == pa.string()
            if pa.types.is_dictionary(column.type) and not (keeps_codes and is_text and column.type == CODES):
                column = column.cast(column.type.value_type)  # categories of pandas, with other codes or values
            convert = partial(to_table_type, file_type=file_field.type, by_field_id=by_field_id)
            columns.append(_map_chunks(column, field.type, convert))
    return _table(columns, schema)


def _table(columns: Sequence[pa.ChunkedArray], schema: pa.Schema) -> pa.Table:
    """Return a table of columns with the types of `schema`, or with a dictionary of values of these types."""
    fields = [field.with_type(column.type) for field, column in zip(schema, columns, strict=True)]
    return pa.Table.from_arrays(list(columns), schema=pa.schema(fields, schema.metadata))


def _missing_values(field: pa.Field, row_count: int, initial_values: Mapping[str, pa.Array]) -> pa.Array:
    """Return the values of a column that a file lacks: its initial value if there is one, and NULL otherwise."""
    return pa.repeat(initial_values[field.name][0], row_count) if field.name in initial_values else pa.nulls(row_count, field.type)


def to_table_type(values: pa.Array, table_type: pa.DataType, file_type: pa.DataType, *, by_field_id: bool = False) -> pa.Array:
    """Convert values of a column from the type in a data file to the type in the table.

    The file may be older than the table's schema (schema evolution). Fields that the file lacks become NULL, fields are put in the table's
    order, and leaf values are cast to wider types. So the type of `values` may differ from both `file_type` and `table_type`.

    For example, a table with column mapping has a column `struct<a: int64, b: string>` (`table_type`). New files store it with other names,
    as `struct<col-1: int64, col-2: string>` (`file_type`). An old file has `struct<col-1: int32>` (the type of `values`): `a` was an int32
    at that time, and `b` did not exist.

    Args:
        values: The values as read from the file, which may be older than the current schema or come from another writer.
        table_type: The type of the column in the table, with the names that users see.
        file_type: The type of the column in newly written files, with the names and field ids of the fields to find in `values`.
        by_field_id: Whether fields of structs are identified by field id instead of name.
    """
    is_current = values.type.equals(file_type, check_metadata=by_field_id)  # the file is not older than the table's schema
    # A current type differs from the table's type only in names, so `view` changes the type and keeps the buffers. UUIDs are an exception:
    # they are fixed-size binaries in a file and strings in the table.
    if is_current and not has_fixed_size_binary(file_type):
        return values if file_type.equals(table_type) else values.view(table_type)
    if pa.types.is_struct(table_type) and pa.types.is_struct(values.type):
        return _to_table_struct(values, table_type, file_type, by_field_id)
    if pa.types.is_map(table_type) and pa.types.is_map(values.type):
        return _to_table_map(values, table_type, file_type, by_field_id)
    if pa.types.is_list(table_type):
        return _to_table_list(values, table_type, file_type, by_field_id)
    return _to_table_leaf(values, table_type)


def _to_table_list(values: pa.Array, table_type: pa.ListType, file_type: pa.ListType, by_field_id: bool) -> pa.ListArray:
    """Convert the elements of lists in the same way as `to_table_type`."""
    # Other writers may use list types with other offsets, such as large lists.
    lists = values if pa.types.is_list(values.type) else values.cast(pa.list_(values.type.value_type))
    elements = to_table_type(lists.values, table_type.value_type, file_type.value_type, by_field_id=by_field_id)
    return _with_child(lists, table_type, elements)


def _to_table_map(values: pa.MapArray, table_type: pa.MapType, file_type: pa.MapType, by_field_id: bool) -> pa.MapArray:
    """Convert the keys and values of maps in the same way as `to_table_type`."""
    keys = to_table_type(values.keys, table_type.key_type, file_type.key_type, by_field_id=by_field_id)
    items = to_table_type(values.items, table_type.item_type, file_type.item_type, by_field_id=by_field_id)
    entries = pa.StructArray.from_arrays([keys, items], fields=[table_type.key_field, table_type.item_field])
    return _with_child(values, table_type, entries)


def _to_table_leaf(values: pa.Array, table_type: pa.DataType) -> pa.Array:
    """Cast values of a type without fields. Timestamps without a time zone are interpreted as UTC, and UUIDs become strings."""
    if pa.types.is_timestamp(table_type) and table_type.tz and pa.types.is_timestamp(values.type) and values.type.tz is None:
        values = values.cast(pa.timestamp("us"))
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    if pa.types.is_fixed_size_binary(values.type) and pa.types.is_string(table_type):
        return uuid_texts(values)
    return values.cast(table_type)


def _to_table_struct(values: pa.StructArray, table_type: pa.StructType, file_type: pa.StructType, by_field_id: bool) -> pa.StructArray:
    """Convert structs field by field in the same way as `to_table_type`. A field that the file lacks becomes NULL."""
    children = values.flatten()
    table_children = []
    indexes = _field_indexes(values.type, file_type, by_field_id)
    for index, field, file_field in zip(indexes, table_type, file_type, strict=True):
        if index is None:
            table_children.append(pa.nulls(len(values), field.type))
        else:
            table_children.append(to_table_type(children[index], field.type, file_field.type, by_field_id=by_field_id))
    return pa.StructArray.from_arrays(table_children, fields=list(table_type), mask=values.is_null())


def _with_child(values: pa.Array, table_type: pa.DataType, child: pa.Array) -> pa.Array:
    """Return lists or maps of the type `table_type`, with the offsets of `values` and with `child` as their elements or entries."""
    offsets = pa.array(values.offsets.to_numpy(), pa.int32())
    return pa.Array.from_buffers(table_type, len(values), [values.is_valid().buffers()[1], offsets.buffers()[1]], children=[child])


def _field_indexes(struct: pa.StructType, fields: Iterable[pa.Field], by_field_id: bool) -> list[int | None]:
    """Return the index of each field in a struct of a file, None for a field that the struct does not have.

    A name may differ in case, as in Spark: no two columns of a table differ only in case.
    """
    if by_field_id:
        ids = [_field_id(file_field) for file_field in struct]
        return [ids.index(field_id) if (field_id := _field_id(field)) in ids else None for field in fields]
    indexes = [(field.name, struct.get_field_index(field.name)) for field in fields]
    if all(index >= 0 for _, index in indexes):
        return [index for _, index in indexes]
    names = [file_field.name.lower() for file_field in struct]
    counts = Counter(names)
    index_of = {name: index for index, name in enumerate(names) if counts[name] == 1}
    return [index if index >= 0 else index_of.get(name.lower()) for name, index in indexes]


def _field_id(field: pa.Field) -> bytes | None:
    """Return the Parquet field id of a column, None if it does not have one."""
    field_id: bytes | None = (field.metadata or {}).get(_FIELD_ID)
    return field_id


def _map_chunks(column: pa.ChunkedArray, type_: pa.DataType, change: Callable[[pa.Array, pa.DataType], pa.Array]) -> pa.ChunkedArray:
    """Return a column of type `type_`, converted chunk by chunk. Codes with a dictionary of such values stay as they are."""
    if pa.types.is_dictionary(column.type) and column.type.value_type == type_:
        return column
    return pa.chunked_array([change(chunk, type_) for chunk in column.chunks], type_)


def has_fixed_size_binary(type_: pa.DataType) -> bool:
    """Return whether a type is or contains a binary type of fixed length, such as the file type of UUIDs (an Arrow extension type)."""
    child_types = [type_.field(index).type for index in range(type_.num_fields)]
    return isinstance(type_, pa.BaseExtensionType) or pa.types.is_fixed_size_binary(type_) or any(map(has_fixed_size_binary, child_types))


def to_file_type(values: pa.Array, file_type: pa.DataType) -> pa.Array:
    """Convert values of a column from the type in the table to the type in data files: rename fields, and convert UUID strings to bytes.

    Args:
        values: The values. Their type may differ from `file_type` only in names and in the representation of UUIDs.
        file_type: The type of the column in the file.
    """
    if not has_fixed_size_binary(file_type):
        return values.view(file_type)  # the types differ only in the names of fields
    if pa.types.is_struct(file_type):
        children = [to_file_type(child, field.type) for child, field in zip(values.flatten(), file_type, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(file_type), mask=values.is_null())
    if pa.types.is_map(file_type):
        entries = [to_file_type(values.keys, file_type.key_type), to_file_type(values.items, file_type.item_type)]
        return _with_child(values, file_type, pa.StructArray.from_arrays(entries, fields=[file_type.key_field, file_type.item_field]))
    if pa.types.is_list(file_type):
        return _with_child(values, file_type, to_file_type(values.values, file_type.value_type))
    # A leaf: a UUID, which is a string in the table, or a binary value of fixed length.
    binaries = uuid_bytes(values) if pa.types.is_string(values.type) else values.cast(file_type)
    # Arrow's type for UUIDs is an extension of the binary type.
    return pa.ExtensionArray.from_storage(file_type, binaries) if isinstance(file_type, pa.BaseExtensionType) else binaries


def uuid_bytes(texts: pa.Array) -> pa.Array:
    """Convert canonical UUID strings to binary values of 16 bytes. Two hexadecimal digits become one byte.

    For example, a string that begins with `0a1b` becomes a value that begins with the bytes 10 and 27. NULLs stay NULL.

    Raises:
        ValueError: A string is not a UUID.
    """
    if not len(texts):
        return pa.array([], pa.binary(16))
    # NULLs become 32 zeros, so that the digits of all rows have the same length. The validity bitmap restores the NULLs at the end.
    digits = pc.replace_substring(texts, "-", "").fill_null("0" * 32).cast(pa.binary(32))
    # An array may be a slice of its buffer: its first value is `offset`, and each value has 32 bytes.
    ascii_codes = np.frombuffer(digits.buffers()[1], np.uint8)[digits.offset * 32 :][: len(digits) * 32]
    digit_values = _VALUES_OF_DIGITS[ascii_codes]
    if (digit_values > 15).any():
        raise ValueError("a string is not a UUID")
    packed = (digit_values[0::2] << 4) | digit_values[1::2]  # the first digit of each pair is the upper half of the byte
    return pa.Array.from_buffers(pa.binary(16), len(texts), [_validity(texts), pa.py_buffer(packed.tobytes())])


def uuid_texts(values: pa.Array) -> pa.Array:
    """Convert UUIDs of 16 bytes to canonical strings in lower case."""
    if not len(values):
        return pa.array([], pa.string())
    bytes_ = np.frombuffer(values.buffers()[1], np.uint8)[values.offset * 16 :][: len(values) * 16].reshape(-1, 16)
    texts = np.full((len(values), 36), ord("-"), np.uint8)
    texts[:, _DIGIT_PLACES] = _DIGITS[np.stack([bytes_ >> 4, bytes_ & 15], axis=2).reshape(-1, 32)]
    offsets = np.arange(len(values) + 1, dtype=np.int32) * 36
    text_buffers = [pa.py_buffer(offsets.tobytes()), pa.py_buffer(texts.tobytes())]
    return pa.Array.from_buffers(pa.string(), len(values), [_validity(values), *text_buffers])


def _validity(values: pa.Array) -> pa.Buffer | None:
    """Return the validity bitmap of an array, which marks the values that are not NULL. None if there are no NULLs."""
    return values.is_valid().buffers()[1] if values.null_count else None
