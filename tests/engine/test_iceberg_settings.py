"""Settings of Iceberg on Spark that override table properties, or add properties to snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

import rowmerge
from rowmerge.errors import ConfigurationError
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.spark.peer_settings import with_iceberg_settings
from rowmerge.storage.store import Storage
from rowmerge.table.metadata.partitioning import Distribution
from tests.support.readers import newest_metadata

PREFIX = "spark.sql.iceberg."
SETTINGS = ("distribution-mode", "compression-codec", "compression-level", "snapshot-property.run", "snapshot-property.a.b")
RESERVED = ("operation", "rowmerge.operation", "wap.id", "published-wap-id", "source-snapshot-id", "replace-partitions")


@pytest.fixture
def settings(session: rowmerge.Session) -> Iterator[rowmerge.Session]:
    """Yield a session. Afterwards, remove the settings of the test."""
    yield session
    for name in (*SETTINGS, *(f"snapshot-property.{name}" for name in RESERVED)):
        session.spark.conf.unset(PREFIX + name)


def files_of(session: rowmerge.Session, name: str = "t") -> list[dict[str, Any]]:
    metadata = newest_metadata(session.describe("default", name).location)
    return StaticTable.from_metadata(metadata).inspect.files().to_pylist()  # type: ignore[no-any-return]


def codecs(session: rowmerge.Session, content: int = 0, name: str = "t") -> set[str]:
    """Return the codecs of the data files or, with `content` 1, of the position-delete files."""
    paths = [str(file["file_path"]).removeprefix("file://") for file in files_of(session, name) if file["content"] == content]
    assert paths
    return {pq.read_metadata(path).row_group(0).column(0).compression for path in paths}


def summaries(session: rowmerge.Session) -> list[dict[str, str]]:
    snapshots = StaticTable.from_metadata(newest_metadata(session.describe("default", "t").location)).metadata.snapshots
    return [dict(snapshot.summary.additional_properties) for snapshot in snapshots if snapshot.summary is not None]


def test_the_codec_applies_to_data_files_and_delete_files(settings: rowmerge.Session) -> None:
    session = settings
    session.sql(f"set `{PREFIX}compression-codec` = snappy")
    properties = "tblproperties ('write.parquet.compression-codec' = 'gzip', 'rowmerge.write.mode' = 'merge-on-read')"
    session.sql(f"create table t using iceberg {properties} as select id from range(0, 10, 1, 1)")
    session.sql("delete from t where id = 1")
    assert (codecs(session), codecs(session, content=1)) == ({"SNAPPY"}, {"SNAPPY"})
    session.spark.conf.set(f"{PREFIX}compression-codec", " UNCOMPRESSED ")
    session.sql("insert into t values (10)")
    session.sql("delete from t where id = 10")
    session.sql("update t set id = 22 where id = 2")
    assert codecs(session) == {"SNAPPY", "UNCOMPRESSED"} and codecs(session, content=1) == {"UNCOMPRESSED"}
    session.sql("optimize t")
    assert codecs(session) == {"UNCOMPRESSED"}
    session.sql(f"reset `{PREFIX}compression-codec`")
    session.sql("call system.rewrite_data_files('t', options => map('rewrite-all', 'true'))")
    assert codecs(session) == {"GZIP"}
    properties = {row.key: row.value for row in session.sql("show tblproperties t").collect()}
    assert properties["write.parquet.compression-codec"] == "gzip" and "write.delete.parquet.compression-codec" not in properties
    session.spark.conf.set(f"{PREFIX}compression-codec", "snappy")
    session.write(session.sql("select 1L as id"), "u", mode="replace", format="iceberg")
    session.write(session.sql("select 2L as id"), "u")
    session.sql("create or replace table u using iceberg as select id from u")
    assert codecs(session, name="u") == {"SNAPPY"} and sorted(session.sql("select id from u").collect()) == [(1,), (2,)]


def test_the_level_makes_smaller_files(settings: rowmerge.Session) -> None:
    sizes = []
    for level in (1, 19):
        settings.sql(f"set `{PREFIX}compression-level` = {level}")
        name = f"t{level}"
        settings.sql(
            f"create table {name} using iceberg as select concat('user-', id, '@example.com/', id * 7) as v from range(0, 50000, 1, 1)"
        )
        sizes.append(sum(file["file_size_in_bytes"] for file in files_of(settings, name)))
    assert sizes[1] < sizes[0] * 0.95


def test_the_distribution_mode_overrides_the_properties(settings: rowmerge.Session) -> None:
    session = settings
    properties = ", ".join(f"'write.{operation}distribution-mode' = 'hash'" for operation in ("", "merge."))
    session.sql(f"create table t (id bigint, p bigint) using iceberg partitioned by (p) tblproperties ({properties})")
    rows, folder = "select id, id % 2 as p from range(0, 20000, 1, 4)", session.describe("default", "t").location
    session.sql(f"insert into t {rows}")
    assert len(files_of(session)) == 2
    session.sql(f"set `{PREFIX}distribution-mode` = none")
    session.sql(f"insert overwrite t {rows}")
    assert len(files_of(session)) == 8
    changed_settings = (
        with_iceberg_settings(session.spark, IcebergTable(DirectoryOperations(Storage(folder), "t"), "t")).snapshot().settings
    )
    modes = [changed_settings.operation_distribution(operation) for operation in ("MERGE", "UPDATE")]
    assert modes == [Distribution.NONE] * 2
    session.sql(f"reset `{PREFIX}distribution-mode`")
    session.sql(f"insert overwrite t {rows}")
    assert len(files_of(session)) == 2


def test_each_snapshot_has_the_properties_of_the_session(settings: rowmerge.Session) -> None:
    session = settings
    session.sql(f"set `{PREFIX}snapshot-property.run` = 0")
    session.sql("create table t using iceberg as select 0 as id")
    session.spark.conf.set(f"{PREFIX}snapshot-property.a.b", "x")
    for number, statement in enumerate(
        (
            "insert into t values (1)",
            "update t set id = 2 where id = 1",
            "merge into t using (select 3 as id) s on s.id = t.id when not matched then insert *",
            "delete from t where id = 3",
            "insert overwrite t values (4)",
        )
    ):
        session.spark.conf.set(f"{PREFIX}snapshot-property.run", str(number + 1))
        session.sql(statement)
    session.write(session.sql("select 7 as id"), "t")
    assert [summary.get("run") for summary in summaries(session)] == ["0", "1", "2", "3", "4", "5", "5"]
    assert [summary.get("a.b") for summary in summaries(session)] == [None, *["x"] * 6]
    session.spark.conf.unset(f"{PREFIX}snapshot-property.run")
    session.spark.conf.set(f"{PREFIX}snapshot-property.added-records", "99")
    session.sql("insert into t values (8)")
    session.spark.conf.unset(f"{PREFIX}snapshot-property.added-records")
    assert "run" not in summaries(session)[-1] and summaries(session)[-1]["added-records"] == "1"


@pytest.mark.parametrize("name", RESERVED)
def test_a_property_of_the_engine_is_refused_and_no_file_stays(settings: rowmerge.Session, tmp_path: Path, name: str) -> None:
    settings.sql("create table t (id int) using iceberg")
    settings.sql("create table d (id int) using delta")
    settings.spark.conf.set(f"{PREFIX}snapshot-property.{name}", "x")
    for statement in ("insert into t values (1)", "create table u using iceberg as select 1 as id"):
        with pytest.raises(ConfigurationError, match=f"{PREFIX}snapshot-property.{name} sets a property of the engine"):
            settings.sql(statement)
    assert not list(tmp_path.rglob("*.parquet"))
    settings.sql("insert into d values (1)")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"distribution-mode": "banana"}, "distribution-mode is 'banana'. Set it to none, hash or range"),
        ({"compression-codec": "brotli"}, "compression-codec is 'brotli'. Set it to one of zstd"),
        ({"compression-level": "23"}, "compression-level is '23'. Set it to a whole number from 1 to 22"),
        ({"compression-level": "22", "compression-codec": "gzip"}, "compression-level is 22. Set it to a number from 1 to 9"),
    ],
)
def test_a_bad_value_is_an_error_that_names_the_setting(settings: rowmerge.Session, values: dict[str, str], message: str) -> None:
    settings.sql("create table t (id int) using iceberg")
    settings.sql("create table d (id int) using delta")
    for name, value in values.items():
        settings.spark.conf.set(PREFIX + name, value)
    for statement in ("insert into t values (1)", "create table u using iceberg as select 1 as id", "optimize t"):
        with pytest.raises(ConfigurationError, match=PREFIX + message):
            settings.sql(statement)
    settings.sql("insert into d values (1)")
    assert settings.sql("select * from t").collect() == []


def test_settings_apply_to_audited_branches(settings: rowmerge.Session) -> None:
    settings.sql("create table t using iceberg tblproperties ('write.wap.enabled' = 'true') as select 1 as id")
    settings.spark.conf.set(f"{PREFIX}compression-codec", "snappy")
    settings.execute("insert into t values (2)", wap_branch="audit")
    settings.sql("insert into t.branch_audit values (3)")
    assert codecs(settings) == {"ZSTD"}
    settings.sql("call system.fast_forward('t', 'main', 'audit')")
    assert codecs(settings) == {"ZSTD", "SNAPPY"} and settings.sql("select count(*) from t").collect() == [(3,)]
