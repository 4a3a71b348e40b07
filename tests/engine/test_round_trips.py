"""The number of sequential calls for which a statement on an object store waits. Concurrent calls count once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.catalog.directory import DirectoryCatalog
from tests.support.latency import DistantStorage, RoundTrips

MERGE = """MERGE INTO t USING (SELECT {0} AS id, 'new' AS name UNION ALL SELECT {1}, 'old') s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT *"""
DELTA = "USING delta TBLPROPERTIES ('rowmerge.write.mode' = 'merge-on-read')"
ICEBERG = "USING iceberg TBLPROPERTIES ('write.merge.mode' = 'merge-on-read', 'write.delete.mode' = 'merge-on-read')"


@pytest.fixture
def trips() -> RoundTrips:
    return RoundTrips(0.06)  # long enough that concurrent requests overlap even on a busy machine


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path, trips: RoundTrips) -> rowmerge.Session:
    catalog = DirectoryCatalog(DistantStorage(str(tmp_path / "warehouse"), trips=trips))
    return rowmerge.Session(catalog, spark, "default", "delta", owns_spark=False)


def waits(session: rowmerge.Session, trips: RoundTrips, statement: str) -> int:
    trips.forget()
    session.execute(statement)
    return trips.in_sequence


def fewest_waits(session: rowmerge.Session, trips: RoundTrips, *statements: str) -> int:
    """Return the fewest calls for which one of the statements waits. A busy machine can separate calls that are concurrent otherwise."""
    return min(waits(session, trips, statement) for statement in statements)


# A MERGE into a Delta table resolves the name and lists new commits at the same time. Then it puts deletion vectors, puts the commit, and
# verifies it. A MERGE into an Iceberg table in a folder resolves the name and lists new metadata at the same time. Then it reads the
# existing delete files, puts the files of the snapshot, puts the metadata, and verifies it. Local files have no ETag, so that each of the
# three comparisons of metadata can take one more call than on S3.
@pytest.mark.parametrize(("table", "merge", "select"), [(DELTA, 4, 1), (ICEBERG, 6, 1)], ids=["delta", "iceberg"])
def test_statements_on_an_open_table_wait_for_few_round_trips(
    session: rowmerge.Session, trips: RoundTrips, table: str, merge: int, select: int
) -> None:
    session.execute(f"CREATE TABLE t (id INT, name STRING) {table}")
    session.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e')")
    session.execute(MERGE.format(1, 6))
    assert fewest_waits(session, trips, *(MERGE.format(id_ - 5, id_) for id_ in (7, 8, 9))) <= merge, trips.names
    assert fewest_waits(session, trips, *["SELECT id FROM t"] * 3) <= select, trips.names
    assert sorted(row["id"] for row in session.sql("SELECT id FROM t").collect()) == list(range(1, 10))


def test_a_table_is_opened_and_merged_into_in_few_round_trips(session: rowmerge.Session, trips: RoundTrips, spark: SparkSession) -> None:
    session.execute(f"CREATE TABLE t (id INT, name STRING) {DELTA}")
    for id_ in range(5):
        session.execute(f"INSERT INTO t VALUES ({id_}, 'a')")
    storage = session._catalog._storage  # type: ignore[attr-defined]
    others = [rowmerge.Session(DirectoryCatalog(storage), spark, "default", "delta", owns_spark=False) for _ in range(3)]
    # One more round trip reads the hint, and one reads all commits concurrently.
    assert min(waits(other, trips, MERGE.format(1, 9)) for other in others) <= 7, trips.names
