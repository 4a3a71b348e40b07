"""The Avro schemas of manifests and manifest lists (Iceberg spec, Manifests, Manifest Lists, Appendix A: Avro)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

AvroType = str | list[Any] | dict[str, Any]

PARTITION = 102
"""The field id of a file's partition values."""

_PRIMITIVE: Mapping[type[IcebergType], AvroType] = {
    UnknownType: "null",
    BooleanType: "boolean",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    DateType: {"type": "int", "logicalType": "date"},
    TimeType: {"type": "long", "logicalType": "time-micros"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    TimestamptzType: {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    TimestampNanoType: {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False},
    TimestamptzNanoType: {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True},
}


def _required(id_: int, name: str, type_: AvroType) -> dict[str, Any]:
    return {"name": name, "type": type_, "field-id": id_}


def _optional(id_: int, name: str, type_: AvroType) -> dict[str, Any]:
    return {"name": name, "type": ["null", type_], "default": None, "field-id": id_}


def _list(element_id: int, type_: AvroType) -> AvroType:
    return {"type": "array", "items": type_, "element-id": element_id}


def _map(key_id: int, value_id: int, value: str) -> AvroType:
    """A map of field ids: an array of pairs, for Avro's own maps have texts as keys."""
    pair = {
        "type": "record",
        "name": f"k{key_id}_v{value_id}",
        "fields": [_required(key_id, "key", "int"), _required(value_id, "value", value)],
    }
    return {"type": "array", "items": pair, "logicalType": "map"}


def _data_file(partition: AvroType, format_version: int) -> dict[str, Any]:
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
    return {"type": "record", "name": "r2", "fields": fields}


def _entry(data_file: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            _required(0, "status", "int"),
            _optional(1, "snapshot_id", "long"),
            _optional(3, "sequence_number", "long"),
            _optional(4, "file_sequence_number", "long"),
            _required(2, "data_file", data_file),
        ],
    }


def manifest_schema(spec: PartitionSpec, schema: Schema, format_version: int) -> dict[str, Any]:
    """The schema of a manifest's entries, with the partition values of a spec over a table schema."""
    return _entry(_data_file(partition_schema(spec, schema), format_version))


def manifest_list_schema(format_version: int) -> dict[str, Any]:
    """The schema of a manifest list's entries."""
    summary = {
        "type": "record",
        "name": "r508",
        "fields": [
            _required(509, "contains_null", "boolean"),
            _optional(518, "contains_nan", "boolean"),
            _optional(510, "lower_bound", "bytes"),
            _optional(511, "upper_bound", "bytes"),
        ],
    }
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
        _optional(507, "partitions", _list(508, summary)),
        _optional(519, "key_metadata", "bytes"),
    ]
    if format_version >= 3:
        fields.append(_optional(520, "first_row_id", "long"))
    return {"type": "record", "name": "manifest_file", "fields": fields}


def partition_schema(spec: PartitionSpec, schema: Schema) -> dict[str, Any]:
    """The schema of a spec's partition values; every one may be null, as it is where the spec did not have the field yet."""
    fields = []
    for field in spec.partition_type(schema).fields:
        avro = _partition_type(field.field_type, field.field_id)
        stored = _compatible(field.name)
        entry = _required(field.field_id, stored, "null") if avro == "null" else _optional(field.field_id, stored, avro)
        fields.append(entry if stored == field.name else {**entry, "iceberg-field-name": field.name})
    return {"type": "record", "name": f"r{PARTITION}", "fields": fields}


def _partition_type(type_: IcebergType, field_id: int) -> AvroType:
    """The Avro form of a type. Fixed types have names, one for each field: pyiceberg knows no type by the name it had before."""
    match type_:
        case DecimalType(precision=precision, scale=scale):
            size = ((10**precision - 1).bit_length() + 8) // 8
            decimal = {"logicalType": "decimal", "precision": precision, "scale": scale}
            return {"type": "fixed", "name": f"decimal_{precision}_{scale}_r{field_id}", "size": size, **decimal}
        case UUIDType():
            return {"type": "fixed", "name": f"uuid_fixed_r{field_id}", "size": 16, "logicalType": "uuid"}
        case FixedType():
            return {"type": "fixed", "name": f"fixed_{len(type_)}_r{field_id}", "size": len(type_)}
    return _PRIMITIVE[type(type_)]


def _compatible(name: str) -> str:
    """A name as Avro allows it: other characters than letters, digits and `_` become `_x` and their number (Java's AvroSchemaUtil)."""
    escaped = re.sub(r"[^A-Za-z0-9_]", lambda match: f"_x{ord(match[0]):X}", name)
    return f"_{escaped}" if escaped[:1].isdigit() else escaped


def partition_names(schema: Mapping[str, Any]) -> list[str]:
    """What the partition values in a manifest of this Avro schema are called there."""
    return [field["name"] for field in _field_type(_field_type(schema, 2), PARTITION).get("fields", [])]


def partition_scales(schema: Mapping[str, Any]) -> dict[int, int]:
    """Which of the partition values in a manifest of this Avro schema are decimals, by position, and their scales."""
    data_file = _field_type(schema, 2)
    fields = _field_type(data_file, PARTITION).get("fields", [])
    named: dict[str, int] = {}
    scales = {}
    for position, field in enumerate(fields):
        branches = field["type"] if isinstance(field["type"], list) else [field["type"]]
        for branch in branches:
            if isinstance(branch, dict) and branch.get("logicalType") == "decimal":
                scales[position] = named[branch.get("name", "")] = branch.get("scale", 0)
            elif isinstance(branch, str) and branch in named:
                scales[position] = named[branch]
    return scales


def _field_type(record: Mapping[str, Any], id_: int) -> Mapping[str, Any]:
    return next((field["type"] for field in record.get("fields", []) if field.get("field-id") == id_), {})


def _names(fields: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, str]]:
    for field in fields:
        yield field["field-id"], field["name"]
        for branch in field["type"] if isinstance(field["type"], list) else [field["type"]]:
            if isinstance(branch, dict):
                inner = branch.get("items", branch)
                yield from _names(inner.get("fields", []) if isinstance(inner, dict) else [])


_NO_PARTITION = {"type": "record", "name": f"r{PARTITION}", "fields": []}
NAMES: Mapping[int, str] = dict([*_names(_entry(_data_file(_NO_PARTITION, 3))["fields"]), *_names(manifest_list_schema(3)["fields"])])
"""What the fields of manifests and manifest lists are called, by id; older writers spelled some of them otherwise."""
_FORMS: Mapping[str, frozenset[str]] = {"int": frozenset({"int", "long"}), "long": frozenset({"int", "long"})}
"""The types of Avro in which a file may hold a field, for those of which there is more than one."""


def check_manifest_schema(schema: Mapping[str, Any]) -> None:
    """Raise ValueError if a manifest of this Avro schema holds a field in another type than the specification says."""
    _check_fields(schema, _entry(_data_file(_NO_PARTITION, 3)), {})


def check_manifest_list_schema(schema: Mapping[str, Any]) -> None:
    """The same for a manifest list."""
    _check_fields(schema, manifest_list_schema(3), {})


def _check_fields(given: Any, specified: Mapping[str, Any], named: dict[str, Any]) -> None:
    """`named`: the types that the schema has defined so far, which it may use again by their names."""
    by_id, by_name = ({field[key]: field for field in specified["fields"]} for key in ("field-id", "name"))
    for field in given["fields"]:
        known = by_id.get(field["field-id"]) if "field-id" in field else by_name.get(field["name"])
        if known is not None:
            _check_type(_not_null(field["type"]), _not_null(known["type"]), known["name"], named)


def _check_type(given: Any, specified: Any, name: str, named: dict[str, Any]) -> None:
    given = named.get(given, given) if isinstance(given, str) else given
    form, specified_form = (type_["type"] if isinstance(type_, dict) else type_ for type_ in (given, specified))
    if not isinstance(form, str) or form not in _FORMS.get(specified_form, {specified_form}):
        raise ValueError(f"{name} has the type {form!r:.80}, not {specified_form}")
    if form == "record":
        named[given.get("name", "")] = given
        _check_fields(given, specified, named)
    elif form == "array":
        _check_type(_not_null(given["items"]), _not_null(specified["items"]), name, named)


def _not_null(type_: Any) -> Any:
    """The one type beside null in a union."""
    branches = [branch for branch in type_ if branch != "null"] if isinstance(type_, list) else [type_]
    return branches[0] if len(branches) == 1 else type_
