"""With `keep_warm`, commands of dbt share a server, which runs models, seeds, snapshots and Python models."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from dbt.tests.util import run_dbt, run_dbt_and_capture

from rowmerge.server.client import server_status, stop_server
from rowmerge.server.folder import ServerFolder
from tests.support.jvm import SPARK_SETTINGS

ORDERS = """
{{ config(materialized='incremental', unique_key='id', on_schema_change='append_new_columns') }}
select 1 as id, '{{ var("status", "open") }}' as status {% if var("more", false) %}, 2 as more {% endif %}
"""
PYTHON = """
def model(dbt, session):
    dbt.config(materialized="table")
    print("a line of the model")
    people, orders = dbt.ref("people"), dbt.ref("orders")
    return orders.withColumn("twice", orders.id * 0 + people.count() * 2)
"""
BROKEN = """
def model(dbt, session):
    return dbt.ref("orders").nothing()
"""
SNAPSHOT = """
{% snapshot history %}
{{ config(unique_key='id', strategy='check', check_cols='all', target_schema=target.schema) }}
select * from {{ ref('orders') }}
{% endsnapshot %}
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROWMERGE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
        for folder in ServerFolder.all_of_user():
            stop_server(folder, at_once=True)


@pytest.fixture(scope="class")
def profile_target(cache, warehouse):
    return {"type": "rowmerge", "warehouse": warehouse, "threads": 4, "keep_warm": "10m", "spark_config": dict(SPARK_SETTINGS)}


class TestKeepWarm:
    @pytest.fixture(scope="class")
    def models(self):
        return {"orders.sql": ORDERS, "in_python.py": PYTHON, "broken.py": BROKEN, "wrong.sql": "select * from {{ target.schema }}.nothing"}

    @pytest.fixture(scope="class")
    def seeds(self):
        return {"people.csv": "id,name,at\n1,Ann,2024-01-01 12:00:00\n2,Bob,\n"}

    @pytest.fixture(scope="class")
    def snapshots(self):
        return {"history.sql": SNAPSHOT}

    @pytest.fixture(scope="class", autouse=True)
    def built(self, project):
        """Build all nodes in the server, because each test may run in a process of its own."""
        run_dbt(["seed"])
        [folder] = self.folders()
        state = folder.read()
        results = run_dbt(["build", "--exclude", "broken wrong"])
        assert {result.node.name: result.status for result in results} == {
            "orders": "success",
            "in_python": "success",
            "people": "success",
            "history": "success",
        }
        assert folder.read() == state
        until = time.monotonic() + 20
        while server_status(folder)["clients"]:
            assert time.monotonic() < until
            time.sleep(0.1)
        return folder

    def folders(self):
        return [folder for folder in ServerFolder.all_of_user() if folder.read()]

    def run_in_process(self, words, profiles_root, **variables):
        """Run a command of dbt in a process of its own, as in a terminal."""
        command = [sys.executable, "-c", "from dbt.cli.main import cli; cli()", *words, "--profiles-dir", str(profiles_root)]
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3]), **variables}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    def test_commands_without_statements_start_no_server(self, project, profiles_root, tmp_path):
        for words in (["parse"], ["ls"]):
            self.run_in_process(words, profiles_root, ROWMERGE_CACHE=str(tmp_path))
        assert list(tmp_path.iterdir()) == []

    def test_nodes_of_all_kinds_run_in_the_server(self, project, built):
        run_dbt(["build", "--exclude", "broken wrong", "--vars", "{status: shipped, more: true}"])
        assert [folder.path for folder in self.folders()] == [built.path]
        rows = project.run_sql("select status, more from orders", fetch="all")
        assert [tuple(row) for row in rows] == [("shipped", 2)]
        assert project.run_sql("select count(*) from history", fetch="one")[0] == 2
        assert project.run_sql("select name, cast(at as string) from people where id = 1", fetch="one")[1].startswith("2024-01-01")
        assert project.run_sql("select twice from in_python", fetch="one")[0] == 4

    def test_a_python_model_prints_to_the_terminal_and_its_error_names_the_line(self, project, capfd):
        _, output = run_dbt_and_capture(["run", "--select", "in_python broken"], expect_pass=False)
        assert "The Python model broken raised" in output and '(return dbt.ref("orders").nothing())' in output
        assert "a line of the model" in output + capfd.readouterr().out

    def test_an_error_has_the_same_text_as_without_a_server(self, project):
        _, output = run_dbt_and_capture(["run", "--select", "wrong"], expect_pass=False)
        assert f"There is no table or view {project.test_schema}.nothing. Check the name with SHOW TABLES." in output

    def test_show_docs_and_operations_work(self, project):
        _, output = run_dbt_and_capture(["show", "--inline", "select 40 + 2 as answer"])
        assert "42" in output
        run_dbt(["docs", "generate", "--exclude", "broken wrong"])
        _, output = run_dbt_and_capture(["run-operation", "history", "--args", "{relation: orders}"])
        assert "history" in output

    def test_a_command_in_a_terminal_shows_no_line_of_java(self, project, profiles_root):
        run = self.run_in_process(["run", "--select", "orders"], profiles_root)
        assert run.stderr == "" and "WARN" not in run.stdout.replace("WARN=0", "")


class TestInvalidProfiles:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"keep_warm": "soon"}, "keep_warm = 'soon' is not a duration"),
            ({"keep_warm": 30}, "Set it to a time with a unit, such as `30m`"),
            (
                {"keep_warm": "30m", "method": "existing", "spark_config": {}},
                "has no effect with `method: existing`",
            ),
        ],
    )
    def test_an_invalid_value_is_named(self, project, profiles_root, changes, message):
        path = Path(profiles_root) / "profiles.yml"
        text = path.read_text()
        profile = yaml.safe_load(text)
        profile["test"]["outputs"]["default"] |= changes
        path.write_text(yaml.safe_dump(profile))
        try:
            passed, output = run_dbt_and_capture(["debug"], expect_pass=None)
        finally:
            path.write_text(text)
        assert not passed and message in output
