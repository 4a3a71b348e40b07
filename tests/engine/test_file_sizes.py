"""Data files have the target size within 10 %, except the last one of each task, for any width and compressibility of rows.

Properties and settings of Delta change the target size of rewrites, and the number of tasks that write.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import rowmerge
from rowmerge.delta.metadata import properties as delta_properties
from rowmerge.delta.metadata.properties import DeltaSettings
from rowmerge.errors import ConfigurationError
from rowmerge.plan.file_strategy import FEW_FILES
from rowmerge.spark.writing.distribution import optimized_tasks
from rowmerge.table.metadata.schema import Struct
from rowmerge.table.metadata.shape import TableShape
from tests.support.readers import read_with_delta_rs, read_with_duckdb_iceberg

OPTIMIZE_WRITE = "spark.databricks.delta.optimizeWrite"
TASK_SIZE = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
TARGET = 4 * 1024 * 1024
PROPERTIES = {"delta": "delta.targetFileSize", "iceberg": "write.target-file-size-bytes"}
MARKS = {
    "delta": ("delta", "'delta.enableDeletionVectors' = 'true'", True),
    "iceberg 2": ("iceberg", "'format-version' = '2'", False),
    "iceberg 3": ("iceberg", "'format-version' = '3'", True),
}
"""Tables that mark deleted rows: the format, properties, and whether one file marks rows of many data files."""
ROWS = {
    "narrow": "select xxhash64(id) as v from range(0, 1300000, 1, 1)",
    "strings": "select id, sha2(cast(id as string), 256) as s, concat('name ', id % 1000) as name from range(0, 250000, 1, 1)",
    "wide": f"select {', '.join(f'xxhash64(id, {column}) as c{column}' for column in range(300))} from range(0, 5000, 1, 1)",
    "compressible": "select concat('one of five thousand values: ', pmod(xxhash64(id), 5000)) as v from range(0, 6000000, 1, 1)",
}


def _sizes_of_complete_files(session: rowmerge.Session) -> list[int]:
    """Return the sizes of all files of the only task but the last one. The names of files begin with their number in the task."""
    location = Path(session.sql("describe detail t").collect()[0]["location"].removeprefix("file://"))
    files = sorted(location.rglob("*.parquet"), key=lambda file: file.name)
    assert [int(file.name.split("-")[1]) for file in files] == list(range(len(files)))
    return [file.stat().st_size for file in files[:-1]]


@pytest.mark.one_of("format_", "rows")
@pytest.mark.parametrize("format_", PROPERTIES)
@pytest.mark.parametrize("rows", ROWS)
def test_files_have_the_target_size(bare_session: rowmerge.Session, format_: str, rows: str) -> None:
    bare_session.sql(f"create table t using {format_} tblproperties ('{PROPERTIES[format_]}' = '{TARGET}') as {ROWS[rows]}")
    sizes = _sizes_of_complete_files(bare_session)
    assert len(sizes) >= 2
    assert [size / TARGET for size in sizes if not 0.95 * TARGET <= size <= 1.1 * TARGET] == []


REWRITES = {
    "update": "update t set n = n + 1",
    "merge": "merge into t using (select id, uuid() as s, 2 as n from range(30000, 90000)) s on t.id = s.id "
    "when matched then update set * when not matched then insert *",
    "delete": "delete from t where id % 50 = 0",
    "optimize": "optimize t",
    "insert": "insert into t select id, uuid(), 1 from range(60000, 120000, 1, 1)",
}


@pytest.mark.parametrize(("properties", "is_lower"), [("'delta.targetFileSize' = '100mb', ", False), ("", True)])
@pytest.mark.parametrize("statement", REWRITES)
def test_rewrites_write_smaller_files_if_the_table_demands_it(
    bare_session: rowmerge.Session, monkeypatch: pytest.MonkeyPatch, statement: str, properties: str, is_lower: bool
) -> None:
    lower_size = 400_000
    monkeypatch.setattr(delta_properties, "REWRITE_FILE_SIZE", lower_size)
    bare_session.sql(
        f"create table t using delta tblproperties ({properties}'delta.tuneFileSizesForRewrites' = 'true', "
        "'rowmerge.write.mode' = 'copy-on-write') as select id, uuid() as s, 1 as n from range(0, 60000, 1, 1)"
    )
    (large_file,) = folder_of(bare_session).rglob("*.parquet")
    assert large_file.stat().st_size > 3 * lower_size
    if statement == "optimize":
        for first in range(4):
            bare_session.sql(f"insert into t select id, uuid(), 1 from range({first * 8000}, {first * 8000 + 8000}, 1, 1)")
    old_files = {*folder_of(bare_session).rglob("*.parquet")}
    bare_session.sql(REWRITES[statement])
    sizes = [file.stat().st_size for file in folder_of(bare_session).rglob("*.parquet") if file not in old_files]
    assert sizes
    is_rewrite = is_lower and statement != "insert"
    assert (max(sizes) <= 1.1 * lower_size) is is_rewrite, sizes


def folder_of(session: rowmerge.Session) -> Path:
    return Path(session.describe("default", "t").location.removeprefix("file://"))


@pytest.mark.one_of("kind", "other_count")
@pytest.mark.parametrize("kind", MARKS)
@pytest.mark.parametrize("other_count", [0, 8])
def test_mode_auto_combines_the_smallest_of_many_small_files(bare_session: rowmerge.Session, kind: str, other_count: int) -> None:
    format_, properties, shares_deletion_files = MARKS[kind]
    file_count = FEW_FILES + other_count
    rows = f"select id from range(0, {file_count * 100}, 1, {file_count})"
    bare_session.sql(f"create table t using {format_} tblproperties ('rowmerge.write.mode' = 'auto', {properties}) as {rows}")
    files = "select count(distinct _metadata.file_path) as files from t"
    assert bare_session.sql(files).collect()[0]["files"] == file_count
    bare_session.sql("delete from t where id % 100 = 7")
    assert bare_session.sql(files).collect()[0]["files"] == 1 + (other_count if shares_deletion_files else 0)
    read = read_with_delta_rs if format_ == "delta" else read_with_duckdb_iceberg
    expected_ids = [id_ for id_ in range(file_count * 100) if id_ % 100 != 7]
    assert read(bare_session.describe("default", "t").location, "id")["id"].to_pylist() == expected_ids


SOURCE_TASKS, PARTITIONS = 12, 3
COUNTS = {
    "not set": (SOURCE_TASKS, PARTITIONS),
    "property true": (2, PARTITIONS),
    "property false": (SOURCE_TASKS, SOURCE_TASKS * PARTITIONS),
    "setting true": (2, PARTITIONS),
    "setting false": (SOURCE_TASKS, SOURCE_TASKS * PARTITIONS),
}


@pytest.mark.one_of("case")
@pytest.mark.parametrize("case", COUNTS)
def test_optimized_writes_write_few_files(bare_session: rowmerge.Session, case: str) -> None:
    """The setting of the session overrides the property, which has the other value."""
    kind, value = case.split()
    other = {"true": "false", "false": "true"}.get(value)
    property_ = {"property": value, "setting": other}.get(kind)
    if kind == "setting":
        bare_session.sql(f"set {OPTIMIZE_WRITE}.enabled = {value}")
    properties = "" if property_ is None else f"tblproperties ('delta.autoOptimize.optimizeWrite' = '{property_}')"
    counts = []
    for partitioning in ("", "partitioned by (p)"):
        bare_session.sql(f"create or replace table t (id bigint, s string, p bigint) using delta {partitioning} {properties}")
        source = f"range(0, 60000, 1, {SOURCE_TASKS})"
        bare_session.sql(f"insert into t select id, uuid(), id % {PARTITIONS} from {source}")
        counts.append(bare_session.describe("default", "t").files)
        assert bare_session.sql("select count(distinct id) from t").collect()[0][0] == 60_000
    bare_session.spark.conf.unset(f"{OPTIMIZE_WRITE}.enabled")
    assert tuple(counts) == COUNTS[case]


def test_the_bin_size_limits_the_rows_of_a_file(bare_session: rowmerge.Session) -> None:
    task_size = bare_session.spark.conf.get(TASK_SIZE, None)
    bare_session.sql(f"set {OPTIMIZE_WRITE}.enabled = true")
    counts = []
    for size in ("1", "2mb", "64"):
        bare_session.sql(f"set {OPTIMIZE_WRITE}.binSize = {size}")
        bare_session.sql("create or replace table t using delta as select id, uuid() as s from range(0, 200000, 1, 8)")
        counts.append(bare_session.describe("default", "t").files)
    for size in ("many", "99999999999t"):
        bare_session.sql(f"set {OPTIMIZE_WRITE}.binSize = {size}")
        with pytest.raises(ConfigurationError, match=rf"optimizeWrite.binSize is '{size}'. Set it to a number"):
            bare_session.sql("insert into t select /*+ repartition(4) */ id, uuid() from range(100000)")
    for name in ("enabled", "binSize"):
        bare_session.spark.conf.unset(f"{OPTIMIZE_WRITE}.{name}")
    assert counts[0] > counts[1] > counts[2]
    assert bare_session.spark.conf.get(TASK_SIZE, None) == task_size


def test_statements_on_iceberg_tables_do_not_read_settings_of_delta(bare_session: rowmerge.Session) -> None:
    bare_session.sql(f"set {OPTIMIZE_WRITE}.enabled = unknown")
    bare_session.sql("create table t using iceberg as select /*+ repartition(2) */ id from range(20000)")
    with pytest.raises(ConfigurationError, match="optimizeWrite.enabled is 'unknown'. Set it to true or false"):
        bare_session.sql("create table u using delta as select /*+ repartition(2) */ id from range(20000)")
    bare_session.spark.conf.unset(f"{OPTIMIZE_WRITE}.enabled")
    assert bare_session.describe("default", "t").records == 20_000


def optimized_table() -> TableShape:
    settings = DeltaSettings({"delta.autoOptimize.optimizeWrite": "true"})
    return TableShape("t", "", "", Struct(()), Struct(()), False, (), False, settings)


def test_concurrent_optimized_writes_restore_the_setting_after_the_last_one(bare_session: rowmerge.Session) -> None:
    spark, table = bare_session.spark, optimized_table()
    task_size = spark.conf.get(TASK_SIZE, None)
    with optimized_tasks(spark, table):
        assert spark.conf.get(TASK_SIZE) == str(512 * 1024 * 1024)
        with optimized_tasks(spark, table):
            pass
        assert spark.conf.get(TASK_SIZE) == str(512 * 1024 * 1024)
    assert spark.conf.get(TASK_SIZE, None) == task_size


def test_a_setting_that_another_thread_sets_during_an_optimized_write_stays(bare_session: rowmerge.Session) -> None:
    spark, table = bare_session.spark, optimized_table()
    with optimized_tasks(spark, table):
        spark.conf.set(TASK_SIZE, "16mb")
    assert spark.conf.get(TASK_SIZE) == "16mb"
    spark.conf.unset(TASK_SIZE)
