"""The change data feed as others see it: what we write, delta-rs reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import rowmerge

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
    for version, (text, wanted) in enumerate(SCRIPT[:-1], start=1):
        assert sorted((row["id"], row["_change_type"]) for row in rows if row["_commit_version"] == version) == wanted, text
    (before,) = [row for row in rows if row["_change_type"] == "update_preimage" and row["id"] == 1]
    (after,) = [row for row in rows if row["_change_type"] == "update_postimage" and row["id"] == 1]
    assert (before["p"], after["p"]) == ("a", "c")


def test_a_statement_that_fails_leaves_no_change_rows(session: rowmerge.Session) -> None:
    session.sql("create table t (id int) tblproperties ('delta.enableChangeDataFeed' = 'true')")
    session.sql("insert into t values (1), (2)")
    with pytest.raises(rowmerge.errors.MultipleSourceRowsMatch):
        session.sql("merge into t using (values (1), (1)) s (id) on t.id = s.id when matched then update set id = s.id + 10")
    assert not list((Path(location(session, "t")) / "_change_data").rglob("*.parquet"))
