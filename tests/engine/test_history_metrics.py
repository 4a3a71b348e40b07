"""DESCRIBE HISTORY has Delta's metrics of each statement, exact for each way of execution."""

from __future__ import annotations

import pytest

import rowmerge
from rowmerge.execution.ways import selection, single_pass, write_first
from rowmerge.spark.source import source
from rowmerge.spark.writing import write

pytestmark = pytest.mark.one_of("format_", "mode", "writer")
UPSERT = "when matched then update set * when not matched then insert *"
CLAUSES = (
    "when matched and t.id % 4 = 0 then delete when matched and s.id % 4 <> 1 then update set n = t.n + s.n "
    "when not matched and s.id % 2 = 0 then insert *"
)
SOURCE_CLAUSES = CLAUSES.replace("t.id", "s.id").replace("n = t.n + s.n", "*")
REPLACEMENT = "when matched then delete when not matched then insert *"
MIRROR = f"{CLAUSES} when not matched by source and t.id % 3 = 0 then delete when not matched by source then update set n = -1"
TARGET_ONLY = "when not matched by source and t.id % 3 = 0 then delete when not matched by source and t.id < 100 then update set n = -1"
MERGES = {
    # clauses: the ways, copies of each source row, and the rows: inserted, updated and deleted with a match, updated and deleted without
    UPSERT: (("write_first", "by_keys", "lookup", "join"), 1, (100, 100, 0, 0, 0)),
    SOURCE_CLAUSES: (("by_keys", "lookup", "join"), 1, (50, 50, 25, 0, 0)),
    CLAUSES: (("lookup", "join"), 1, (50, 50, 25, 0, 0)),
    REPLACEMENT: (("by_keys", "lookup", "join"), 2, (200, 0, 100, 0, 0)),
    MIRROR: (("join", "single_pass"), 1, (50, 50, 25, 600, 300)),
    TARGET_ONLY: (("join",), 1, (0, 0, 0, 66, 300)),
}
CASES = [(clauses, way) for clauses, (ways, _, _) in MERGES.items() for way in ways]


@pytest.fixture(params=["delta", "iceberg"])
def format_(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["copy-on-write", "merge-on-read"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["driver", "executors"])
def writer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let executors write all rows, or the driver, as for few rows."""
    if request.param == "executors":
        monkeypatch.setattr(write, "FEW_ROWS", 0)
        monkeypatch.setattr(source, "MAX_LOCAL_ROWS", 0)
        monkeypatch.setattr(source, "MAX_PREPARED_ROWS", 0)


def _create(session: rowmerge.Session, format_: str, mode: str) -> None:
    properties = f"tblproperties ('rowmerge.write.mode' = '{mode}')"
    session.sql(f"create table t using {format_} {properties} as select id, id as n from range(0, 1000, 1, 2)")


def _metrics(session: rowmerge.Session) -> dict[str, int]:
    return {name: int(value) for name, value in session.sql("describe history t limit 1").collect()[0]["operationMetrics"].items()}


def _files(session: rowmerge.Session) -> tuple[int, int]:
    detail = session.sql("describe detail t").collect()[0]
    return detail["numFiles"], detail["sizeInBytes"]


@pytest.mark.parametrize(("clauses", "way"), CASES)
def test_a_merge_counts_the_rows_of_each_kind_of_clause(
    session: rowmerge.Session, format_: str, mode: str, writer: None, clauses: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _create(session, format_, mode)
    files, size = _files(session)
    monkeypatch.setattr(selection, "WAYS", tuple(each for each in selection.WAYS if each.name == way))
    for module in (write_first, single_pass):
        monkeypatch.setattr(module, "reads_few_bytes", lambda _: False)
    if way == "single_pass":
        monkeypatch.setattr(source, "MAX_BROADCAST_BYTES", 1000)
    _, copies, (inserted, updated, deleted, unmatched_updated, unmatched_deleted) = MERGES[clauses]
    source_rows = f"select id, 10000 + id as n from range(900, 1100) lateral view explode(sequence(1, {copies})) copies as copy"
    counts = session.execute(f"merge into t using ({source_rows}) s on t.id = s.id {clauses}").changes
    metrics = _metrics(session)
    rows_after = 1000 + inserted - deleted - unmatched_deleted
    assert session.sql("select count(*) from t").collect()[0][0] == rows_after
    assert {name: metrics[name] for name in metrics if "Rows" in name and name not in ("numTargetRowsCopied", "numOutputRows")} == {
        "numSourceRows": 200 * copies,
        "numTargetRowsInserted": inserted,
        "numTargetRowsUpdated": updated + unmatched_updated,
        "numTargetRowsDeleted": deleted + unmatched_deleted,
        "numTargetRowsMatchedUpdated": updated,
        "numTargetRowsMatchedDeleted": deleted,
        "numTargetRowsNotMatchedBySourceUpdated": unmatched_updated,
        "numTargetRowsNotMatchedBySourceDeleted": unmatched_deleted,
    }
    assert metrics["numOutputRows"] == inserted + updated + unmatched_updated + metrics["numTargetRowsCopied"]
    files_after, size_after = _files(session)
    assert files_after - files == metrics["numTargetFilesAdded"] - metrics["numTargetFilesRemoved"]
    assert size_after - size == metrics["numTargetBytesAdded"] - metrics["numTargetBytesRemoved"]
    assert counts is not None
    assert metrics["numTargetBytesAdded"] == counts.bytes_added
    assert 0 <= metrics["scanTimeMs"] + metrics["rewriteTimeMs"] + metrics["materializeSourceTimeMs"] <= metrics["executionTimeMs"]


def test_updates_and_deletes_count_files_bytes_and_deletion_vectors(session: rowmerge.Session, format_: str, mode: str) -> None:
    _create(session, format_, mode)
    for statement, changed_rows in (
        ("update t set n = 0 where id in (1, 2)", {"numUpdatedRows": 2}),
        ("delete from t where id = 3", {"numDeletedRows": 1}),
        ("delete from t where id in (4, 5)", {"numDeletedRows": 2}),
        ("delete from t", {"numDeletedRows": 997}),
    ):
        files, size = _files(session)
        session.sql(statement)
        metrics, (files_after, size_after) = _metrics(session), _files(session)
        assert {name: metrics[name] for name in changed_rows} == changed_rows
        assert files_after - files == metrics["numAddedFiles"] - metrics["numRemovedFiles"]
        assert size_after - size == metrics["numAddedBytes"] - metrics["numRemovedBytes"]
        vectors = tuple(metrics[f"numDeletionVectors{change}"] for change in ("Added", "Removed", "Updated"))
        if mode == "copy-on-write":
            assert vectors == (0, 0, 0)
        elif statement.startswith("update"):
            assert vectors == (1, 0, 0)
        elif statement == "delete from t":
            assert vectors == (0, 1, 0)
        else:
            assert vectors == (1, 1, 1)
        assert metrics["scanTimeMs"] + metrics["rewriteTimeMs"] <= metrics["executionTimeMs"]


def test_statements_that_replace_files_count_them(session: rowmerge.Session, format_: str) -> None:
    _create(session, format_, "copy-on-write")
    for statement, written_rows in (
        ("insert overwrite t select id, id from range(0, 10, 1, 1)", 10),
        ("insert into t replace where id < 5 select id, id from range(0, 3, 1, 1)", 8),
        (f"create or replace table t using {format_} as select id, id as n from range(0, 20, 1, 1)", 20),
    ):
        files, size = _files(session)
        session.sql(statement)
        metrics, (files_after, size_after) = _metrics(session), _files(session)
        assert metrics["numOutputRows"] == written_rows
        assert files_after - files == metrics["numFiles"] - metrics["numRemovedFiles"]
        assert size_after - size == metrics["numOutputBytes"] - metrics["numRemovedBytes"]
    _, size = _files(session)
    session.sql("truncate table t")
    assert _metrics(session) == {"numRemovedFiles": 1, "numRemovedBytes": size, "numDeletedRows": 20}
