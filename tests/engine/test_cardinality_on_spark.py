"""The setting spark.rowmerge.merge.cardinality makes a MERGE fail and succeed as on Delta Lake and Iceberg on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import MultipleSourceRowsMatch
from tests.engine.jvm_peer import DELTA_JARS, ICEBERG_JAR, JvmPeer, delta_on_spark, iceberg_on_spark

SETTING = "spark.rowmerge.merge.cardinality"
TWICE, TWICE_AND_NEW = "(1, 10), (1, -1)", "(1, 10), (1, -1), (3, 1), (3, 1)"
MERGES = [
    (TWICE, "when matched then update set n = s.n"),
    (TWICE, "when matched and s.n > 0 then update set n = s.n"),
    (TWICE, "when matched and s.n > 50 then update set n = s.n"),
    (TWICE, "when matched and t.n > 1 then update set n = s.n"),
    (TWICE, "when matched and s.n > 0 then update set n = s.n when matched and s.n < -5 then delete"),
    (TWICE, "when matched and s.n > 0 then update set n = s.n when not matched by source then delete"),
    (TWICE, "when matched and s.n > 0 then delete"),
    (TWICE, "when matched and s.n > 5 then delete when matched then delete"),
    (TWICE_AND_NEW, "when matched then delete"),
    (TWICE_AND_NEW, "when matched then delete when not matched then insert *"),
    (TWICE_AND_NEW, "when matched then delete when not matched by source then update set n = 0"),
    (TWICE_AND_NEW, "when not matched then insert *"),
    ("(1, 5), (2, -5), (3, 1), (3, 1)", "when matched and s.n > 0 then update set n = s.n when not matched then insert *"),
]
UNMATCHED_ONLY = (TWICE_AND_NEW, "when not matched then insert * when not matched by source then delete")


@pytest.fixture(scope="module")
def delta() -> Iterator[JvmPeer]:
    if not DELTA_JARS:
        pytest.skip("ROWMERGE_DELTA_JARS names no folder with the jars of Delta Lake on Spark")
    peer = delta_on_spark()
    yield peer
    peer.close()


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cardinality") / "warehouse"


@pytest.fixture(scope="module")
def iceberg(warehouse: Path) -> Iterator[JvmPeer]:
    if not ICEBERG_JAR:
        pytest.skip("ROWMERGE_ICEBERG_JAR names no jar of Iceberg's Spark runtime")
    peer = iceberg_on_spark(warehouse)
    yield peer
    peer.close()


@pytest.fixture
def session(spark: SparkSession, warehouse: Path) -> Iterator[rowmerge.Session]:
    yield rowmerge.connect(str(warehouse), spark=spark)
    spark.conf.unset(SETTING)


def create(session: rowmerge.Session, name: str, format_: str) -> str:
    """Create a table of two rows in one file, and return its location."""
    session.sql(f"create or replace table {name} (id int, n int) using {format_}")
    session.sql(f"insert into {name} values (1, 1), (2, 7)")
    return str(session.sql(f"describe detail {name}").collect()[0]["location"]).removeprefix("file://")


def succeeds_on_spark(peer: JvmPeer, statement: str, error: str) -> bool:
    try:
        peer.sql(statement)
    except AssertionError as failure:
        if error not in str(failure):
            raise
        return False
    return True


def succeeds_here(session: rowmerge.Session, statement: str) -> bool:
    try:
        session.sql(statement)
    except MultipleSourceRowsMatch:
        return False
    return True


def rows(session: rowmerge.Session, name: str) -> list[tuple[int, int]]:
    return sorted((row["id"], row["n"]) for row in session.sql(f"select * from {name}").collect())


def test_merges_fail_as_in_delta_lake_on_spark(session: rowmerge.Session, delta: JvmPeer) -> None:
    session.spark.conf.set(SETTING, "delta")
    for number, (source, clauses) in enumerate([*MERGES, UNMATCHED_ONLY]):
        create(session, f"ours_{number}", "delta")
        location = create(session, f"theirs_{number}", "delta")
        merge = f"t using (select * from values {source} as v(id, n)) s on t.id = s.id {clauses}"
        is_accepted = succeeds_on_spark(
            delta, f"merge into delta.`{location}` {merge}", "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
        )
        assert (succeeds_here(session, f"merge into ours_{number} {merge}"), merge) == (is_accepted, merge)
        assert rows(session, f"ours_{number}") == rows(session, f"theirs_{number}")


def test_merges_fail_as_in_iceberg_on_spark(session: rowmerge.Session, iceberg: JvmPeer) -> None:
    """Without WHEN MATCHED, Iceberg checks nothing, but it copies a row that matches twice. We do not copy it."""
    session.spark.conf.set(SETTING, "iceberg")
    for number, (source, clauses) in enumerate(MERGES):
        create(session, f"iceberg_ours_{number}", "iceberg")
        create(session, f"iceberg_theirs_{number}", "iceberg")
        merge = f"t using (select * from values {source} as v(id, n)) s on t.id = s.id {clauses}"
        is_accepted = succeeds_on_spark(iceberg, f"merge into default.iceberg_theirs_{number} {merge}", "MERGE_CARDINALITY_VIOLATION")
        assert (succeeds_here(session, f"merge into iceberg_ours_{number} {merge}"), merge) == (is_accepted, merge)
        assert rows(session, f"iceberg_ours_{number}") == rows(session, f"iceberg_theirs_{number}")
    create(session, "iceberg_unmatched", "iceberg")
    source, clauses = UNMATCHED_ONLY
    session.sql(f"merge into iceberg_unmatched t using (select * from values {source} as v(id, n)) s on t.id = s.id {clauses}")
    assert rows(session, "iceberg_unmatched") == [(1, 1), (3, 1), (3, 1)]
