"""Interoperability with delta-rs and DuckDB: each reads tables that the other wrote."""

from __future__ import annotations

import datetime
from decimal import Decimal as Number
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from rowmerge.delta import DeltaTable
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.metadata.partitioning import identities
from rowmerge.table.metadata.schema import Array, Decimal, Field, Map, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges, Positions
from tests.support.delta_tables import Lake, committed, live_rows
from tests.support.readers import read_with_delta_rs, read_with_duckdb, rows_of

UTC = datetime.timezone.utc
ALL_TYPES = Struct(
    (
        Field("id", Primitive("long"), nullable=False),
        Field("i", Primitive("integer")),
        Field("s", Primitive("short")),
        Field("b", Primitive("byte")),
        Field("f", Primitive("float")),
        Field("d", Primitive("double")),
        Field("flag", Primitive("boolean")),
        Field("name", Primitive("string"), metadata={"comment": "who"}),
        Field("raw", Primitive("binary")),
        Field("day", Primitive("date")),
        Field("at", Primitive("timestamp")),
        Field("price", Decimal(20, 4)),
        Field("tags", Array(Primitive("string"))),
        Field("counts", Map(Primitive("string"), Primitive("long"))),
        Field("inner", Struct((Field("x", Primitive("long")), Field("y", Primitive("string"))))),
    )
)


def all_types(ids: range) -> pa.Table:
    def column(make: Any) -> list[Any]:
        return [None if i % 7 == 3 else make(i) for i in ids]

    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "i": pa.array(column(lambda i: i), pa.int32()),
            "s": pa.array(column(lambda i: i % 100), pa.int16()),
            "b": pa.array(column(lambda i: i % 100), pa.int8()),
            "f": pa.array(column(lambda i: i / 4), pa.float32()),
            "d": pa.array(column(lambda i: i / 3), pa.float64()),
            "flag": pa.array(column(lambda i: i % 2 == 0), pa.bool_()),
            "name": pa.array(column(lambda i: f"né{i}" * 12), pa.string()),
            "raw": pa.array(column(lambda i: bytes([i % 256])), pa.binary()),
            "day": pa.array(column(lambda i: datetime.date(2024, 1, 1) + datetime.timedelta(days=i)), pa.date32()),
            "at": pa.array(column(lambda i: datetime.datetime(2024, 1, 1, microsecond=i, tzinfo=UTC)), pa.timestamp("us", tz="UTC")),
            "price": pa.array(column(lambda i: Number(i) / 16), pa.decimal128(20, 4)),
            "tags": pa.array(column(lambda i: [str(i), None]), pa.list_(pa.string())),
            "counts": pa.array(column(lambda i: [("a", i)]), pa.map_(pa.string(), pa.int64())),
            "inner": pa.array(column(lambda i: {"x": i, "y": None}), pa.struct([("x", pa.int64()), ("y", pa.string())])),
        }
    )


def current_snapshot(location: Path) -> DeltaSnapshot:
    return DeltaTable(Storage(str(location)), "t").snapshot()


def rows(*ids: int, part: str | None = None) -> pa.Table:
    columns = {"id": pa.array(ids, pa.int64()), "name": pa.array([f"n{i}" for i in ids])}
    return pa.table(columns if part is None else {**columns, "part": pa.array([part] * len(ids))})


def ids(snapshot: DeltaSnapshot) -> list[int]:
    return sorted(live_rows(snapshot)["id"].to_pylist())


# ------------------------------------------------------------------ rowmerge tables, read by delta-rs and DuckDB


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_other_readers_read_a_table_of_all_types(tmp_path: Path, mode: str) -> None:
    lake = Lake(tmp_path, ALL_TYPES)
    files = [lake.write(all_types(range(start, start + 50))) for start in (0, 50)]
    committed(lake.create(*files, properties={"rowmerge.write.mode": mode}))
    if mode == "merge-on-read":
        committed(lake.commit("DELETE", deleted={files[0].path: Positions(range(10)), files[1].path: Positions([49])}))
    expected = rows_of(live_rows(lake.table.snapshot()).sort_by("id"))
    assert len(expected) == (89 if mode == "merge-on-read" else 100)
    assert rows_of(read_with_delta_rs(str(tmp_path), "id")) == expected
    assert [row[:-2] for row in rows_of(read_with_duckdb(str(tmp_path), "id"))] == [row[:-2] for row in expected]


def test_a_copy_on_write_table_has_a_legacy_protocol_for_delta_rs(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    committed(lake.create(lake.file([1, 2]), properties={"rowmerge.write.mode": "copy-on-write"}))
    table = deltalake.DeltaTable(str(tmp_path))
    assert table.to_pyarrow_table().sort_by("id")["id"].to_pylist() == [1, 2]
    assert (table.protocol().min_reader_version, table.protocol().min_writer_version) == (1, 2)


def test_other_readers_read_odd_partition_values(tmp_path: Path) -> None:
    schema = Struct((Field("id", Primitive("long")), Field("name", Primitive("string")), Field("part", Primitive("string"))))
    lake = Lake(tmp_path / "a table", schema, ("part",))
    values = ["A/A", "ü b", "100%", "a:b", "x=1&y", "#?[]", None]
    folders = ["A%2FA", "ü b", "100%25", "a%3Ab", "x%3D1&y", "%23%3F%5B%5D", "__HIVE_DEFAULT_PARTITION__"]
    files = [lake.file([n], f"part={folder}", {"part": value}) for n, (value, folder) in enumerate(zip(values, folders, strict=True))]
    committed(lake.create(*files))
    expected = [(n, f"n{n}", value) for n, value in enumerate(values)]
    assert rows_of(read_with_delta_rs(str(lake.folder), "id")) == expected
    assert rows_of(read_with_duckdb(str(lake.folder), "id")) == expected


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (Primitive("date"), [datetime.date(2024, 2, 29), None]),
        (
            Primitive("timestamp"),
            [datetime.datetime(2024, 1, 1, 12, 0, 0, 123456, tzinfo=UTC), datetime.datetime(1969, 12, 31, tzinfo=UTC)],
        ),
        (Primitive("timestamp_ntz"), [datetime.datetime(2024, 1, 1, 12, 0, 0, 123456), None]),
        (Decimal(10, 2), [Number("1.50"), Number("-0.25")]),
        (Primitive("boolean"), [True, False]),
        (Primitive("byte"), [-5, 7]),
    ],
)
def test_other_readers_read_typed_partition_values(tmp_path: Path, type_: Any, values: list[Any]) -> None:
    lake = Lake(tmp_path, Struct((Field("id", Primitive("long")), Field("name", Primitive("string")), Field("part", type_))), ("part",))
    committed(lake.create(*(lake.file([n], f"p{n}", {"part": value}) for n, value in enumerate(values))))
    expected = [(n, f"n{n}", value) for n, value in enumerate(values)]
    assert rows_of(live_rows(lake.table.snapshot()).sort_by("id")) == expected
    assert rows_of(read_with_delta_rs(str(tmp_path), "id")) == expected
    assert rows_of(read_with_duckdb(str(tmp_path), "id")) == expected


def test_delta_rs_reads_file_statistics(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    committed(lake.create(lake.file([1, 2]), lake.file([100, 200])))
    actions = pa.table(deltalake.DeltaTable(str(tmp_path)).get_add_actions(flatten=True)).sort_by("min.id").to_pylist()
    assert [(a["num_records"], a["min.id"], a["max.id"], a["null_count.id"]) for a in actions] == [(2, 1, 2, 0), (2, 100, 200, 0)]


def test_delta_rs_reads_comments_and_properties(tmp_path: Path) -> None:
    table = DeltaTable(Storage(str(tmp_path)), "t")
    definition = TableDefinition(ALL_TYPES, (), {"owner": "me", "delta.appendOnly": "false"}, "what it is")
    committed(table.create(definition, CommitRequest("CREATE TABLE")))
    other = deltalake.DeltaTable(str(tmp_path))
    assert other.metadata().description == "what it is"
    assert other.metadata().configuration["owner"] == "me"
    fields = {field.name: field for field in other.schema().fields}
    assert fields["name"].metadata == {"comment": "who"}
    assert not fields["id"].nullable
    assert other.history()[0]["operation"] == "CREATE TABLE"


def test_other_readers_read_a_replaced_table(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    committed(lake.create(lake.file([1, 2])))
    table_id = lake.table.snapshot().metadata.id
    schema = Struct((Field("id", Primitive("long")), Field("name", Primitive("string")), Field("part", Primitive("string"))))
    replacement = Lake(tmp_path, schema, ("part",))
    change = CommitRequest(
        "CREATE OR REPLACE TABLE AS SELECT",
        files=FileChanges(added=(replacement.file([7], "part=x", {"part": "x"}),)),
        definition=TableDefinition(schema, identities(("part",)), {}, "new"),
        replace=True,
    )
    assert committed(lake.table.commit(lake.table.snapshot(), change)) == 1
    replaced = lake.table.snapshot()
    assert (replaced.metadata.id, replaced.description, replaced.partition_columns) == (table_id, "new", ("part",))
    assert rows_of(read_with_delta_rs(str(tmp_path), "id")) == [(7, "n7", "x")] == rows_of(read_with_duckdb(str(tmp_path), "id"))
    assert rows_of(read_with_delta_rs(str(tmp_path), "id", version=0)) == [(1, "n1"), (2, "n2")]


def test_delta_rs_writes_to_a_rowmerge_table(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    committed(lake.create(lake.file([1, 2]), properties={"rowmerge.write.mode": "copy-on-write"}))
    deltalake.write_deltalake(str(tmp_path), rows(3), mode="append")
    committed(lake.append([4]))
    deltalake.DeltaTable(str(tmp_path)).delete("id = 1")
    assert lake.ids() == [2, 3, 4]


# ------------------------------------------------------------------ delta-rs tables, read by rowmerge


def test_delta_rs_appends_deletes_and_merges_are_read(tmp_path: Path) -> None:
    location = str(tmp_path)
    deltalake.write_deltalake(location, rows(1, 2, 3))
    deltalake.write_deltalake(location, rows(4, 5), mode="append")
    assert ids(current_snapshot(tmp_path)) == [1, 2, 3, 4, 5]
    table = deltalake.DeltaTable(location)
    table.delete("id = 2")
    assert ids(current_snapshot(tmp_path)) == [1, 3, 4, 5]
    merge = table.merge(rows(3, 9), "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_delete().when_not_matched_insert_all().execute()
    assert ids(current_snapshot(tmp_path)) == [1, 4, 5, 9]
    table.optimize.compact()
    assert ids(current_snapshot(tmp_path)) == [1, 4, 5, 9]
    assert [entry.operation for entry in DeltaTable(Storage(location), "t").history()][:2] == ["OPTIMIZE", "MERGE"]


def test_a_partitioned_delta_rs_table_is_read(tmp_path: Path) -> None:
    values = ["A/A", "ü b", "100%", "x=1&y"]
    for n, value in enumerate(values):
        deltalake.write_deltalake(str(tmp_path), rows(n, part=value), mode="append", partition_by=["part"])
    snapshot = current_snapshot(tmp_path)
    assert rows_of(live_rows(snapshot).sort_by("id")) == [(n, f"n{n}", value) for n, value in enumerate(values)]
    assert all(Path(path[len("file://") :]).is_file() for path in snapshot.files().paths)


def test_a_delta_rs_checkpoint_is_read(tmp_path: Path) -> None:
    location = str(tmp_path)
    for n in range(5):
        deltalake.write_deltalake(location, rows(n, part=str(n % 2)), mode="append", partition_by=["part"])
    expected = current_snapshot(tmp_path).files(["id", "name"]).rows.sort_by("path").to_pylist()
    table = deltalake.DeltaTable(location)
    table.create_checkpoint()
    for version in range(5):
        (tmp_path / "_delta_log" / f"{version:020d}.json").unlink()
    snapshot = current_snapshot(tmp_path)
    assert (snapshot.version, snapshot.files(["id", "name"]).rows.sort_by("path").to_pylist()) == (4, expected)


def test_delta_rs_bounds_enclose_all_values(tmp_path: Path) -> None:
    table = all_types(range(100))
    deltalake.write_deltalake(str(tmp_path), table)
    (file,) = current_snapshot(tmp_path).files(table.column_names).rows.to_pylist()
    assert file["records"] == 100
    bounded_columns = set()
    for name, low in file["lower"].items():
        values = [value for value in table[name].to_pylist() if value is not None]
        if low is not None and not isinstance(low, dict):
            bounded_columns.add(name)
            assert low <= min(values), name
        if file["upper"][name] is not None and not isinstance(low, dict):
            assert file["upper"][name] >= max(values), name
    assert bounded_columns >= {"id", "i", "f", "d", "name", "day", "at", "price"}
    assert file["lower"]["inner"]["x"] == 0
    assert file["nulls"]["name"] == table["name"].null_count


def test_rowmerge_writes_to_a_delta_rs_table(tmp_path: Path) -> None:
    deltalake.write_deltalake(str(tmp_path), rows(1, 2, 3))
    lake = Lake(tmp_path)
    snapshot = lake.table.snapshot()
    assert not snapshot.shape.supports_merge_on_read
    (path,) = snapshot.files().paths
    committed(lake.commit("DELETE", removed=(path,), added=(lake.file([1, 3]),)))
    assert rows_of(read_with_delta_rs(str(tmp_path), "id")) == [(1, "n1"), (3, "n3")] == rows_of(read_with_duckdb(str(tmp_path), "id"))


def test_setting_merge_on_read_enables_deletion_vectors_in_a_delta_rs_table(tmp_path: Path) -> None:
    deltalake.write_deltalake(str(tmp_path), rows(1, 2, 3))
    lake = Lake(tmp_path)
    change = CommitRequest("SET TBLPROPERTIES", definition=TableDefinition(properties={"rowmerge.write.mode": "merge-on-read"}))
    committed(lake.table.commit(lake.table.snapshot(), change))
    snapshot = lake.table.snapshot()
    assert snapshot.shape.supports_merge_on_read
    (path,) = snapshot.files().paths
    committed(lake.commit("DELETE", deleted={path: Positions([1])}))
    assert lake.ids() == [1, 3]
    assert rows_of(read_with_delta_rs(str(tmp_path), "id")) == [(1, "n1"), (3, "n3")] == rows_of(read_with_duckdb(str(tmp_path), "id"))
