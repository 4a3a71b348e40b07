"""The writer reads the columns that updated rows keep. The rows equal those of statements that pass all columns through Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

import rowmerge
from rowmerge.execution.ways import row_writing, way
from rowmerge.execution.ways.way import RowChangeRequest
from rowmerge.parquet import outcomes
from rowmerge.parquet.data_files import WriteSpec
from rowmerge.parquet.filesystems import UnreadableFile
from rowmerge.parquet.outcomes import OutcomeColumns
from rowmerge.spark.matching import key_lookup
from rowmerge.spark.source import source
from rowmerge.spark.writing import write
from tests.engine.conftest import assert_independent_readers_agree

pytestmark = pytest.mark.one_of("kind")

COLUMNS = (
    "id, if(id % 5 = 0, null, id * 2) as v, cast(id % 3 as int) as part, if(id % 7 = 0, null, 'text ' || id) as text, "
    "named_struct('a', id, 'tags', array('x', 'y' || id)) as s, map('k', id) as m, cast(id / 4 as decimal(12, 2)) as amount, "
    "date_add(date'1960-01-01', int(id)) as day, cast(null as date) as valid_to"
)
TABLES = {
    "delta": "using delta tblproperties ('rowmerge.write.mode' = 'copy-on-write')",
    "delta by parts": "using delta partitioned by (part)",
    "delta, columns mapped": "using delta tblproperties ('delta.columnMapping.mode' = 'name', 'rowmerge.write.mode' = 'merge-on-read')",
    "iceberg": "using iceberg",
    "iceberg by buckets": "using iceberg partitioned by (bucket(3, id))",
    "iceberg 3": "using iceberg tblproperties ('format-version' = '3', 'write.merge.mode' = 'copy-on-write')",
}
SOURCE = f"(select {COLUMNS.replace('id * 2', '-id')}, id % 4 as op from range(0, 1200, 2))"
MERGE = f"merge into {{table}} t using {SOURCE} s on t.id = s.id "
STATEMENTS = {
    "update": "update {table} set v = v + 1, text = 'new' where id % 3 = 0",
    "merge": MERGE + "when matched then update set v = t.v + s.v",
    "scd2": MERGE + "when matched and t.valid_to is null and s.op = 2 then update set valid_to = s.day when not matched then insert *",
    "cdc": MERGE
    + "when matched and s.op = 0 then delete when matched then update set v = s.v, text = s.text when not matched then insert *",
    "by source": MERGE + "when matched and s.op = 2 then update set v = s.v when not matched by source and t.id > 9 then update set v = 0",
}


@pytest.fixture
def read_columns(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[str]]:
    """Let the writer read columns also for few rows. The result gets the columns of each job."""
    columns: list[frozenset[str]] = []
    late_values = row_writing.LateValues

    def recorded(snapshot: Any, late_columns: frozenset[str], *arguments: Any, **options: Any) -> row_writing.LateValues:
        columns.append(late_columns)
        return late_values(snapshot, late_columns, *arguments, **options)

    monkeypatch.setattr(row_writing, "LateValues", recorded)
    monkeypatch.setattr(row_writing, "_are_few_rows", lambda plan, files, source: False)
    monkeypatch.setattr(source, "MAX_BROADCAST_BYTES", -1)
    return columns


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_rows_equal_those_that_pass_through_spark(
    session: rowmerge.Session, monkeypatch: pytest.MonkeyPatch, read_columns: list[frozenset[str]], kind: str, statement: str
) -> None:
    for table in ("whole", "late"):
        session.sql(f"create table {table} {TABLES[kind]} as select {COLUMNS} from range(1000)")
        session.sql(f"alter table {table} add column added string")  # files lack the column
        session.sql(f"update {table} set added = 'moved' where id % 10 = 4")
        session.sql(f"delete from {table} where id % 10 = 3")
    read_columns.clear()
    ids = _row_ids(session, kind)
    with monkeypatch.context() as patch:
        patch.setattr(RowChangeRequest, "late_columns", frozenset())
        expected = session.sql(STATEMENTS[statement].format(table="whole").replace("insert *", INSERT)).collect()
    assert not read_columns
    assert session.sql(STATEMENTS[statement].format(table="late").replace("insert *", INSERT)).collect() == expected
    assert [{"s", "m", "amount", "added"} <= columns for columns in read_columns] == [True]
    rows = [sorted(map(str, session.sql(f"select * from {table}").collect())) for table in ("whole", "late")]
    assert rows[0] == rows[1]
    new_ids = _row_ids(session, kind)
    assert all(new_ids.get(id_, row_id) == row_id for id_, row_id in ids.items())
    assert_independent_readers_agree(session)


INSERT = "insert (id, v, part, text, s, m, amount, day, valid_to) values (s.id, s.v, s.part, s.text, s.s, s.m, s.amount, s.day, s.valid_to)"


def _row_ids(session: rowmerge.Session, kind: str) -> dict[int, int]:
    """Return the row id of each row by its id, for a table with row ids."""
    rows = session.sql("select id, _row_id from late").collect() if kind == "iceberg 3" else []
    return {row["id"]: row["_row_id"] for row in rows}


@pytest.mark.parametrize("by_lookup", [True, False])
def test_rows_arrive_in_several_batches_and_several_lookups(
    session: rowmerge.Session, monkeypatch: pytest.MonkeyPatch, read_columns: list[frozenset[str]], by_lookup: bool
) -> None:
    """A task that has collected enough rows writes them, and reads the file again for later rows."""
    monkeypatch.setattr(outcomes, "_MAX_PENDING_BYTES", 1_000)
    monkeypatch.setattr(outcomes, "_MAX_VALUE_BYTES", 1_000)
    if not by_lookup:
        monkeypatch.setattr(key_lookup, "_lookup_keys", lambda snapshot, source: None)
    session.sql(f"create table t as select {COLUMNS} from range(0, 30000, 1, 3)")
    rows = f"(select {COLUMNS.replace('id * 2', '-id')} from range(0, 30000, 2, 2))"
    session.sql(f"merge into t using {rows} s on t.id = s.id when matched then update set v = coalesce(s.v, 0) + 1")
    assert len(read_columns) == 1
    values = [1 - n if n % 5 else 1 for n in range(0, 30000, 2)]
    assert session.sql("select count(*), sum(v) from t where id % 2 = 0").collect() == [(15000, sum(values))]
    expected = "select id, text, s.a, amount, day from t except all select id, text, s.a, amount, day from ({})"
    assert session.sql(f"select count(*) from ({expected.format(f'select {COLUMNS} from range(30000)')})").collect() == [(0,)]


def test_a_constraint_on_a_kept_column_is_checked_and_its_columns_pass_through_spark(
    session: rowmerge.Session, read_columns: list[frozenset[str]]
) -> None:
    session.sql(f"create table t as select {COLUMNS} from range(100)")
    session.sql("alter table t add constraint positive check (coalesce(v, 0) + amount < 1000)")
    session.sql("update t set v = 7 where id < 10")
    assert read_columns and not {"amount", "v"} & read_columns[0]
    with pytest.raises(rowmerge.errors.ConstraintViolated, match="positive"):
        session.sql("update t set v = 2000 where id < 10")
    assert session.sql("select max(v) from t").collect() == [(198,)]


def test_a_rule_that_may_read_hidden_columns_passes_all_columns_through_spark(
    session: rowmerge.Session, read_columns: list[frozenset[str]]
) -> None:
    """For sqlglot, `unit` is a keyword."""
    session.sql(f"create table t as select {COLUMNS}, 'year' as unit from range(100)")
    session.sql("alter table t add constraint whole check (day >= trunc(day, unit))")
    session.sql("update t set v = 7 where id < 10")
    assert not read_columns


def test_times_pass_through_spark(session: rowmerge.Session, read_columns: list[frozenset[str]]) -> None:
    """Arrow cannot convert all times of Spark 2."""
    session.sql(f"create table t as select {COLUMNS}, timestamp'2026-01-01' as ts, array(date'1500-01-01') as days from range(100)")
    session.sql("update t set v = 7 where id < 10")
    assert [columns & {"ts", "days", "s"} for columns in read_columns] == [{"s"}]


def test_an_update_of_all_rows_reads_a_column(session: rowmerge.Session, read_columns: list[frozenset[str]]) -> None:
    session.sql(f"create table t as select {COLUMNS} from range(100)")
    session.sql("update t set v = 7")
    assert "s" in read_columns[0] and len(read_columns[0]) == len(session.sql("select * from t").columns) - 2
    assert session.sql("select count(*), sum(v), count(s), count(day) from t").collect() == [(100, 700, 100, 100)]


def test_joined_rows_of_a_file_arrive_in_one_task_unless_the_table_forbids_the_shuffle(
    session: rowmerge.Session, monkeypatch: pytest.MonkeyPatch, read_columns: list[Any]
) -> None:
    task_counts, repartition = list[int](), type(session.spark.range(1)).repartition

    def recorded(frame: DataFrame, *arguments: Any) -> DataFrame:
        task_counts.append(arguments[0])
        return repartition(frame, *arguments)

    monkeypatch.setattr(source, "MAX_LOCAL_ROWS", 0)
    for module in (row_writing, write):
        monkeypatch.setattr(module, "are_small", lambda files: False)
    for table, mode in (("shuffled", "hash"), ("unshuffled", "none")):
        properties = f"tblproperties ('write.merge.distribution-mode' = '{mode}')"
        session.sql(f"create table {table} using iceberg {properties} as select {COLUMNS} from range(0, 3000, 1, 3)")
        with monkeypatch.context() as patch:
            patch.setattr(type(session.spark.range(1)), "repartition", recorded)
            session.sql(f"{MERGE.format(table=table)} when matched then update set v = 7 + coalesce(t.v, 0) * 0")
        assert session.sql(f"select count(*), count_if(v = 7), count(text) from {table}").collect() == [(3000, 600, 2571)]
    assert (len(read_columns), task_counts) == (1, [2])


def test_a_file_that_was_replaced_by_a_shorter_one_is_an_error(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.int64())])
    spec = WriteSpec(tmp_path.as_uri(), ("id", "v"), schema, schema, False, (), False, frozenset(), late_columns=("id",))
    pq.write_table(pa.table({"id": [0, 1], "v": [5, 6]}), tmp_path / "f")
    spec = replace(spec, path_by_file={"f": f"{tmp_path.as_uri()}/f"})
    rows = {"action": pa.array([1, 1], pa.int8()), "file": ["f", "f"], "v": [7, 8]}
    columns = OutcomeColumns("action", "file", "position", new_columns=("v",))
    writer = outcomes.OutcomeWriter(columns, spec, None)
    writer.write(pa.table(rows | {"position": [1, 0]}))
    (file,) = writer.close().files
    assert pq.read_table(file.path.removeprefix("file://")).to_pylist() == [{"id": 0, "v": 8}, {"id": 1, "v": 7}]
    writer = outcomes.OutcomeWriter(columns, spec, None)
    writer.write(pa.table(rows | {"position": [1, 2]}))
    with pytest.raises(UnreadableFile, match="fewer rows"):
        writer.close()
    writer.abort()


def test_a_file_that_is_lost_before_its_columns_are_copied_is_an_error(
    session: rowmerge.Session, monkeypatch: pytest.MonkeyPatch, read_columns: list[frozenset[str]]
) -> None:
    """Executors copy the columns of so many rows."""
    session.sql(f"create table t as select {COLUMNS} from range(30000)")
    late_values = row_writing.LateValues

    def lost(snapshot: Any, late_columns: Any, paths: dict[str, str], *arguments: Any) -> row_writing.LateValues:
        return late_values(snapshot, late_columns, {name: f"{path}.lost" for name, path in paths.items()}, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(row_writing, "LateValues", lost)
        with pytest.raises(rowmerge.errors.MissingDataFile, match="lost"):
            session.sql("update t set v = 7")
    assert read_columns and session.sql("select count(*), count_if(v = 7) from t").collect() == [(30000, 0)]
    folder = Path(session.describe("default", "t").location.removeprefix("file://"))
    assert len(list(folder.glob("*.parquet"))) == len(session.sql("select * from t.files").collect())


@pytest.mark.parametrize(
    "statement", ["delete from t", "update t set a = 1", "merge into t using t s on false when not matched then insert *"]
)
def test_a_statement_that_needs_no_column_has_no_late_columns(session: rowmerge.Session, statement: str) -> None:
    session.sql("create table t (a int)")
    assert "copies" not in str(session.sql(f"explain {statement}").collect())
    session.sql(statement)


def test_explain_names_the_columns(session: rowmerge.Session) -> None:
    session.sql(f"create table t as select {COLUMNS}, 1 as a, 2 as b from range(100)")
    lines = [row[0] for row in session.sql("explain update t set v = 7").collect()]
    assert "copies columns that updates keep from the files: `id`, `part`, `text`, `s`, `m`, 4 more" in "\n".join(lines)
    for statement in ("delete from t where v = 7", "update t set v = 7 where id > 3"):
        assert "copies" not in str(session.sql(f"explain {statement}").collect())


def test_few_narrow_columns_pass_through_spark(session: rowmerge.Session, read_columns: list[frozenset[str]]) -> None:
    session.sql("create table t as select id, id as v, id as w from range(100)")
    session.sql("update t set v = 1 where id = 5")
    assert not read_columns and way.MIN_LATE_ROW_BYTES > 16


def test_sorted_tables_and_change_feeds_pass_all_columns_through_spark(
    session: rowmerge.Session, read_columns: list[frozenset[str]]
) -> None:
    session.sql(f"create table fed tblproperties ('delta.enableChangeDataFeed' = 'true') as select {COLUMNS} from range(100)")
    session.sql(f"create table ordered using iceberg as select {COLUMNS} from range(100)")
    session.sql("alter table ordered write ordered by day")
    for table in ("fed", "ordered"):
        session.sql(f"update {table} set v = 7 where id < 10")
        assert session.sql(f"select count(*), count(s), count_if(v = 7) from {table}").collect() == [(100, 100, 10)]
    assert not read_columns
