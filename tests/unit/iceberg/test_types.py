"""Conversion between Iceberg types and the engine's types."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, ListType, LongType, MapType, NestedField, StructType, TimeType, UUIDType

from rowmerge.errors import UnsupportedTableFeature
from rowmerge.iceberg.metadata.types import SchemaBuilder, columns_of
from rowmerge.iceberg.metadata.view_schema import columns_of as columns_of_view
from rowmerge.iceberg.snapshots.snapshot import check_uuids
from rowmerge.table.metadata.schema import UUID, Array, Fixed, Map, Primitive, Struct, stored_types

SCHEMA = Schema(
    NestedField(1, "u", UUIDType(), required=True),
    NestedField(2, "s", StructType(NestedField(3, "f", FixedType(4), required=False)), required=False),
    NestedField(4, "l", ListType(5, MapType(6, UUIDType(), 7, FixedType(2))), required=False),
)


def test_uuid_and_fixed_types_round_trip_through_string_and_binary() -> None:
    columns = columns_of(SCHEMA, "t")
    assert [field.sql_type for field in columns] == ["string", "struct<f:binary>", "array<map<string,binary>>"]
    stored_schema = stored_types(columns)
    assert [field.type for field in stored_schema][::2] == [UUID, Array(Map(UUID, Fixed(2), False), False)]
    assert isinstance(stored_schema.fields[1].type, Struct) and stored_schema.fields[1].type.fields[0].type == Fixed(4)
    assert SchemaBuilder("t", 7).build_schema(columns).as_struct() == SCHEMA.as_struct()


def test_time_is_refused_in_tables_and_a_string_in_views() -> None:
    time = Schema(NestedField(1, "at", TimeType(), required=False))
    with pytest.raises(UnsupportedTableFeature, match="type time of the column at"):
        columns_of(time, "t")
    assert columns_of_view(time.model_dump()).fields[0].type == Primitive("string")


def test_uuid_columns_require_pyarrow_21_for_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    check_uuids("t", SCHEMA)
    monkeypatch.setattr(pa, "__version__", "20.0.0")
    with pytest.raises(UnsupportedTableFeature, match=r"type uuid of the column u .*Install pyarrow 21 or newer"):
        check_uuids("t", SCHEMA)
    check_uuids("t", Schema(NestedField(1, "id", LongType(), required=False)))
