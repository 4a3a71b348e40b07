"""Statements on S3 without the permission to delete or to list objects."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import StorageError, TableNotFound
from rowmerge.storage.store import Storage
from tests.support.faulty_s3 import AnyFault, FaultyS3, Request, deny_deletions, deny_listings, needs_moto
from tests.support.jvm import connectors_of_stores
from tests.support.store_fault_tables import (
    COMMIT,
    INSERT,
    OF_EXECUTORS,
    OLD_ROWS,
    SHORT_WAITS,
    UPSERT,
    Connect,
    create_table,
    options_of,
    rows,
)

pytestmark = [needs_moto, pytest.mark.one_of("format_", keep=1)]

FORMATS = pytest.mark.parametrize("format_", ["delta", "iceberg"])
DELETION_DENIED = r"Grant the permission to delete objects \(s3:DeleteObject\) in the bucket lake"
LISTING_DENIED = r"Grant the permission to list objects \(s3:ListBucket\) in the bucket lake"


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("rowmerge") and record.levelno >= logging.WARNING]


def delete_old_files(session: rowmerge.Session, format_: str) -> None:
    """Delete the data files of older versions."""
    if format_ == "iceberg":
        session.sql("call system.expire_snapshots(table => 't', older_than => timestamp '2100-01-01', retain_last => 1)")
    else:
        session.sql("set spark.databricks.delta.retentionDurationCheck.enabled = false")
        session.sql("vacuum t retain 0 hours")


@FORMATS
def test_statements_need_no_permission_to_delete(
    s3: FaultyS3, connect_to_s3: Connect, s3_warehouse: str, format_: str, caplog: pytest.LogCaptureFixture
) -> None:
    s3.rule = deny_deletions
    session = connect_to_s3(format_)
    create_table(session)

    def rule(request: Request) -> AnyFault | None:
        if request.method == "PUT" and request.path.endswith(COMMIT[format_]):
            # Another writer drops the table first. So the files of this statement are not needed.
            s3.rule = deny_deletions
            with pytest.raises(StorageError, match=DELETION_DENIED):
                connect_to_s3(format_).sql("drop table t")
        return deny_deletions(request)

    s3.rule = rule
    with caplog.at_level(logging.WARNING), pytest.raises(TableNotFound):
        session.sql(INSERT)
    create_table(session)
    session.sql(UPSERT)
    session.sql(INSERT)
    assert rows(s3, format_, s3_warehouse) == {**OLD_ROWS, 2: "m", 4: "i", 5: "n"}
    assert any("that no version needs remain" in text and s3_warehouse in text for text in warnings(caplog))


@FORMATS
def test_a_deletion_without_permission_fails_and_loses_no_row(
    s3: FaultyS3, connect_to_s3: Connect, s3_warehouse: str, format_: str
) -> None:
    session = connect_to_s3(format_)
    create_table(session)
    session.sql("insert overwrite t values (7, 'new')")
    files = {object_.path for object_ in Storage(s3_warehouse, s3.options()).list() if object_.path.endswith(".parquet")}
    assert len(files) == 2
    s3.rule = deny_deletions
    with pytest.raises(StorageError, match=DELETION_DENIED):
        delete_old_files(session, format_)
    assert rows(s3, format_, s3_warehouse) == {7: "new"}
    delete_old_files(session, format_)
    s3.rule = deny_deletions
    with pytest.raises(StorageError, match=rf"{DELETION_DENIED}.* default.t was dropped, but some of its files remain"):
        session.sql("drop table t purge")
    s3.rule = None
    assert session.relations("default") == []
    create_table(session)
    assert rows(s3, format_, s3_warehouse) == OLD_ROWS


@FORMATS
@pytest.mark.parametrize("statement", ["select count(*) from t", INSERT, UPSERT, OF_EXECUTORS, "create table u (id int)", "show tables"])
def test_a_folder_needs_the_permission_to_list(
    s3: FaultyS3, connect_to_s3: Connect, s3_warehouse: str, format_: str, statement: str
) -> None:
    create_table(connect_to_s3(format_))
    session = connect_to_s3(format_)
    s3.rule = deny_listings
    with pytest.raises(StorageError, match=LISTING_DENIED):
        session.sql(statement).collect()
    assert rows(s3, format_, s3_warehouse) == OLD_ROWS


def test_a_table_of_a_catalog_needs_no_permission_to_list(spark: SparkSession, s3: FaultyS3, s3_warehouse: str, tmp_path: Path) -> None:
    keys = {"s3.endpoint": s3.address, "s3.access-key-id": "testing", "s3.secret-access-key": "testing", "s3.region": "us-east-1"}
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", **keys}
    with connectors_of_stores(spark):
        session = rowmerge.connect(s3_warehouse, spark=spark, storage_options=options_of(s3, SHORT_WAITS), catalog=catalog)
        session.sql("create schema if not exists default")
        create_table(session)
        s3.rule = deny_listings
        for statement in (INSERT, UPSERT, OF_EXECUTORS):
            session.sql(statement)
        assert session.sql("select count(*), min(id), max(id) from t").collect() == [(5 + 10_000, 1, 10_099)]
        session.sql("call system.expire_snapshots(table => 't', older_than => timestamp '2100-01-01', retain_last => 1)")
        for statement in ("call system.remove_orphan_files(table => 't')", "vacuum t"):
            with pytest.raises(StorageError, match=LISTING_DENIED):
                session.sql(statement).collect()
        with pytest.raises(StorageError, match=LISTING_DENIED):
            session.sql("create table u (id int)")
        session.sql("drop table t")
