"""The process of a server: one Spark, a session for each client process, and two threads for each connection of a client.

One thread of a connection receives messages, so that a client can cancel its statement, and so that a killed client cancels it too. The
other thread runs the statements. The server ends when it has had no connection for the time that its clients have set.
"""

from __future__ import annotations

import hmac
import logging
import os
import pickle
import queue
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rowmerge.errors import RowmergeError
from rowmerge.server.channel import Channel, PortableError
from rowmerge.server.folder import ACCEPTED, ServerFolder, ServerState, warehouse_of
from rowmerge.session.early_start import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rowmerge.session.connection import Connection
    from rowmerge.session.session import Session

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.5
_HANDSHAKE_SECONDS = 10.0
_FIRST_CLIENT_SECONDS = 30.0
"""The time for which a server waits for the client that has started it."""
_METHODS = ("execute", "columns", "rows", "call", "is_alive")
"""The methods of a connection that a client may request."""

_thread = threading.local()
"""Its attribute `channel` is the channel of the client for which a thread works."""


def main(folder: str, answers: int) -> None:
    """Run a server until it is stopped or has no clients for some time.

    Args:
        folder: The folder of the server.
        answers: The file descriptor that tells the client of the start: the pickle of None, or of a PortableError. Standard input has the
            pickled arguments of `connect`, and the seconds after which a server without clients ends.
    """
    arguments, keep_warm = pickle.load(sys.stdin.buffer)
    os.set_inheritable(answers, False)  # otherwise Java keeps it open
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    logging.getLogger().addHandler(_ClientLog())
    sys.stdout, sys.stderr = _ClientOutput(sys.stdout, "stdout"), _ClientOutput(sys.stderr, "stderr")
    server = Server(ServerFolder(Path(folder)), keep_warm)
    signal.signal(signal.SIGTERM, lambda *_: server.stop(at_once=True))

    def answer(error: PortableError | None) -> None:
        with suppress(BrokenPipeError), os.fdopen(answers, "wb") as pipe:  # the client may have been killed
            pipe.write(pickle.dumps(error))

    server.run(arguments, answer)


class _SparkEnded(Exception):
    """Raised when the Spark of the server has ended.

    Remedy: The client starts another server. This error does not reach users.
    """


class _Client:
    """A process that uses the server: its session, and the number of its connections."""

    def __init__(self) -> None:
        """Create a client whose session is not open yet."""
        self.session: Session | None = None
        self.connections = 0
        self._lock = threading.Lock()

    def open(self, spark: SparkSession, arguments: Mapping[str, Any]) -> Session:
        """Return the session of the client, which has its own settings and temporary views.

        Args:
            spark: The session that the server has started.
            arguments: The arguments of `connect`.

        Raises:
            RowmergeError: The arguments are invalid, or the warehouse cannot be opened.
        """
        from rowmerge.session.session import connect  # Spark starts before this import
        from rowmerge.session.startup.embedded import separate_session

        with self._lock:
            if self.session is None:
                self.session = connect(**arguments, spark=separate_session(spark))
            return self.session

    def close(self) -> None:
        """Release the rows that the session has cached. The session itself goes with its last reference."""
        if self.session is None:
            return
        from rowmerge.table.metadata.schema import backquote  # Spark starts before this import

        catalog = self.session.spark.catalog
        with suppress(Exception):  # Java may have ended
            for name in [backquote(view.name) for view in catalog.listTables() if view.isTemporary]:
                if catalog.isCached(name):
                    catalog.uncacheTable(name)


class Server:
    """The state of a server, which the threads of all connections share."""

    def __init__(self, folder: ServerFolder, keep_warm: float) -> None:
        """Prepare a server that does not run yet. `keep_warm`: the seconds after which it ends without connections."""
        self._folder, self._keep_warm = folder, keep_warm
        self._token = secrets.token_hex(32)
        self._spark: SparkSession | None = None
        self._clients: dict[str, _Client] = {}
        self._lock = threading.Lock()  # for the clients, their numbers of connections, and the decision to end
        self._last_use = time.monotonic()
        self._requests = 0
        self._must_end, self._ends_when_unused, self._has_ended = False, False, False
        self._had_client = False

    def run(self, arguments: Mapping[str, Any], answer: Callable[[PortableError | None], None]) -> None:
        """Start Spark, and serve clients until the server ends.

        Args:
            arguments: The arguments of `connect`.
            answer: A function that tells the client which has started the server whether Spark has started.
        """
        with self._folder.lock("run") as is_locked:
            if not is_locked:  # another server accepts clients
                answer(None)
                return
            self._folder.delete_state()  # of a killed server
            try:
                session = open_session(arguments)
                listener = self._folder.listen()
            except Exception as error:  # noqa: BLE001 - the client raises it
                # Messages of errors may contain secrets, so the log has only their class.
                logger.error("The server has not started: %s", type(error).__name__)
                answer(PortableError.of(error))
                return
            self._spark, path = session.spark, listener.getsockname()
            try:
                self._folder.write(ServerState(os.getpid(), path, self._token, warehouse_of(arguments), time.time()))
                answer(None)
                logger.info("The server runs with process id %d", os.getpid())
                self._accept(listener)
            finally:
                self._folder.delete_state()
                listener.close()
                Path(path).unlink(missing_ok=True)
                if Path(path).parent != self._folder.path:
                    Path(path).parent.rmdir()  # the temporary folder of a socket with a short path
                with suppress(Exception):  # Java may have ended
                    session.close()
                logger.info("The server has ended")

    def stop(self, *, at_once: bool) -> None:
        """End the server: at once, which cancels the statements of clients, or when it has no connections."""
        self._must_end = self._must_end or at_once
        self._ends_when_unused = True

    def _accept(self, listener: socket.socket) -> None:
        """Serve connections until the server ends."""
        listener.settimeout(_POLL_SECONDS)
        self._last_use = time.monotonic()
        while not self._is_over():
            with suppress(TimeoutError):
                connected_socket, _ = listener.accept()
                connected_socket.settimeout(_HANDSHAKE_SECONDS)
                threading.Thread(target=self._serve, args=[Channel(connected_socket)], daemon=True).start()

    def _is_over(self) -> bool:
        """Return whether the server ends now. After that, no client gets a connection."""
        with self._lock:
            unused_limit = self._keep_warm if self._had_client else max(self._keep_warm, _FIRST_CLIENT_SECONDS)
            is_unused = not self._clients and (self._ends_when_unused or time.monotonic() - self._last_use > unused_limit)
            self._has_ended = self._must_end or is_unused
            return self._has_ended

    def _serve(self, channel: Channel) -> None:
        """Verify the token of a connection, and do what its first message requests."""
        with closing(channel), suppress(OSError, EOFError):  # an error if the client has ended
            if not hmac.compare_digest(channel.receive_bytes(len(self._token)), self._token.encode()):
                logger.warning("A process without the token has connected to the server")
                return
            request = channel.receive()
            channel.set_timeout(None)
            match request["kind"]:
                case "connection":
                    with self._client(request) as client:
                        channel.send(ACCEPTED)
                        self._serve_statements(channel, client, request["arguments"])
                case "status":
                    channel.send(ACCEPTED)
                    channel.send(self._status())
                case "stop":
                    channel.send(ACCEPTED)
                    self.stop(at_once=request["at_once"])

    @contextmanager
    def _client(self, request: Mapping[str, Any]) -> Iterator[_Client]:
        """Return the client that sends a request, and count its connection in a `with` block. Raise EOFError if the server ends."""
        with self._lock:
            if self._has_ended:
                raise EOFError
            self._keep_warm, self._had_client = request["keep_warm"], True
            client = self._clients.setdefault(request["client"], _Client())
            client.connections += 1
        try:
            yield client
        finally:
            with self._lock:
                client.connections -= 1
                is_last = not client.connections
                if is_last:
                    del self._clients[request["client"]]
                    self._last_use = time.monotonic()
                is_unused = not self._clients
            if is_last:
                client.close()
            if is_unused and self._spark is not None:
                with suppress(Exception):  # Java may have ended
                    self._spark.catalog.clearCache()  # also rows that Python models have cached

    def _check_spark(self, spark: SparkSession) -> None:
        """Raise _SparkEnded if Spark has ended, and end the server, so that the client starts another one."""
        from rowmerge.spark.spark_session import is_alive  # Spark starts before this import

        if not is_alive(spark):
            logger.error("Spark has ended")
            self.stop(at_once=True)
            raise _SparkEnded

    def _status(self) -> dict[str, Any]:
        """Return facts about the server by name: numbers of clients, of connections and of requests, and the time without clients."""
        with self._lock:
            connections = sum(client.connections for client in self._clients.values())
            unused_seconds = 0.0 if self._clients else time.monotonic() - self._last_use
            facts = {"clients": len(self._clients), "connections": connections, "requests": self._requests}
            return {**facts, "keep_warm": self._keep_warm, "unused_seconds": unused_seconds}

    def _serve_statements(self, channel: Channel, client: _Client, arguments: Mapping[str, Any]) -> None:
        """Run the requests of one connection in a second thread, while this thread receives the next ones.

        The first answer is sent as soon as the session is open.
        """
        from rowmerge.session.connection import Connection  # Spark starts before this import

        requests: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        connections: list[Connection] = []  # the connection, as soon as the session is open

        def work() -> None:
            _thread.channel = channel
            with closing(channel), suppress(OSError):  # the client has ended
                with _answered(channel) as answer:
                    assert self._spark is not None
                    self._check_spark(self._spark)
                    connections.append(Connection(client.open(self._spark, arguments)))
                    answer(None)
                while connections and (request := requests.get()) is not None:
                    kind, method, args, kwargs = request
                    self._requests += 1
                    with _answered(channel) as answer:
                        if kind == "invalid":
                            raise args[0]
                        answer(getattr(connections[0], method)(*args, **kwargs))

        worker = threading.Thread(target=work, daemon=True)
        worker.start()
        try:
            while (message := _next_request(channel))[0] != "cancel":
                requests.put(message)
        finally:
            # The client cancels the connection, closes it, or has been killed.
            requests.put(None)
            for connection in connections:
                connection.cancel()
            worker.join()


def _next_request(channel: Channel) -> tuple[Any, ...]:
    """Return the next message of a client: a request, a cancellation, or an invalid request with the error of its unpickling."""
    try:
        message: tuple[Any, ...] = channel.receive()
    except (OSError, EOFError):
        raise
    except Exception as error:  # noqa: BLE001 - a function of the client cannot be imported here, for example
        return "invalid", "", (error,), {}
    is_valid = message[0] == "cancel" or message[1] in _METHODS
    return message if is_valid else ("invalid", "", (ValueError(f"A connection has no method {message[1]}"),), {})


@contextmanager
def _answered(channel: Channel) -> Iterator[Callable[[object], None]]:
    """Send the result or the error of a `with` block to a client as the answer to its request.

    The block gets a function, and calls it with the result.
    """
    results: list[object] = []
    try:
        yield results.append
        channel.send(("result", results[0]))
    except _SparkEnded:
        channel.close()  # the client then looks for another server
    except OSError as error:
        if not results:
            channel.send(("error", PortableError.of(error)))
    except BaseException as error:  # noqa: BLE001 - the client raises it
        if not isinstance(error, RowmergeError):
            logger.error("A statement has failed: %s", type(error).__name__)
        channel.send(("error", PortableError.of(error)))


class _ClientLog(logging.Handler):
    """Sends the messages of a thread to the client for which the thread works, beside the log of the server."""

    def emit(self, record: logging.LogRecord) -> None:
        channel = getattr(_thread, "channel", None)
        if channel is not None and record.levelno >= logging.WARNING and not record.name.startswith(__name__):
            try:
                channel.send(("log", record.name, record.levelno, record.getMessage()))
            except Exception:  # noqa: BLE001 - as in all handlers of logging
                self.handleError(record)


class _ClientOutput:
    """Standard output or error: what a Python model prints goes to the client of the model, and all else to the log of the server."""

    def __init__(self, stream: TextIO, name: str) -> None:
        """Replace a stream. `name`: its name in the module sys."""
        self._stream, self._name = stream, name

    def write(self, text: str) -> int:
        channel = getattr(_thread, "channel", None)
        if channel is None:
            return self._stream.write(text)
        with suppress(OSError):
            channel.send(("output", self._name, text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
