"""Arrow values in another form of the same: renamed, widened, in other places, with fields that are not there yet, UUIDs as text.

Runs on executors, sent there by value (see spark/writing/executors.py), so nothing here may import rowmerge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from rowmerge.parquet.uuids import uuid_bytes, uuid_texts

_ID = b"PARQUET:field_id"


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the columns of `schema`, names alike on every level, in exactly its types."""
    if rows.schema.equals(schema):
        return rows
    columns = [_changed(rows[field.name], field.type, lambda chunk, to: fitted(chunk, to, to)) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def renamed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows of the same shape under other names, on every level; texts and binaries in bytes of one length where files hold those."""
    columns = [_changed(column, field.type, as_held) for column, field in zip(rows.columns, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def file_columns(found: pa.Schema, held: pa.Schema, *, by_field_id: bool) -> list[int | None]:
    """Where each column of `held` is in a file, None where the file does not have it."""
    return [_place(pa.struct(list(found)), field, by_field_id) for field in held]


def has_field_ids(found: pa.Schema) -> bool:
    """Whether a file's columns have ids: without them all would seem to be missing."""
    return any((field.metadata or {}).get(_ID) is not None for field in found)


def from_file(
    rows: pa.Table, schema: pa.Schema, held: pa.Schema, *, by_field_id: bool, initial: Mapping[str, pa.Array] | None = None
) -> pa.Table:
    """Rows of a data file as the table's: columns are found by the names, or the ids, of `held`; those that are not there are null, or
    what `initial` has for them, by the table's names, as arrays of one value."""
    columns = []
    for place, field, stored in zip(file_columns(rows.schema, held, by_field_id=by_field_id), schema, held, strict=True):
        if place is None:
            value = (initial or {}).get(field.name)
            absent = pa.nulls(rows.num_rows, field.type) if value is None else pa.repeat(value[0], rows.num_rows)
            columns.append(pa.chunked_array([absent]))
        else:
            shaped = [fitted(chunk, field.type, stored.type, by_field_id=by_field_id) for chunk in rows.column(place).chunks]
            columns.append(pa.chunked_array(shaped, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def fitted(values: pa.Array, wanted: pa.DataType, held: pa.DataType, *, by_field_id: bool = False) -> pa.Array:
    """Values as `wanted`: fields of structs are found by the names, or the ids, of `held`, which has its shape; missing ones are null.

    Leaves are cast: to wider types, and instants to UTC.
    """
    if values.type.equals(held, check_metadata=by_field_id) and not holds_fixed(held):
        return values if held.equals(wanted) else values.view(wanted)
    if pa.types.is_struct(wanted) and pa.types.is_struct(values.type):
        return _struct(values, wanted, held, by_field_id)
    if pa.types.is_map(wanted) and pa.types.is_map(values.type):
        keys = fitted(values.keys, wanted.key_type, held.key_type, by_field_id=by_field_id)
        items = fitted(values.items, wanted.item_type, held.item_type, by_field_id=by_field_id)
        return _listed(values, wanted, pa.StructArray.from_arrays([keys, items], fields=[wanted.key_field, wanted.item_field]))
    if pa.types.is_list(wanted) and not pa.types.is_list(values.type):
        values = values.cast(pa.list_(values.type.value_type))
    if pa.types.is_list(wanted):
        return _listed(values, wanted, fitted(values.values, wanted.value_type, held.value_type, by_field_id=by_field_id))
    if pa.types.is_timestamp(wanted) and wanted.tz and pa.types.is_timestamp(values.type) and values.type.tz is None:
        values = values.cast(pa.timestamp("us"))
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    if pa.types.is_fixed_size_binary(values.type) and pa.types.is_string(wanted):
        return uuid_texts(values)
    return values.cast(wanted)


def _struct(values: pa.StructArray, wanted: pa.StructType, held: pa.StructType, by_field_id: bool) -> pa.StructArray:
    children = values.flatten()
    found = []
    for field, stored in zip(wanted, held, strict=True):
        place = _place(values.type, stored, by_field_id)
        if place is None:
            found.append(pa.nulls(len(values), field.type))
        else:
            found.append(fitted(children[place], field.type, stored.type, by_field_id=by_field_id))
    return pa.StructArray.from_arrays(found, fields=list(wanted), mask=values.is_null())


def _listed(values: pa.Array, wanted: pa.DataType, child: pa.Array) -> pa.Array:
    """A list or map with other elements at the same offsets."""
    offsets = pa.array(values.offsets.to_numpy(), pa.int32())
    return pa.Array.from_buffers(wanted, len(values), [values.is_valid().buffers()[1], offsets.buffers()[1]], children=[child])


def _place(found: pa.StructType, held: pa.Field, by_field_id: bool) -> int | None:
    if not by_field_id:
        index = found.get_field_index(held.name)
        return index if index >= 0 else None
    wanted = (held.metadata or {}).get(_ID)
    return next((index for index, field in enumerate(found) if (field.metadata or {}).get(_ID) == wanted), None)


def _changed(column: pa.ChunkedArray, type_: pa.DataType, change: Callable[[pa.Array, pa.DataType], pa.Array]) -> pa.ChunkedArray:
    return pa.chunked_array([change(chunk, type_) for chunk in column.chunks], type_)


# ------------------------------------------------------------------ bytes of one length


def holds_fixed(type_: pa.DataType) -> bool:
    """Whether there are bytes of one length in a type, at any depth."""
    inside = [type_.field(index).type for index in range(type_.num_fields)]
    return isinstance(type_, pa.BaseExtensionType) or pa.types.is_fixed_size_binary(type_) or any(map(holds_fixed, inside))


def as_held(values: pa.Array, held: pa.DataType) -> pa.Array:
    """Values as files hold them: `held` has other names, and bytes of one length for texts of UUIDs and for binaries."""
    if not holds_fixed(held):
        return values.view(held)
    if pa.types.is_struct(held):
        children = [as_held(child, field.type) for child, field in zip(values.flatten(), held, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(held), mask=values.is_null())
    if pa.types.is_map(held):
        parts = [as_held(values.keys, held.key_type), as_held(values.items, held.item_type)]
        return _listed(values, held, pa.StructArray.from_arrays(parts, fields=[held.key_field, held.item_field]))
    if pa.types.is_list(held):
        return _listed(values, held, as_held(values.values, held.value_type))
    octets = uuid_bytes(values) if pa.types.is_string(values.type) else values.cast(held)
    return pa.ExtensionArray.from_storage(held, octets) if isinstance(held, pa.BaseExtensionType) else octets
