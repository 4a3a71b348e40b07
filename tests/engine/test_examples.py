"""The SQL examples of the pages run as they are written, statement by statement."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

import rowmerge
from tests.support.examples import Block, examples_of

TABLES = {
    "docs/sql.md": """
        create schema analytics;
        create table analytics.orders (id bigint, amount double) using iceberg;
        insert into analytics.orders values (1, 1.5);
        insert into analytics.orders values (2, 2.5)
    """,
    "docs/procedures.md": """
        create schema analytics;
        create table analytics.orders (id bigint, day date) using iceberg partitioned by (day);
        insert overwrite directory 's3://lake/orders/day=2026-01-01' using parquet select id from range(3)
    """,
    "docs/functions.md": """
        create schema shop;
        create table shop.orders (customer string, price decimal(18, 2), amount decimal(18, 2)) using delta;
        insert into shop.orders values ('Ada Byron', 19.90, 2)
    """,
}
"""The tables that the examples of a page read."""
RESULTS = {"docs/functions.md": [(1990, 19900, "AB")]}
"""The rows of the last statement of a page."""


def run(session: rowmerge.Session, text: str) -> list[tuple[object, ...]]:
    """Run the statements of a text, and return the rows of the last one."""
    results = [[tuple(row) for row in session.sql(statement).collect()] for statement in rowmerge.split_statements(text)]
    return results[-1]


@pytest.mark.parametrize("block", examples_of("test_the_statements_of_a_page_run"), ids=str)
def test_the_statements_of_a_page_run(session: rowmerge.Session, tmp_path: Path, block: Block) -> None:
    run(session, TABLES[block.page].replace("s3://lake", str(tmp_path)))
    session.spark.sql(f"create table default.old_orders using parquet location '{tmp_path}/old' as select id from range(3)")
    try:
        rows = run(session, block.text.replace("s3://lake", str(tmp_path)))
    finally:
        session.spark.sql("drop table default.old_orders")
    assert rows == RESULTS.get(block.page, rows)


@pytest.mark.parametrize("block", examples_of("test_the_statement_of_a_strategy_runs"), ids=str)
def test_the_statement_of_a_strategy_runs(session: rowmerge.Session, block: Block) -> None:
    """The table has the columns that the page names: `id`, `day` and `amount`. The change stream of a block may need others."""
    config = yaml.safe_load(block.text.partition("\n")[0].removeprefix("-- "))
    operation = config.get("cdc_operation_column")
    day, days = ("string", ("u", "d")) if operation == "day" else ("date", ("2024-01-01", "2024-01-01"))
    operations = ("u", "d") if operation == "op" else None
    session.sql("create schema main")
    session.sql(f"create table main.orders (id bigint, day {day}, amount decimal(10, 2)) using delta")
    session.sql(f"insert into main.orders values (1, '{days[0]}', 1), (2, '{days[0]}', 1)")
    rows = [
        f"({key}L, cast('{days[at]}' as {day}), 2.5" + (f", '{operations[at]}')" if operations else ")") for at, key in enumerate((1, 3))
    ]
    columns = "id, day, amount" + (", op" if operations else "")
    session.sql(f"create temporary view new_orders as select * from values {', '.join(rows)} as v ({columns})")
    old_version = session.describe("main", "orders").version
    run(session, block.text)
    assert session.describe("main", "orders").version == old_version + 1


@pytest.mark.parametrize("block", examples_of("test_explain_prints_the_lines_of_the_page"), ids=str)
def test_explain_prints_the_lines_of_the_page(session: rowmerge.Session, block: Block) -> None:
    session.sql("create table w (id bigint, v bigint) using delta as select id, id from range(100)")
    session.sql("create table n (id bigint, v bigint) using delta as select id, id from range(60)")
    session.sql("""
        create table orders using delta partitioned by (day) as select /*+ coalesce(1) */ id as customer,
        date_add(date'2024-05-01', cast(id % 30 as int)) as day, cast(id as decimal(10, 2)) as amount, 'n' as note from range(900)
    """)
    session.sql("create table customers using delta as select /*+ coalesce(1) */ id, concat('c', id) as name from range(50)")
    merge = "merge into w using n on w.id = n.id when matched then update set * when not matched then insert *"
    query = """
        select * from orders o left join customers c on o.customer + 1 = c.id
        where o.day = date'2024-05-01' and o.amount > 100 and hash(o.note) <> 3 and rand() < 0.1
    """
    ((text,),) = session.sql(f"explain {query if block.text.startswith('tables') else merge}").collect()
    lines = [re.escape(line).replace("…", ".*") for line in block.text.splitlines()]
    assert re.search("\n".join(lines), text), text
