"""EXPLAIN of statements that write: its output, and that it neither writes nor runs anything."""

from __future__ import annotations

from dataclasses import replace

import pytest

import rowmerge
from rowmerge.errors import PlanError, TypeMismatch, UnknownColumn
from rowmerge.execution.ways import selection, single_pass, write_first
from rowmerge.execution.ways.way import ExecutionResult, NotApplicable, RowChangeRequest, Way
from rowmerge.spark.source import source

CLAUSES = "when matched and s.v > 3 then update set v = s.v when not matched then insert *"
APPENDED = "  commit: a blind append, which conflicts only with changes of the table definition"
LAST = "  on version 3, isolation level WriteSerializable"


@pytest.fixture
def tables(session: rowmerge.Session) -> rowmerge.Session:
    """Create `t` with ids 1 and 2 in partition a, and files with ids 3 and 10 in partition b. Create `s` with two rows."""
    session.sql("create table t (id int, p string, v double) using delta partitioned by (p)")
    for rows in ("(1, 'a', 1), (2, 'a', 2)", "(3, 'b', 3)", "(10, 'b', 30)"):
        session.sql(f"insert into t values {rows}")
    session.sql("create table s (id int, p string, v double) using delta")
    session.sql("insert into s values (1, 'a', 5), (9, 'c', 9)")
    return session


def explain(session: rowmerge.Session, statement: str, mode: str = "") -> list[str]:
    ((text,),) = session.sql(f"explain {mode} {statement}").collect()
    return [line.partition(" bytes")[0].rpartition(", ")[0] + ")" if " bytes" in line else line for line in text.split("\n")]


def test_explain_describes_each_statement_without_running_it(tables: rowmerge.Session) -> None:
    merge = explain(tables, f"merge into t using s on t.id = s.id and t.p = 'b' and t.id > 5 and hash(t.p) <> 0 {CLAUSES}")
    assert [line for line in merge if "way: " not in line and "    not " not in line and "  otherwise: " not in line][:11] == [
        "MERGE default.t",
        "  ON t.id = s.id and t.p = 'b' and t.id > 5 and hash(t.p) <> 0",
        "    key id = s.id",
        "  WHEN MATCHED AND s.v > 3 THEN UPDATE v = s.v",
        "  WHEN NOT MATCHED THEN INSERT id = `s`.`id`, p = `s`.`p`, v = `s`.`v`",
        "  source: s, 2 row(s) according to its metadata, not read by EXPLAIN",
        "  files: 1 of 3 may contain rows to change (1 row(s))",
        "    t.p = 'b': excludes 1 by partition values",
        "    t.id > 5: excludes 2 by statistics",
        "    hash(t.p) <> 0: cannot exclude files",
        "    at run time, the source's values of `id` exclude more files",
    ]
    assert merge[17].startswith("  write mode: auto, deletion vectors")
    assert merge[18] == (
        "    a file is rewritten if its deleted rows take 20% of its size plus 128 KiB, or if it has at most 4 MiB "
        "(1 of 1; of more than 32 of these or 16 MiB, only some are combined); any other file gets a deletion vector; "
        "a file that loses all its rows is removed"
    )
    assert merge[-3:] == [LAST, "  tables that its queries read:", "    default.s, version 1: 1 of 1 files)"]

    by_source = explain(tables, "merge into t using (select 1 as id) s on t.id = s.id when not matched by source then delete")
    assert "  source: (select 1 as id), not evaluated by EXPLAIN, so its number of rows is unknown" in by_source
    assert "    WHEN NOT MATCHED BY SOURCE applies to rows without a match, so every file is read" in by_source

    update = explain(tables, "update t set v = v + 1 where id < 3")
    assert update[:5] == [
        "UPDATE default.t",
        "  SET v = `t`.v + 1 WHERE `t`.id < 3",
        "  way: target_only",
        "  files: 1 of 3 may contain rows to change (2 row(s))",
        "    `t`.id < 3: excludes 2 by statistics",
    ]

    assert explain(tables, "delete from t where p = 'b'") == [
        "DELETE default.t",
        "  WHERE `t`.p = 'b'",
        "  way: target_only",
        "  files: 2 of 3 may contain rows to change (2 row(s))",
        "    `t`.p = 'b': excludes 1 by partition values",
        "  by metadata only: 2 file(s) are removed without reading them (2 row(s))",
        LAST,
    ]
    assert tables.describe("default", "t").version == 3


@pytest.mark.parametrize(
    ("version", "mode", "rule"),
    [
        (2, "position delete files on", "gets a position delete file"),
        (3, "deletion vectors on", "gets a deletion vector"),
    ],
)
def test_explain_tells_what_marks_the_deleted_rows_of_an_iceberg_table(
    session: rowmerge.Session, version: int, mode: str, rule: str
) -> None:
    properties = f"tblproperties ('format-version' = '{version}', 'rowmerge.write.mode' = 'merge-on-read')"
    session.sql(f"create table i using iceberg {properties} as select id from range(9)")
    lines = explain(session, "delete from i where id = 3")
    assert f"  write mode: merge-on-read, {mode}" in lines
    assert f"    a file that loses rows {rule}; a file that loses all its rows is removed" in lines


def test_explain_describes_the_rows_that_an_insert_writes_and_replaces(tables: rowmerge.Session) -> None:
    assert explain(tables, "insert into t values (1, 'x', 1)") == [
        "INSERT INTO default.t",
        "  WHEN NOT MATCHED THEN INSERT id = `source`.`col1`, p = `source`.`col2`, v = `source`.`col3`",
        "  every source row is inserted",
        "  source: values (1, 'x', 1), not evaluated by EXPLAIN, so its number of rows is unknown",
        "  files: none of 3 is read or removed",
        APPENDED,
        LAST,
    ]
    itself = explain(tables, "insert into t select * from t")
    assert "  reads the table that it changes: every row of this version counts as read" in itself and APPENDED not in itself
    assert "  files: 3 of 3 are removed by metadata only, without reading them (4 row(s))" in explain(tables, "insert overwrite t table s")
    static = "insert overwrite t partition (p = 'b')"
    assert "  files: 2 of 3 are removed by metadata only, without reading them (2 row(s))" in explain(tables, f"{static} select 1, 1")
    assert "  IF NOT EXISTS: the partition contains 2 file(s) (2 row(s))" in explain(tables, f"{static} if not exists select 1, 1")
    on = explain(tables, "insert into t as o replace on o.id = n.id and o.p = 'b' (select * from s) n")
    assert on[0] == "INSERT INTO default.t REPLACE ON" and "    o.p = 'b': excludes 1 by partition values" in on
    assert "    key id = cast(`source`.`id` as int)" in explain(tables, "insert into t replace using (id) select * from s")
    where = explain(tables, "insert into t replace where id = 3 select * from s")
    assert "    `source`.id = 3: excludes 2 by statistics" in where and "  checks of every written row: REPLACE WHERE id = 3" in where
    truncate = explain(tables, "truncate table t partition (p = 'b')")
    assert truncate[1:] == ["  files: 2 of 3 are removed by metadata only, without reading them (2 row(s))", LAST]
    assert tables.describe("default", "t").version == 3


def test_explain_of_create_table_prints_its_columns_and_creates_no_table(tables: rowmerge.Session) -> None:
    assert explain(tables, "create table u partitioned by (p) as select id, p from t") == [
        "CREATE TABLE default.u AS SELECT",
        "  column id int",
        "  column p string",
        "  partitioned by p",
        "  source: select id, p from t, not evaluated by EXPLAIN, so its number of rows is unknown",
        "  the table does not exist: the definition and the rows become its version 0",
        "  tables that its queries read:",
        "    default.t, version 3: 3 of 3 files)",
    ]
    assert "  files: all 3 of version 3 are removed (4 row(s))" in explain(tables, "create or replace table t as select 1 as id")
    assert tables.relation("default", "u") is None


def test_explain_with_a_mode_and_of_a_query_prints_sparks_plan(tables: rowmerge.Session) -> None:
    lines = explain(tables, "insert into t select * from s where v > 3", "extended")
    assert "Spark's plan of the query:" in lines and "== Optimized Logical Plan ==" in lines
    assert "== Physical Plan ==" in explain(tables, "select * from t where id = 1")
    assert "== Optimized Logical Plan ==" in explain(tables, "select count(*) from t", "extended")


def test_explain_rejects_the_input_that_the_statement_rejects(tables: rowmerge.Session) -> None:
    for error, statement in (
        (UnknownColumn, "delete from t where nothing = 1"),
        (UnknownColumn, "merge into t using s on t.id = s.nothing when matched then delete"),
        (TypeMismatch, "update t set id = true"),
        (TypeMismatch, "insert into t values (array(1), 'a', 1)"),
        (PlanError, "insert into t values (1)"),
    ):
        with pytest.raises(error):
            tables.sql(f"explain {statement}")


UPSERT = "merge into w using n on w.id = n.id when matched then update set * when not matched then insert *"
MIRROR = f"{UPSERT} when not matched by source then delete"
NO_ON = "    not target_only: the statement has an ON condition"
NO_MIRROR = "    not single_pass: no clause changes every target row without a match"
SMALL = "the source reads at most 4 MiB of files"
READS = "a clause reads or keeps columns of the target"
KEYS = ", unless Arrow cannot compare the keys as Spark does, or a row matches twice where only one match is allowed"
LOOKUP = (
    ", unless the source has at most 32 rows and columns beside the keys are needed, more than 2,000,000 target rows have a key, "
    "or Arrow cannot compare the keys as Spark does"
)
WAYS = {
    "update w set v = 1 where id = 3": ["  way: target_only"],
    "insert into w replace where id = 3 select 3, 1": ["  way: target_only"],
    UPSERT: [
        f"  way: by_keys{KEYS}",
        NO_ON,
        f"    not write_first: {SMALL}",
        f"  otherwise: lookup{LOOKUP}",
        NO_MIRROR,
        "  otherwise: join",
    ],
    "insert into w replace using (id) select * from n": [
        f"  way: by_keys{KEYS}",
        NO_ON,
        f"    not write_first: {SMALL}",
        "  otherwise: join",
        NO_MIRROR,
        "    not lookup: the statement inserts every source row",
    ],
    "merge into w using n on w.id = n.id when matched then delete": [
        f"  way: by_keys{KEYS}",
        NO_ON,
        "    not write_first: not every source row becomes a new row",
        f"  otherwise: lookup{LOOKUP}",
        NO_MIRROR,
        "  otherwise: join",
    ],
    "merge into w using n on w.id = n.id when matched then update set v = w.v + n.v": [
        f"  way: lookup{LOOKUP}",
        NO_ON,
        f"    not write_first: {READS}",
        f"    not by_keys: {READS}",
        NO_MIRROR,
        "  otherwise: join",
    ],
    "merge into w using n on w.id = n.id when matched and w.v in (select v from n) then update set v = 0": [
        "  way: join",
        NO_ON,
        f"    not write_first: {READS}",
        f"    not by_keys: {READS}",
        NO_MIRROR,
        "    not lookup: a subquery or an ambiguous name hides which columns the statement needs",
    ],
    "merge into w using n on w.id < n.id and w.v = 7 when matched then delete": [
        f"  way: lookup{LOOKUP}",
        NO_ON,
        "    not write_first: the ON condition is more than a comparison of keys",
        "    not by_keys: the ON condition is more than a comparison of keys",
        NO_MIRROR,
        "  otherwise: join",
    ],
    MIRROR: [
        "  way: join",
        NO_ON,
        *(f"    not {way}: a clause changes target rows without a match" for way in ("write_first", "by_keys")),
        f"    not single_pass: {SMALL}",
        "    not lookup: a clause changes target rows without a match",
    ],
}


def _ways(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith(("  way: ", "  otherwise: ", "    not "))]


@pytest.fixture
def ways_run(session: rowmerge.Session, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the names of the ways of execution that statements use; `w` has 100 rows, and `n` has 60 of their ids."""
    names: list[str] = []

    def recording(way: Way) -> Way:
        def run(request: RowChangeRequest) -> ExecutionResult | NotApplicable:
            names.append(way.name)
            return way.run(request)

        return replace(way, run=run)

    session.sql("create table w using delta as select id, 0 as v from range(100)")
    session.sql("create table n using delta as select id, 1 as v from range(0, 120, 2)")
    monkeypatch.setattr(selection, "WAYS", tuple(map(recording, selection.WAYS)))
    return names


@pytest.mark.parametrize("statement", WAYS)
def test_explain_prints_the_way_that_runs_and_why_each_earlier_one_does_not_apply(
    session: rowmerge.Session, ways_run: list[str], statement: str
) -> None:
    lines = _ways(explain(session, statement))
    assert lines == WAYS[statement] and ways_run == []
    session.sql(statement)
    printed = [line.split()[1].rstrip(",") for line in lines if not line.startswith("    not ")]
    assert ways_run == printed[: len(ways_run)] and ways_run


@pytest.mark.parametrize(("statement", "way"), [(UPSERT, "write_first"), (MIRROR, "single_pass")])
def test_explain_prints_the_way_of_a_large_source(
    session: rowmerge.Session, ways_run: list[str], monkeypatch: pytest.MonkeyPatch, statement: str, way: str
) -> None:
    for module in (write_first, single_pass):
        monkeypatch.setattr(module, "reads_few_bytes", lambda _: False)
    monkeypatch.setattr(source, "MAX_BROADCAST_BYTES", 100)
    assert _ways(explain(session, statement))[0].startswith(f"  way: {way}")
    session.sql(statement)
    assert ways_run == [way]


def test_duplicate_keys_select_the_next_way_of_execution(
    session: rowmerge.Session, ways_run: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger=selection.__name__)
    monkeypatch.setattr(write_first, "reads_few_bytes", lambda _: False)
    session.sql("insert into w values (4, 4)")
    assert [line.split(",")[0] for line in _ways(explain(session, UPSERT)) if "not " not in line[:8]] == [
        "  way: write_first",
        "  otherwise: by_keys",
        "  otherwise: lookup",
        "  otherwise: join",
    ]
    changes = session.execute(UPSERT).changes
    assert (changes.inserted, changes.updated, ways_run) == (10, 51, ["write_first", "by_keys", "lookup"])
    inexact = "Arrow cannot find all matches by the keys, or they are not one-to-one"
    assert caplog.messages == [f"MERGE of default.w does not run as {way}: {inexact}." for way in ("write_first", "by_keys")]
