"""Convert Arrow values between a file and the table: names, wider types, order, missing fields, and UUIDs as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

UUID_TEXT = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
"""The pattern of canonical texts of UUIDs, which users see. Data files hold 16 bytes."""

_FIELD_ID = b"PARQUET:field_id"
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_DIGIT_PLACES = [place for place in range(36) if place not in (8, 13, 18, 23)]
_VALUES_OF_DIGITS = np.full(256, 255, np.uint8)
"""The value of each byte as a hexadecimal digit, 255 for a byte that is no digit."""
for digits in (_DIGITS, np.frombuffer(b"0123456789ABCDEF", np.uint8)):
    _VALUES_OF_DIGITS[digits] = np.arange(16)


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows with the columns of `schema` in exactly its types. Names are equal on every level."""
    if rows.schema.equals(schema):
        return rows
    columns = [_map_chunks(rows[field.name], field.type, lambda chunk, type_: fitted(chunk, type_, type_)) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def renamed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows under the names of a file on every level, with its fixed-length types for texts and binaries."""
    columns = [_map_chunks(column, field.type, as_stored) for column, field in zip(rows.columns, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def file_columns(file_schema: pa.Schema, stored: pa.Schema, *, by_field_id: bool) -> list[int | None]:
    """Return the index of each column of `stored` in a file, None for a column that the file lacks."""
    return [_field_index(pa.struct(list(file_schema)), field, by_field_id) for field in stored]


def has_field_ids(file_schema: pa.Schema) -> bool:
    """Return whether a file's columns have field ids. Without ids, all columns would seem to be missing."""
    return any(_field_id(field) is not None for field in file_schema)


def from_file(
    rows: pa.Table, schema: pa.Schema, stored: pa.Schema, *, by_field_id: bool, initial: Mapping[str, pa.Array] | None = None
) -> pa.Table:
    """Return rows of a data file with the table's columns, which the file has under the names, or the field ids, of `stored`.

    `initial`: the values of columns that the file lacks, as arrays of one value by the table's names. Other lacking columns are NULL.
    """
    file_indexes = file_columns(rows.schema, stored, by_field_id=by_field_id)
    columns = []
    for index, field, stored_field in zip(file_indexes, schema, stored, strict=True):
        if index is None:
            chunks = [_missing_values(field, rows.num_rows, initial or {})]
        else:
            file_chunks = rows.column(index).chunks
            chunks = [fitted(chunk, field.type, stored_field.type, by_field_id=by_field_id) for chunk in file_chunks]
        columns.append(pa.chunked_array(chunks, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _missing_values(field: pa.Field, row_count: int, initial: Mapping[str, pa.Array]) -> pa.Array:
    """Return the values of a column that a file lacks: the initial value if there is one, else NULL."""
    return pa.repeat(initial[field.name][0], row_count) if field.name in initial else pa.nulls(row_count, field.type)


def fitted(values: pa.Array, target: pa.DataType, stored: pa.DataType, *, by_field_id: bool = False) -> pa.Array:
    """Return values as `target`. Fields of structs have the names, or the field ids, of `stored`, a type of the same shape.

    Fields that the values lack are NULL. Leaves are cast to wider types, and timestamps to UTC.
    """
    if values.type.equals(stored, check_metadata=by_field_id) and not holds_fixed(stored):
        return values if stored.equals(target) else values.view(target)
    if pa.types.is_struct(target) and pa.types.is_struct(values.type):
        return _fitted_struct(values, target, stored, by_field_id)
    if pa.types.is_map(target) and pa.types.is_map(values.type):
        return _fitted_map(values, target, stored, by_field_id)
    if pa.types.is_list(target):
        lists = values if pa.types.is_list(values.type) else values.cast(pa.list_(values.type.value_type))
        elements = fitted(lists.values, target.value_type, stored.value_type, by_field_id=by_field_id)
        return _with_child(lists, target, elements)
    return _fitted_leaf(values, target)


def _fitted_map(values: pa.MapArray, target: pa.MapType, stored: pa.MapType, by_field_id: bool) -> pa.MapArray:
    keys = fitted(values.keys, target.key_type, stored.key_type, by_field_id=by_field_id)
    items = fitted(values.items, target.item_type, stored.item_type, by_field_id=by_field_id)
    entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
    return _with_child(values, target, entries)


def _fitted_leaf(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Return values that are neither structs, lists nor maps as `target`."""
    if pa.types.is_timestamp(target) and target.tz and pa.types.is_timestamp(values.type) and values.type.tz is None:
        values = values.cast(pa.timestamp("us"))
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    if pa.types.is_fixed_size_binary(values.type) and pa.types.is_string(target):
        return uuid_texts(values)
    return values.cast(target)


def _fitted_struct(values: pa.StructArray, target: pa.StructType, stored: pa.StructType, by_field_id: bool) -> pa.StructArray:
    children = values.flatten()
    fitted_children = []
    for field, stored_field in zip(target, stored, strict=True):
        index = _field_index(values.type, stored_field, by_field_id)
        if index is None:
            fitted_children.append(pa.nulls(len(values), field.type))
        else:
            fitted_children.append(fitted(children[index], field.type, stored_field.type, by_field_id=by_field_id))
    return pa.StructArray.from_arrays(fitted_children, fields=list(target), mask=values.is_null())


def _with_child(values: pa.Array, target: pa.DataType, child: pa.Array) -> pa.Array:
    """Return lists or maps with other elements at the same offsets."""
    offsets = pa.array(values.offsets.to_numpy(), pa.int32())
    return pa.Array.from_buffers(target, len(values), [values.is_valid().buffers()[1], offsets.buffers()[1]], children=[child])


def _field_index(struct: pa.StructType, stored: pa.Field, by_field_id: bool) -> int | None:
    """Return the index of a field in a file's struct, None if the struct lacks it."""
    if not by_field_id:
        index = struct.get_field_index(stored.name)
        return index if index >= 0 else None
    field_id = _field_id(stored)
    return next((index for index, field in enumerate(struct) if _field_id(field) == field_id), None)


def _field_id(field: pa.Field) -> bytes | None:
    field_id: bytes | None = (field.metadata or {}).get(_FIELD_ID)
    return field_id


def _map_chunks(column: pa.ChunkedArray, type_: pa.DataType, change: Callable[[pa.Array, pa.DataType], pa.Array]) -> pa.ChunkedArray:
    return pa.chunked_array([change(chunk, type_) for chunk in column.chunks], type_)


def holds_fixed(type_: pa.DataType) -> bool:
    """Return whether a type has bytes of one length, at any depth."""
    child_types = [type_.field(index).type for index in range(type_.num_fields)]
    return isinstance(type_, pa.BaseExtensionType) or pa.types.is_fixed_size_binary(type_) or any(map(holds_fixed, child_types))


def as_stored(values: pa.Array, stored: pa.DataType) -> pa.Array:
    """Return values in the types of a file: under its names, and with UUID texts and binaries as bytes of one length."""
    if not holds_fixed(stored):
        return values.view(stored)
    if pa.types.is_struct(stored):
        children = [as_stored(child, field.type) for child, field in zip(values.flatten(), stored, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(stored), mask=values.is_null())
    if pa.types.is_map(stored):
        entries = [as_stored(values.keys, stored.key_type), as_stored(values.items, stored.item_type)]
        return _with_child(values, stored, pa.StructArray.from_arrays(entries, fields=[stored.key_field, stored.item_field]))
    if pa.types.is_list(stored):
        return _with_child(values, stored, as_stored(values.values, stored.value_type))
    octets = uuid_bytes(values) if pa.types.is_string(values.type) else values.cast(stored)
    return pa.ExtensionArray.from_storage(stored, octets) if isinstance(stored, pa.BaseExtensionType) else octets


def uuid_bytes(texts: pa.Array) -> pa.Array:
    """Return the 16 bytes of canonical texts. Raises ValueError for a text that is no UUID."""
    if not len(texts):
        return pa.array([], pa.binary(16))
    digits = pc.replace_substring(texts, "-", "").fill_null("0" * 32).cast(pa.binary(32))
    octets = np.frombuffer(digits.buffers()[1], np.uint8)[digits.offset * 32 :][: len(digits) * 32]
    nibbles = _VALUES_OF_DIGITS[octets]
    if (nibbles > 15).any():
        raise ValueError("a text is no UUID")
    packed = (nibbles[0::2] << 4) | nibbles[1::2]
    return pa.Array.from_buffers(pa.binary(16), len(texts), [_validity(texts), pa.py_buffer(packed.tobytes())])


def uuid_texts(values: pa.Array) -> pa.Array:
    """Return the canonical texts, in small letters, of 16 bytes each."""
    if not len(values):
        return pa.array([], pa.string())
    octets = np.frombuffer(values.buffers()[1], np.uint8)[values.offset * 16 :][: len(values) * 16].reshape(-1, 16)
    texts = np.full((len(values), 36), ord("-"), np.uint8)
    texts[:, _DIGIT_PLACES] = _DIGITS[np.stack([octets >> 4, octets & 15], axis=2).reshape(-1, 32)]
    offsets = np.arange(len(values) + 1, dtype=np.int32) * 36
    buffers = [_validity(values), pa.py_buffer(offsets.tobytes()), pa.py_buffer(texts.tobytes())]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def _validity(values: pa.Array) -> pa.Buffer | None:
    return values.is_valid().buffers()[1] if values.null_count else None
