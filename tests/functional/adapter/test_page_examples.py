"""The models, configs, macros and dbt commands of the pages in docs work as they are written: each page is one small dbt project.

`tests/support/examples.py` lists the blocks of each test. A test adds what the page leaves to the reader: the query of a config block, and
the tables that an example reads.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt.cli.main import dbtRunner
from dbt.version import __version__

import rowmerge
from rowmerge.session.startup.embedded import start_spark
from tests.functional.dbt_core import release_key
from tests.support.examples import Block, examples_of
from tests.support.jvm import SPARK_SETTINGS

ORDERS = """
select * from values
    (1, 'Ada Byron', 19.90, timestamp '2026-01-01 10:00:00', date '2026-01-01'),
    (2, 'Ben Okri', 5.00, timestamp '2026-01-02 11:00:00', date '2026-01-02')
    as orders (order_id, customer, amount, updated_at, day)
"""
ROWS = "select * from values (1, date '2026-01-01', 1.5), (2, date '2026-01-02', 2.5) as rows (id, day, amount)"


@dataclass(frozen=True)
class Project:
    """A dbt project in a folder, with a warehouse in this folder."""

    folder: Path
    session: rowmerge.Session

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def dbt(self, *arguments: str) -> str:
        """Run a dbt command, which must succeed, and return the lines that dbt prints."""
        lines: list[str] = []
        runner = dbtRunner(callbacks=[lambda event: lines.append(event.info.msg)])
        result = runner.invoke([*arguments, "--project-dir", str(self.folder), "--profiles-dir", str(self.folder)])
        assert result.success, "\n".join(lines)
        return "\n".join(lines)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.session.sql(query).collect()]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Create an empty project, and let dbt run in its folder."""
    monkeypatch.chdir(tmp_path)
    target = {"type": "rowmerge", "warehouse": "warehouse", "schema": "analytics", "threads": 2, "spark_config": dict(SPARK_SETTINGS)}
    project = Project(tmp_path, rowmerge.connect(str(tmp_path / "warehouse"), spark=start_spark(SPARK_SETTINGS)))
    profiles = {"shop": {"target": "dev", "outputs": {"dev": target}}}
    project.write(
        {
            "dbt_project.yml": "name: shop\nprofile: shop\nflags: {send_anonymous_usage_stats: false}\n",
            "profiles.yml": yaml.safe_dump(profiles),
        }
    )
    return project


def files_of(examples: list[Block]) -> dict[str, str]:
    """Return the files that the first lines of blocks name."""
    return {block.file_name: block.content for block in examples if block.file_name}


def test_the_model_of_the_first_page_reads_a_source(shop: Project) -> None:
    shop.write(files_of(examples_of("test_the_model_of_the_first_page_reads_a_source")))
    shop.write({"landing/orders.csv": "order_id,status,amount\n1,open,2.5\n2,shipped,3.5\n"})
    shop.write({"models/sources.yml": "sources: [{name: shop, tables: [{name: orders, meta: {location: landing/orders.csv}}]}]"})
    assert "OK create" in shop.dbt("run")
    assert "OK merge: 2 updated" in shop.dbt("run")


def test_the_configs_of_formats_build_tables(shop: Project) -> None:
    examples = examples_of("test_the_configs_of_formats_build_tables")
    shop.write({f"models/orders_{number}.sql": block.text + ORDERS for number, block in enumerate(examples)})
    for _ in range(2):
        shop.dbt("run")
    formats = [(relation.kind, relation.format) for relation in shop.session.relations("analytics")]
    assert sorted(formats) == [("table", "delta"), ("table", "iceberg")]
    assert [shop.rows(f"select count(*) from analytics.orders_{number}") for number in range(len(examples))] == [[(2,)]] * len(formats)


@pytest.mark.skipif(release_key(__version__) < (1, 11), reason="dbt-core 1.11 added functions")
def test_models_call_the_functions(shop: Project) -> None:
    (properties,) = examples_of("test_models_call_the_functions")[:1]
    shop.write({"functions/functions.yml": properties.text, **files_of(examples_of("test_models_call_the_functions"))})
    call = "select {{ function('cents') }}(amount) as cents, {{ function('initials') }}(customer) as initials from"
    shop.write({"models/calls.sql": f"{call} ({ORDERS})"})
    shop.dbt("build")
    assert shop.rows("select * from analytics.calls order by cents") == [(500, "BO"), (1990, "AB")]


def test_the_operations_run(shop: Project) -> None:
    (hook,) = examples_of("test_the_operations_run")
    config = "{{ config(materialized='incremental', unique_key='order_id', partition_by='day') }}"
    shop.write({"models/orders.sql": hook.text + config + ORDERS})
    for _ in range(2):
        shop.dbt("run")
    for _ in range(7):
        shop.session.sql("update analytics.orders set amount = amount + 1 where order_id = 1")
    for block in examples_of("test_each_command_exists", "docs/operations.md"):
        outputs = [shop.dbt(*shlex.split(line)[1:]) for line in block.text.splitlines()]
        assert "versions, newest first" in "".join(outputs)
    assert shop.rows("select count(*) from analytics.orders") == [(2,)]


def test_models_read_the_sources(shop: Project, tmp_path: Path) -> None:
    (block,) = examples_of("test_models_read_the_sources")
    text = block.text.replace("s3://lake", str(tmp_path)).replace("/data/shop", f"{tmp_path}/shop")
    sources = yaml.safe_load(text)["sources"]
    names = [table["name"] for table in sources[0]["tables"]]
    shop.session.spark.sql(ORDERS).write.parquet(f"{tmp_path}/landing/orders")
    shop.session.sql("create schema other")
    shop.session.sql(f"create table other.payments using delta location '{tmp_path}/shop/payments' as {ORDERS}")
    shop.write({"data/customers.csv": "id;name\n1;Ada\n2;-\n", "models/sources.yml": text})
    shop.write({f"models/from_{name}.sql": f"select * from {{{{ source('landing', '{name}') }}}}" for name in names})
    shop.dbt("run")
    assert [shop.rows(f"select count(*) from analytics.from_{name}") for name in names] == [[(2,)]] * len(names)
    assert shop.rows("select name from analytics.from_customers order by id") == [("Ada",), (None,)]


def test_the_python_model_runs(shop: Project) -> None:
    examples = examples_of("test_the_python_model_runs")
    shop.write({"models/stg_orders.sql": ORDERS.replace("timestamp '2026-01-02 11:00:00'", "current_timestamp()")})
    shop.write({f"models/python_{number}.py": block.text for number, block in enumerate(examples)})
    shop.dbt("run")
    assert "OK merge: 1 updated" in shop.dbt("run", "--select", "python_0")
    assert shop.rows("select weekday from analytics.python_0 where order_id = 1") == [(5,)]


def test_a_model_names_a_catalog(shop: Project, tmp_path: Path) -> None:
    examples = examples_of("test_a_model_names_a_catalog")
    shop.write({name: text.replace("s3://lake", str(tmp_path)) for name, text in files_of(examples).items()})
    configs = [block for block in examples if block.language == "sql"]
    shop.write({f"models/model_{number}.sql": block.text + ROWS for number, block in enumerate(configs)})
    for _ in range(2):
        shop.dbt("run")
    (relation,) = shop.session.relations("analytics")
    assert relation.format == "iceberg"
    assert str(tmp_path / "raw") in shop.session.describe("analytics", relation.name).location


PACKAGE = """
{% macro _count_num_rows_in_status() %}{{ return(adapter.dispatch('_count_num_rows_in_status', 'audit_helper')()) }}{% endmacro %}
{% macro default___count_num_rows_in_status() %}count(distinct 1) over (){% endmacro %}
{% macro databricks___count_num_rows_in_status() %}size(collect_set(1)){% endmacro %}
"""


def test_a_package_calls_the_macro_of_the_project(shop: Project) -> None:
    """The package has the macros of audit_helper that the page names, because the package itself is not on PyPI."""
    (macro,) = examples_of("test_a_package_calls_the_macro_of_the_project")
    shop.write({"audit_helper/dbt_project.yml": "name: audit_helper\n", "audit_helper/macros/counts.sql": PACKAGE})
    shop.write({"packages.yml": "packages: [{local: audit_helper}]", "macros/counts.sql": macro.text})
    shop.write({"models/counted.sql": "select {{ audit_helper._count_num_rows_in_status() }} as number"})
    shop.dbt("deps")
    shop.dbt("run")
    assert shop.rows("select number from analytics.counted") == [(1,)]


NEW_ORDERS = """
select * from values
    {% if is_incremental() %} (2, date '2020-01-03', 9.5D), (3, date '2020-01-03', 9.5D), (3, date '2020-01-04', 9.5D)
    {% else %} (1, date '2020-01-01', 1.5D), (2, date '2020-01-02', 2.5D) {% endif %}
    as orders (id, day, amount)
"""
CUSTOM_STRATEGIES = {
    "insert_only": [(1, 1, 1.5), (2, 2, 2.5), (3, 3, 9.5), (3, 4, 9.5)],
    "insert_newest": [(1, 1, 1.5), (2, 2, 2.5), (3, 4, 9.5)],
    "merge_daily": [(1, 1, 1.5), (2, 2, 2.5), (2, 3, 9.5), (3, 3, 9.5), (3, 4, 9.5)],
}
"""The keys, the days of the month, and the amounts after two runs of a model with each strategy of the page."""


def test_the_configs_and_macros_of_strategies_build_models(shop: Project) -> None:
    examples = examples_of("test_the_configs_and_macros_of_strategies_build_models")
    macros = "".join(block.text for block in examples if block.text.startswith("{%"))
    assert re.findall(r"macro get_incremental_(\w+)_sql", macros) == list(CUSTOM_STRATEGIES)
    shop.write({"macros/strategies.sql": macros})
    config = "{{ config(materialized='incremental', unique_key='id', merge_deduplicate_by='day', incremental_strategy='%s') }}"
    shop.write({f"models/{name}.sql": config % name + NEW_ORDERS for name in CUSTOM_STRATEGIES})
    (model,) = [block.text for block in examples if block.text.startswith("--")]
    requests = {"customers": "select id as customer_id from range(3)", "erasure_requests": "select 1L as customer_id"}
    shop.write({f"models/{name}.sql": query for name, query in requests.items()} | {"models/erased.sql": model})
    (clauses,) = [yaml.safe_load(block.text) for block in examples if block.language == "yaml"]
    properties = {"models": [{"name": "clauses", "config": {"materialized": "incremental", "unique_key": "id", **clauses}}]}
    shop.write({"models/clauses.sql": NEW_ORDERS, "models/clauses.yml": yaml.safe_dump(properties)})
    for _ in range(2):
        shop.dbt("run")
    query = "select id, day(day), amount from analytics.{} order by all"
    assert {name: shop.rows(query.format(name)) for name in CUSTOM_STRATEGIES} == CUSTOM_STRATEGIES
    assert shop.rows(query.format("clauses")) == [(2, 3, 12.0), (3, 3, 9.5), (3, 4, 9.5)]
    assert shop.rows("select * from analytics.erased order by 1") == [(0,), (2,)]


def test_the_program_runs_dbt_on_its_own_session(shop: Project) -> None:
    """The program gets the session of this process, because a process has one Spark."""
    (block,) = examples_of("test_the_program_runs_dbt_on_its_own_session")
    target = {"type": "rowmerge", "method": "existing", "warehouse": "warehouse", "schema": "analytics", "threads": 2}
    shop.write({"profiles.yml": yaml.safe_dump({"shop": {"target": "dev", "outputs": {"dev": target}}}), "models/rows.sql": ROWS})
    exec(compile(block.text, str(block), "exec"), {})
    assert shop.rows("select count(*) from analytics.rows") == [(2,)]
