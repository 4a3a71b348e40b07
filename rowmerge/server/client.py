"""Clients of a server: find it or start it, and run statements in its session."""

from __future__ import annotations

import json
import logging
import os
import pickle
import subprocess
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowmerge.errors import ConfigurationError, ServerLost, StatementCancelled
from rowmerge.server.channel import Channel
from rowmerge.server.folder import NoServer, ServerFolder, warehouse_of

if TYPE_CHECKING:
    from rowmerge.session.answers.outcome import StatementOutcome
    from rowmerge.session.connection import Column

_WAIT_SECONDS = 1.0
_ATTEMPTS = 5
"""The number of times that a client looks for a server, or starts one, before it gives up."""
_CODE = """
import json, sys
sys.path[:] = json.loads(sys.argv[3])
from rowmerge.server.service import main
main(sys.argv[1], int(sys.argv[2]))
"""


class ServerSession:
    """A session in the server of a warehouse, for all threads of this process. Its temporary views are invisible to other processes."""

    def __init__(self, arguments: Mapping[str, Any], keep_warm: float) -> None:
        """Find the server, or start one. The first start takes some seconds.

        Args:
            arguments: The arguments of `connect`.
            keep_warm: The time in seconds after which the server ends if it has no clients.

        Raises:
            ConfigurationError: The server does not start, because Java is missing, for example.
            RowmergeError: The arguments are invalid, or the warehouse cannot be opened.
        """
        self._id = uuid.uuid4().hex
        self._all_arguments, self._keep_warm = dict(arguments), keep_warm
        # The server has started its Spark with `spark_config`. A session of this Spark accepts no further one.
        self._arguments = {name: value for name, value in arguments.items() if name != "spark_config"}
        self.folder = ServerFolder.of(arguments)
        self._connections: weakref.WeakSet[RemoteConnection] = weakref.WeakSet()
        self._base = self._open(may_start=True)

    def connection(self) -> RemoteConnection:
        """Return a new connection for one thread.

        Raises:
            ServerLost: The server has ended.
        """
        return self._open(may_start=False)

    def is_lost(self) -> bool:
        """Return whether the server or its Spark has ended since this session was opened."""
        try:
            return not self._base.is_alive()
        except ServerLost:
            return True

    def close(self) -> None:
        """Close all connections of the session. The server ends after `keep_warm` without clients."""
        for connection in list(self._connections):
            connection.close()

    def _open(self, *, may_start: bool) -> RemoteConnection:
        request = {"kind": "connection", "client": self._id, "arguments": self._arguments, "keep_warm": self._keep_warm}
        for attempt in range(_ATTEMPTS):
            if attempt > 1:
                time.sleep(_WAIT_SECONDS)  # a server ends, perhaps because its Java has ended
            try:
                connection = RemoteConnection(self.folder.connect(request), str(self.folder.log))
                self._connections.add(connection)
                return connection
            except NoServer:
                if not may_start:
                    break
            except ServerLost:
                if not may_start:
                    raise
            start_server(self.folder, self._all_arguments, self._keep_warm)
        raise ServerLost(str(self.folder.log))


def start_server(folder: ServerFolder, arguments: Mapping[str, Any], keep_warm: float) -> None:
    """Start the server of a folder, and wait until it accepts connections. If another process starts it, only wait.

    Args:
        folder: The folder of the server.
        arguments: The arguments of `connect`, with which the server starts Spark.
        keep_warm: The time in seconds after which the server ends if it has no clients.

    Raises:
        ConfigurationError: The server ends without a reason, which its log may have.
        RowmergeError: Spark does not start, or the warehouse cannot be opened.
    """
    folder.create()
    with folder.lock("start"):
        with suppress(NoServer):
            folder.connect({"kind": "status"}).close()
            return  # another process has started it
        _retire_others(folder, warehouse_of(arguments))
        reader, writer = os.pipe()
        log = os.open(folder.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        command = [sys.executable, "-c", _CODE, str(folder.path), str(writer), json.dumps(sys.path)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=[writer], start_new_session=True)
        os.close(writer)
        os.close(log)
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin as start:
            start.write(pickle.dumps((dict(arguments), keep_warm)))
        with os.fdopen(reader, "rb") as answers:
            answer = answers.read()
    if not answer:
        raise ConfigurationError(f"The server of rowmerge has not started: {_last_line(folder.log)}. Its log is {folder.log}.")
    error = pickle.loads(answer)
    if error is not None:
        raise error.error()


def _retire_others(folder: ServerFolder, warehouse: str) -> None:
    """Ask servers of the same warehouse with other versions or options to end as soon as they have no clients. Delete old folders."""
    for other in ServerFolder.all_of_user():
        state = other.read()
        if other.path == folder.path:
            continue
        if state is not None and state.warehouse == warehouse:
            with suppress(ConfigurationError):  # it does not answer
                stop_server(other, at_once=False)
        other.delete_if_old()


def stop_server(folder: ServerFolder, *, at_once: bool) -> bool:
    """Stop a server, and return whether it was running.

    Args:
        folder: The folder of the server.
        at_once: Whether to cancel the statements of clients. Otherwise, the server ends when its last client has ended.
    """
    try:
        folder.connect({"kind": "stop", "at_once": at_once}).close()
    except NoServer:
        return False
    return True


def server_status(folder: ServerFolder) -> dict[str, Any] | None:
    """Return facts about a running server by name, or None if it does not run."""
    try:
        channel = folder.connect({"kind": "status"})
    except NoServer:
        return None
    try:
        status: dict[str, Any] = channel.receive()
    except (EOFError, OSError):
        return None
    finally:
        channel.close()
    return status


class RemoteConnection:
    """A connection whose statements run in a server. Its methods are those of `rowmerge.Connection`."""

    def __init__(self, channel: Channel, log: str) -> None:
        """Take over a channel to a server, and wait until it has opened the session.

        Args:
            channel: The channel, on which the server has accepted the request for a connection.
            log: The path of the server's log, for messages.

        Raises:
            RowmergeError: The session cannot be opened.
        """
        self._channel, self._log = channel, log
        self._lock = threading.Lock()
        self._was_cancelled = False
        self._answer()  # as soon as the session is open

    @property
    def session(self) -> SessionCalls:
        """The methods of the session in the server."""
        return SessionCalls(self)

    def execute(self, text: str, audit: Mapping[str, str] | None = None) -> StatementOutcome | None:
        """Run statements; see `Connection.execute`."""
        outcome: StatementOutcome | None = self._request("execute", text, audit)
        return outcome

    def columns(self) -> list[Column]:
        """Return the columns of the last statement's rows; see `Connection.columns`."""
        columns: list[Column] = self._request("columns")
        return columns

    def rows(self, limit: int | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of the last statement; see `Connection.rows`."""
        rows: list[tuple[Any, ...]] = self._request("rows", limit)
        return rows

    def call(self, function: Callable[..., Any] | str, *args: Any, **kwargs: Any) -> Any:
        """Call a function with the session in the server; see `Connection.call`. All arguments must be picklable."""
        return self._request("call", function, *args, **kwargs)

    def is_alive(self) -> bool:
        """Return whether the Spark of the server still runs."""
        return bool(self._request("is_alive"))

    def cancel(self) -> None:
        """Stop the running statement of this connection; see `Connection.cancel`."""
        self._was_cancelled = True
        with suppress(OSError):
            self._channel.send(("cancel",))

    def close(self) -> None:
        """Close the connection. The server cancels a statement that still runs."""
        self._channel.close()

    def _request(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the `Connection` in the server, and return its result. Raise the errors of the method and of `_answer`."""
        with self._lock:
            return self._answer(("request", method, args, kwargs))

    def _answer(self, request: tuple[Any, ...] | None = None) -> Any:
        """Send a request, and return the result in the server's answer. Raise the error in the answer.

        Raise ServerLost if the server closes the channel without an answer, or StatementCancelled after `cancel`.
        """
        try:
            if request is not None:
                self._channel.send(request)
            kind, value = self._receive_answer()
        except (EOFError, OSError) as error:
            self._channel.close()
            # The server closes a connection that was cancelled.
            raise (StatementCancelled() if self._was_cancelled else ServerLost(self._log)) from error
        except BaseException:
            self._channel.close()  # the next request would receive the answer to this one
            raise
        if kind == "error":
            raise value.error()
        return value

    def _receive_answer(self) -> tuple[str, Any]:
        """Return the kind and the value of the answer to a request: a result or an error. Show the messages before it."""
        while True:
            match self._channel.receive():
                case ("log", name, level, message):
                    logging.getLogger(name).handle(logging.LogRecord(name, level, __file__, 0, message, None, None))
                case ("output", stream, text):
                    with suppress(OSError, ValueError):  # a closed pipe, or a character that the terminal cannot show
                        getattr(sys, stream).write(text)
                case (kind, value):
                    return kind, value


class SessionCalls:
    """The methods of a session in a server: `calls.describe(…)` calls `describe` of the session there."""

    def __init__(self, connection: RemoteConnection) -> None:
        """Use a connection for all calls."""
        self._connection = connection

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a function that calls the method in the server."""
        return lambda *args, **kwargs: self._connection.call(name, *args, **kwargs)


def _last_line(log: Path) -> str:
    """Return the last line of a log that is not empty."""
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it reported no reason"
