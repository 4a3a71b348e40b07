"""Statements on S3 whose requests fail: throttled, failed after a success, slow or cut. Spark itself comes without a connector for S3."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from rowmerge.errors import CommitStateUnknown, StorageError
from tests.support.faulty_s3 import AnyFault, Delay, Fault, FaultyS3, Request, is_listing, needs_moto
from tests.support.store_fault_tables import (
    COMMIT,
    DELETE,
    INSERT,
    OF_EXECUTORS,
    OLD_ROWS,
    SHORT,
    UPSERT,
    Connect,
    create_table,
    first_of_each,
    is_data,
    rows,
)

pytestmark = [needs_moto, pytest.mark.one_of("format_", "fault", keep=2)]

FORMATS = pytest.mark.parametrize("format_", ["delta", "iceberg"])
MOST_SECONDS = 60
"""The time within which a statement with SHORT options must end: its commit makes five attempts, of a put and a get each."""


@FORMATS
@pytest.mark.parametrize("fault", [503, Fault.DONE_THEN_500, Fault.DONE_THEN_CUT, Fault.CUT_IN_BODY], ids=str)
def test_statements_succeed_if_each_request_fails_once(
    s3: FaultyS3, connect_to_s3: Connect, s3_warehouse: str, format_: str, fault: AnyFault
) -> None:
    session = connect_to_s3(format_)
    create_table(session)
    s3.rule = first_of_each(fault)
    for statement in (INSERT, UPSERT, DELETE, OF_EXECUTORS):
        session.sql(statement)
    expected = {1: "a", 2: "m", 4: "i", 5: "n"} | dict.fromkeys(range(100, 10100), "x")
    assert rows(s3, format_, s3_warehouse) == expected
    assert connect_to_s3(format_).sql("select count(*) from t").collect() == [(len(expected),)]


@FORMATS
def test_a_slow_store_needs_no_options(s3: FaultyS3, connect_to_s3: Connect, s3_warehouse: str, format_: str) -> None:
    """Arrow's own timeout is 3 seconds."""
    session = connect_to_s3(format_)
    create_table(session)
    s3.rule = lambda request: Delay(3.5) if ".parquet" in request.path else None
    session.sql(INSERT)
    uploads = [request for request in s3.requests if ".parquet" in request.path and request.method == "PUT"]
    assert rows(s3, format_, s3_warehouse) == {**OLD_ROWS, 4: "i"}
    assert len(uploads) == 2, "no upload of the two statements is repeated"


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
    s3: FaultyS3,
    connect_to_s3: Connect,
    s3_warehouse: str,
    format_: str,
    fault: AnyFault,
    statement: str,
    is_faulty: Callable[[Request], bool],
) -> None:
    session = connect_to_s3(format_, SHORT)
    create_table(session)
    s3.rule = lambda request: fault if is_faulty(request) else None
    started = time.monotonic()
    with pytest.raises(StorageError) as error:
        session.sql(statement)
    assert time.monotonic() - started < MOST_SECONDS
    first_line = str(error.value).splitlines()[0]
    assert f"{s3_warehouse}/default/t" in first_line and advice_of(fault) in first_line, first_line
    assert rows(s3, format_, s3_warehouse) == OLD_ROWS
    session.sql(INSERT)
    assert rows(s3, format_, s3_warehouse) == {**OLD_ROWS, 4: "i"}


@FORMATS
@pytest.mark.parametrize("fault", [503, Fault.CUT, Fault.DONE_THEN_CUT, Delay(3.0)], ids=str)
def test_a_commit_without_an_answer_is_reported_as_unknown(
    s3: FaultyS3, connect_to_s3: Connect, s3_warehouse: str, format_: str, fault: AnyFault
) -> None:
    session = connect_to_s3(format_, SHORT)
    create_table(session)
    s3.rule = lambda request: fault if request.path.endswith(COMMIT[format_]) else None
    started = time.monotonic()
    with pytest.raises(CommitStateUnknown) as error:
        session.sql(INSERT)
    assert time.monotonic() - started < MOST_SECONDS
    first_line = str(error.value).splitlines()[0]
    assert s3.location in first_line and "DESCRIBE HISTORY" in first_line and advice_of(fault) in first_line, first_line
    committed_rows = rows(s3, format_, s3_warehouse)
    has_commit = fault is Fault.DONE_THEN_CUT or isinstance(fault, Delay)
    assert committed_rows == ({**OLD_ROWS, 4: "i"} if has_commit else OLD_ROWS)
    session.sql("insert into t values (6, 'again')")
    assert rows(s3, format_, s3_warehouse) == {**committed_rows, 6: "again"}
