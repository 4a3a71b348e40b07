"""The engine's sessions: in this process, or in a server. All threads of dbt share one session for each profile."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

import rowmerge
from dbt.adapters.rowmerge.configs.credentials import RowmergeCredentials

_SESSION_SETTINGS = (
    "address",
    "warehouse",
    "schema",
    "file_format",
    "durability",
    "catalog",
    "catalogs",
    "spark_config",
    "storage_options",
    "keep_warm",
)

_opening = threading.Lock()
"""The lock of the thread that opens a session, which can take many seconds."""
_sessions: dict[tuple[Any, ...], Any] = {}
"""The open sessions by their keys (`_session_key`)."""
_lock = threading.Lock()
"""The lock for changes of `_sessions`."""
_is_in_use = False
"""Whether a command of dbt uses sessions. An early start may end after its command."""


def connection_for(credentials: RowmergeCredentials) -> Any:
    """Return a new connection to the session of a profile, for one thread. The first call starts Spark, which takes several seconds.

    Raises DbtRuntimeError if the warehouse is a file, and rowmerge.errors.RowmergeError if the engine fails to start.
    """
    global _is_in_use
    _is_in_use = True
    session = _session_for(credentials)
    return session.connection() if credentials.keep_warm else rowmerge.Connection(session)


def start_early(credentials: RowmergeCredentials) -> None:
    """Start Spark for a profile in the background, while dbt reads the project. If this fails, `connection_for` raises the error."""
    global _is_in_use

    def start() -> None:
        with suppress(Exception):
            _session_for(credentials)
        _close_unused_sessions()

    if credentials.method == "session":
        _is_in_use = True
        threading.Thread(target=start, name="rowmerge-start", daemon=True).start()


def close_server_sessions() -> None:
    """Release the sessions of servers, when a command of dbt ends. The servers end after the time that the profile sets."""
    global _is_in_use
    _is_in_use = False
    _close_unused_sessions()


def _close_unused_sessions() -> None:
    """Release the sessions of servers, unless a command of dbt uses them."""
    with _lock:
        if _is_in_use:
            return
        keys = [key for key, session in _sessions.items() if isinstance(session, rowmerge.ServerSession)]
        sessions = [_sessions.pop(key) for key in keys]
    for session in sessions:
        session.close()


def _session_for(credentials: RowmergeCredentials) -> Any:
    """Return the session of a profile. The first call starts Spark. Raise the errors of `connection_for`."""
    spark = _active_spark() if credentials.method == "existing" else None
    key = _session_key(credentials, spark)
    with _opening:
        session = _sessions.get(key)
        if session is not None and credentials.method == "connect" and _is_lost(session.spark):
            # PySpark takes the first session of a process for the active one until it is stopped.
            session.spark.stop()
            session = None
        if session is not None and credentials.keep_warm and session.is_lost():
            session.close()
            session = None
        if session is None:
            session = _open(credentials, spark)
            with _lock:
                _sessions[key] = session
        return session


def _is_lost(spark: Any) -> bool:
    """Return whether a Spark Connect server does not have a session any more: it has restarted, or the session was idle for too long."""
    from pyspark.errors import PySparkException  # PySpark takes some time to import, and clients of a server do not need it

    try:
        spark.conf.get("spark.app.id")
    except PySparkException:
        return True
    return False


def _session_key(credentials: RowmergeCredentials, spark: Any) -> tuple[Any, ...]:
    """Return the key of a profile's session, which consists of settings. Connections with equal keys share a session."""
    app_id = None if spark is None else spark.conf.get("spark.app.id")
    # A relative warehouse is a different folder if a program calls dbt from another working directory.
    folder = os.path.abspath(credentials.warehouse) if credentials.warehouse and "://" not in credentials.warehouse else None
    return app_id, folder, json.dumps([getattr(credentials, name) for name in _SESSION_SETTINGS], sort_keys=True, default=str)


def _open(credentials: RowmergeCredentials, spark: Any) -> Any:
    """Open the engine's session for a profile, in this process or in a server. Raise the errors of `connection_for`.

    `spark`: the Spark session of the process, or None to start one.
    """
    _check_warehouse(credentials.warehouse)
    formats = {"default_format": credentials.file_format, "durability": credentials.durability}
    arguments = {"location": credentials.warehouse, **formats, **_environment(credentials)}
    if credentials.keep_warm:
        return rowmerge.ServerSession(arguments, credentials.keep_warm_seconds)
    return rowmerge.open_session({**arguments, "spark": spark})


def _check_warehouse(warehouse: str | None) -> None:
    if warehouse is not None and os.path.isfile(warehouse):
        raise DbtRuntimeError(f"The warehouse {warehouse} is a file. Set `warehouse` to a folder, which may not exist yet.")


def _environment(credentials: RowmergeCredentials) -> dict[str, Any]:
    """Return the arguments of a profile that `rowmerge.connect` and `rowmerge.check_environment` share."""
    # Spark connects to a Spark Connect server if this setting has its address.
    remote = {"spark.remote": credentials.address} if credentials.address else {}
    # A mapping is empty if the profile does not set it. None then selects the default.
    return {
        "catalog": credentials.catalog or None,
        "catalogs": credentials.catalogs,
        "spark_config": {**credentials.spark_config, **remote} or None,
        "schema": credentials.schema,
        "storage_options": credentials.storage_options or None,
    }


def environment_checks(credentials: RowmergeCredentials) -> Iterator[Any]:
    """Yield the result of each check of a profile's environment. Spark starts only to check the executors of a cluster or a server.

    Raises DbtRuntimeError if the warehouse is a file, or the profile needs a Spark session of this process and there is none. Raises
    rowmerge.errors.RowmergeError if the profile is invalid.
    """
    _check_warehouse(credentials.warehouse)
    spark = _active_spark() if credentials.method == "existing" else None
    yield from rowmerge.check_environment(credentials.warehouse, spark=spark, **_environment(credentials))


def _active_spark() -> Any:
    """Return the Spark session of the program that runs dbt. Raises DbtRuntimeError if there is none."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except (PySparkException, RuntimeError) as error:
        raise DbtRuntimeError(
            "The profile sets `method: existing`, but this process has no Spark session. Create one before you call dbt from Python "
            "(dbtRunner), or set the method to `session` or `connect`."
        ) from error
