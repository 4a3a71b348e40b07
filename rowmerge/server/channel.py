"""Messages between the server and a client: Python values on a Unix socket, and errors that keep their class.

Only processes of the same user reach the socket, because its folder has the mode 700. The first bytes are the token of the server. Nothing
is unpickled before the token is verified.
"""

from __future__ import annotations

import pickle
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rowmerge.errors import SparkFailed

_LENGTH = struct.Struct(">Q")


class Channel:
    """Sends and receives Python values on a connected socket. Any thread may send; one thread receives."""

    def __init__(self, connected_socket: socket.socket) -> None:
        """Take over a connected socket."""
        self._socket = connected_socket
        self._reader = connected_socket.makefile("rb")
        self._send_lock = threading.Lock()

    def send(self, value: object) -> None:
        """Send a value. Raises OSError if the other process has closed the socket, and the errors of pickle for other values."""
        data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        with self._send_lock:
            self._socket.sendall(_LENGTH.pack(len(data)))
            self._socket.sendall(data)

    def receive(self) -> Any:
        """Return the next value. Raises EOFError or OSError if the other process has closed the socket."""
        (length,) = _LENGTH.unpack(self.receive_bytes(_LENGTH.size))
        return pickle.loads(self.receive_bytes(length))

    def send_bytes(self, data: bytes) -> None:
        """Send bytes without their length. Raises OSError if the other process has closed the socket."""
        self._socket.sendall(data)

    def receive_bytes(self, count: int) -> bytes:
        """Return the next `count` bytes.

        Raises:
            EOFError: One of the two processes has closed the channel.
        """
        try:
            data = self._reader.read(count)
        except ValueError as error:  # another thread has closed the channel
            raise EOFError from error
        if len(data) < count:
            raise EOFError
        return data

    def set_timeout(self, seconds: float | None) -> None:
        """Limit the time of each call, in seconds. None: no limit. After a timeout, the channel must be closed."""
        self._socket.settimeout(seconds)

    def close(self) -> None:
        """Close the socket. A thread that receives gets EOFError or OSError."""
        with suppress(OSError):  # the other process has closed it
            self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.close()
        self._socket.close()


@dataclass(frozen=True)
class PortableError:
    """An error without its traceback: the class, the arguments, the fields, and the messages of its causes."""

    class_: type[BaseException]
    arguments: tuple[Any, ...]
    fields: dict[str, Any]
    causes: tuple[str, ...]

    @classmethod
    def of(cls, error: BaseException) -> PortableError:
        """Return an error in a form that can be sent. An error of Spark, or one that cannot be pickled, becomes SparkFailed."""
        causes, cause = [], error.__cause__
        while cause is not None:
            causes.append(_message(cause))
            cause = cause.__cause__
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            fields = {name: value for name, value in vars(error).items() if _is_portable(value)}
            portable_error = cls(type(error), error.args, fields, tuple(causes))
            if _is_portable(portable_error):
                return portable_error
        failure = SparkFailed(_message(error))
        return cls(SparkFailed, failure.args, vars(failure), tuple(causes))

    def error(self) -> BaseException:
        """Return an error of the same class, with the same message and fields."""
        error = self.class_.__new__(self.class_, *self.arguments)
        error.args = self.arguments
        vars(error).update(self.fields)
        if self.causes:
            error.__cause__ = RuntimeError("\n".join(self.causes))
        return error


def _is_portable(value: object) -> bool:
    try:
        pickle.loads(pickle.dumps(value))
    except Exception:  # noqa: BLE001 - pickle calls methods of the value, which raise any error
        return False
    return True


def _message(error: BaseException) -> str:
    """Return the message of an error: that of Java if it is an error of py4j."""
    java_error = getattr(error, "java_exception", None)
    try:
        return str(error) if java_error is None else str(java_error.getMessage())
    except Exception:  # noqa: BLE001 - Java, which has the message, may have ended
        return f"{type(error).__name__}, without a message, because Spark has ended"
