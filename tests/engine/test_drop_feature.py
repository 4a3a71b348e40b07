"""ALTER TABLE … DROP FEATURE removes a table feature of Delta, so that readers without the feature read the table."""

from __future__ import annotations

import os
import time
from pathlib import Path

import deltalake
import pyarrow.parquet as pq
import pytest

import rowmerge
from rowmerge.errors import FeatureInHistory
from tests.support.checksums import check_checksums
from tests.support.readers import read_with_delta_rs, read_with_duckdb, rows_of

DAY = 86_400


def _folder(session: rowmerge.Session) -> Path:
    return Path(session.sql("describe detail t").collect()[0]["location"].removeprefix("file://"))


def _protocol(folder: Path) -> tuple[int, int, set[str]]:
    protocol = deltalake.DeltaTable(str(folder)).protocol()
    return protocol.min_reader_version, protocol.min_writer_version, {*(protocol.reader_features or ()), *(protocol.writer_features or ())}


def _create(session: rowmerge.Session, columns: str, properties: str, partition: str = "") -> None:
    session.sql(f"create table t ({columns}) using delta {partition} tblproperties ({properties})")


def _age(folder: Path, days: int) -> None:
    for path in (folder / "_delta_log").glob("*.*"):
        os.utime(path, (time.time() - days * DAY,) * 2)


def test_a_table_without_deletion_vectors_keeps_those_of_its_history(session: rowmerge.Session) -> None:
    _create(session, "id int", "'rowmerge.write.mode' = 'merge-on-read'")
    session.sql("insert into t select id from range(100)")
    session.sql("delete from t where id = 5")
    session.sql("alter table t drop feature DeletionVectors")
    folder = _folder(session)
    assert _protocol(folder) == (1, 7, {"appendOnly", "invariants", "checkpointProtection"})
    expected = [(number,) for number in range(100) if number != 5]
    assert rows_of(deltalake.DeltaTable(str(folder)).to_pyarrow_table().sort_by("id")) == expected
    checkpoints = sorted(int(path.name[:20]) for path in folder.glob("_delta_log/*.checkpoint.parquet"))
    newest = deltalake.DeltaTable(str(folder)).version()
    assert checkpoints == [newest - 3, newest - 2, newest - 1, newest]
    protected = session.sql("show tblproperties t ('delta.requireCheckpointProtectionBeforeVersion')").collect()
    assert protected[0]["value"] == str(newest)
    # The tombstone of the file of the vector protects it from a VACUUM of clients without the feature.
    (vector,) = folder.rglob("deletion_vector_*.bin")
    assert any(vector.name in path.read_text() and '"remove"' in path.read_text() for path in folder.glob("_delta_log/*5.json"))
    assert session.sql("select count(*) from t version as of 2").collect() == [(99,)]
    session.sql("delete from t where id = 6")
    assert not list(folder.rglob("deletion_vector_*.bin"))[1:]
    assert check_checksums(str(folder)) == newest + 2
    assert session.sql("describe history t limit 2").collect()[1]["operation"] == "DROP FEATURE"


def test_files_with_narrow_types_are_rewritten_and_others_are_not(session: rowmerge.Session) -> None:
    _create(session, "id int, s struct<a: int>, m map<int, int>", "'delta.enableTypeWidening' = 'true'")
    session.sql("insert into t values (1, named_struct('a', 1), map(1, 1))")
    for column in ("id", "s.a", "m.value"):
        session.sql(f"alter table t alter column {column} type bigint")
    session.sql("insert into t values (2, named_struct('a', 2), map(2, 2))")
    folder = _folder(session)
    wide_file = max(folder.glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    session.sql("alter table t drop feature 'typeWidening'")
    files = {Path(row[0]).name: row[0] for row in session.sql("select distinct _metadata.file_path from t").collect()}
    assert len(files) == 2 and wide_file.name in files
    assert {str(pq.read_schema(folder / name).field("id").type) for name in files} == {"int64"}
    assert session.sql("select id, s.a, m[cast(id as int)] from t order by id").collect() == [(1, 1, 1), (2, 2, 2)]
    assert "typeChanges" not in deltalake.DeltaTable(str(folder)).schema().to_json()
    assert rows_of(read_with_delta_rs(str(folder), "id").select(["id"])) == [(1,), (2,)]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_files_get_the_names_of_columns_without_column_mapping(session: rowmerge.Session, mode: str) -> None:
    properties = f"'delta.columnMapping.mode' = '{mode}', 'rowmerge.write.mode' = 'merge-on-read'"
    _create(session, "id int, s struct<a: int>, p string", properties, "partitioned by (p)")
    session.sql("insert into t values (1, named_struct('a', 1), 'x'), (2, named_struct('a', 2), 'x'), (3, null, 'y')")
    session.sql("delete from t where id = 2")
    session.sql("alter table t rename column id to key")
    session.sql("alter table t rename column s.a to b")
    session.sql("alter table t drop feature columnMapping")
    folder = _folder(session)
    assert _protocol(folder)[2] == {"appendOnly", "invariants", "checkpointProtection", "deletionVectors"}
    for rows in (read_with_delta_rs(str(folder), "key"), read_with_duckdb(str(folder), "key")):
        assert rows_of(rows.select(["key", "p", "s"])) == [(1, "x", {"b": 1}), (3, "y", None)]
    (live,) = session.sql("select _metadata.file_path from t where key = 1").collect()
    assert pq.read_schema(live[0].removeprefix("file://")).names == ["key", "s"]
    session.sql("merge into t using (select 1 as key) s on t.key = s.key when matched then update set p = 'z'")
    assert session.sql("select p from t order by key").collect() == [("z",), ("y",)]
    assert session.sql("select id, s.a from t version as of 2 order by id").collect() == [(1, 1), (3, None)]


def test_row_ids_and_domains_disappear_with_their_features(session: rowmerge.Session) -> None:
    _create(session, "id int", "'delta.enableRowTracking' = 'true', 'rowmerge.write.mode' = 'copy-on-write'")
    session.sql("insert into t values (1)")
    session.sql("alter table t drop feature rowTracking")
    session.sql("alter table t drop feature domainMetadata")
    folder = _folder(session)
    assert _protocol(folder) == (1, 2, set())
    assert check_checksums(str(folder)) == 6
    assert "rowTracking" not in str(deltalake.DeltaTable(str(folder)).metadata().configuration)
    session.sql("update t set id = 2")  # a rewrite, which row tracking forbids
    assert rows_of(read_with_delta_rs(str(folder), "id")) == [(2,)]
    assert '"baseRowId"' not in max(folder.glob("_delta_log/*.json")).read_text()


def test_truncated_history_leaves_the_lowest_protocol(session: rowmerge.Session) -> None:
    properties = "'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '1', 'delta.enableInCommitTimestamps' = 'true'"
    _create(session, "id int", f"{properties}, 'rowmerge.write.mode' = 'merge-on-read'")
    session.sql("insert into t select id from range(10)")
    session.sql("delete from t where id = 1")
    session.sql("alter table t drop feature inCommitTimestamp")
    folder = _folder(session)
    for feature in ("deletionVectors", "v2Checkpoint"):
        for days in (0, 0.5, 0.5):  # the first statement prepares, and the others come too early
            _age(folder, days)
            with pytest.raises(FeatureInHistory, match="interval 24 hours"):
                session.sql(f"alter table t drop feature {feature} truncate history")
        _age(folder, 2)
        session.sql(f"alter table t drop feature {feature} truncate history")
    assert _protocol(folder) == (1, 2, set())
    assert min(int(path.name[:20]) for path in folder.glob("_delta_log/*.json")) > 5
    assert rows_of(read_with_delta_rs(str(folder), "id")) == [(number,) for number in range(10) if number != 1]


def test_the_protection_ends_when_the_protected_versions_are_deleted(session: rowmerge.Session) -> None:
    _create(session, "id int", "'rowmerge.write.mode' = 'merge-on-read', 'delta.dropFeatureTruncateHistory.retentionDuration' = '3 days'")
    session.sql("insert into t values (1)")
    session.sql("alter table t drop feature deletionVectors")
    folder = _folder(session)
    _age(folder, 2)
    with pytest.raises(FeatureInHistory, match="3 days"):
        session.sql("alter table t drop feature checkpointProtection truncate history")
    _age(folder, 4)
    session.sql("alter table t drop feature checkpointProtection truncate history")
    assert _protocol(folder) == (1, 2, set())
    assert rows_of(read_with_delta_rs(str(folder), "id")) == [(1,)]


def test_a_concurrent_append_repeats_the_removal_of_column_mapping(session: rowmerge.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    _create(session, "id int", "'delta.columnMapping.mode' = 'name'")
    session.sql("insert into t values (1)")
    session.sql("alter table t rename column id to key")
    table = session._context.catalog.open("default", "t")
    commit, names = type(table).commit, list[str]()

    def commit_after_an_append(self, base, request):  # type: ignore[no-untyped-def]
        names.append(request.operation)
        if names == ["REMOVE COLUMN MAPPING"]:
            session.sql("insert into t values (2)")
        return commit(self, base, request)

    monkeypatch.setattr(type(table), "commit", commit_after_an_append)
    session.sql("alter table t drop feature columnMapping")
    assert names[:3] == ["REMOVE COLUMN MAPPING", "WRITE", "REMOVE COLUMN MAPPING"]
    assert rows_of(read_with_delta_rs(str(_folder(session)), "key")) == [(1,), (2,)]
