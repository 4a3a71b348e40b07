"""A server runs the statements of several client processes, and ends when nobody uses it. Each test uses real processes."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import rowmerge
from rowmerge.errors import ConfigurationError, MultipleSourceRowsMatch, ServerLost, SparkFailed, StatementCancelled, TableNotFound
from rowmerge.server.client import server_status, stop_server
from rowmerge.server.folder import ServerFolder, warehouse_of
from tests.support.jvm import SPARK_SETTINGS
from tests.support.processes import descendants, is_running, wait_until

ENDLESS = "create or replace table a.endless as select id % 7 as id, count(*) as n from range(0, 100000000000000) group by 1"
CLIENT = """
import json, sys, rowmerge
session = rowmerge.ServerSession(json.loads(sys.argv[1]), 60)
connection = session.connection()
for statement in sys.argv[2:]:
    print("ready", flush=True)
    print(connection.execute(statement), connection.rows(), flush=True)
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a cache folder of its own, and end all servers in it after the tests of the module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROWMERGE_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        yield Path(os.environ["ROWMERGE_CACHE"])
        folders = ServerFolder.all_of_user()
        pids = [state.pid for folder in folders if (state := folder.read())]
        for folder in folders:
            stop_server(folder, at_once=True)
        wait_until(lambda: not any(map(is_running, pids)))


@pytest.fixture(scope="module")
def arguments(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Return arguments with which all tests of the module use the same server."""
    return {"location": str(tmp_path_factory.mktemp("warehouse")), "spark_config": SPARK_SETTINGS}


@pytest.fixture
def session(arguments: dict[str, object]) -> Iterator[rowmerge.ServerSession]:
    session = rowmerge.ServerSession(arguments, keep_warm=600)
    session.connection().execute("create schema if not exists a")
    yield session
    session.close()


def pid_of(session: rowmerge.ServerSession) -> int:
    state = session.folder.read()
    assert state is not None
    return state.pid


def numbers_in(session: rowmerge.ServerSession, query: str) -> list[object]:
    connection = session.connection()
    connection.execute(query)
    rows = connection.rows()
    connection.close()
    return [value for (value,) in rows]


def test_statements_return_outcomes_columns_and_rows(session: rowmerge.ServerSession) -> None:
    connection = session.connection()
    outcome = connection.execute("create or replace table a.t as select 1 as id; insert into a.t values (2)")
    assert outcome is not None and outcome.changes is not None
    assert (outcome.operation, outcome.changes.inserted, outcome.changes.files_added) == ("INSERT", 1, 1)
    outcome = connection.execute("select id, named_struct('x', array(X'0A')) as s, timestamp_ntz'2020-01-01' as at from a.t order by id")
    assert outcome is not None and outcome.reads is not None and outcome.reads.files == 2
    assert connection.columns()[:2] == [("id", "int", True), ("s", "struct<x:array<binary>>", False)]
    assert [row[0] for row in connection.rows()] == [1, 2]
    assert len(connection.rows(limit=1)) == 1
    assert connection.session.describe("a", "t").relation == rowmerge.Relation.of_table("a", "t", "delta")
    assert connection.execute("") is None


def test_errors_keep_their_class_and_their_fields(session: rowmerge.ServerSession) -> None:
    connection = session.connection()
    with pytest.raises(TableNotFound, match="There is no table or view a.nothing"):
        connection.execute("select * from a.nothing")
    connection.execute("create or replace table a.keys as select 1 as id")
    source = "(select explode(array(1, 1)) as id)"
    with pytest.raises(MultipleSourceRowsMatch) as error:
        connection.execute(f"merge into a.keys t using {source} s on t.id = s.id when matched then update set *")
    assert "a.keys" in error.value.message
    connection.execute("select raise_error('broken') as a")
    with pytest.raises(SparkFailed, match="broken"):
        connection.rows()


def test_an_error_that_python_cannot_send_keeps_its_message(session: rowmerge.ServerSession) -> None:
    with pytest.raises(SparkFailed, match="unsendable"):
        session.connection().call(fail_with_a_lock)


def fail_with_a_lock(session: rowmerge.Session) -> None:
    raise ValueError("unsendable", threading.Lock())


def test_functions_run_beside_spark_and_their_output_goes_to_the_client(
    session: rowmerge.ServerSession, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert session.connection().call(talk, 20) == pid_of(session) + 20
    assert capsys.readouterr().out == "printed\n"
    assert ("rowmerge.test", logging.WARNING, "logged 1") in caplog.record_tuples


def talk(session: rowmerge.Session, number: int) -> int:
    print("printed")  # noqa: T201 - what a test looks for
    logging.getLogger("rowmerge.test").warning("logged %d", session.spark.range(1).count())
    return os.getpid() + number


def test_clients_do_not_see_views_and_settings_of_each_other(session: rowmerge.ServerSession, arguments: dict[str, object]) -> None:
    other = rowmerge.ServerSession(arguments, keep_warm=600)
    assert pid_of(other) == pid_of(session)
    for number, each in enumerate((session, other)):
        each.connection().execute(f"create temporary view mine as select {number} as n; set spark.sql.shuffle.partitions = {number + 5}")
    assert [numbers_in(each, "select n from mine") for each in (session, other)] == [[0], [1]]
    settings = [dict(rows_of(each, "set spark.sql.shuffle.partitions")) for each in (session, other)]
    assert settings == [{"spark.sql.shuffle.partitions": "5"}, {"spark.sql.shuffle.partitions": "6"}]
    other.close()


def rows_of(session: rowmerge.ServerSession, query: str) -> list[tuple[object, ...]]:
    connection = session.connection()
    connection.execute(query)
    return connection.rows()


def test_an_interrupted_connection_returns_no_answer_to_an_earlier_request(session: rowmerge.ServerSession) -> None:
    connection = session.connection()
    timer = threading.Timer(1, lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        connection.execute(ENDLESS)
    with pytest.raises(ServerLost):
        connection.execute("select 1")
    wait_until(lambda: session.connection().call(active_jobs) == 0)


def test_the_state_of_a_server_contains_no_password() -> None:
    arguments = {"location": None, "catalog": {"uri": "postgresql+psycopg2://me:hush@host/db?password=hush"}}
    assert warehouse_of(arguments) == "postgresql+psycopg2://host/db"


@pytest.mark.parametrize(
    "changes", [{"storage_options": {"aws_session_token": "b"}}, {"spark_config": {"spark.a": "/X"}}, {"location": "y"}]
)
def test_other_arguments_need_another_server(changes: dict[str, object]) -> None:
    arguments = {"location": "x", "storage_options": {"aws_session_token": "a"}, "spark_config": {"spark.a": "/x"}}
    assert ServerFolder.of(arguments).path == ServerFolder.of(dict(arguments)).path
    assert ServerFolder.of({**arguments, **changes}).path != ServerFolder.of(arguments).path


def test_a_cancelled_connection_commits_nothing_and_the_others_continue(session: rowmerge.ServerSession) -> None:
    connection, errors = session.connection(), []

    def run() -> None:
        try:
            connection.execute(ENDLESS)
        except StatementCancelled as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: session.connection().call(active_jobs) > 0)
    connection.cancel()
    thread.join(60)
    assert len(errors) == 1
    assert numbers_in(session, "select sum(id) from range(10)") == [45]
    assert session.connection().session.relation("a", "endless") is None


def active_jobs(session: rowmerge.Session) -> int:
    return len(session.spark.sparkContext.statusTracker().getActiveJobsIds())


def test_the_statement_of_a_killed_client_is_cancelled(session: rowmerge.ServerSession, arguments: dict[str, object]) -> None:
    client = subprocess.Popen([sys.executable, "-c", CLIENT, json.dumps(arguments), ENDLESS], stdout=subprocess.PIPE)
    wait_until(lambda: session.connection().call(active_jobs) > 0)
    client.kill()
    client.wait()
    wait_until(lambda: session.connection().call(active_jobs) == 0)
    wait_until(lambda: (server_status(session.folder) or {})["clients"] == 1)
    assert session.connection().session.relation("a", "endless") is None


def test_only_the_user_reaches_the_server_and_only_with_the_token(session: rowmerge.ServerSession) -> None:
    state = session.folder.read()
    assert state is not None
    assert stat.S_IMODE(session.folder.path.stat().st_mode) == stat.S_IMODE(Path(state.socket).parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((session.folder.path / "server.json").stat().st_mode) == 0o600
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(state.socket)
        client.sendall(b"0" * len(state.token) + b"\x80\x04")
        assert client.recv(1) == b""  # the server has closed the connection without an answer
    assert server_status(session.folder) is not None


def test_the_command_lists_and_stops_servers(cache: Path, tmp_path: Path) -> None:
    def command(*words: str) -> str:
        return subprocess.run([sys.executable, "-m", "rowmerge", "server", *words], capture_output=True, text=True, check=True).stdout

    settings = [word for item in SPARK_SETTINGS.items() for word in ("--config", "=".join(item))]
    warehouse = str(tmp_path / "warehouse")
    started = command("start", "--warehouse", warehouse, *settings)
    [status] = json.loads(command("status", "--warehouse", warehouse, "--json"))
    assert started.startswith(f"The server of {warehouse} runs with process id {status['pid']}.")
    assert (status["warehouse"], status["clients"], status["keep_warm"]) == (warehouse, 0, 1800)
    assert f"{warehouse}: process {status['pid']}, unused for " in command("status")
    processes = [status["pid"], *descendants(status["pid"])]
    assert command("stop", "--warehouse", warehouse) == "1 server stopped.\n"
    wait_until(lambda: not any(map(is_running, processes)))
    assert command("status", "--warehouse", warehouse) == "No server runs.\n"
    assert "The server has ended" in command("logs", "--warehouse", warehouse)


def stop_spark(session: rowmerge.Session) -> None:
    session.spark.stop()


class TestLife:
    """Start and end of servers. Each test starts a Spark of its own."""

    def test_processes_that_start_together_share_one_server_which_ends_without_clients(self, cache: Path, tmp_path: Path) -> None:
        arguments = {"location": str(tmp_path), "spark_config": SPARK_SETTINGS}
        command = [sys.executable, "-c", CLIENT.replace("60", "1"), json.dumps(arguments), "select 1"]
        clients = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        folder = ServerFolder.of(arguments)
        wait_until(lambda: folder.read() is not None)
        state = folder.read()
        assert state is not None
        assert [client.communicate()[0].count("(1,)") for client in clients] == [1, 1, 1]
        wait_until(lambda: folder.read() is None and not is_running(state.pid))
        assert folder.log.read_text().count("The server runs") == 1

    def test_a_killed_server_is_an_error_and_the_next_session_starts_another(self, cache: Path, tmp_path: Path) -> None:
        arguments = {"location": str(tmp_path), "spark_config": SPARK_SETTINGS}
        session = rowmerge.ServerSession(arguments, keep_warm=60)
        connection, processes = session.connection(), [pid_of(session), *descendants(pid_of(session))]
        connection.execute("create schema a; create table a.t as select 1 as id")
        assert len(processes) > 1 and not session.is_lost()
        threading.Timer(2, lambda: os.kill(processes[0], signal.SIGKILL)).start()
        with pytest.raises(ServerLost, match="Run it again: a new server starts") as error:
            connection.execute(ENDLESS)
        assert error.value.log == str(session.folder.log)
        wait_until(lambda: not any(map(is_running, processes)))
        assert session.is_lost()
        with pytest.raises(ServerLost):
            session.connection()
        other = rowmerge.ServerSession(arguments, keep_warm=0)
        assert pid_of(other) != processes[0]
        assert numbers_in(other, "select id from a.t") == [1]
        other.close()

    @pytest.mark.parametrize("end", ["kill Java", "stop Spark"])
    def test_a_server_whose_spark_has_ended_is_replaced(self, cache: Path, tmp_path: Path, end: str) -> None:
        arguments = {"location": str(tmp_path), "spark_config": SPARK_SETTINGS}
        session = rowmerge.ServerSession(arguments, keep_warm=60)
        pid = pid_of(session)
        (java,) = [child for child in descendants(pid) if "java" in Path(f"/proc/{child}/cmdline").read_text().split("\0")[0]]
        if end == "kill Java":
            os.kill(java, signal.SIGKILL)
            wait_until(lambda: not is_running(java))
        else:
            session.connection().call(stop_spark)
        assert session.is_lost()
        other = rowmerge.ServerSession(arguments, keep_warm=0)
        assert pid_of(other) != pid
        assert numbers_in(other, "select 1") == [1]
        wait_until(lambda: not is_running(pid))
        other.close()

    def test_other_options_need_another_server_and_the_unused_one_ends(self, cache: Path, tmp_path: Path) -> None:
        arguments = {"location": str(tmp_path), "spark_config": SPARK_SETTINGS}
        first = rowmerge.ServerSession(arguments, keep_warm=600)
        first_pid = pid_of(first)
        first.close()
        second = rowmerge.ServerSession({**arguments, "spark_config": {**SPARK_SETTINGS, "spark.sql.shuffle.partitions": "3"}}, keep_warm=0)
        assert pid_of(second) != first_pid
        assert rows_of(second, "set spark.sql.shuffle.partitions") == [("spark.sql.shuffle.partitions", "3")]
        wait_until(lambda: not is_running(first_pid))
        second.close()

    def test_the_error_of_a_failed_start_reaches_the_client(self, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        with pytest.raises(ConfigurationError, match="does not contain bin/java"):
            rowmerge.ServerSession({"location": str(tmp_path / "warehouse")}, keep_warm=60)
        monkeypatch.delenv("JAVA_HOME")
        file = tmp_path / "file"
        file.write_text("")
        with pytest.raises(rowmerge.errors.RowmergeError, match="is a file"):
            rowmerge.ServerSession({"location": str(file)}, keep_warm=60)
