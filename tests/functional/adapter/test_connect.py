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

from tests.support.connect_server import ConnectServer
from tests.support.standalone import worker_python

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
    """Yield the address of a Spark Connect server without rowmerge, for the tests of the module."""
    with ConnectServer(tmp_path_factory.mktemp("server"), python=worker_python()) as server:
        yield server.address


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
    files = [f"tests/engine/test_{name}.py" for name in (*names, "names", "locations", "concurrent_definitions")]
    output = python("-m", "pytest", "-q", "-p", "no:cacheprovider", *files, ROWMERGE_REMOTE=server)
    assert " passed" in output


@pytest.mark.full_suite("tests/engine/test_streaming.py runs streams on an embedded Spark")
def test_streams_run_on_a_server_with_rowmerge(tmp_path):
    # The server finds the format of streams in the module `pyspark_rowmerge`.
    with ConnectServer(tmp_path, path=str(ROOT)) as server:
        output = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/engine/test_streaming.py", ROWMERGE_REMOTE=server.address)
    assert " passed" in output


@pytest.mark.full_suite("statements of the same kinds run on a server above")
def test_cases_of_new_statements_run_on_a_server(server):
    kinds = "renames or like or procedures or metadata_columns or listings or clones or maintenance"
    chosen = ["--suite", "full", "tests/engine/test_rows.py", "-k", f"test_case and ({kinds}) and not merge-on-read"]
    output = python("-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen, ROWMERGE_REMOTE=server)
    assert " passed" in output


SESSIONS = """
import sys, rowmerge
first, second, main = (
    rowmerge.connect(sys.argv[1], spark_config={"spark.remote": sys.argv[2]}, default_format="iceberg") for _ in range(3)
)
main.sql("create table t (id bigint) tblproperties ('write.wap.enabled' = 'true')")
main.sql("insert into t values (0)")
first.sql("set spark.wap.branch = first")
second.sql("set spark.wap.branch = second")
for id_, session in enumerate((first, second, main)):
    session.sql(f"merge into t using (select id from range({id_ + 1}, {id_ + 2})) s on t.id = s.id when not matched then insert *")
print([sorted(row.id for row in session.sql("select id from t").collect()) for session in (first, second, main)])
"""


def test_several_sessions_of_a_process_merge_each_into_its_branch(server, tmp_path):
    """PySpark assigns the rows of a checkpoint to the first session. The process also has to end, while PySpark closes three channels."""
    assert python("-c", SESSIONS, str(tmp_path / "warehouse"), server) == "[[0, 1], [0, 2], [0, 3]]\n"


def write_project(folder: Path, address: str, models: dict[str, str], **target: object) -> None:
    """Write a dbt project, and the profile of a server."""
    target = {"type": "rowmerge", "method": "connect", "remote": address, "schema": "main", "threads": 1, **target}
    target.setdefault("warehouse", str(folder / "warehouse"))
    (folder / "models").mkdir(parents=True)
    (folder / "profiles.yml").write_text(yaml.safe_dump({"p": {"target": "dev", "outputs": {"dev": target}}}))
    (folder / "dbt_project.yml").write_text("{name: p, version: '1.0.0', profile: p, flags: {send_anonymous_usage_stats: false}}")
    for name, text in models.items():
        (folder / "models" / name).write_text(text)


NODES = """
import json, sys
from dbt.cli.main import dbtRunner
result = dbtRunner().invoke(["run", "--quiet", "--project-dir", sys.argv[1], "--profiles-dir", sys.argv[1]])
print(json.dumps({each.node.name: [str(each.status), each.message] for each in result.result}))
"""
RESTARTED_MODELS = {
    "a_view.sql": "{{ config(materialized='view') }} select id from range(3)",
    "b_restart.py": """
def model(dbt, session):
    import time
    from pathlib import Path
    Path(FOLDER, "ready").touch()
    while not Path(FOLDER, "restarted").exists():
        time.sleep(0.1)
    return session.range(5)
""",
    "c_table.sql": "{{ config(materialized='table') }} select current_timezone() as zone, count(*) as n from {{ source('s', 'a_view') }}",
    "models.yml": "sources: [{name: s, schema: main, tables: [{name: a_view}]}]",
}


@pytest.mark.full_suite("the server starts twice")
def test_the_next_node_runs_after_a_restart_of_the_server(tmp_path):
    folder = tmp_path / "project"
    models = {name: text.replace("FOLDER", repr(str(folder))) for name, text in RESTARTED_MODELS.items()}
    with ConnectServer(tmp_path / "server") as server:
        write_project(folder, server.address, models, spark_config={"spark.sql.session.timeZone": "Asia/Tokyo"})
        variables = os.environ | {"PYTHONPATH": str(ROOT)}
        dbt = subprocess.Popen([sys.executable, "-c", NODES, str(folder)], cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True)
        while dbt.poll() is None and not (folder / "ready").exists():
            time.sleep(0.1)
        server.stop()
        server.start()
        (folder / "restarted").touch()
        nodes = json.loads(dbt.communicate()[0].splitlines()[-1])
        tables = json.loads(python("-c", SHOW, str(folder / "warehouse"), server.address).splitlines()[-1])
    assert [nodes[name][0] for name in ("a_view", "b_restart", "c_table")] == ["success", "error", "success"]
    assert "The Spark Connect server does not have the session any more" in nodes["b_restart"][1]
    assert tables["c_table"] == [["Asia/Tokyo", 3]]


@pytest.mark.full_suite("tests/deploy runs one client")
def test_two_clients_use_a_server_at_the_same_time(server, tmp_path):
    model = "{{ config(materialized='incremental', unique_key='id') }} select id, '{{ target.schema }}' as client from range(1000)"
    clients = []
    for schema in ("first", "second"):
        write_project(tmp_path / schema, server, {"merged.sql": model}, schema=schema, warehouse=str(tmp_path / "warehouse"))
        command = [sys.executable, "-c", NODES, str(tmp_path / schema)]
        clients.append(subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True))
    assert [json.loads(client.communicate()[0].splitlines()[-1])["merged"][0] for client in clients] == ["success", "success"]


CONNECT = """
import sys, rowmerge
try:
    rowmerge.connect(sys.argv[1], spark_config={"spark.remote": sys.argv[2]})
except rowmerge.errors.ConfigurationError as error:
    print(error)
"""


@pytest.mark.full_suite("the trial of spark_connect in tests/deploy connects with a token")
def test_a_wrong_token_and_a_path_are_rejected(tmp_path):
    settings = {"spark.connect.authenticate.token": "right"}
    with ConnectServer(tmp_path / "server", settings=settings) as server:
        token_error = python("-c", CONNECT, str(tmp_path / "warehouse"), f"{server.address}/;token=wrong-secret")
        path_error = python("-c", CONNECT, str(tmp_path / "warehouse"), f"{server.address}/prefix;token=right")
    assert "returned no session: Invalid authentication token. Check its address and the token." in token_error
    assert "wrong-secret" not in token_error
    assert "path component" in path_error and "must be empty" in path_error


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
    assert output.endswith("True\n"), output
    assert "executors: [" in output
    assert f"Spark {pyspark.__version__}: {socket.gethostname()} (Python {platform.python_version()}, PyArrow {pa.__version__})" in output
    assert not (tmp_path / "warehouse").exists()
