"""Spark sessions for callers that have none: Spark inside this process, or a session on a Spark Connect server."""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rowmerge.errors import ConfigurationError
from rowmerge.redaction import stop_debug_log
from rowmerge.session.startup.class_archive import java_options
from rowmerge.session.startup.cluster import check_master_answers
from rowmerge.session.startup.connectors import with_connector
from rowmerge.spark.peer_settings import report_ignored_settings
from rowmerge.spark.spark_session import check_pyspark, check_session

ANSWER_SECONDS = 15
"""The time that a Spark Connect server may take to answer, in seconds. PySpark itself would retry for many minutes."""
_EXIT_SECONDS = 2
"""The same time when the process ends and releases its sessions."""

_REDACTION = {"spark.redaction.regex": "(?i)secret|passw|token|credential|[.]sas[.]|(access|account|private)[.]?key"}
"""The names of settings whose values Spark hides in its user interface and event logs. Spark's default lacks keys of Azure and Google."""
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_launching = threading.Lock()
"""The lock of the thread that starts Spark. Other threads then use this Spark."""
_early_starts: dict[tuple[str, tuple[str, ...]], Future[SparkSession]] = {}
"""The starts of Spark that no call of `start_spark` has awaited, by the arguments of `start_spark`."""
_separate_sessions: weakref.WeakSet[SparkSession] = weakref.WeakSet()


def start_spark(config: Mapping[str, object] | None = None, locations: Sequence[str] = ()) -> SparkSession:
    """Return a Spark session in this process or, if `spark.remote` is set, on a Spark Connect server.

    Spark starts as `local[*]`, without a user interface, Hive or log output. On another `spark.master`, Spark has its own defaults. If
    Spark already runs in this process, the result is its session if it has the same settings, otherwise a new session.

    Args:
        config: Spark settings, which override the defaults.
        locations: The locations of the warehouses, for which a Spark that starts gets a connector.

    Raises:
        SparkTooOld: The version of Spark is not supported.
        ConfigurationError: Java is missing, the server or the master does not answer, or a setting cannot change after the start.
    """
    early_start = _early_starts.pop(_key_of_start(config, locations), None)
    return _start(config or {}, locations) if early_start is None else early_start.result()


def _start(config: Mapping[str, object], locations: Sequence[str]) -> SparkSession:
    """Return a Spark session as `start_spark` does, whether or not an early start is under way."""
    check_pyspark()
    stop_debug_log("py4j")  # it logs the settings of the Spark that starts
    settings = _settings_text(config)
    query_logger = logging.getLogger("SQLQueryContextLogger")
    if not query_logger.handlers:
        # PySpark prints each SQL error as a JSON line before it raises it: the error itself is enough.
        query_logger.disabled = True
    address = settings.pop("spark.remote", None) or os.environ.get("SPARK_REMOTE")
    if address:
        return _remote_session(address, settings)
    with _launching:
        running_session = active_session()
        return _launch(with_connector(settings, locations)) if running_session is None else _reuse_spark(running_session, settings)


def start_spark_early(config: Mapping[str, object] | None, locations: Sequence[str]) -> None:
    """Begin to start Spark in another thread, unless this process has a session or uses a Spark Connect server.

    The next call of `start_spark` with the same arguments waits for the end of the start, and returns its result or raises its error.

    Args:
        config: Spark settings, as in `start_spark`.
        locations: The locations of the warehouses.
    """
    if "spark.remote" in (config or {}) or "SPARK_REMOTE" in os.environ or active_session() is not None:
        return
    result: Future[SparkSession] = Future()

    def start() -> None:
        try:
            result.set_result(_start(config or {}, locations))
        except BaseException as error:  # noqa: BLE001 - `start_spark` raises it in the thread of its caller
            result.set_exception(error)

    threading.Thread(target=start, daemon=True, name="rowmerge-spark").start()
    _early_starts[_key_of_start(config, locations)] = result


def discard_early_start(config: Mapping[str, object] | None, locations: Sequence[str]) -> None:
    """Discard an early start whose result no caller awaits. Spark keeps running.

    Args:
        config: The Spark settings of the early start.
        locations: The locations of the early start.
    """
    _early_starts.pop(_key_of_start(config, locations), None)


def _key_of_start(config: Mapping[str, object] | None, locations: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    return repr(sorted((config or {}).items())), tuple(locations)


def separate_session(spark: SparkSession) -> SparkSession:
    """Return a new session of a Spark that rowmerge has started, with settings and temporary views of its own."""
    session = spark.newSession()
    _separate_sessions.add(session)
    return session


def is_separate_session(spark: SparkSession) -> bool:
    """Return whether `separate_session` has created a session. Its settings belong to rowmerge."""
    return spark in _separate_sessions


def active_session() -> SparkSession | None:
    """Return the current Spark session of this process, classic or Connect, or None if there is none."""
    try:
        return SparkSession.active()
    except (PySparkException, RuntimeError):
        return None


def _settings_text(config: Mapping[str, object]) -> dict[str, str]:
    """Return the settings as strings. Raise ConfigurationError if a key does not begin with `spark.`."""
    for key in config:
        if not key.startswith("spark."):
            raise ConfigurationError(f"spark_config has the key {key!r}, but Spark's keys begin with 'spark.'. Did you mean 'spark.{key}'?")
    report_ignored_settings(config)
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()}


def _launch(settings: Mapping[str, str]) -> SparkSession:
    """Start Spark in this process. Raise ConfigurationError if Java is missing or Spark does not start."""
    check_java()
    settings = {**_REDACTION, **settings}
    all_settings = dict(settings)
    if _is_local(settings):
        # Tasks run the interpreter of this process, not the first python3 in PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        all_settings = {**_default_settings(), **settings, _JAVA_OPTIONS: _java_options(settings)}
    check_master_answers(settings.get("spark.master", ""))
    builder = SparkSession.builder
    if "spark.app.name" not in settings:
        builder = builder.appName("rowmerge")
    for key, value in all_settings.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
        # PySpark reads only the environment variable PYSPARK_PYTHON, unless spark-submit has started it.
        if python := session.sparkContext.getConf().get("spark.pyspark.python"):
            session.sparkContext.pythonExec = python
        return session
    except (PySparkException, RuntimeError) as error:
        reason, advice = str(error).splitlines()[0], "Check spark_config, and the Java version (17 or newer) with `java -version`."
        raise ConfigurationError(f"Spark did not start: {reason}. {advice}") from error


def _is_local(settings: Mapping[str, str]) -> bool:
    """Return whether Spark runs in this process alone. Otherwise, spark-submit or the settings choose another master."""
    if "spark.master" in settings:
        return settings["spark.master"].startswith("local")
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ or "--master" in os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    return not is_submitted


def _reuse_spark(running_session: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Return the running session if it has these settings. Otherwise return a new session of the same Spark with these settings."""
    changed_settings = {key: value for key, value in settings.items() if not _has_setting(running_session, key, value)}
    if not changed_settings:
        return running_session
    _check_changeable(running_session, changed_settings, "Spark already runs in this process")
    session = running_session.newSession()
    for key, value in settings.items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
    return session


def _remote_session(address: str, settings: Mapping[str, str]) -> SparkSession:
    """Return a new session on a Spark Connect server with these settings.

    Raise ConfigurationError if classic Spark runs in this process, the server does not answer, or a setting cannot change.
    """
    running_session = active_session()
    if running_session is not None and not type(running_session).__module__.startswith("pyspark.sql.connect"):
        problem = "Spark already runs in this process, and PySpark does not support an additional Spark Connect session."
        advice = "Start another process, or stop the running session first."
        raise ConfigurationError(f"{problem} {advice}")
    session = _connect(address)
    _check_changeable(session, settings, "A Spark Connect server has its own Spark")
    for key, value in settings.items():
        session.conf.set(key, value)
    return session


def _connect(address: str) -> SparkSession:
    """Open a session on a Spark Connect server. Raise ConfigurationError if this fails, without the address, which may contain a token."""
    try:
        if address.startswith("local"):  # PySpark itself starts a local server, or uses the running one
            session = SparkSession.builder.remote(address).getOrCreate()
        else:
            _check_server_answers(address, ANSWER_SECONDS)  # PySpark would retry for many minutes
            session = SparkSession.builder.remote(address).create()
            atexit.register(_release, weakref.ref(session), address)
        check_session(session)
    except ImportError as error:
        raise ConfigurationError(f"{error}. Spark Connect needs more packages: pip install 'dbt-rowmerge[connect]'.") from error
    except PySparkException as error:
        # The first line of an error of gRPC has no reason, such as a wrong token.
        details = re.search(r'details = "([^"]+)"', str(error))
        reason = _without_parameter_values(details[1] if details else str(error).splitlines()[0])
        problem = f"The Spark Connect server returned no session: {reason.rstrip('.')}."
        raise ConfigurationError(f"{problem} Check its address and the token.") from None
    return session


def _release(reference: weakref.ref[SparkSession], address: str) -> None:
    """Release a session on a Spark Connect server, with its views and cached rows, when the process ends.

    Without this, the server keeps the session for an hour. A process with several sessions would wait forever for a channel to close,
    because PySpark closes it after the threads of gRPC have ended.
    """
    session: Any = reference()
    if session is None:
        return
    try:
        _check_server_answers(address, _EXIT_SECONDS)
    except ConfigurationError:
        # PySpark would send the request to release the session for many minutes.
        session.release_session_on_close = False
    session.stop()


def _without_parameter_values(message: str) -> str:
    """Return a message without the values of parameters in addresses, which may be secrets: `;token=…` instead of `;token=abc`."""
    return re.sub(r"=[^;'\"\s]+", "=…", message)


def _check_server_answers(address: str, seconds: float) -> None:
    """Raise ConfigurationError if no server answers at an address within this time."""
    import grpc  # type: ignore[import-untyped]
    from pyspark.sql.connect.client import DefaultChannelBuilder

    builder = DefaultChannelBuilder(address)
    channel = builder.toChannel()
    try:
        grpc.channel_ready_future(channel).result(timeout=seconds)
    except grpc.FutureTimeoutError as error:
        advice = "Check the host, the port and use_ssl, and whether the server runs"
        example = "(sbin/start-connect-server.sh of a Spark distribution starts one)"
        # Before 3.11.4, Python takes the parameters of an address without a host for the host.
        endpoint = _without_parameter_values(builder.endpoint)
        raise ConfigurationError(f"No Spark Connect server answers at {endpoint}. {advice} {example}.") from error
    finally:
        channel.close()


def _check_changeable(session: SparkSession, settings: Mapping[str, str], reason: str) -> None:
    """Raise ConfigurationError if one of the settings cannot change after Spark has started."""
    fixed_keys = [key for key in settings if not session.conf.isModifiable(key)]
    if fixed_keys:
        raise ConfigurationError(f"{reason}: spark_config cannot change {', '.join(fixed_keys)} now. Set it where Spark is started.")


def _has_setting(session: SparkSession, key: str, value: str) -> bool:
    """Return whether a session has a setting. For Java options, it is enough that the session's options end with the value."""
    session_value: str | None = session.conf.get(key, None)
    return session_value == value or (key == _JAVA_OPTIONS and f" {session_value}".endswith(f" {value}"))


_METASPACE = "-XX:MetaspaceSize=192m"
"""The Java option that avoids a garbage collection of 0.2 s while Spark starts. By default, it is due when the classes take 21 MB."""


def _java_options(settings: Mapping[str, str]) -> str:
    """Return rowmerge's Java options, followed by those in the user's settings."""
    log4j = Path(__file__).with_name("log4j2.properties")
    collector = "" if _chooses_collector(settings) else "-XX:+UseParallelGC"
    own_options = [f"-Dlog4j2.configurationFile={log4j.as_uri()}", java_options(settings), collector, _METASPACE]
    options = [*own_options, settings.get(_JAVA_OPTIONS, "")]
    return " ".join(filter(None, options))


def _chooses_collector(settings: Mapping[str, str]) -> bool:
    """Return whether the user chooses a garbage collector of Java: in a setting, an environment variable or Spark's configuration folder.

    Otherwise, Java gets the parallel collector. Statements need throughput, not short pauses: a mirror takes 20 % less time than with G1,
    the default. With two collectors, Java does not start.
    """
    texts = [settings.get(name, "") for name in (_JAVA_OPTIONS, "spark.driver.defaultJavaOptions")]
    texts += [os.environ.get(name, "") for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")]
    folder = Path(os.environ.get("SPARK_CONF_DIR") or Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "conf")
    for name in ("spark-defaults.conf", "java-opts"):
        with suppress(OSError):
            texts.append((folder / name).read_text(encoding="utf-8", errors="replace"))
    return any(re.search(r"-XX:[+]Use\w+GC\b", text) for text in texts)


def _default_settings() -> dict[str, str]:
    """Return the default settings of a Spark in this process alone, which the user's settings override."""
    cores, memory = os.cpu_count() or 2, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "spark.master": "local[*]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        # Half of the machine's memory, between 1 and 8 GB.
        "spark.driver.memory": f"{max(1, min(8, memory // 2**30 // 2))}g",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "rowmerge-spark-warehouse"),
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        # An expression that overflows the stack of a task fails its statement. By default Spark ends the JVM, which is also the driver.
        "spark.executor.killOnFatalError.depth": "0",
        # Debugging makes four calls to the JVM for each DataFrame call, a third of a small merge. No error shows the lines that it records.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # Listing a few thousand files is quicker here than as a Spark job.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    }


def check_java() -> None:
    """Check that Java exists.

    Raises:
        ConfigurationError: Neither JAVA_HOME nor PATH contains Java.
    """
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").is_file():
        raise ConfigurationError(f"JAVA_HOME is {home}, which does not contain bin/java. Set it to Java 17 or newer, or unset it.")
    if not home and shutil.which("java") is None:
        advice = "Install Java 17 or newer, for example openjdk-17-jre-headless, or set JAVA_HOME."
        raise ConfigurationError(f"Spark needs Java, but Java is not installed. {advice}")
