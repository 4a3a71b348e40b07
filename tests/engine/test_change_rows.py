"""delta-rs reads the change data feed that the engine writes."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import rowmerge

pytestmark = pytest.mark.one_of("mode")

MODES = ("copy-on-write", "merge-on-read")
SCRIPT = [
    ("insert into t values (1, 'a', 'x'), (2, 'a', 'y'), (3, 'b', 'z')", [(1, "insert"), (2, "insert"), (3, "insert")]),
    ("update t set p = 'c' where id = 1", [(1, "update_postimage"), (1, "update_preimage")]),
    ("delete from t where id = 2", [(2, "delete")]),
    (
        "merge into t using (values (3, 'b', 'm'), (4, 'd', 'n')) s (id, p, v) on t.id = s.id "
        "when matched then update set * when not matched then insert *",
        [(3, "update_postimage"), (3, "update_preimage"), (4, "insert")],
    ),
    ("delete from t where p = 'c'", [(1, "delete")]),
    ("insert into t replace using (id) values (3, 'b', 'r'), (5, 'b', 'r')", [(3, "delete"), (3, "insert"), (5, "insert")]),
    ("insert into t values (6, 'b', 's'), (6, 'b', 't')", [(6, "insert"), (6, "insert")]),
    (
        "merge into t using (values (6), (6), (7)) s (id) on t.id = s.id when matched then delete "
        "when not matched then insert (id) values (s.id)",
        [(6, "delete"), (6, "delete"), (7, "insert")],
    ),
    ("insert overwrite t values (8, 'a', 'o')", [(3, "delete"), (4, "delete"), (5, "delete"), (7, "delete"), (8, "insert")]),
]


def location(session: rowmerge.Session, name: str) -> str:
    return session.describe("default", name).location.removeprefix("file://")


def load_cdf(session: rowmerge.Session, name: str, start: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.table(deltalake.DeltaTable(location(session, name)).load_cdf(start)).to_pylist()
    return rows


@pytest.mark.parametrize("mode", MODES)
def test_delta_rs_reads_the_change_rows_of_every_statement(session: rowmerge.Session, mode: str) -> None:
    keeps = f"'delta.enableChangeDataFeed' = 'true', 'rowmerge.write.mode' = '{mode}'"
    session.sql(f"create table t (id int, p string, v string) partitioned by (p) tblproperties ({keeps})")
    for text, _ in SCRIPT[:-1]:
        session.sql(text)
    rows = load_cdf(session, "t", 0)
    for version, (text, expected_changes) in enumerate(SCRIPT[:-1], start=1):
        assert sorted((row["id"], row["_change_type"]) for row in rows if row["_commit_version"] == version) == expected_changes, text
    (old_row,) = [row for row in rows if row["_change_type"] == "update_preimage" and row["id"] == 1]
    (new_row,) = [row for row in rows if row["_change_type"] == "update_postimage" and row["id"] == 1]
    assert (old_row["p"], new_row["p"]) == ("a", "c")


def test_a_statement_that_fails_leaves_no_change_rows(session: rowmerge.Session) -> None:
    session.sql("create table t (id int) tblproperties ('delta.enableChangeDataFeed' = 'true')")
    session.sql("insert into t values (1), (2)")
    with pytest.raises(rowmerge.errors.MultipleSourceRowsMatch):
        session.sql("merge into t using (values (1), (1)) s (id) on t.id = s.id when matched then update set id = s.id + 10")
    assert not list((Path(location(session, "t")) / "_change_data").rglob("*.parquet"))


def changes(session: rowmerge.Session, name: str, start: int = 0) -> list[str]:
    return comparable(session.sql(f"select * from table_changes('{name}', {start})").toArrow().to_pylist())


def comparable(rows: list[dict[str, Any]]) -> list[str]:
    """Return sorted rows as strings without the commit time: delta-rs reads it from the commit, we from the file (as in the protocol)."""
    return sorted(repr({name: row[name] for name in sorted(row) if name != "_commit_timestamp"}) for row in rows)


@pytest.mark.parametrize("mode", MODES)
def test_delta_rs_reads_the_same_change_rows_as_the_engine(session: rowmerge.Session, mode: str) -> None:
    keeps = f"'delta.enableChangeDataFeed' = 'true', 'rowmerge.write.mode' = '{mode}'"
    session.sql(f"create table t (id int, p string, v string) partitioned by (p) tblproperties ({keeps})")
    for text, _ in SCRIPT if mode == "copy-on-write" else SCRIPT[:-1]:
        session.sql(text)
    assert changes(session, "t") == comparable(load_cdf(session, "t", 0))


def test_the_change_rows_that_delta_rs_wrote_are_read(session: rowmerge.Session, tmp_path: Path) -> None:
    folder = str(tmp_path / "theirs")
    rows = pa.table({"id": [1, 2, 3], "p": ["a", "a", "b"], "v": ["x", "y", None]})
    deltalake.write_deltalake(folder, rows, partition_by=["p"], configuration={"delta.enableChangeDataFeed": "true"})
    delta_rs_table = deltalake.DeltaTable(folder)
    delta_rs_table.update(predicate="id = 1", updates={"v": "'new'"})
    delta_rs_table.delete("id = 2")
    source = pa.table({"id": [3, 4], "p": ["a", "c"], "v": ["m", "n"]})
    merge = delta_rs_table.merge(source, predicate="t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    deltalake.write_deltalake(folder, rows.slice(0, 1), mode="overwrite")
    session.sql(f"create table theirs location '{folder}'")
    assert changes(session, "theirs") == comparable(load_cdf(session, "theirs", 0))
    session.sql("update theirs set v = 'ours' where id = 1")
    assert changes(session, "theirs", 5) == comparable(load_cdf(session, "theirs", 5))


def test_table_changes_has_a_python_method(session: rowmerge.Session) -> None:
    session.sql("create table t (id int) tblproperties ('delta.enableChangeDataFeed' = 'true')")
    session.sql("insert into t values (1)")
    (row,) = session.table_changes("`default`.t", 1).collect()
    at: datetime = row["_commit_timestamp"]
    session.sql("insert into t values (2)")
    assert [row["id"] for row in session.table_changes("t", at, at).collect()] == [1]
    assert sorted(row["id"] for row in session.table_changes("t", at.isoformat()).collect()) == [1, 2]
    with pytest.raises(rowmerge.errors.VersionNotFound, match="begin"):
        session.table_changes("t", at + timedelta(days=1))
