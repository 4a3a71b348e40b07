"""The driver writes few rows and executors write many; the rows are the same."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import SparkFailed
from rowmerge.spark.writing.write import FEW_ROWS

FORMATS = pytest.mark.parametrize("table_format", ["delta", "iceberg"])


@pytest.fixture
def no_python_on_executors(spark: SparkSession) -> Iterator[None]:
    """Let everything fail that starts Python on executors."""
    if "ROWMERGE_REMOTE" in os.environ:
        pytest.skip("the interpreter is the server's")
    context = spark.sparkContext
    interpreter, context.pythonExec = context.pythonExec, "/nowhere/python"
    yield
    context.pythonExec = interpreter


@FORMATS
def test_statements_that_change_few_rows_need_no_python_on_executors(
    session: rowmerge.Session, table_format: str, request: pytest.FixtureRequest
) -> None:
    session.sql(f"create table few using {table_format} as select id, cast(id as string) as v from range(100)")
    request.getfixturevalue("no_python_on_executors")
    merge = "merge into few t using (values {}) as s(id, v) on t.id = s.id when matched then update set * when not matched then insert *"
    counts = session.sql(merge.format("(7L, 'seven'), (200L, 'new')")).collect()[0]
    assert (counts["num_updated_rows"], counts["num_inserted_rows"]) == (1, 1)
    assert session.sql("update few set v = 'many' where id between 10 and 19").collect()[0][0] == 10
    assert session.sql("delete from few where id = 50").collect()[0][0] == 1
    totals = session.sql("select count(*), count_if(v in ('seven', 'new')), count_if(v = 'many') from few").collect()[0]
    assert tuple(totals) == (100, 2, 10)


@FORMATS
def test_one_source_row_can_match_more_rows_than_the_driver_collects(session: rowmerge.Session, table_format: str) -> None:
    rows = 3 * FEW_ROWS
    session.sql(f"create table many using {table_format} as select id, id % 3 as k from range({rows})")
    counts = session.sql("merge into many t using (values (1L)) as s(k) on t.k = s.k when matched then update set k = 10").collect()[0]
    assert counts["num_updated_rows"] == FEW_ROWS
    counts = session.sql("merge into many t using (values (0L)) as s(x) on t.k <> 10 when matched then update set k = 20").collect()[0]
    assert counts["num_updated_rows"] == 2 * FEW_ROWS
    totals = session.sql("select count(*), count_if(k = 10), count_if(k = 20), count(distinct id) from many").collect()[0]
    assert tuple(totals) == (rows, FEW_ROWS, 2 * FEW_ROWS, rows)


@FORMATS
def test_rewritten_small_files_become_one_file_per_partition(session: rowmerge.Session, table_format: str) -> None:
    session.sql(f"create table small using {table_format} partitioned by (p) as select id, id % 2 as p, 0 as n from range(10)")
    for start in (10, 20, 30):
        session.sql(f"insert into small select id, id % 2 as p, 0 as n from range({start}, {start + 10})")
    merge = "merge into small t using (select id, id % 2 as p, {} as n from range({})) s on t.id = s.id"
    for n in range(1, 6):
        # The merge updates all rows of the file that the partition's last merge added, and some rows of its other files.
        source = merge.format(n, "0, 40, 10" if n % 2 else "1, 40, 10")
        session.sql(f"{source} when matched then update set * when not matched then insert *")
        # The merged partition has the rewritten file and the new one.
        assert session.sql("describe detail small").collect()[0]["numFiles"] == (8 - 4 + 2 if n == 1 else 4), n
    totals = session.sql("select count(*), count(distinct id), count_if(n = 5), count_if(n = 4), sum(n) from small").collect()[0]
    assert tuple(totals) == (40, 40, 4, 4, 36)


_NESTED = """case {i} % 5
    when 0 then null
    when 1 then named_struct('a', null, 'b', null, 'c', null, 'd', null)
    when 2 then named_struct('a', cast({i} as int), 'b', concat('text ', {i}), 'c', array(1, null, cast({i} as int)),
        'd', named_struct('at', timestamp_seconds({i}), 'name', null))
    when 3 then named_struct('a', cast({i} as int), 'b', '', 'c', cast(array() as array<int>),
        'd', named_struct('at', null, 'name', 'x'))
    else named_struct('a', 7, 'b', repeat('long ', {i} % 100), 'c', array(2), 'd', null) end as v,
    case {i} % 4 when 0 then null when 1 then cast(array() as array<string>) else array('w', null, concat('w', {i})) end as w"""


@FORMATS
@pytest.mark.parametrize("rows", [60, 4000], ids="{} rows".format)
@pytest.mark.parametrize("statement", ["upsert", "update that reads the target", "insert-only", "delete"])
def test_rows_with_nested_values_keep_them(
    session: rowmerge.Session, table_format: str, rows: int, statement: str, request: pytest.FixtureRequest
) -> None:
    """NULL, a struct of NULLs, an empty array and an array with NULLs stay different, whether the driver or executors write the rows."""
    session.sql(f"create table nested using {table_format} as select id, {_NESTED.format(i='id')} from range({rows})")
    source = f"select id, {_NESTED.format(i='(id + 1)')} from range({rows // 2}, {rows + rows // 2}, 2)"
    if rows < 1000:
        request.getfixturevalue("no_python_on_executors")
    clauses, of_match = {
        "upsert": ("when matched then update set * when not matched then insert *", "s.v, s.w"),
        "update that reads the target": (
            "when matched and t.id % 3 > 0 then update set w = array_append(t.w, s.v.b)",
            "t.v, if(t.id % 3 > 0, array_append(t.w, s.v.b), t.w)",
        ),
        "insert-only": ("when not matched then insert *", "t.v, t.w"),
        "delete": ("when matched and s.v.a is not null then delete", "t.v, t.w"),
    }[statement]
    old = f"select id, {_NESTED.format(i='id')} from range({rows})"
    session.sql(f"merge into nested t using ({source}) s on t.id = s.id {clauses}")
    expected = f"select t.id, {of_match} from ({old}) t join ({source}) s on t.id = s.id"
    expected += " where s.v.a is null" if statement == "delete" else ""
    expected += f" union all select t.* from ({old}) t left anti join ({source}) s on t.id = s.id"
    if statement in ("upsert", "insert-only"):
        expected += f" union all select s.* from ({source}) s left anti join ({old}) t on t.id = s.id"
    actual, expected_rows = session.sql("select * from nested"), session.spark.sql(expected)
    assert actual.count() == expected_rows.count()
    assert actual.exceptAll(expected_rows).count() == 0


@FORMATS
@pytest.mark.parametrize("rows", [60, 4000], ids="{} rows".format)
def test_unused_columns_of_a_source_are_not_evaluated(session: rowmerge.Session, table_format: str, rows: int) -> None:
    """Executors keep the rows of a source, and would keep every column of a wide one. The unused column fails in its evaluation."""
    session.sql(f"create table wide using {table_format} as select id, id % 7 as v from range({rows})")
    source = f"select id * 2 as id, 1 as step, raise_error(concat('unused ', id)) as unused from range({rows})"
    session.sql(f"merge into wide t using ({source}) s on t.id = s.id and t.v > 2 when matched then update set v = t.v + s.step")
    counts = session.sql(f"merge into wide t using ({source}) s on t.id = s.id when matched and t.v = 7 then delete").collect()[0]
    expected = [value if n % 2 or value < 3 else value + 1 for n, value in ((n, n % 7) for n in range(rows))]
    assert counts["num_deleted_rows"] == expected.count(7)
    totals = session.sql("select count(*), sum(v) from wide").collect()[0]
    assert tuple(totals) == (rows - expected.count(7), sum(value for value in expected if value != 7))
    with pytest.raises(SparkFailed, match=r"USER_RAISED_EXCEPTION\] unused"):
        session.sql(f"merge into wide t using ({source}) s on t.id = s.id when matched and s.unused = 1 then delete")
