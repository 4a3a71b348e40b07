"""Iceberg table properties that set the location and the settings of data files."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

import rowmerge
from rowmerge.spark.writing import write
from tests.support.readers import newest_metadata


def test_files_have_the_location_and_settings_of_the_table(session: rowmerge.Session, tmp_path: Path) -> None:
    elsewhere = tmp_path / "files of t"
    session.sql("create schema raw")
    session.sql(
        f"create table raw.t using iceberg tblproperties ('write.data.path' = '{elsewhere}', 'write.merge.mode' = 'merge-on-read', "
        "'write.parquet.compression-codec' = 'gzip', 'write.parquet.compression-level' = '9', "
        "'write.merge.distribution-mode' = 'none', 'write.parquet.row-group-size-bytes' = '20000') "
        "as select id, concat('value ', id) as v from range(0, 5000, 1, 1)"
    )
    session.sql("merge into raw.t using (select 3L as id) s on t.id = s.id when matched then update set v = 'merged'")
    session.sql("update raw.t set v = 'updated' where id = 4")
    data_files = sorted(elsewhere.rglob("*.parquet"))
    assert data_files and not list((tmp_path / "warehouse/raw/t").rglob("*c000*.parquet"))
    largest = pq.read_metadata(max(data_files, key=lambda path: path.stat().st_size))
    assert largest.num_row_groups > 2 and largest.row_group(0).column(0).compression == "GZIP"
    assert session.sql("select id, v from raw.t where id in (3, 4, 5) order by id").collect() == [
        (3, "merged"),
        (4, "updated"),
        (5, "value 5"),
    ]


STATEMENTS = {
    "merge": "merge into t using (select 7L as id) s on t.id = s.id when matched then update set v = 'new'",
    "update": "update t set v = 'new' where id = 7",
    "delete": "delete from t where id = 7",
}


@pytest.mark.parametrize("operation", STATEMENTS)
def test_each_operation_has_its_write_mode(session: rowmerge.Session, operation: str) -> None:
    session.sql(f"create table t (id bigint, v string) using iceberg tblproperties ('write.{operation}.mode' = 'merge-on-read')")
    for statement in STATEMENTS.values():
        session.sql("insert overwrite t select /*+ coalesce(1) */ id, 'old' from range(100)")
        session.sql(statement)
        assert len(_files(session, content=1)) == (statement == STATEMENTS[operation])


@pytest.mark.parametrize("operation", ["merge", "update"])
@pytest.mark.parametrize(("mode", "is_divided"), [("none", True), ("hash", False)])
def test_each_operation_has_its_distribution(
    session: rowmerge.Session, operation: str, mode: str, is_divided: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several tasks read the files of one partition. With `hash`, one of them writes all changed rows."""
    monkeypatch.setattr(write, "ONE_TASK_BYTES", 0)  # as if the files were large
    monkeypatch.setattr(write, "FEW_ROWS", 0)
    session.sql(
        "create table t (id bigint, v string, p int) using iceberg partitioned by (p) "
        f"tblproperties ('write.{operation}.distribution-mode' = '{mode}', 'rowmerge.write.mode' = 'copy-on-write')"
    )
    for start in (0, 100):
        session.sql(f"insert into t select /*+ coalesce(1) */ id, 'old', 1 from range({start}, {start + 100})")
    earlier = _files(session)
    statement = STATEMENTS[operation].replace("select 7L as id", "select id from range(200)")
    session.sql(statement.replace("where id = 7", "where id >= 0"))
    files = _files(session)
    assert not files & earlier and (len(files) > 1) == is_divided


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_the_level_of_the_codec_changes_the_size_of_data_files(session: rowmerge.Session, codec: str) -> None:
    sizes = []
    for level in ("1", "9"):
        properties = f"'write.parquet.compression-codec' = '{codec}', 'write.parquet.compression-level' = '{level}'"
        session.sql(f"create or replace table t (v string) using iceberg tblproperties ({properties})")
        session.sql("insert into t select /*+ coalesce(1) */ sha2(string(id % 1000), 256) || id from range(20000)")
        (path,) = _files(session)
        chunk = pq.read_metadata(path.removeprefix("file://")).row_group(0).column(0)
        assert chunk.compression == codec.upper()
        sizes.append(chunk.total_compressed_size)
    assert sizes[1] < sizes[0]


def _files(session: rowmerge.Session, content: int = 0) -> set[str]:
    """Return the paths of the live files of `t`: data files, or with `content` = 1 position-delete files."""
    files = StaticTable.from_metadata(newest_metadata(session.describe("default", "t").location)).inspect.files().to_pylist()
    return {file["file_path"] for file in files if file["content"] == content}


def test_manifests_list_the_offsets_of_the_row_groups_of_each_file(session: rowmerge.Session) -> None:
    session.sql(
        "create table t (id bigint, v string) using iceberg tblproperties ('rowmerge.write.mode' = 'merge-on-read', "
        "'write.parquet.row-group-size-bytes' = '20000')"
    )
    session.sql("insert into t select id, concat('value ', id) from range(0, 5000, 1, 1)")
    session.sql("insert into t values (-1, 'one row group')")
    session.sql("delete from t where id % 1000 = 7")
    offsets = _check_split_offsets(session)
    assert len(offsets) == 2 and min(offsets)[0] == 4 and len(min(offsets)) == 1 and len(max(offsets)) > 2
    session.sql("call system.rewrite_manifests('t')")
    assert _check_split_offsets(session) == offsets, "a rewritten manifest keeps the offsets"
    session.sql("optimize t")
    (compacted,) = _check_split_offsets(session)
    assert len(compacted) > 2


def test_summaries_list_the_counts_of_changed_partitions(session: rowmerge.Session) -> None:
    session.sql(
        "create table t using iceberg partitioned by (p) tblproperties ('write.summary.partition-limit' = '2') "
        "as select id, if(id = 1, 'a b', null) as p from range(2)"
    )
    assert _partition_counts(session) == {"p=a+b": ("1", "1"), "p=null": ("1", "1")}
    session.sql("insert into t values (3, 'x'), (4, 'y'), (5, 'z')")
    assert _partition_counts(session) == {}, "three partitions exceed the limit"
    session.sql("update t set id = 10 where id = 1")
    assert _partition_counts(session) == {"p=a+b": ("1", "1")}
    session.sql(
        "create or replace table t using iceberg partitioned by (truncate(1, v), days(at)) "
        "tblproperties ('write.summary.partition-limit' = '1') as select 'long' as v, timestamp'2024-02-03 04:05:06' as at"
    )
    assert _partition_counts(session) == {"v_trunc=l/at_day=2024-02-03": ("1", "1")}


def _partition_counts(session: rowmerge.Session) -> dict[str, tuple[str, str]]:
    """Return the added data files and records of each partition in the newest summary, as pyiceberg reads it."""
    snapshot = StaticTable.from_metadata(newest_metadata(session.describe("default", "t").location)).current_snapshot()
    assert snapshot is not None and snapshot.summary is not None
    properties = snapshot.summary.additional_properties
    values = {name.removeprefix("partitions."): value for name, value in properties.items() if name.startswith("partitions.")}
    assert properties.get("partition-summaries-included") == ("true" if values else None)
    counts = {name: dict(count.split("=") for count in value.split(",")) for name, value in values.items()}
    return {name: (count["added-data-files"], count["added-records"]) for name, count in counts.items()}


def _check_split_offsets(session: rowmerge.Session) -> list[list[int]]:
    """Return the split offsets of all data files as pyiceberg reads them, after a comparison with the footers of the files."""
    location = session.describe("default", "t").location
    files = StaticTable.from_metadata(newest_metadata(location)).inspect.files().to_pylist()
    data_files = [file for file in files if file["content"] == 0]
    for file in data_files:
        footer = pq.read_metadata(file["file_path"].removeprefix("file://"))
        chunks = [footer.row_group(index).column(0) for index in range(footer.num_row_groups)]
        assert file["split_offsets"] == [min(chunk.dictionary_page_offset or sys.maxsize, chunk.data_page_offset) for chunk in chunks]
    return sorted(file["split_offsets"] for file in data_files)
