"""Spark Connect: the engine and the adapter on the sessions of a server, in separate processes.

A process with an embedded Spark cannot open a Connect session, so each test starts a process. With
`ROWMERGE_REMOTE=sc://host:port pytest tests/engine`, all of the engine's tests run on a server.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
import yaml

from rowmerge.session.startup.class_archive import java_options
from tests.support.jvm import JAVA_OPTIONS

ROOT = Path(__file__).parents[3]
STATEMENTS = (
    "clauses_of_every_kind or delete-aliases_and_whole_names or update-subqueries_in_values or change-insert_overwrite_of_dynamic "
    "or a_merge_is_held_against or change_feed-insert_overwrite_deletes or functions_in_Python or an_aggregate_in "
    "or a_body_may_read_tables or functions_stand_wherever"
)
RUN = """
import sys
from dbt.cli.main import dbtRunner
for command in ("seed", "run", "run", "test"):
    result = dbtRunner().invoke([command, "--quiet", "--project-dir", sys.argv[1], "--profiles-dir", sys.argv[1]])
    assert result.success, (command, result.exception, [each.message for each in result.result or ()])
"""
SHOW = """
import json, sys, rowmerge
session = rowmerge.connect(sys.argv[1], spark_config={"spark.remote": sys.argv[2], "spark.sql.shuffle.partitions": 2})
tables = [relation.name for relation in session.relations("main")]
print(json.dumps({name: sorted(map(list, session.table(f"main.{name}").collect())) for name in tables}))
"""
MODELS = {
    "view.sql": "{{ config(materialized='view') }} select id, v || '!' as v from {{ ref('given') }}",
    "merged.sql": """
        {{ config(materialized='incremental', unique_key='id', incremental_strategy='merge') }}
        select id, v, {{ is_incremental() }} as again from {{ ref('view') }} {% if is_incremental() %} where id > 1 {% endif %}
    """,
    "iceberg.sql": """
        {{ config(materialized='incremental', unique_key='id', incremental_strategy='delete+insert', file_format='iceberg') }}
        select id, v, {{ is_incremental() }} as again from {{ ref('view') }} {% if is_incremental() %} where id > 1 {% endif %}
    """,
    "from_python.py": """
def model(dbt, session):
    import polars as pl
    rows = dbt.ref('merged').where('id > 1').toArrow()
    return pl.from_arrow(rows).select('id')
""",
    "models.yml": "models: [{name: merged, columns: [{name: id, data_tests: [unique, not_null]}]}]",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Yield the address of a Spark Connect server for the tests of the module."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = Path(pyspark.__file__).parent
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": "2",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "localhost",
    }
    command = [str(home / "bin/spark-submit"), "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += ["--master", "local[2]", "--driver-memory", "1g", "--driver-java-options", f"{JAVA_OPTIONS} {java_options({})}"]
    command += [argument for key, value in settings.items() for argument in ("--conf", f"{key}={value}")]
    folder = tmp_path_factory.mktemp("server")
    with open(folder / "log", "w") as log:
        # The server finds the format of streams in the module `pyspark_rowmerge`.
        environment = os.environ | {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen([*command, "spark-internal"], cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        until = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < until:
            if "Spark Connect server started" in (folder / "log").read_text():
                break
            time.sleep(0.2)
        else:
            pytest.fail((folder / "log").read_text()[-2000:])
        yield f"sc://localhost:{port}"
    finally:
        process.terminate()
        process.wait(30)


def python(*arguments: str, **environment: str) -> str:
    """Run a program in a new Python process, and return its output."""
    variables = os.environ | {"PYTHONPATH": str(ROOT), **environment}
    process = subprocess.run([sys.executable, *arguments], cwd=ROOT, env=variables, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


@pytest.mark.full_suite("the models of the next test run statements of most kinds on a server")
def test_statements_of_all_kinds_run_on_a_server(server):
    chosen = ["--suite", "full", "tests/engine/test_rows.py", "-k", f"({STATEMENTS}) and not copy"]
    output = python("-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen, ROWMERGE_REMOTE=server)
    assert " passed" in output


@pytest.mark.full_suite("the models of the next test read few files")
def test_queries_skip_files_on_a_server(server):
    files = [f"tests/engine/test_{name}.py" for name in ("reads", "dynamic_filters", "manifest_reads", "small_files")]
    output = python("-m", "pytest", "-q", "-p", "no:cacheprovider", *files, ROWMERGE_REMOTE=server)
    assert " passed" in output


@pytest.mark.full_suite("the properties reach executors of a server as they reach those of an embedded Spark")
def test_properties_and_settings_have_their_effect_on_a_server(server):
    names = ("parquet_properties", "file_properties", "iceberg_properties", "audits", "object_storage_paths", "peer_settings")
    files = [f"tests/engine/test_{name}.py" for name in (*names, "cardinality_on_spark")]
    output = python("-m", "pytest", "-q", "-p", "no:cacheprovider", *files, ROWMERGE_REMOTE=server)
    assert " passed" in output


@pytest.mark.full_suite("statements of the same kinds run on a server above")
def test_new_statements_and_the_python_api_run_on_a_server(server):
    names = (
        "metadata_columns",
        "python_api",
        "cached_rows",
        "copy_into",
        "imported_files",
        "describe",
        "metadata_tables",
        "repeated_files",
    )
    names += ("tables_by_path", "procedures", "procedure_files", "computed_statistics", "file_repair", "show_create", "convert_to_delta")
    files = [f"tests/engine/test_{name}.py" for name in (*names, "names", "locations", "concurrent_definitions", "streaming")]
    output = python("-m", "pytest", "-q", "-p", "no:cacheprovider", *files, ROWMERGE_REMOTE=server)
    assert " passed" in output


@pytest.mark.full_suite("statements of the same kinds run on a server above")
def test_cases_of_new_statements_run_on_a_server(server):
    kinds = "renames or like or procedures or metadata_columns or listings or clones or maintenance"
    chosen = ["--suite", "full", "tests/engine/test_rows.py", "-k", f"test_case and ({kinds}) and not merge-on-read"]
    output = python("-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen, ROWMERGE_REMOTE=server)
    assert " passed" in output


SESSIONS = """
import os, sys, rowmerge
from pyspark.sql import SparkSession
first, second, main = (
    rowmerge.connect(sys.argv[1], spark=SparkSession.builder.remote(sys.argv[2]).create(), default_format="iceberg") for _ in range(3)
)
main.sql("create table t (id int) tblproperties ('write.wap.enabled' = 'true')")
main.sql("insert into t values (0)")
first.sql("set spark.wap.branch = first")
second.sql("set spark.wap.branch = second")
for id_, session in enumerate((first, second, main)):
    session.sql(f"insert into t values ({id_ + 1})")
print([sorted(row.id for row in session.sql("select id from t").collect()) for session in (first, second, main)], flush=True)
os._exit(0)  # PySpark would wait for the sessions
"""


def test_the_branch_of_one_session_does_not_reach_another_on_a_server(server, tmp_path):
    assert python("-c", SESSIONS, str(tmp_path / "warehouse"), server) == "[[0, 1], [0, 2], [0, 3]]\n"


def test_models_of_all_kinds_are_built_on_a_server(server, tmp_path):
    host, port = server.removeprefix("sc://").split(":")
    target = {"type": "rowmerge", "method": "connect", "host": host, "port": int(port), "schema": "main", "threads": 2}
    target |= {"warehouse": str(tmp_path / "warehouse"), "spark_config": {"spark.sql.shuffle.partitions": 2}}
    (tmp_path / "profiles.yml").write_text(yaml.safe_dump({"p": {"target": "dev", "outputs": {"dev": target}}}))
    (tmp_path / "dbt_project.yml").write_text("{name: p, version: '1.0.0', profile: p, flags: {send_anonymous_usage_stats: false}}")
    for name, text in MODELS.items():
        (tmp_path / "models").mkdir(exist_ok=True)
        (tmp_path / "models" / name).write_text(text)
    (tmp_path / "seeds").mkdir()
    (tmp_path / "seeds/given.csv").write_text("id,v\n1,a\n2,b\n3,c\n")
    python("-c", RUN, str(tmp_path))
    tables = json.loads(python("-c", SHOW, str(tmp_path / "warehouse"), server).splitlines()[-1])
    twice = [[1, "a!", False], [2, "b!", True], [3, "c!", True]]
    assert (tables["merged"], tables["iceberg"], tables["from_python"]) == (twice, twice, [[2], [3]])


DEBUG = """
import sys
from dbt.cli.main import dbtRunner
print(dbtRunner().invoke(["debug", "--project-dir", sys.argv[1], "--profiles-dir", sys.argv[1]]).success)
"""


def test_dbt_debug_checks_the_executors_of_a_server(server, tmp_path):
    target = {"type": "rowmerge", "method": "connect", "remote": server, "schema": "main", "warehouse": str(tmp_path / "warehouse")}
    (tmp_path / "profiles.yml").write_text(yaml.safe_dump({"p": {"target": "dev", "outputs": {"dev": target}}}))
    (tmp_path / "dbt_project.yml").write_text("{name: p, version: '1.0.0', profile: p, flags: {send_anonymous_usage_stats: false}}")
    output = python("-c", DEBUG, str(tmp_path))
    assert output.endswith("True\n") and "executors: [" in output
    assert f"Spark {pyspark.__version__}: {socket.gethostname()} (Python {platform.python_version()}, PyArrow {pa.__version__})" in output
    assert not (tmp_path / "warehouse").exists()
