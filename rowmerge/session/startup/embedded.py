"""The Spark that runs inside this process, or the one that a Spark Connect server runs, when the user brings no session."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rowmerge.errors import ConfigurationError
from rowmerge.session.startup.class_archive import java_options
from rowmerge.spark.versions import check_pyspark, check_session

ANSWER_SECONDS = 15
"""How long a Spark Connect server may take to answer; PySpark itself would try for many minutes."""

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def start_spark(config: Mapping[str, object] | None = None) -> SparkSession:
    """A Spark session of this process: local[*], no user interface, no Hive, quiet; or with `spark.remote` one of a Spark Connect server.

    `config` is Spark configuration and wins over our defaults. Where Spark runs in this process already, its session is used, or a new one
    beside it with the settings that differ. Raises SparkTooOld, and ConfigurationError when there is no Java or no answer, or a setting
    cannot be changed any more.
    """
    check_pyspark()
    given = {key: _text(value) for key, value in (config or {}).items()}
    for key in given:
        if not key.startswith("spark."):
            raise ConfigurationError(
                f"spark_config has the key {key!r}, but Spark's keys begin with 'spark.'. Write 'spark.{key}' if that is meant."
            )
    if not logging.getLogger("SQLQueryContextLogger").handlers:
        # PySpark prints each SQL error as a JSON line before it raises it: the error itself is enough.
        logging.getLogger("SQLQueryContextLogger").disabled = True
    remote = given.pop("spark.remote", None) or os.environ.get("SPARK_REMOTE")
    if remote:
        return _remote_session(remote, given)
    running = active_session()
    if running is not None:
        return _session_beside(running, given)
    _check_java()
    # Workers run the interpreter that runs us, not whatever python3 the PATH has.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("rowmerge")
    for key, value in (_defaults() | given | {_JAVA_OPTIONS: _java_options(given)}).items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except (PySparkException, RuntimeError) as error:
        raise ConfigurationError(
            f"Spark did not start: {str(error).splitlines()[0]}. Check Java (17 or newer) with `java -version`, and spark_config."
        ) from error


def active_session() -> SparkSession | None:
    """The session that this process has already, classic or Connect, if there is one."""
    try:
        return SparkSession.active()
    except (PySparkException, RuntimeError):
        return None


def is_remote(session: SparkSession) -> bool:
    """Whether a session is one of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def _session_beside(running: SparkSession, given: Mapping[str, str]) -> SparkSession:
    """The running session if it has these settings, else a new one with them over the same Spark."""
    differing = {key: value for key, value in given.items() if not _has(running, key, value)}
    if not differing:
        return running
    _check_changeable(running, differing, "Spark runs in this process already")
    session = running.newSession()
    for key, value in given.items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
    return session


def _remote_session(remote: str, given: Mapping[str, str]) -> SparkSession:
    """A new session of a Spark Connect server. No message holds the address: it may hold a token."""
    running = active_session()
    if running is not None and not is_remote(running):
        raise ConfigurationError(
            "Spark runs in this process already, and PySpark takes no Spark Connect session beside it. "
            "Use one of both in a process: start another process, or stop the running session first."
        )
    try:
        if remote.startswith("local"):
            session = SparkSession.builder.remote(remote).getOrCreate()
        else:
            _check_answers(remote)
            session = SparkSession.builder.remote(remote).create()
        check_session(session)
    except ImportError as error:
        raise ConfigurationError(f"{error}. Spark Connect needs more packages: pip install 'dbt-rowmerge[connect]'.") from error
    except PySparkException as error:
        reason = re.sub(r"=[^;'\"\s]+", "=…", str(error).splitlines()[0])
        raise ConfigurationError(f"There is no session of the Spark Connect server: {reason} Check its address, and the token.") from None
    _check_changeable(session, given, "A Spark Connect server has its own Spark")
    for key, value in given.items():
        session.conf.set(key, value)
    return session


def _check_answers(remote: str) -> None:
    """Raises ConfigurationError when nobody answers at an address."""
    import grpc  # type: ignore[import-untyped]
    from pyspark.sql.connect.client import DefaultChannelBuilder

    builder = DefaultChannelBuilder(remote)
    channel = builder.toChannel()
    try:
        grpc.channel_ready_future(channel).result(timeout=ANSWER_SECONDS)
    except grpc.FutureTimeoutError as error:
        raise ConfigurationError(
            f"No Spark Connect server answers at {builder.endpoint}. Check host and port, whether it wants use_ssl=true, and that it runs "
            f"(sbin/start-connect-server.sh of a Spark distribution starts one)."
        ) from error
    finally:
        channel.close()


def _check_changeable(session: SparkSession, settings: Mapping[str, str], why: str) -> None:
    fixed = [key for key in settings if not session.conf.isModifiable(key)]
    if fixed:
        raise ConfigurationError(f"{why}: spark_config cannot set {', '.join(fixed)} any more. Set it where Spark is started.")


def _has(session: SparkSession, key: str, value: str) -> bool:
    """Whether a session has a setting; Java's options stand behind ours."""
    held: str | None = session.conf.get(key, None)
    return held == value or (key == _JAVA_OPTIONS and f" {held}".endswith(f" {value}"))


def _java_options(given: Mapping[str, str]) -> str:
    """Java's options: ours, and after them what the user's configuration says."""
    log4j = Path(__file__).with_name("log4j2.properties")
    own = [f"-Dlog4j2.configurationFile={log4j.as_uri()}", java_options(given), given.get(_JAVA_OPTIONS, "")]
    return " ".join(filter(None, own))


def _defaults() -> dict[str, str]:
    cores = os.cpu_count() or 2
    return {
        "spark.master": "local[*]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": _memory(),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "rowmerge-spark-warehouse"),
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        # An expression that overflows the stack of a task is an error of its statement. Spark would end the JVM, which is the driver too.
        "spark.executor.killOnFatalError.depth": "0",
        # Four calls to the JVM for each DataFrame call, to note a line of ours that no error of ours shows: a third of a small merge.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # Listing a few thousand files is quicker here than as a Spark job.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    }


def _memory() -> str:
    """Half of the machine's memory for the JVM, between 1 and 8 GB."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{max(1, min(8, total // 2**30 // 2))}g"


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").is_file():
        raise ConfigurationError(f"JAVA_HOME is {home}, but there is no bin/java in it. Point it to a Java 17 (or newer), or unset it.")
    if not home and shutil.which("java") is None:
        raise ConfigurationError(
            "There is no Java: Spark needs one. Install Java 17 or newer (for example openjdk-17-jre-headless) or set JAVA_HOME."
        )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
