"""The number of requests that a statement on ten rows sends to S3, counted at the server by caller.

Spark reads data files with hadoop-aws, which PyPI does not have. ROWMERGE_S3_JARS names the folder with its jars. Without them, only
statements that Spark does not read files for are counted.
"""

from __future__ import annotations

import itertools
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.concurrency import wait_for_background
from tests.support.faulty_s3 import FaultyS3, Request, needs_moto, serving
from tests.support.jvm import connectors_of_stores
from tests.support.s3_session import S3Session

pytestmark = needs_moto

LATENCY = 0.05
"""Seconds before each answer to a request that is not Spark's, so that concurrent requests overlap."""
MERGE = """MERGE INTO shop.t USING (SELECT id, CAST(id % 2 AS INT) AS p, 'new' AS name FROM VALUES {0} AS v (id)) s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT *"""
MOST_METADATA = {"delta": 8, "iceberg": 14, "sql": 8}
MOST_IN_SEQUENCE = {"delta": 4, "iceberg": 6, "sql": 6}
MOST_METADATA_AT_FIRST = {"delta": 22, "iceberg": 24, "sql": 8}
MOST_IN_SEQUENCE_AT_FIRST = {"delta": 8, "iceberg": 10, "sql": 6}
"""Those of the first statement of another session of the process, on a table with ten versions and without a checkpoint."""
PAGE = Path(__file__).parents[2] / "docs/operations.md"
MODES = [("delta", "auto"), *((catalog, mode) for catalog in MOST_METADATA for mode in ("merge-on-read", "copy-on-write"))]
CASES = [(catalog, mode, partitioning) for catalog, mode in MODES for partitioning in ("", "PARTITIONED BY (p)")]
TABLES = {"delta": "Delta", "iceberg": "Iceberg in a folder", "sql": "Iceberg in a SQL catalog"}
MOST_PER_DATA_FILE = 3
_OPTIONAL = (".crc", "version-hint.text")


@dataclass
class Counts:
    """The requests of one statement."""

    metadata: int
    in_sequence: int
    per_data_file: int
    data_files: int
    spark: int


@dataclass
class CountingS3(FaultyS3):
    """A proxy that records when the requests begin and end."""

    times: list[tuple[float, float, Request]] = field(default_factory=list)

    def answer(self, request: Request) -> tuple[int, list[tuple[str, str]], bytes] | None:
        start = time.monotonic()
        if not _is_of_spark(request):
            time.sleep(LATENCY)
        try:
            return super().answer(request)
        finally:
            self.times.append((start, time.monotonic(), request))

    def counts(self, ended: float) -> Counts:
        """Return the counts of the requests since the last call. `ended`: when the statement ended, by the monotonic clock."""
        times = sorted(self.times, key=lambda item: item[0])
        self.times.clear()
        own = [item for item in times if not _is_of_spark(item[2])]
        metadata = [item for item in own if not _is_data_file(item[2])]
        by_file = Counter(item[2].path.partition("?")[0] for item in own if _is_data_file(item[2]))
        waited = [item for item in _without_background(metadata) if item[0] < ended]
        return Counts(len(metadata), _in_sequence(waited), max(by_file.values(), default=0), len(by_file), len(times) - len(own))


def _is_of_spark(request: Request) -> bool:
    agent = request.headers.get("user-agent", "").lower()
    return "java" in agent or "hadoop" in agent


def _is_data_file(request: Request) -> bool:
    return ".parquet" in request.path.partition("?")[0] and "/_delta_log/" not in request.path


def _without_background(times: list[tuple[float, float, Request]]) -> list[tuple[float, float, Request]]:
    """Return all but the requests after a commit for which no statement waits: those for the checksum and for the version hint."""
    commits = [
        end
        for _, end, request in times
        if request.method == "PUT" and re.search(r"/(_delta_log/\d+|metadata/v\d+)\S*\.json$", request.path)
    ]
    optional = [start for start, _, request in times if commits and start >= max(commits) and request.path.endswith(_OPTIONAL)]
    return [item for item in times if not optional or item[0] < min(optional)]


def _in_sequence(times: list[tuple[float, float, Request]]) -> int:
    """Return the number of requests that followed each other. Concurrent requests count once."""
    count, free = 0, 0.0
    for end, start in sorted((end, start) for start, end, _ in times):
        if start >= free:
            count, free = count + 1, end
    return count


@pytest.fixture(scope="module")
def store(moto_port: int) -> Iterator[CountingS3]:
    with serving(CountingS3(moto_port)) as proxy:
        assert isinstance(proxy, CountingS3)
        yield proxy


def _options(store: CountingS3) -> dict[str, str]:
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "aws_region": "us-east-1"}
    return {**keys, "aws_endpoint": store.address, "aws_allow_http": "true"}


def _arguments(store: CountingS3, catalog: str, folder: Any) -> dict[str, Any]:
    if catalog != "sql":
        return {"default_format": catalog}
    keys = {"s3.access-key-id": "testing", "s3.secret-access-key": "testing", "s3.region": "us-east-1", "s3.endpoint": store.address}
    return {"catalog": {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", **keys}}


def _properties(catalog: str, mode: str) -> str:
    if catalog == "delta":
        return f"'rowmerge.write.mode' = '{mode}', 'delta.checkpointInterval' = '100'"
    return ", ".join(f"'write.{operation}.mode' = '{mode}'" for operation in ("merge", "update", "delete"))


def _merge(first: int) -> str:
    return MERGE.format(", ".join(f"({id_}L)" for id_ in range(first, first + 10)))


def _row(table: str, statement: str, count: Counts) -> str:
    return (
        f"\n| {table} | {statement} | {count.metadata} | {count.in_sequence} | {count.data_files} | {count.per_data_file} | {count.spark} |"
    )


@pytest.mark.full_suite("it starts a Spark with another connector, and needs its jars")
@pytest.mark.parametrize(("catalog", "mode", "partitioning"), CASES)
def test_a_statement_on_ten_rows_sends_few_requests(
    s3: FaultyS3,
    store: CountingS3,
    session_with_connector: S3Session,
    catalog: str,
    mode: str,
    partitioning: str,
    tmp_path: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    session = session_with_connector
    warehouse, arguments = f"{s3.location}/{tmp_path.name}", _arguments(store, catalog, tmp_path)
    session.connect(warehouse, _options(store), **arguments)
    session.sql("CREATE SCHEMA shop")
    session.sql(f"CREATE TABLE shop.t (id BIGINT, p INT, name STRING) {partitioning} TBLPROPERTIES ({_properties(catalog, mode)})")
    session.sql("INSERT INTO shop.t SELECT id, CAST(id % 2 AS INT), 'a' FROM range(0, 1000, 1, 1)")
    session.sql(_merge(995))
    session.sql(_merge(1000))
    statements = {
        "MERGE": _merge(1005),
        "UPDATE": "UPDATE shop.t SET name = 'u' WHERE id BETWEEN 10 AND 19",
        "DELETE": "DELETE FROM shop.t WHERE id BETWEEN 30 AND 39",
        "INSERT": "INSERT INTO shop.t VALUES (2000, 1, 'x')",
        "SELECT": "SELECT count(*) FROM shop.t WHERE name = 'u'",
    }
    counts = {}
    store.times.clear()
    for name, statement in statements.items():
        session.sql(statement)
        counts[name] = store.counts(session.ended)
    session.connect(warehouse, _options(store), **arguments)
    store.times.clear()
    session.sql(_merge(1010))
    counts["first MERGE"] = store.counts(session.ended)
    with capsys.disabled():
        sys.stdout.writelines(_row(f"{catalog} {mode} {partitioning}".strip(), name, count) for name, count in counts.items())
    assert session.sql("SELECT count(*) FROM shop.t") == [[str(1000 - 10 + 20 + 1)]]
    documented = {row[1]: int(row[2]) for row in _table_of_page("| table, write mode |") if row[0] == _title(catalog, mode, partitioning)}
    assert documented == {name: counts[name].metadata for name in documented}
    first = counts.pop("first MERGE")
    assert first.metadata <= MOST_METADATA_AT_FIRST[catalog], first
    assert first.in_sequence <= MOST_IN_SEQUENCE_AT_FIRST[catalog], first
    for name, count in counts.items():
        assert count.metadata <= MOST_METADATA[catalog], (name, count)
        assert count.in_sequence <= MOST_IN_SEQUENCE[catalog], (name, count)
    assert all(count.per_data_file <= MOST_PER_DATA_FILE for count in (first, *counts.values())), counts


def _title(catalog: str, mode: str, partitioning: str) -> str:
    return f"{TABLES[catalog]}{', two partitions' if partitioning else ''}, `{mode}`"


def _table_of_page(heading: str) -> list[list[str]]:
    """Return the cells of the rows of a table on the page of operations. `heading`: the beginning of its first line."""
    _, _, text = PAGE.read_text(encoding="utf-8").partition(f"\n{heading}")
    lines = itertools.takewhile(lambda line: line.startswith("|"), text.splitlines()[1:])
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines][1:]


def test_the_page_has_the_limits_and_counts_within_them() -> None:
    limits = (MOST_METADATA, MOST_IN_SEQUENCE, MOST_METADATA_AT_FIRST, MOST_IN_SEQUENCE_AT_FIRST)
    expected = [[title, *(str(limit[catalog]) for limit in limits)] for catalog, title in TABLES.items()]
    assert _table_of_page("| table | later") == expected
    rows = _table_of_page("| table, write mode |")
    titles = {_title(catalog, mode, partitioning): catalog for catalog, mode, partitioning in CASES}
    for table, statement, metadata, in_sequence, _, per_data_file, _ in rows:
        most_metadata, most_in_sequence = limits[2:] if statement == "first MERGE" else limits[:2]
        assert int(metadata) <= most_metadata[titles[table]], (table, statement)
        assert int(in_sequence) <= most_in_sequence[titles[table]], (table, statement)
        assert int(per_data_file) <= MOST_PER_DATA_FILE, (table, statement)


@pytest.mark.parametrize("catalog", list(MOST_METADATA))
def test_an_insert_sends_few_requests(s3: FaultyS3, store: CountingS3, spark: SparkSession, catalog: str, tmp_path: Any) -> None:
    arguments = _arguments(store, catalog, tmp_path)
    with connectors_of_stores(spark):
        session = rowmerge.connect(f"{s3.location}/{tmp_path.name}", spark=spark, storage_options=_options(store), **arguments)
        session.sql("CREATE SCHEMA shop")
        session.sql("CREATE TABLE shop.t (id BIGINT)")
        counts = []
        for id_ in range(4):
            store.times.clear()
            session.sql(f"INSERT INTO shop.t VALUES ({id_})")
            ended = time.monotonic()
            wait_for_background(10)
            counts.append(store.counts(ended))
    assert all(count.metadata <= MOST_METADATA[catalog] for count in counts[1:]), counts
    # A busy machine can separate requests that are concurrent otherwise.
    assert min(count.in_sequence for count in counts[1:]) <= MOST_IN_SEQUENCE[catalog], counts
    assert all(count.per_data_file <= MOST_PER_DATA_FILE and count.data_files == 1 for count in counts[1:]), counts
