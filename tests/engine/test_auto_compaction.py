"""Auto-compaction: which commits start it, which files it combines, and that its failures never reach the statement."""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rowmerge
from rowmerge.catalog import DirectoryCatalog
from rowmerge.delta import DeltaTable
from rowmerge.delta.maintenance.vacuum import referenced_paths
from rowmerge.storage.store import Put, Storage
from tests.engine.interleaving import TakingTurns, Turns
from tests.support.faulty_storage import Fault, FaultyStorage
from tests.support.readers import read_with_delta_rs, read_with_duckdb, rows_of

ROOT = Path(__file__).parents[2]
AUTO_COMPACT = "spark.databricks.delta.autoCompact"
PROPERTY = "'delta.autoOptimize.autoCompact' = 'true'"
MIN_FILES = 5


@pytest.fixture
def compacting(bare_session: rowmerge.Session) -> Iterator[rowmerge.Session]:
    """Return a session that compacts partitions with MIN_FILES small files. Afterwards, remove the settings of the test."""
    bare_session.spark.conf.set(f"{AUTO_COMPACT}.minNumFiles", str(MIN_FILES))
    yield bare_session
    for name in ("enabled", "minNumFiles", "maxFileSize", "minFileSize"):
        bare_session.spark.conf.unset(f"{AUTO_COMPACT}.{name}")


def folder_of(session: rowmerge.Session, name: str = "t") -> Path:
    return Path(session.describe("default", name).location.removeprefix("file://"))


def log_of(folder: Path) -> list[list[dict[str, Any]]]:
    """Return the actions of each version of a table."""
    paths = sorted(folder.glob("_delta_log/*.json"))
    return [[json.loads(line) for line in path.read_text().splitlines()] for path in paths]


def operations(folder: Path) -> list[str]:
    return [next(action["commitInfo"]["operation"] for action in actions if "commitInfo" in action) for actions in log_of(folder)]


def file_counts(log: list[list[dict[str, Any]]]) -> Iterator[Counter[str]]:
    """Yield the number of live files in each partition, for each version."""
    partition_by_path: dict[str, str] = {}
    for actions in log:
        # A file with a new deletion vector is removed and added in the same version.
        for removed in (action["remove"] for action in actions if "remove" in action):
            partition_by_path.pop(removed["path"])
        for added in (action["add"] for action in actions if "add" in action):
            partition_by_path[added["path"]] = json.dumps(added["partitionValues"])
        yield Counter(partition_by_path.values())


def insert_files(session: rowmerge.Session, count: int, first: int = 0, table: str = "t") -> None:
    for id_ in range(first, first + count):
        session.sql(f"insert into {table} values ({id_}, 'a')")


def create(session: rowmerge.Session, properties: str = PROPERTY, table: str = "t") -> None:
    session.sql(f"create table {table} (id bigint, v string) using delta tblproperties ({properties})")


@pytest.mark.one_of("partitioning", "mode")
@pytest.mark.parametrize("partitioning", ["", "partitioned by (p)"])
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_many_small_merges_leave_few_files_and_every_row(compacting: rowmerge.Session, partitioning: str, mode: str) -> None:
    properties = f"{PROPERTY}, 'rowmerge.write.mode' = '{mode}', 'delta.enableChangeDataFeed' = 'true'"
    compacting.sql(f"create table t (id bigint, v int, p string) using delta {partitioning} tblproperties ({properties})")
    expected: dict[int, tuple[int, int, str | None]] = {}
    generator = random.Random(7)
    for merge in range(40):
        ids = {*generator.sample(sorted(expected), min(2, len(expected))), *range(merge * 4, merge * 4 + 4)}
        rows = [(id_, merge, None if id_ % 3 == 0 else f"p {id_ % 3}") for id_ in sorted(ids)]
        source = pa.table({name: list(values) for name, values in zip(("id", "v", "p"), zip(*rows, strict=True), strict=True)})
        compacting.spark.createDataFrame(source.cast(pa.schema({"id": "int64", "v": "int32", "p": "string"}))).createOrReplaceTempView("s")
        compacting.sql("merge into t using s on t.id = s.id when matched then update set * when not matched then insert *")
        expected |= {row[0]: row for row in rows}
    log = log_of(folder_of(compacting))
    compactions = [actions for actions in log if actions[0]["commitInfo"]["operation"] == "OPTIMIZE"]
    assert len(compactions) >= 40 // MIN_FILES - 1
    assert len(log) == 1 + 40 + len(compactions)
    for actions in compactions:
        assert actions[0]["commitInfo"]["operationParameters"]["auto"] == "true"
        assert [action for action in actions if (action.get("add") or action.get("remove") or {}).get("dataChange")] == []
        assert not [action for action in actions if "cdc" in action or "txn" in action]
    assert max(max(counts.values(), default=0) for counts in file_counts(log)) < 2 * MIN_FILES
    rows_in_order = sorted(expected.values())
    location = str(folder_of(compacting))
    for read in (read_with_delta_rs, read_with_duckdb):
        assert sorted(rows_of(read(location).select(["id", "v", "p"]))) == rows_in_order
    assert compacting.sql("select count(*) from table_changes('t', 0) where _change_type in ('insert', 'delete')").collect()[0][0] == 160


STATEMENTS: dict[str, Callable[[rowmerge.Session], object]] = {
    "INSERT": lambda session: session.sql("insert into t values (9, 'b')"),
    "UPDATE": lambda session: session.sql("update t set v = 'b' where id = 0"),
    "DELETE of rows in a file": lambda session: session.sql("delete from t where id = 101"),
    "MERGE": lambda session: session.sql("merge into t using (select 9 as id, 'b' as v) s on t.id = s.id when not matched then insert *"),
    "REPLACE WHERE": lambda session: session.sql("insert into t replace where id = 0 values (0, 'b')"),
    "write of an Arrow table": lambda session: session.write(pa.table({"id": [9], "v": ["b"]}), "t"),
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_each_statement_that_adds_a_file_compacts(compacting: rowmerge.Session, statement: str) -> None:
    create(compacting, "'rowmerge.write.mode' = 'copy-on-write'")
    compacting.sql("insert into t values (100, 'a'), (101, 'a')")
    insert_files(compacting, MIN_FILES)
    compacting.sql(f"alter table t set tblproperties ({PROPERTY})")
    STATEMENTS[statement](compacting)
    assert operations(folder_of(compacting))[-1] == "OPTIMIZE"
    assert compacting.describe("default", "t").files == 1


@pytest.mark.parametrize(
    "statement", ["truncate table t", "restore table t to version as of {version}", "delete from t where id = 0", "reorg"]
)
def test_statements_that_add_no_rows_do_not_compact(compacting: rowmerge.Session, statement: str) -> None:
    create(compacting, "'rowmerge.write.mode' = 'merge-on-read'")
    compacting.sql("insert into t values (0, 'a'), (101, 'a')")
    insert_files(compacting, MIN_FILES, first=1)
    compacting.sql(f"set {AUTO_COMPACT}.enabled = true")
    text = statement.format(version=MIN_FILES)
    compacting.sql("reorg table t apply (purge)" if text == "reorg" else text)
    assert "OPTIMIZE" not in operations(folder_of(compacting))
    compacting.sql("create table c shallow clone t")
    assert operations(folder_of(compacting, "c")) == ["CLONE"]


def test_a_new_table_of_many_small_files_is_compacted(compacting: rowmerge.Session) -> None:
    query = "select /*+ repartition(8) */ id, 'a' as v from range(80)"
    for text in ("create table", "create or replace table"):
        compacting.sql(f"{text} t using delta tblproperties ({PROPERTY}) as {query}")
        assert operations(folder_of(compacting))[-1] == "OPTIMIZE"
        assert compacting.describe("default", "t").files == 1
    compacting.sql(f"create or replace table t using delta as {query}")
    assert compacting.describe("default", "t").files == 8
    assert compacting.sql("select count(distinct id) from t").collect()[0][0] == 80


@pytest.mark.parametrize(
    ("properties", "setting", "compacts"),
    [
        ("'delta.autoOptimize.autoCompact' = 'auto'", None, True),
        ("'delta.autoOptimize.autoCompact' = 'legacy'", None, True),
        ("'delta.autoOptimize.autoCompact' = 'false'", None, False),
        ("'delta.autoOptimize' = 'true', 'delta.autoOptimize.autoCompact' = 'false'", None, True),
        ("'delta.autoOptimize' = 'false', 'delta.autoOptimize.autoCompact' = 'true'", None, True),
        ("'delta.autoOptimize.autoCompact' = 'true'", "false", False),
        ("'delta.autoOptimize.autoCompact' = 'false'", "true", True),
        ("'delta.enableRowTracking' = 'true'", "true", False),
    ],
)
def test_the_setting_of_the_session_precedes_the_properties(
    compacting: rowmerge.Session, caplog: pytest.LogCaptureFixture, properties: str, setting: str | None, compacts: bool
) -> None:
    create(compacting, properties)
    if setting is not None:
        compacting.sql(f"set {AUTO_COMPACT}.enabled = {setting}")
    insert_files(compacting, MIN_FILES)
    assert ("OPTIMIZE" in operations(folder_of(compacting))) is compacts
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_settings_limit_the_sizes_of_files(compacting: rowmerge.Session) -> None:
    create(compacting)
    compacting.sql(f"set {AUTO_COMPACT}.minFileSize = 100")
    insert_files(compacting, MIN_FILES)
    assert "OPTIMIZE" not in operations(folder_of(compacting))
    size = max(action["add"]["size"] for actions in log_of(folder_of(compacting)) for action in actions if "add" in action)
    compacting.sql(f"set {AUTO_COMPACT}.minFileSize = {2 * size}")
    compacting.sql(f"set {AUTO_COMPACT}.maxFileSize = {3 * size}")
    insert_files(compacting, 1, first=100)
    assert operations(folder_of(compacting))[-1] == "OPTIMIZE"
    assert compacting.describe("default", "t").files == 2


def test_only_partitions_with_new_files_are_compacted(compacting: rowmerge.Session) -> None:
    compacting.sql("create table t (id bigint, p date) using delta partitioned by (p)")
    for _ in range(MIN_FILES):
        compacting.sql("insert into t values (1, date'2024-01-01'), (2, null)")
    compacting.sql(f"alter table t set tblproperties ({PROPERTY})")
    compacting.sql("insert into t values (3, null)")
    *_, counts = file_counts(log_of(folder_of(compacting)))
    assert counts == {'{"p": "2024-01-01"}': MIN_FILES, '{"p": null}': 1}


def test_tables_for_other_readers_stay_correct(compacting: rowmerge.Session) -> None:
    create(compacting, f"{PROPERTY}, 'delta.appendOnly' = 'true', 'delta.compatibility.symlinkFormatManifest.enabled' = 'true'")
    insert_files(compacting, MIN_FILES)
    folder = folder_of(compacting)
    assert operations(folder)[-1] == "OPTIMIZE"
    (path,) = (folder / "_symlink_format_manifest" / "manifest").read_text().split()
    (live,) = [action["add"]["path"] for action in log_of(folder)[-1] if "add" in action]
    assert path.endswith(live)


def test_a_repeated_statement_with_a_key_neither_commits_nor_compacts(compacting: rowmerge.Session) -> None:
    create(compacting)
    insert_files(compacting, MIN_FILES - 1)
    for replayed in (False, True):
        result = compacting.execute("insert into t values (9, 'k')", idempotency_key="load 1")
        assert (result.replayed, result.version) == (replayed, MIN_FILES)
    assert operations(folder_of(compacting)).count("OPTIMIZE") == 1
    assert compacting.sql("select count(*) from t").collect()[0][0] == MIN_FILES


def test_iceberg_tables_are_not_compacted(compacting: rowmerge.Session) -> None:
    compacting.sql(f"set {AUTO_COMPACT}.enabled = true")
    compacting.sql("create table t (id bigint, v string) using iceberg")
    insert_files(compacting, MIN_FILES)
    assert compacting.describe("default", "t").files == MIN_FILES


class ActingAfterChecksum(Storage):
    """A store on which another writer acts once, after the checksum of a commit is put: between a statement and its compaction."""

    def __init__(self, location: str, waiting: list[Callable[[], object]]) -> None:
        super().__init__(location)
        self._waiting = waiting

    def child(self, path: str) -> Storage:
        return ActingAfterChecksum(f"{self.location}/{path}", self._waiting)

    def at(self, location: str) -> Storage:
        return ActingAfterChecksum(location, self._waiting)

    def put_if_absent(self, path: str, data: bytes) -> Put:
        result = super().put_if_absent(path, data)
        self._act(path)
        return result

    def put(self, path: str, data: bytes) -> None:
        super().put(path, data)
        self._act(path)

    def _act(self, path: str) -> None:
        if path.endswith(".crc") and self._waiting:
            self._waiting.pop()()


def lose_a_file(session: rowmerge.Session) -> None:
    min(folder_of(session).glob("*.parquet")).unlink()


def replace_by_another_table(session: rowmerge.Session) -> None:
    session.sql("drop table t")
    create(session, "'delta.appendOnly' = 'true'")
    insert_files(session, MIN_FILES)


FAILURES: dict[str, tuple[Callable[[rowmerge.Session], object], str | None]] = {
    "DROP": (lambda other: other.sql("drop table t"), "There is no table"),
    "another table": (replace_by_another_table, None),
    "a lost file": (lose_a_file, "is missing"),
    "an invalid property": (lambda other: other.spark.conf.set(f"{AUTO_COMPACT}.minNumFiles", "many"), "Set it to a whole number"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_between_statement_and_compaction_is_a_warning(
    compacting: rowmerge.Session, tmp_path: Path, caplog: pytest.LogCaptureFixture, failure: str
) -> None:
    act, message = FAILURES[failure]
    create(compacting)
    insert_files(compacting, MIN_FILES - 1)
    waiting: list[Callable[[], object]] = [lambda: act(compacting)]
    storage = ActingAfterChecksum(str(tmp_path / "warehouse"), waiting)
    session = rowmerge.Session(DirectoryCatalog(storage), compacting.spark, "default", "delta", owns_spark=False)
    with caplog.at_level(logging.WARNING):
        result = session.execute("insert into t values (9, 'b')")
    assert not waiting
    assert (result.changes.inserted, result.version) == (1, MIN_FILES)  # type: ignore[union-attr]
    warnings = [record.getMessage() for record in caplog.records if "auto-compaction" in record.getMessage()]
    assert [message in warning for warning in warnings if message] == [True] * (message is not None)
    if failure == "another table":
        assert compacting.describe("default", "t").files == MIN_FILES


def test_a_concurrent_change_of_the_same_files_ends_the_compaction_with_a_warning(
    compacting: rowmerge.Session, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    create(compacting)
    insert_files(compacting, MIN_FILES - 1)
    session, turns = _session_with_turns(compacting, tmp_path, "update t set v = 'u' where id = 2")
    with caplog.at_level(logging.WARNING):
        session.execute("insert into t values (9, 'b')")
    assert not turns.waiting
    assert [record for record in caplog.records if "auto-compaction" in record.getMessage()]
    folder = folder_of(compacting)
    assert operations(folder).count("WRITE") == MIN_FILES
    assert sorted(rows_of(read_with_delta_rs(str(folder)))) == [(0, "a"), (1, "a"), (2, "u"), (3, "a"), (9, "b")]
    live_files = {Path(path).name for path in referenced_paths(DeltaTable(Storage(str(folder)), "t").snapshot())}
    assert len([path for path in folder.glob("*.parquet") if path.name not in live_files]) <= 1, "the files of the compaction remain"


def test_only_one_thread_of_a_process_compacts_a_table(compacting: rowmerge.Session, tmp_path: Path) -> None:
    create(compacting)
    insert_files(compacting, MIN_FILES - 1)
    session, turns = _session_with_turns(compacting, tmp_path, "insert into t values (8, 'a')")
    session.execute("insert into t values (9, 'b')")
    assert not turns.waiting
    assert operations(folder_of(compacting))[-3:] == ["WRITE", "WRITE", "OPTIMIZE"]
    assert compacting.describe("default", "t").files == 2


def _session_with_turns(session: rowmerge.Session, tmp_path: Path, statement: str) -> tuple[rowmerge.Session, Turns]:
    """Return a session whose second commit, that of the compaction, waits for a statement of another session."""
    turns = Turns([lambda: None, lambda: session.execute(statement)])
    catalog = DirectoryCatalog(TakingTurns(str(tmp_path / "warehouse"), turns=turns))
    return rowmerge.Session(catalog, session.spark, "default", "delta", owns_spark=False), turns


def test_counting_small_files_calls_the_store_as_often_as_no_compaction(compacting: rowmerge.Session, tmp_path: Path) -> None:
    fault = Fault()
    catalog = DirectoryCatalog(FaultyStorage(str(tmp_path / "warehouse"), fault))
    session = rowmerge.Session(catalog, compacting.spark, "default", "delta", owns_spark=False)
    calls = {}
    for table, properties in (("t", PROPERTY), ("u", "'delta.autoOptimize.autoCompact' = 'false'")):
        create(session, properties, table)
        insert_files(session, MIN_FILES - 2, table=table)
        fault.calls.clear()
        insert_files(session, 1, table=table)
        calls[table] = list(fault.calls)
    assert calls["t"] == calls["u"]


DYING = """
import sys
from rowmerge.catalog import DirectoryCatalog
from rowmerge.session.startup.embedded import start_spark
from rowmerge.session.session import Session
from tests.support.jvm import SPARK_SETTINGS
from tests.support.faulty_storage import Fault, FaultyStorage, Kind
fault = Fault(Kind.KILLED)
spark = start_spark({**SPARK_SETTINGS, "spark.databricks.delta.autoCompact.minNumFiles": "5"})
session = Session(DirectoryCatalog(FaultyStorage(sys.argv[1], fault)), spark, "default", "delta", owns_spark=True)
for id_ in (2, 3, 4):
    calls = len(fault.calls)
    fault.calls.clear()
    fault.at = calls + int(sys.argv[2]) if id_ == 4 else 0
    session.sql(f"insert into t values ({id_}, 'a')")
"""


@pytest.mark.one_of("call")
@pytest.mark.parametrize("call", [2, 3, 1, 4])
def test_a_process_that_is_killed_during_a_compaction_leaves_the_statement(
    bare_session: rowmerge.Session, tmp_path: Path, call: int
) -> None:
    """Kill the process at a storage call after those of the statement: the second one puts the commit."""
    create(bare_session)
    insert_files(bare_session, 2)
    command = [sys.executable, "-c", DYING, str(tmp_path / "warehouse"), str(call)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *(path for path in sys.path if path)])}
    process = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    assert process.returncode == -signal.SIGKILL
    folder = folder_of(bare_session)
    assert operations(folder)[:6] == ["CREATE TABLE", *["WRITE"] * 5]
    assert sorted(rows_of(read_with_delta_rs(str(folder)))) == [(id_, "a") for id_ in range(5)]
    bare_session.spark.conf.set(f"{AUTO_COMPACT}.minNumFiles", "2")
    bare_session.sql("insert into t values (5, 'a')")
    bare_session.spark.conf.unset(f"{AUTO_COMPACT}.minNumFiles")
    assert bare_session.describe("default", "t").files == 1
    assert sorted(rows_of(read_with_duckdb(str(folder)))) == [(id_, "a") for id_ in range(6)]
