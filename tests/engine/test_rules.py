"""Constraints, defaults and generated columns with other engines, and under concurrent changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import rowmerge
from rowmerge.errors import ConstraintViolated, UnsupportedTableFeature
from rowmerge.session.definitions import alterations

pytestmark = pytest.mark.one_of("mode")

COPY_ON_WRITE = "tblproperties ('rowmerge.write.mode' = 'copy-on-write')"
INVARIANT = json.dumps({"expression": {"expression": "id > 0"}})


def folder_of(session: rowmerge.Session, table: str = "t") -> Path:
    return Path(session.describe("default", table).location.removeprefix("file://"))


def made_by_hand(folder: Path, protocol: dict[str, Any], id_metadata: dict[str, Any], **configuration: str) -> None:
    """Write an empty table of `id long, twice long` as another engine could write it."""
    fields = [
        {"name": "id", "type": "long", "nullable": True, "metadata": id_metadata},
        {"name": "twice", "type": "long", "nullable": True, "metadata": {"delta.generationExpression": "id * 2"}},
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    described = {"format": {"provider": "parquet", "options": {}}, "partitionColumns": [], "configuration": configuration}
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    actions = [{"protocol": protocol}, {"metaData": {"id": "x", "schemaString": schema, "createdTime": 0, **described}}]
    (log / f"{0:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def protocols(folder: Path) -> list[dict[str, Any]]:
    """Return all protocol actions of a table's log."""
    lines = [line for path in sorted((folder / "_delta_log").glob("*.json")) for line in path.read_text().splitlines()]
    return [action["protocol"] for action in map(json.loads, lines) if "protocol" in action]


@pytest.mark.parametrize(
    ("protocol", "metadata", "configuration", "constraint"),
    [
        ({"minReaderVersion": 1, "minWriterVersion": 2}, {"delta.invariants": INVARIANT}, {}, "(id > 0), an invariant of column `id`"),
        ({"minReaderVersion": 1, "minWriterVersion": 3}, {}, {"delta.constraints.Pos": "id > 0"}, "Pos CHECK (id > 0)"),
        ({"minReaderVersion": 1, "minWriterVersion": 6}, {}, {"delta.constraints.pos": "id > 0"}, "pos CHECK (id > 0)"),
        (
            {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["invariants", "generatedColumns"]},
            {"delta.invariants": INVARIANT},
            {},
            "(id > 0), an invariant of column `id`",
        ),
    ],
)
def test_constraints_of_every_protocol_are_enforced_without_an_upgrade(
    session: rowmerge.Session,
    tmp_path: Path,
    protocol: dict[str, Any],
    metadata: dict[str, Any],
    configuration: dict[str, str],
    constraint: str,
) -> None:
    made_by_hand(tmp_path / "t", protocol, metadata, **configuration)
    session.sql(f"create table t using delta location '{tmp_path / 't'}'")
    generates = protocol["minWriterVersion"] >= 4
    session.sql("insert into t (id) values (1), (2)")
    session.sql("insert into t (id) values (3)")
    session.sql("delete from t where id = 2")
    for statement in (
        "insert into t (id) values (-1)",
        "update t set id = -id",
        "merge into t using (values (1)) s (id) on t.id = s.id when matched then update set id = 0",
    ):
        with pytest.raises(ConstraintViolated) as caught:
            session.sql(statement)
        assert caught.value.constraint == constraint
    twice = [2, 6] if generates else [None, None]
    assert session.sql("select * from t order by id").collect() == [(1, twice[0]), (3, twice[1])]
    assert protocols(tmp_path / "t") == [protocol]


def test_a_constraint_of_delta_rs_is_enforced(session: rowmerge.Session, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    deltalake.write_deltalake(place, pa.table({"id": [1, 2]}))
    deltalake.DeltaTable(place).alter.add_constraint({"positive": "id > 0"})
    session.sql(f"create table t using delta location '{place}'")
    with pytest.raises(ConstraintViolated, match=r"positive CHECK \(id > 0\)"):
        session.sql("insert into t values (0)")
    session.sql("insert into t values (3)")
    assert session.table("t").count() == 3


@pytest.mark.parametrize(
    ("definition", "good", "bad"),
    [
        ("id int, v string, constraint positive check (id > 0)", {"id": 1, "v": "a"}, {"id": -1, "v": "a"}),
        ("id int not null, v string", {"id": 1, "v": "a"}, {"id": None, "v": "a"}),
        ("id int, twice int generated always as (id * 2)", {"id": 1, "twice": 2}, {"id": 1, "twice": 3}),
    ],
)
def test_delta_rs_enforces_our_constraints(session: rowmerge.Session, definition: str, good: dict[str, Any], bad: dict[str, Any]) -> None:
    session.sql(f"create table t ({definition}) using delta {COPY_ON_WRITE}")
    place = str(folder_of(session))
    names = [field.name for field in session.table("t").schema]

    def rows(values: dict[str, Any]) -> pa.Table:
        kinds = {"id": pa.int32(), "twice": pa.int32(), "v": pa.string()}
        return pa.table({name: pa.array([values[name]], kinds[name]) for name in names})

    deltalake.write_deltalake(place, rows(good), mode="append")
    with pytest.raises(Exception, match="rows failed validation check"):
        deltalake.write_deltalake(place, rows(bad), mode="append")
    assert [row.asDict() for row in session.table("t").collect()] == [good]


def test_delta_rs_reads_the_constraint_and_the_generated_column(session: rowmerge.Session) -> None:
    session.sql("create table t (id int default 7, twice int generated always as (id * 2), check (id > 0)) using delta")
    table = deltalake.DeltaTable(str(folder_of(session)))
    (name,) = [key for key in table.metadata().configuration if key.startswith("delta.constraints.")]
    assert table.metadata().configuration[name] == "id > 0"
    assert name.startswith("delta.constraints.t_chk_")
    fields = {field.name: field.metadata for field in table.schema().fields}
    assert fields == {"id": {"CURRENT_DEFAULT": "7"}, "twice": {"delta.generationExpression": "id * 2"}}
    assert {"checkConstraints", "generatedColumns", "allowColumnDefaults"} <= set(table.protocol().writer_features or [])


def test_identity_columns_are_read_and_not_written(session: rowmerge.Session, tmp_path: Path) -> None:
    identity = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}
    made_by_hand(tmp_path / "t", {"minReaderVersion": 1, "minWriterVersion": 6}, identity)
    session.sql(f"create table t using delta location '{tmp_path / 't'}'")
    assert session.table("t").count() == 0
    with pytest.raises(UnsupportedTableFeature, match="identityColumns") as caught:
        session.sql("insert into t values (1, 2)")
    assert "id" in caught.value.message


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_violated_constraint_leaves_no_file_and_no_version(session: rowmerge.Session, mode: str) -> None:
    properties = f"tblproperties ('rowmerge.write.mode' = '{mode}')"
    session.sql(f"create table t (id int, p int, check (id > 0)) using delta partitioned by (p) {properties}")
    session.sql("insert into t select id + 1, id % 2 from range(100)")

    def files() -> list[Path]:
        return sorted(path for path in folder_of(session).rglob("*") if path.is_file())

    old_files = files()
    for statement in (
        "insert into t select 50 - id, id % 5 from range(100)",
        "insert into t select 99 - id, 3 from range(0, 100, 1, 10)",
        "insert overwrite t select 50 - id, 1 from range(100)",
        "update t set id = id - 50",
        "merge into t using (select id - 50 as id, 1 as p from range(100)) s on t.id = s.id when matched then update set p = 7 "
        "when not matched then insert *",
    ):
        with pytest.raises(ConstraintViolated):
            session.sql(statement)
        assert files() == old_files


def test_rows_of_a_frame_get_default_and_generated_values(session: rowmerge.Session) -> None:
    session.sql("create table t (id int, v string default 'none', twice int generated always as (id * 2), check (id < 10)) using delta")
    session.write(pa.table({"id": pa.array([1, 2], pa.int32())}), "t")
    session.write(pa.table({"twice": pa.array([6], pa.int32()), "id": pa.array([3], pa.int32())}), "t")
    with pytest.raises(ConstraintViolated, match=r"id < 10"):
        session.write(pa.table({"id": pa.array([11], pa.int32())}), "t")
    with pytest.raises(ConstraintViolated, match="GENERATED"):
        session.write(pa.table({"twice": pa.array([7], pa.int32()), "id": pa.array([3], pa.int32())}), "t", mode="overwrite")
    assert session.sql("select * from t order by id").collect() == [(1, "none", 2), (2, "none", 4), (3, "none", 6)]


def test_describe_extended_and_explain_print_the_constraints(session: rowmerge.Session) -> None:
    columns = "id int not null default 1, twice int generated always as (id * 2), constraint small check (id < 10)"
    session.sql(f"create table t ({columns}) using delta")
    description = [tuple(row) for row in session.sql("describe extended t").collect()]
    headings = ("# Column Default Values", "# Generated Columns", "# Constraints")
    sections = {heading: description[description.index((heading, "", "")) + 1 :] for heading in headings}
    assert sections["# Column Default Values"][0] == ("id", "int", "1")
    assert sections["# Generated Columns"][0] == ("twice", "int", "GENERATED ALWAYS AS (id * 2)")
    assert sections["# Constraints"][:2] == [("", "NOT NULL of column `id`", ""), ("small", "CHECK (id < 10)", "")]
    plan = session.sql("explain update t set id = default").collect()[0][0]
    assert "SET id = 1" in plan
    assert "  generated twice = id * 2\n" in plan
    assert "checks of every written row: NOT NULL of column `id`, small CHECK (id < 10)" in plan


def test_a_concurrent_insert_is_checked_against_a_new_constraint(session: rowmerge.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.sql("create table t (id int) using delta")
    session.sql("insert into t values (1)")
    checked, late = alterations.check_existing, ["insert into t values (-1)"]

    def slow(*arguments: Any) -> None:
        checked(*arguments)
        if late:
            session.sql(late.pop())

    monkeypatch.setattr(alterations, "check_existing", slow)
    with pytest.raises(ConstraintViolated, match=r"1 row\(s\) of default.t .*id = -1"):
        session.sql("alter table t add constraint positive check (id > 0)")
    session.sql("delete from t where id < 0")
    session.sql("alter table t add constraint positive check (id > 0)")
    assert session.sql("show tblproperties t ('delta.constraints.positive')").collect()[0][1] == "id > 0"
