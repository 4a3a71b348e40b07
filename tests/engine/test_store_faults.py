"""Statements on S3 whose requests fail: throttled, failed after a success, slow or cut. Spark itself comes without a connector for S3."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.delta import DeltaTable
from rowmerge.errors import CommitStateUnknown, StorageError
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.parquet.filesystems import open_data_file
from rowmerge.storage.store import Storage
from tests.support.faulty_s3 import AnyFault, Delay, Fault, FaultyS3, Request, Rule, is_listing, needs_moto

pytestmark = [needs_moto, pytest.mark.one_of("format_", "fault", keep=2)]

FORMATS = pytest.mark.parametrize("format_", ["delta", "iceberg"])
OLD_ROWS = {1: "a", 2: "b", 3: "c"}
INSERT = "insert into t values (4, 'i')"
UPSERT = """merge into t using (select 2L as id, 'm' as p union all select 5L, 'n') s on t.id = s.id
when matched then update set p = s.p when not matched then insert *"""
DELETE = "merge into t using (select 3L as id) s on t.id = s.id when matched then delete"
OF_EXECUTORS = "insert into t select id, 'x' from range(100, 10100, 1, 2)"
"""It has more rows than the driver writes itself."""
COMMIT = {"delta": "/_delta_log/00000000000000000002.json", "iceberg": "/metadata/v3.metadata.json"}
"""The path of the object that commits the statement after the fixture `table`."""
SHORT = {"client_options": {"timeout": "1s", "connect_timeout": "1s"}, "retry_config": {"max_retries": 1, "retry_timeout": "3s"}}
"""Options with which a request fails after a few seconds."""
MOST_SECONDS = 60
"""The time within which a statement with these options must end: its commit makes five attempts, of a put and a get each."""

Connect = Callable[..., rowmerge.Session]


@pytest.fixture
def connect(spark: SparkSession, s3: FaultyS3, tmp_path: Path) -> Iterator[Connect]:
    """Yield a function that opens a session on the warehouse of the test, and remove its settings from Spark afterwards."""
    redaction = spark.conf.get("spark.sql.redaction.options.regex")

    def connect(format_: str, options: dict[str, Any] | None = None, **arguments: Any) -> rowmerge.Session:
        merged = s3.options(retries=None) | {"retry_config": {"backoff": {"init_backoff": "10ms", "max_backoff": "1s", "base": 2}}}
        for name, values in (options or {}).items():
            merged[name] = {**merged.get(name, {}), **values}
        warehouse = f"{s3.location}/{tmp_path.name}"
        arguments = arguments or {"default_format": format_}
        return rowmerge.connect(warehouse, spark=spark, storage_options=merged, **arguments)

    yield connect
    for row in spark.sql("set").collect():
        if row["key"].startswith("fs."):
            spark.conf.unset(row["key"])
    spark.conf.set("spark.sql.redaction.options.regex", redaction)


def create_table(session: rowmerge.Session) -> None:
    session.sql("create table t (id bigint, p string)")
    session.sql("insert into t values (1, 'a'), (2, 'b'), (3, 'c')")


def rows(s3: FaultyS3, format_: str, tmp_path: Path) -> dict[int, str]:
    """Return the live rows of the table, read with Arrow and without faults. Each id must exist once."""
    s3.rule = None
    storage = Storage(f"{s3.location}/{tmp_path.name}/default/t", s3.options())
    table = DeltaTable(storage, "t") if format_ == "delta" else IcebergTable(DirectoryOperations(storage, "t"), "t")
    snapshot = table.snapshot()
    paths = snapshot.files().paths
    deleted = snapshot.deleted_positions(paths)
    live = []
    for path in paths:
        with open_data_file(path, snapshot.shape.filesystem_options, by_field_id=False) as file:
            content = file.read(["id", "p"]).to_pylist()
        live += [row for position, row in enumerate(content) if position not in deleted.get(path, ())]
    assert len({row["id"] for row in live}) == len(live), "a row exists twice"
    return {row["id"]: row["p"] for row in live}


def first_of_each(fault: AnyFault, part: str = "") -> Rule:
    """Return a rule by which the first request of each method and path fails if the path contains `part`."""
    counts = Counter[tuple[str, str]]()

    def rule(request: Request) -> AnyFault | None:
        counts[request.method, request.path] += 1
        return fault if part in request.path and counts[request.method, request.path] == 1 else None

    return rule


@FORMATS
@pytest.mark.parametrize("fault", [503, Fault.DONE_THEN_500, Fault.DONE_THEN_CUT, Fault.CUT_IN_BODY], ids=str)
def test_statements_succeed_if_each_request_fails_once(
    s3: FaultyS3, connect: Connect, tmp_path: Path, format_: str, fault: AnyFault
) -> None:
    session = connect(format_)
    create_table(session)
    s3.rule = first_of_each(fault)
    for statement in (INSERT, UPSERT, DELETE, OF_EXECUTORS):
        session.sql(statement)
    expected = {1: "a", 2: "m", 4: "i", 5: "n"} | {id_: "x" for id_ in range(100, 10100)}
    assert rows(s3, format_, tmp_path) == expected
    assert connect(format_).sql("select count(*) from t").collect() == [(len(expected),)]


@FORMATS
def test_a_slow_store_needs_no_options(s3: FaultyS3, connect: Connect, tmp_path: Path, format_: str) -> None:
    """Arrow's own timeout is 3 seconds."""
    session = connect(format_)
    create_table(session)
    s3.rule = lambda request: Delay(3.5) if ".parquet" in request.path else None
    session.sql(INSERT)
    uploads = [request for request in s3.requests if ".parquet" in request.path and request.method == "PUT"]
    assert rows(s3, format_, tmp_path) == {**OLD_ROWS, 4: "i"}
    assert len(uploads) == 2, "no upload of the two statements is repeated"


def is_data(request: Request) -> bool:
    return ".parquet" in request.path


PERSISTENT_FAULTS = [503, 500, Fault.CUT, Delay(3.0)]
CAUSES = {
    "503": "limits the rate",
    "500": "The store failed",
    "CUT": "endpoint is reachable",
    "Delay": "endpoint is reachable",
    "DONE_THEN_CUT": "endpoint is reachable",
}
"""A part of the advice in the error, by fault."""


def advice_of(fault: AnyFault) -> str:
    return CAUSES[str(fault) if isinstance(fault, int) else fault.name if isinstance(fault, Fault) else "Delay"]


@FORMATS
@pytest.mark.parametrize("fault", PERSISTENT_FAULTS, ids=str)
@pytest.mark.parametrize(
    ("statement", "is_faulty"),
    [(INSERT, is_data), (UPSERT, is_data), (OF_EXECUTORS, is_data), (INSERT, is_listing)],
    ids=["data of an INSERT", "data of a MERGE", "data of executors", "listings"],
)
def test_a_store_that_does_not_recover_is_named_with_the_remedy(
    s3: FaultyS3, connect: Connect, tmp_path: Path, format_: str, fault: AnyFault, statement: str, is_faulty: Callable[[Request], bool]
) -> None:
    session = connect(format_, SHORT)
    create_table(session)
    s3.rule = lambda request: fault if is_faulty(request) else None
    started = time.monotonic()
    with pytest.raises(StorageError) as error:
        session.sql(statement)
    assert time.monotonic() - started < MOST_SECONDS
    first_line = str(error.value).splitlines()[0]
    assert f"{s3.location}/{tmp_path.name}/default/t" in first_line and advice_of(fault) in first_line, first_line
    assert rows(s3, format_, tmp_path) == OLD_ROWS
    session.sql(INSERT)
    assert rows(s3, format_, tmp_path) == {**OLD_ROWS, 4: "i"}


@FORMATS
@pytest.mark.parametrize("fault", [503, Fault.CUT, Fault.DONE_THEN_CUT, Delay(3.0)], ids=str)
def test_a_commit_without_an_answer_is_reported_as_unknown(
    s3: FaultyS3, connect: Connect, tmp_path: Path, format_: str, fault: AnyFault
) -> None:
    session = connect(format_, SHORT)
    create_table(session)
    s3.rule = lambda request: fault if request.path.endswith(COMMIT[format_]) else None
    started = time.monotonic()
    with pytest.raises(CommitStateUnknown) as error:
        session.sql(INSERT)
    assert time.monotonic() - started < MOST_SECONDS
    first_line = str(error.value).splitlines()[0]
    assert s3.location in first_line and "DESCRIBE HISTORY" in first_line and advice_of(fault) in first_line, first_line
    committed_rows = rows(s3, format_, tmp_path)
    has_commit = fault is Fault.DONE_THEN_CUT or isinstance(fault, Delay)
    assert committed_rows == ({**OLD_ROWS, 4: "i"} if has_commit else OLD_ROWS)
    session.sql("insert into t values (6, 'again')")
    assert rows(s3, format_, tmp_path) == {**committed_rows, 6: "again"}
