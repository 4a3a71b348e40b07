"""Iceberg tables of other writers with column types that Spark lacks are read, merged into, and written with these types."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, IdentityTransform, Transform
from pyiceberg.types import FixedType, ListType, LongType, MapType, NestedField, StringType, StructType, UUIDType
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import ValueOutOfRange
from tests.golden.iceberg.tables import comparable
from tests.support.readers import read_with_duckdb_iceberg

pytestmark = pytest.mark.one_of("mode")

MODES = ("copy-on-write", "merge-on-read")
FIRST, SECOND, THIRD, FOURTH = (
    uuid.UUID(text)
    for text in (
        "00000000-0000-0000-0000-000000000001",
        "7f79c3e9-677c-4bbd-a479-3f349cb785e7",
        "f79c3e09-677c-4bbd-a479-3f349cb785e7",
        "ffffffff-ffff-4fff-bfff-ffffffffffff",
    )
)
NESTED = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "u", UUIDType(), required=False),
    NestedField(3, "f", FixedType(4), required=False),
    NestedField(
        4,
        "s",
        StructType(NestedField(5, "a", UUIDType(), required=False), NestedField(6, "b", FixedType(2), required=False)),
        required=False,
    ),
    NestedField(7, "l", ListType(8, UUIDType(), element_required=False), required=False),
    NestedField(
        9,
        "m",
        MapType(10, StringType(), 11, StructType(NestedField(12, "x", UUIDType(), required=False)), value_required=False),
        required=False,
    ),
)


@pytest.fixture
def pyiceberg_catalog(tmp_path: Path) -> Catalog:
    return load_catalog("default", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/w")


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> rowmerge.Session:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/w"}
    session = rowmerge.connect(catalog=catalog, spark=spark, schema="raw")
    session.sql("create schema raw")
    return session


def create_table(pyiceberg_catalog: Catalog, schema: Schema, mode: str, spec: PartitionSpec | None = None) -> Table:
    modes = {f"write.{what}.mode": mode for what in ("delete", "update", "merge")}
    return pyiceberg_catalog.create_table("raw.t", schema, partition_spec=spec or PartitionSpec(), properties=modes)


def appended(table: Table, rows: list[dict[str, object]]) -> None:
    schema = table.schema().as_arrow()
    table.append(
        pa.Table.from_pylist(rows, schema=pa.schema([field.with_type(replace_uuids(field.type)) for field in schema])).cast(schema)
    )


def replace_uuids(type_: pa.DataType) -> pa.DataType:
    """Return the type with 16 bytes instead of a UUID, because Arrow converts no nested Python values to UUIDs."""
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(replace_uuids(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(type_.key_field.with_type(replace_uuids(type_.key_type)), type_.item_field.with_type(replace_uuids(type_.item_type)))
    if pa.types.is_large_list(type_) or pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(replace_uuids(type_.value_type)))
    return pa.binary(16) if isinstance(type_, pa.UuidType) else type_


@pytest.mark.parametrize("mode", MODES)
def test_uuids_are_strings_and_fixed_is_binary_at_any_depth(session: rowmerge.Session, pyiceberg_catalog: Catalog, mode: str) -> None:
    table = create_table(pyiceberg_catalog, NESTED, mode)
    appended(
        table,
        [
            {
                "id": 1,
                "u": FIRST.bytes,
                "f": b"aaaa",
                "s": {"a": FIRST.bytes, "b": b"xy"},
                "l": [FIRST.bytes, None],
                "m": {"k": {"x": FIRST.bytes}},
            },
            {"id": 2, "u": SECOND.bytes, "f": b"bbbb", "s": None, "l": [], "m": {}},
            {"id": 3, "u": None, "f": None, "s": {"a": None, "b": None}, "l": None, "m": None},
            {"id": 4, "u": THIRD.bytes, "f": b"dddd", "s": {"a": THIRD.bytes, "b": b"zz"}, "l": [THIRD.bytes], "m": {"k": None}},
        ],
    )
    assert session.sql("select id, u, f, s.a, s.b, l, m.k.x from t where id < 4 order by id").collect() == [
        (1, str(FIRST), b"aaaa", str(FIRST), b"xy", [str(FIRST), None], str(FIRST)),
        (2, str(SECOND), b"bbbb", None, None, [], None),
        (3, None, None, None, None, None, None),
    ]
    session.sql("delete from t where id = 4")
    session.sql(
        f"merge into t using (select * from values (2, '{FOURTH}'), (5, upper('{THIRD}')) as v (id, u)) s on t.id = s.id "
        "when matched then update set u = s.u, s = named_struct('a', s.u, 'b', X'0102'), l = array(s.u) "
        "when not matched then insert (id, u, f, l, m) values (s.id, s.u, X'01020304', array(s.u), map('k', named_struct('x', s.u)))"
    )
    expected = [
        (1, FIRST, b"aaaa", {"a": FIRST, "b": b"xy"}, [FIRST, None], {"k": {"x": FIRST}}),
        (2, FOURTH, b"bbbb", {"a": FOURTH, "b": b"\x01\x02"}, [FOURTH], {}),
        (3, None, None, {"a": None, "b": None}, None, None),
        (5, THIRD, b"\x01\x02\x03\x04", None, [THIRD], {"k": {"x": THIRD}}),
    ]
    table.refresh()
    assert comparable(table.scan().to_arrow().drop_columns(["m"])) == comparable(rows_without_maps(expected))
    assert comparable(read_with_duckdb_iceberg(table.metadata_location)) == comparable(session.table("t").toArrow())
    parquet_files = [pq.ParquetFile(task.file.file_path.removeprefix("file://")) for task in table.scan().plan_files()]
    assert {str(file.schema.column(at).logical_type) for file in parquet_files for at in (1, 3, 5, 7)} == {"UUID"}
    assert {file.schema.column(at).length for file in parquet_files for at in (1, 2, 4)} == {16, 4, 2}
    with pytest.raises(ValueOutOfRange, match=r"12 does not fit the column `u` of .*t \(uuid\).*123e4567-e89b-12d3-a456-426614174000\."):
        session.sql("update t set u = '12' where id = 1")
    with pytest.raises(ValueOutOfRange, match=r"X'0102' does not fit the column `f` of .*t \(fixed\[4\]\)"):
        session.sql("merge into t using (select 9 as id) s on t.id = s.id when not matched then insert (id, f) values (s.id, X'0102')")
    with pytest.raises(ValueOutOfRange, match="does not fit the column `l` of"):
        session.sql(f"insert into t (id, l) values (9, array('{FIRST}', '{FIRST}0'))")


def rows_without_maps(rows: list[tuple[object, ...]]) -> pa.Table:
    """Return the rows without maps, because pyiceberg returns a map that is NULL as an empty one."""
    return pa.table({name: pa.array([_texts(row[at]) for row in rows]) for at, name in enumerate(("id", "u", "f", "s", "l"))})


def _texts(value: object) -> object:
    match value:
        case dict():
            return {name: _texts(inner) for name, inner in value.items()}
        case list():
            return [_texts(inner) for inner in value]
        case uuid.UUID():
            return str(value)
    return value


@pytest.mark.parametrize("transform", [IdentityTransform(), BucketTransform(16)])
def test_uuid_partitions_equal_those_of_other_writers_and_prune_files(
    session: rowmerge.Session, pyiceberg_catalog: Catalog, transform: Transform[Any, Any]
) -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "u", UUIDType(), required=False))
    table = create_table(pyiceberg_catalog, schema, "merge-on-read", PartitionSpec(PartitionField(2, 1000, transform, "p")))
    session.sql(f"insert into t values (1, '{FIRST}'), (2, '{SECOND}'), (3, null)")
    session.sql(f"insert into t values (4, upper('{THIRD}')), (5, '{SECOND}')")
    table.refresh()
    values = {task.file.partition[0] for task in table.scan().plan_files()}
    hashed = transform.transform(UUIDType())
    assert {str(value) for value in values} == {str(hashed(value)) for value in (FIRST, SECOND, THIRD, None)}
    explained = session.sql(f"explain delete from t where u = '{THIRD}'").collect()[0][0]
    assert f"1 of {len(list(table.scan().plan_files()))} may contain" in explained
    session.sql(f"merge into t using (select '{SECOND}' as u, 9L as n) s on t.u = s.u when matched then update set id = t.id * n")
    session.sql(f"delete from t where u = '{THIRD}'")
    assert session.sql("select id, u from t order by id").collect() == [(1, str(FIRST)), (3, None), (18, str(SECOND)), (45, str(SECOND))]
    table.refresh()
    assert comparable(read_with_duckdb_iceberg(table.metadata_location)) == comparable(session.table("t").toArrow())
