"""A DELETE of whole files reads only the log: it succeeds even if these files do not exist, and the history shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rowmerge

pytestmark = pytest.mark.one_of("mode")


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_whole_partitions_are_deleted_without_reading_them(session: rowmerge.Session, mode: str) -> None:
    session.sql(f"create table t (id int, p string) partitioned by (p) tblproperties ('rowmerge.write.mode' = '{mode}')")
    session.sql("insert into t values (1, 'a'), (2, 'a'), (3, 'b'), (4, null)")
    remove_data_files(session, "p=a")
    assert session.sql("delete from t where p = 'a'").collect()[0][0] == 2
    commit = newest(session)
    assert commit["operation"] == "DELETE"
    metrics = commit["operationMetrics"]
    assert {name: metrics[name] for name in ("numDeletedRows", "numRemovedFiles", "numAddedFiles", "numCopiedRows")} == {
        "numDeletedRows": "2",
        "numRemovedFiles": "1",
        "numAddedFiles": "0",
        "numCopiedRows": "0",
    }
    assert [row["id"] for row in session.sql("select id from t order by id").collect()] == [3, 4]


def test_all_rows_are_deleted_without_reading_them(session: rowmerge.Session) -> None:
    session.sql("create table t (id int)")
    session.sql("insert into t values (1), (2)")
    remove_data_files(session, "")
    assert session.sql("delete from t").collect()[0][0] == 2
    assert newest(session)["operationMetrics"]["numRemovedFiles"] == "1"


def test_a_statement_without_changes_writes_no_version(session: rowmerge.Session) -> None:
    session.sql("create table t (id int)")
    session.sql("insert into t values (1)")
    session.sql("delete from t where id = 7")
    session.sql("update t set id = 8 where id = 7")
    session.sql("merge into t using (values (7)) s (id) on t.id = s.id when matched then delete")
    assert newest(session)["version"] == 1


def newest(session: rowmerge.Session) -> Any:
    return session.sql("describe history t").collect()[0]


def remove_data_files(session: rowmerge.Session, folder: str) -> None:
    location = session.describe("default", "t").location.removeprefix("file://")
    data_files = list((Path(location) / folder).glob("*.parquet"))
    assert data_files
    for path in data_files:
        path.unlink()
