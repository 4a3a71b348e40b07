"""The Avro schemas of manifests and manifest lists (Iceberg spec, Manifests, Manifest Lists, Appendix A: Avro)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyiceberg import types as t
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

AvroType = str | list[Any] | dict[str, Any]

DATA_FILE, PARTITION = 2, 102
"""The field ids of an entry's file, and of a file's partition values."""

_PRIMITIVE: Mapping[type[t.IcebergType], AvroType] = {
    t.UnknownType: "null",
    t.BooleanType: "boolean",
    t.IntegerType: "int",
    t.LongType: "long",
    t.FloatType: "float",
    t.DoubleType: "double",
    t.StringType: "string",
    t.BinaryType: "bytes",
    t.DateType: {"type": "int", "logicalType": "date"},
    t.TimeType: {"type": "long", "logicalType": "time-micros"},
    t.TimestampType: {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    t.TimestamptzType: {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    t.TimestampNanoType: {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False},
    t.TimestamptzNanoType: {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True},
}


def _required(id_: int, name: str, type_: AvroType) -> dict[str, Any]:
    return {"name": name, "type": type_, "field-id": id_}


def _optional(id_: int, name: str, type_: AvroType) -> dict[str, Any]:
    return {"name": name, "type": ["null", type_], "default": None, "field-id": id_}


def _record(name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": fields}


def _list(element_id: int, type_: AvroType) -> AvroType:
    return {"type": "array", "items": type_, "element-id": element_id}


def _map(key_id: int, value_id: int, value: str) -> AvroType:
    """Return the type of a map by field id: an array of key-value records, because the keys of Avro's maps are strings."""
    pair = _record(f"k{key_id}_v{value_id}", [_required(key_id, "key", "int"), _required(value_id, "value", value)])
    return {"type": "array", "items": pair, "logicalType": "map"}


def _data_file_schema(partition: AvroType, format_version: int) -> dict[str, Any]:
    """Return the Avro schema of the struct `data_file`, which describes a data file or a delete file (Iceberg spec, Data File Fields).

    The numbers are the specification's field ids. `partition` is the record of the file's partition values.
    """
    fields = [
        _required(134, "content", "int"),
        _required(100, "file_path", "string"),
        _required(101, "file_format", "string"),
        _required(PARTITION, "partition", partition),
        _required(103, "record_count", "long"),
        _required(104, "file_size_in_bytes", "long"),
        _optional(108, "column_sizes", _map(117, 118, "long")),
        _optional(109, "value_counts", _map(119, 120, "long")),
        _optional(110, "null_value_counts", _map(121, 122, "long")),
        _optional(137, "nan_value_counts", _map(138, 139, "long")),
        _optional(125, "lower_bounds", _map(126, 127, "bytes")),
        _optional(128, "upper_bounds", _map(129, 130, "bytes")),
        _optional(131, "key_metadata", "bytes"),
        _optional(132, "split_offsets", _list(133, "long")),
        _optional(135, "equality_ids", _list(136, "int")),
        _optional(140, "sort_order_id", "int"),
        _optional(143, "referenced_data_file", "string"),
    ]
    if format_version >= 3:
        fields += [
            _optional(142, "first_row_id", "long"),
            _optional(144, "content_offset", "long"),
            _optional(145, "content_size_in_bytes", "long"),
        ]
    return _record(f"r{DATA_FILE}", fields)  # Iceberg names a record after its field id


def manifest_schema(spec: PartitionSpec, schema: Schema, format_version: int) -> dict[str, Any]:
    """Return the Avro schema of the entries of a manifest (Iceberg spec, Manifests).

    Args:
        spec: The partition spec of the manifest's files.
        schema: A table schema with the source columns of the spec.
        format_version: The format version of the manifest, 2 or 3.
    """
    fields = [
        _required(0, "status", "int"),
        _optional(1, "snapshot_id", "long"),
        _optional(3, "sequence_number", "long"),
        _optional(4, "file_sequence_number", "long"),
        _required(DATA_FILE, "data_file", _data_file_schema(_partition_schema(spec, schema), format_version)),
    ]
    return _record("manifest_entry", fields)


def manifest_list_schema(format_version: int) -> dict[str, Any]:
    """Return the Avro schema of the records of a manifest list."""
    summary_fields = [
        _required(509, "contains_null", "boolean"),
        _optional(518, "contains_nan", "boolean"),
        _optional(510, "lower_bound", "bytes"),
        _optional(511, "upper_bound", "bytes"),
    ]
    fields = [
        _required(500, "manifest_path", "string"),
        _required(501, "manifest_length", "long"),
        _required(502, "partition_spec_id", "int"),
        _required(517, "content", "int"),
        _required(515, "sequence_number", "long"),
        _required(516, "min_sequence_number", "long"),
        _required(503, "added_snapshot_id", "long"),
        _required(504, "added_files_count", "int"),
        _required(505, "existing_files_count", "int"),
        _required(506, "deleted_files_count", "int"),
        _required(512, "added_rows_count", "long"),
        _required(513, "existing_rows_count", "long"),
        _required(514, "deleted_rows_count", "long"),
        _optional(507, "partitions", _list(508, _record("r508", summary_fields))),
        _optional(519, "key_metadata", "bytes"),
    ]
    if format_version >= 3:
        fields.append(_optional(520, "first_row_id", "long"))
    return _record("manifest_file", fields)


def _partition_schema(spec: PartitionSpec, schema: Schema) -> dict[str, Any]:
    """Return the Avro schema of a spec's partition values. Each value is optional, because files of older specs may lack it."""
    fields = []
    for field in spec.partition_type(schema).fields:
        avro_type = _partition_type(field.field_type, field.field_id)
        name = _avro_name(field.name)
        build = _required if avro_type == "null" else _optional  # a union must not have null twice
        avro_field = build(field.field_id, name, avro_type)
        fields.append(avro_field if name == field.name else {**avro_field, "iceberg-field-name": field.name})
    return _record(f"r{PARTITION}", fields)


def _partition_type(type_: t.IcebergType, field_id: int) -> AvroType:
    """Return the Avro type of a partition value. Each fixed type has its own name, because pyiceberg cannot refer to a type by name."""
    match type_:
        case t.DecimalType(precision=precision, scale=scale):
            size = ((10**precision - 1).bit_length() + 8) // 8  # the bytes of the largest number and its sign bit, rounded up
            decimal = {"logicalType": "decimal", "precision": precision, "scale": scale}
            return {"type": "fixed", "name": f"decimal_{precision}_{scale}_r{field_id}", "size": size, **decimal}
        case t.UUIDType():
            return {"type": "fixed", "name": f"uuid_fixed_r{field_id}", "size": 16, "logicalType": "uuid"}
        case t.FixedType():
            return {"type": "fixed", "name": f"fixed_{len(type_)}_r{field_id}", "size": len(type_)}
    return _PRIMITIVE[type(type_)]


def _avro_name(name: str) -> str:
    """Return a valid Avro name: characters except letters, digits and `_` become `_x` and their code point (Java's AvroSchemaUtil)."""
    escaped = re.sub(r"[^A-Za-z0-9_]", lambda match: f"_x{ord(match[0]):X}", name)
    return f"_{escaped}" if escaped[:1].isdigit() else escaped


def partition_names(schema: Mapping[str, Any]) -> list[str]:
    """Return the names of the partition values in a manifest of this Avro schema."""
    return [field["name"] for field in _partition_fields(schema)]


def partition_scales(schema: Mapping[str, Any]) -> dict[int, int]:
    """Return the scales of the decimal partition values in a manifest of this Avro schema, by position."""
    named_scales: dict[str, int] = {}
    scales = {position: _decimal_scale(field["type"], named_scales) for position, field in enumerate(_partition_fields(schema))}
    return {position: scale for position, scale in scales.items() if scale is not None}


def _decimal_scale(type_: AvroType, named_scales: dict[str, int]) -> int | None:
    """Return the scale of a decimal type, or None for another type.

    An Avro schema defines a named type once, and then refers to it by its name. So this function adds the scale of a named decimal to
    `named_scales`, the scales of the decimals that the schema has defined so far.
    """
    for branch in _branches(type_):
        if isinstance(branch, dict) and branch.get("logicalType") == "decimal":
            scale: int = branch.get("scale", 0)
            named_scales[branch.get("name", "")] = scale  # the name "" of an unnamed type is never looked up
            return scale
        if isinstance(branch, str) and branch in named_scales:
            return named_scales[branch]
    return None


def _partition_fields(schema: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    fields: Sequence[Mapping[str, Any]] = _field_type(_field_type(schema, DATA_FILE), PARTITION).get("fields", [])
    return fields


def _field_type(record: Mapping[str, Any], id_: int) -> Mapping[str, Any]:
    return next((field["type"] for field in record.get("fields", []) if field.get("field-id") == id_), {})


def _branches(type_: AvroType) -> list[Any]:
    """Return the types of a union, or the type itself."""
    return type_ if isinstance(type_, list) else [type_]


def _names_by_id(fields: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, str]]:
    """Yield the id and name of each field at any depth."""
    for field in fields:
        yield field["field-id"], field["name"]
        for branch in _branches(field["type"]):
            items = branch.get("items", branch) if isinstance(branch, dict) else branch
            yield from _names_by_id(items.get("fields", []) if isinstance(items, dict) else [])


MANIFEST = manifest_schema(PartitionSpec(), Schema(), 3)
MANIFEST_LIST = manifest_list_schema(3)
NAMES: Mapping[int, str] = dict(_names_by_id([*MANIFEST["fields"], *MANIFEST_LIST["fields"]]))
"""The names of the fields of manifests and manifest lists, by field id. Older writers gave some fields other names."""
_INTEGERS = frozenset({"int", "long"})
_ACCEPTED_TYPES: Mapping[str, frozenset[str]] = {"int": _INTEGERS, "long": _INTEGERS}
"""The Avro types that a file may use for a type of the specification, if more than one is allowed."""


def check_schema(schema: Mapping[str, Any], specified: Mapping[str, Any]) -> None:
    """Check that the fields of a file's Avro schema have the types of the Iceberg specification.

    Args:
        schema: The schema in the header of the file.
        specified: The schema of the specification, MANIFEST or MANIFEST_LIST. The file may lack some of its fields, and may have additional
            fields.

    Raises:
        ValueError: A field has a different type.
    """
    _check_fields(schema, specified, named_types={})


def _check_fields(record: Any, expected: Mapping[str, Any], named_types: dict[str, Any]) -> None:
    """Check the fields that the specification defines. `named_types` are the types that the schema has defined so far, by name."""
    expected_by_id = {field["field-id"]: field for field in expected["fields"]}
    expected_by_name = {field["name"]: field for field in expected["fields"]}
    for field in record["fields"]:
        expected_field = expected_by_id.get(field.get("field-id"), expected_by_name.get(field["name"]))
        if expected_field is not None:
            _check_type(_not_null(field["type"]), _not_null(expected_field["type"]), expected_field["name"], named_types)


def _check_type(type_: Any, expected: Any, field_name: str, named_types: dict[str, Any]) -> None:
    type_ = named_types.get(type_, type_) if isinstance(type_, str) else type_
    type_name, expected_name = _type_name(type_), _type_name(expected)
    if not isinstance(type_name, str) or type_name not in _ACCEPTED_TYPES.get(expected_name, {expected_name}):
        raise ValueError(f"{field_name} has the type {type_name!r:.80}, not {expected_name}")
    if type_name == "record":
        named_types[type_.get("name", "")] = type_
        _check_fields(type_, expected, named_types)
    elif type_name == "array":
        _check_type(_not_null(type_["items"]), _not_null(expected["items"]), field_name, named_types)


def _type_name(type_: Any) -> Any:
    return type_["type"] if isinstance(type_, dict) else type_


def _not_null(type_: AvroType) -> Any:
    """Return the type of an optional field, which is the only type except null in a union."""
    branches = [branch for branch in _branches(type_) if branch != "null"]
    return branches[0] if len(branches) == 1 else type_
