"""Engines that read Parquet files through symlink manifests read the rows of the table after each statement."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import pytest

import rowmerge

PROPERTY = "'delta.compatibility.symlinkFormatManifest.enabled' = 'true'"


def rows_through_manifests(folder: Path) -> list[tuple[Any, ...]]:
    """Return the rows (id, v, p, d) of the files in the manifests of a table, with partition values from the manifests' folders."""
    result: list[tuple[Any, ...]] = []
    for manifest in (folder / "_symlink_format_manifest").rglob("manifest"):
        names = manifest.parent.relative_to(folder / "_symlink_format_manifest").parts
        partition = [None if "__HIVE_DEFAULT" in name else unquote(name.partition("=")[2]) for name in names]
        paths = [path.removeprefix("file://") for path in manifest.read_text().splitlines()]
        query = "select id, v from read_parquet(?, hive_partitioning = false)"
        result += [(*row, *partition) for row in duckdb.execute(query, [paths]).fetchall()]
    return sorted(result, key=str)


def rows_of_table(session: rowmerge.Session) -> list[tuple[Any, ...]]:
    rows = [tuple(row) for row in session.sql("select id, v, p, d from t").collect()]
    return sorted(((*row[:3], row[3].isoformat() if isinstance(row[3], datetime.date) else None) for row in rows), key=str)


def folder_of(session: rowmerge.Session, name: str) -> Path:
    return Path(session.describe("default", name).location.removeprefix("file://"))


@pytest.mark.parametrize("more", ["", ", 'delta.randomizeFilePrefixes' = 'true'"], ids=["Hive folders", "random folders"])
def test_manifests_follow_every_statement(session: rowmerge.Session, more: str, caplog: pytest.LogCaptureFixture) -> None:
    session.sql(
        f"create table t (id bigint, v string, p string, d date) using delta partitioned by (p, d) tblproperties ({PROPERTY}{more})"
    )
    session.sql("insert into t select id, 'a', if(id % 3 = 0, null, concat('b/', id % 3)), date'2024-01-01' from range(12)")
    folder = folder_of(session, "t")
    for statement in (
        "update t set v = 'u' where id = 1",
        "delete from t where id in (2, 4)",
        "merge into t using (select 5L as id, 'm' as v, 'neu ü' as p, null as d union all select 50L, 'n', 'b/1', null) s on t.id = s.id "
        "when matched then update set * when not matched then insert *",
        "delete from t where p = 'b/2'",
        "optimize t",
        "restore table t to version as of 2",
        "truncate table t",
    ):
        session.sql(statement)
        assert rows_through_manifests(folder) == rows_of_table(session), statement
    assert not list(folder.rglob("*.bin"))
    assert not caplog.records


def test_a_clone_has_manifests_of_the_files_of_its_source(session: rowmerge.Session) -> None:
    session.sql(f"create table t (id bigint, v string, p string, d date) using delta partitioned by (p, d) tblproperties ({PROPERTY})")
    session.sql("insert into t values (1, 'a', 'x', date'2024-01-01')")
    session.sql("create table c shallow clone t")
    assert rows_through_manifests(folder_of(session, "c")) == rows_through_manifests(folder_of(session, "t")) == rows_of_table(session)
