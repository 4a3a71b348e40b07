"""A Hive metastore in a temporary folder, from the jars of PySpark: Hive 2.3 with a Derby database in its own process.

It needs Java and `thrift`, the client's only package (`pip install "pyiceberg[hive]"` installs more).
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyspark
import pytest

needs_hive = pytest.mark.skipif(find_spec("thrift") is None, reason="thrift, the client of Hive metastores, is not installed")

_JARS = Path(pyspark.__file__).parent / "jars"
_SECONDS_TO_START = 120
_SETTINGS = {
    "datanucleus.schema.autoCreateAll": "true",
    "datanucleus.connectionPoolingType": "None",
    "hive.metastore.schema.verification": "false",
    "hive.metastore.event.db.notification.api.auth": "false",
    "hive.async.log.enabled": "false",
}
_LOGGING = """status = OFF
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
rootLogger.level = ERROR
rootLogger.appenderRef.console.ref = console
"""
# The tables of locks, which Hive's schematool creates beside those that DataNucleus creates.
_LOCK_TABLES = """connect 'jdbc:derby:{database};create=true';
create table txns (txn_id bigint primary key, txn_state char(1) not null, txn_started bigint not null,
  txn_last_heartbeat bigint not null, txn_user varchar(128) not null, txn_host varchar(128) not null);
create table txn_components (tc_txnid bigint references txns (txn_id), tc_database varchar(128) not null, tc_table varchar(128),
  tc_partition varchar(767), tc_operation_type char(1) not null);
create table completed_txn_components (ctc_txnid bigint, ctc_database varchar(128) not null, ctc_table varchar(128),
  ctc_partition varchar(767));
create table next_txn_id (ntxn_next bigint not null);
insert into next_txn_id values (1);
create table hive_locks (hl_lock_ext_id bigint not null, hl_lock_int_id bigint not null, hl_txnid bigint, hl_db varchar(128) not null,
  hl_table varchar(128), hl_partition varchar(767), hl_lock_state char(1) not null, hl_lock_type char(1) not null,
  hl_last_heartbeat bigint not null, hl_acquired_at bigint, hl_user varchar(128) not null, hl_host varchar(128) not null,
  hl_heartbeat_count integer, hl_agent_info varchar(128), hl_blockedby_ext_id bigint, hl_blockedby_int_id bigint,
  primary key (hl_lock_ext_id, hl_lock_int_id));
create table next_lock_id (nl_next bigint not null);
insert into next_lock_id values (1);
create table compaction_queue (cq_id bigint primary key, cq_database varchar(128) not null, cq_table varchar(128) not null,
  cq_partition varchar(767));
create table completed_compactions (cc_id bigint primary key, cc_database varchar(128) not null, cc_table varchar(128) not null,
  cc_partition varchar(767));
create table aux_table (mt_key1 varchar(128) not null, mt_key2 bigint not null, mt_comment varchar(255), primary key (mt_key1, mt_key2));
exit;
"""


@contextmanager
def serving_hive() -> Iterator[dict[str, str]]:
    """Start a metastore, and yield the configuration of pyiceberg's Hive catalog without a warehouse."""
    folder = Path(tempfile.mkdtemp(prefix="hive"))
    port = _free_port()
    _write_configuration(folder)
    with open(folder / "log", "w") as log:
        command = [_java(), *_OPENED, f"-Dderby.system.home={folder}", "-cp", f"{folder / 'conf'}:{_JARS}/*"]
        command += ["org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)]
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait_until_it_answers(process, port, folder / "log")
        yield {"type": "hive", "uri": f"thrift://127.0.0.1:{port}"}
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def hive_metastore() -> Iterator[dict[str, str]]:
    """Yield the configuration of a metastore that the tests of this process share."""
    with serving_hive() as configuration:
        yield configuration


@contextmanager
def emptied_hive(configuration: dict[str, str], warehouse: str) -> Iterator[dict[str, Any]]:
    """Yield the configuration of a shared metastore with a warehouse. Its databases and locks are dropped afterwards."""
    from hive_metastore.ttypes import ShowLocksRequest, UnlockRequest
    from pyiceberg.catalog.hive import HiveCatalog

    try:
        yield {**configuration, "warehouse": warehouse}
    finally:
        with HiveCatalog("cleanup", **configuration)._client as client:
            for lock in client.show_locks(ShowLocksRequest()).locks or ():
                client.unlock(UnlockRequest(lockid=lock.lockid))
            for database in client.get_all_databases():
                if database != "default":
                    client.drop_database(database, deleteData=False, cascade=True)


_OPENED = (
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "-XX:TieredStopAtLevel=1",
    "-Xmx512m",
)
"""Options of Java: the packages that Hive opens by reflection, and less work of the compiler."""


def _write_configuration(folder: Path) -> None:
    """Write the configuration, and create the database with the tables of locks."""
    database, configuration = folder / "database", folder / "conf"
    settings = {
        **_SETTINGS,
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={database};create=true",
        "hive.metastore.warehouse.dir": f"file://{folder}/warehouse",
    }
    configuration.mkdir()
    properties = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
    (configuration / "hive-site.xml").write_text(f"<configuration>{properties}</configuration>")
    for name in ("hive-log4j2.properties", "log4j2.properties"):
        (configuration / name).write_text(_LOGGING)
    script = folder / "lock_tables.sql"
    script.write_text(_LOCK_TABLES.format(database=database))
    command = [_java(), f"-Dderby.system.home={folder}", "-cp", ":".join(map(str, _JARS.glob("derby*.jar"))), "org.apache.derby.tools.ij"]
    output = subprocess.run([*command, str(script)], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert "ERROR" not in output, output


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    from pyiceberg.catalog.hive import HiveCatalog  # needs thrift

    catalog = HiveCatalog("start", uri=f"thrift://127.0.0.1:{port}")
    deadline = time.monotonic() + _SECONDS_TO_START
    while True:
        assert process.poll() is None, f"The metastore ended:\n{log.read_text()[-3000:]}"
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            catalog.list_namespaces()
            return
        assert time.monotonic() < deadline, f"The metastore does not answer:\n{log.read_text()[-3000:]}"
        time.sleep(0.2)
