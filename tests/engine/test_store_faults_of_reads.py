"""Statements for which Spark reads data files on S3 with hadoop-aws, while requests fail. ROWMERGE_S3_JARS names its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.faulty_s3 import AnyFault, Fault, FaultyS3, Request, deny_listings, needs_moto
from tests.support.s3_session import S3Session
from tests.support.store_fault_tables import INSERT, OF_EXECUTORS, SHORT, SHORT_WAITS, UPSERT, first_of_each, is_data, options_of, rows

pytestmark = [needs_moto, pytest.mark.full_suite("it starts a Spark with another connector, and needs its jars")]

FORMATS = pytest.mark.parametrize("format_", ["delta", "iceberg"])
UPDATE = "update t set p = concat(p, '!') where id <= 2"
DELETE = "delete from t where id = 3"


@pytest.fixture
def session(session_with_connector: S3Session, s3: FaultyS3, s3_warehouse: str, request: pytest.FixtureRequest) -> S3Session:
    """Return a session with a table of three rows, in the format and with the options of the test."""
    parameters: dict[str, Any] = request.node.callspec.params
    options = options_of(s3, SHORT if "persistent_fault" in parameters else SHORT_WAITS)
    session_with_connector.connect(s3_warehouse, options, default_format=parameters["format_"])
    session_with_connector.sql("create table t (id bigint, p string)")
    session_with_connector.sql("insert into t values (1, 'a'), (2, 'b'), (3, 'c')")
    return session_with_connector


@FORMATS
@pytest.mark.parametrize("fault", [503, Fault.DONE_THEN_500, Fault.DONE_THEN_CUT], ids=str)
def test_reads_and_changes_succeed_if_each_request_fails_once(
    session: S3Session, s3: FaultyS3, s3_warehouse: str, format_: str, fault: AnyFault
) -> None:
    s3.rule = first_of_each(fault)
    for statement in (INSERT, UPDATE, UPSERT, DELETE, OF_EXECUTORS, "update t set p = 'y' where id >= 5000"):
        session.sql(statement)
    (counts,) = session.sql("select count(*), sum(if(p = 'y', 1, 0)), max(if(id = 1, p, null)) from t")
    assert counts == ["10004", "5100", "a!"]
    expected = {1: "a!", 2: "m", 4: "i", 5: "n"} | {id_: "y" if id_ >= 5000 else "x" for id_ in range(100, 10100)}
    assert rows(s3, format_, s3_warehouse) == expected


CAUSES = {403: "s3:GetObject) in the bucket lake", 503: "limits the rate", 500: "The store failed", Fault.CUT: "endpoint is reachable"}


@FORMATS
def test_a_read_that_is_cut_is_no_damaged_file(session: S3Session, s3: FaultyS3, s3_warehouse: str, format_: str) -> None:
    """hadoop-aws 3.5 does not repeat such a read. A cluster repeats the task, but a local Spark does not."""
    s3.rule = lambda request: Fault.CUT_IN_BODY if is_data(request) and request.method == "GET" else None
    first_line = session.error(UPDATE).splitlines()[0]
    assert first_line.startswith("StorageError: ") and s3_warehouse in first_line and CAUSES[Fault.CUT] in first_line, first_line
    assert rows(s3, format_, s3_warehouse) == {1: "a", 2: "b", 3: "c"}
    session.sql(UPDATE)
    assert rows(s3, format_, s3_warehouse) == {1: "a!", 2: "b!", 3: "c"}


@FORMATS
@pytest.mark.parametrize("persistent_fault", list(CAUSES), ids=str)
@pytest.mark.parametrize("statement", ["select sum(id) from t", UPDATE])
def test_data_that_cannot_be_read_is_no_damaged_file(
    session: S3Session, s3: FaultyS3, s3_warehouse: str, format_: str, persistent_fault: AnyFault, statement: str
) -> None:
    def rule(request: Request) -> AnyFault | None:
        return persistent_fault if is_data(request) and request.method in ("GET", "HEAD") else None

    s3.rule = rule
    first_line = session.error(statement).splitlines()[0]
    assert first_line.startswith("StorageError: ") and s3_warehouse in first_line, first_line
    assert CAUSES[persistent_fault] in first_line, first_line
    assert rows(s3, format_, s3_warehouse) == {1: "a", 2: "b", 3: "c"}
    session.sql(UPDATE)
    assert rows(s3, format_, s3_warehouse) == {1: "a!", 2: "b!", 3: "c"}


def test_sparks_reader_needs_the_permission_to_list(
    session_with_connector: S3Session, s3: FaultyS3, s3_warehouse: str, tmp_path: Path
) -> None:
    """The catalog knows the newest version, but Hadoop lists the key of a data file before it opens the file."""
    keys = {"s3.endpoint": s3.address, "s3.access-key-id": "testing", "s3.secret-access-key": "testing", "s3.region": "us-east-1"}
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", **keys}
    session_with_connector.connect(s3_warehouse, options_of(s3, SHORT_WAITS), catalog=catalog)
    session_with_connector.sql("create schema if not exists default")
    session_with_connector.sql("create table t (id bigint, p string)")
    session_with_connector.sql("insert into t values (1, 'a'), (2, 'b'), (3, 'c')")
    s3.rule = deny_listings
    for statement in (UPDATE, DELETE, "select id from t where length(p) = 1"):
        first_line = session_with_connector.error(statement).splitlines()[0]
        assert "Grant the permission to list objects (s3:ListBucket) in the bucket lake" in first_line, first_line
    s3.rule = None
    session_with_connector.sql(UPDATE)
    assert session_with_connector.sql("select id, p from t where length(p) > 0 order by id") == [["1", "a!"], ["2", "b!"], ["3", "c"]]
