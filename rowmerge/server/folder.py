"""The folder of a server: which server belongs to a client, whether it runs, and where it listens.

A server belongs to one user, one warehouse and one set of options. The name of its folder is a digest of what a running Spark cannot
change: options, versions, Java, environment variables and the working folder. A client never uses another server.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import socket
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit, urlunsplit

from rowmerge.errors import ConfigurationError
from rowmerge.server.channel import Channel
from rowmerge.session.startup.installation import cache_folder, java_executable
from rowmerge.version import __version__

_ENVIRONMENT = "AWS_ AZURE_ GOOGLE_ HADOOP_ HTTP JAVA_ JDK_ KRB5 LANG LC_ LD_ PYICEBERG_ PYSPARK_ PYTHON ROWMERGE_ SPARK_ TZ YARN_ _JAVA"
"""The beginnings of the names of environment variables that Spark, Java, Python and the clients of stores and catalogs read."""
_OPTIONS = ("catalog", "catalogs", "storage_options")
"""The arguments of `connect` that a server has for all of its clients."""
_LONGEST_SOCKET_PATH = 100
"""The length of a path that a Unix socket can have on all systems, in bytes."""
_CONNECT_SECONDS = 20.0
_LOCK_SECONDS = 0.1
_CODE = (Path(__file__).parents[1], Path(__file__).parents[2] / "dbt" / "adapters" / "rowmerge")
"""The folders of the Python code that a server runs: the engine, and the functions of the adapter."""
ACCEPTED = "accepted"
"""The first message of a server to a client whose token is valid."""
_LOG_SECONDS = 7 * 24 * 3600.0
"""The time after which the folder of an ended server is deleted, with its log."""


@dataclass(frozen=True)
class ServerState:
    """The facts that clients need about a running server.

    `started` is in seconds since the epoch, and `warehouse` is the location of the warehouse, for people.
    """

    pid: int
    socket: str
    token: str
    warehouse: str
    started: float
    version: str = __version__


class NoServer(Exception):
    """Raised when no server runs, or the one that runs is about to end.

    Remedy: The client starts a server. This error does not reach users.
    """


class ServerFolder:
    """The folder of a server, which may not run: the state of the server, its log, and two lock files."""

    def __init__(self, path: Path) -> None:
        """Name the folder. Nothing is created."""
        self.path = path
        self.log = path / "server.log"
        self._state = path / "server.json"

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> ServerFolder:
        """Return the folder of the server for these arguments of `connect`."""
        names = tuple(_ENVIRONMENT.split())
        java = java_executable()
        identity = {
            "warehouse": warehouse_of(arguments),
            "options": {name: arguments.get(name) or None for name in _OPTIONS},
            "settings": {name: _text(value) for name, value in (arguments.get("spark_config") or {}).items()},
            "environment": {name: value for name, value in os.environ.items() if name.startswith(names)},
            "folder": os.getcwd(),
            "java": [str(java), java.stat().st_mtime_ns if java and java.exists() else None],
            "python": [sys.executable, sys.version, os.stat(sysconfig.get_path("purelib")).st_mtime_ns],
            "code": [__version__, *map(_newest_change, _CODE)],
        }
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:16]
        return cls(cache_folder() / "servers" / digest)

    @classmethod
    def all_of_user(cls) -> list[ServerFolder]:
        """Return the folders of all servers of the user, also of servers that have ended."""
        folder = cache_folder() / "servers"
        return [cls(path) for path in sorted(folder.iterdir())] if folder.is_dir() else []

    def create(self) -> None:
        """Create the folder.

        Raises:
            ConfigurationError: The folder cannot be created.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.chmod(0o700)
        except OSError as error:
            problem = f"{self.path} is not writable: {error.strerror}"
            raise ConfigurationError(f"{problem}. Set ROWMERGE_CACHE to a writable folder.") from error

    def read(self) -> ServerState | None:
        """Return the state of the running server, or None if there is none."""
        with suppress(OSError, ValueError, TypeError):
            return ServerState(**json.loads(self._state.read_text(encoding="utf-8")))
        return None

    def warehouse(self) -> str | None:
        """Return the warehouse of the server that runs, or that ran last; None if it is unknown."""
        with suppress(OSError):
            return (self.path / "warehouse").read_text(encoding="utf-8")
        return None

    def write(self, state: ServerState) -> None:
        """Publish the state of a server that accepts connections."""
        new = self.path / f"server.{os.getpid()}.new"
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(asdict(state), file)
        (self.path / "warehouse").write_text(state.warehouse, encoding="utf-8")
        new.replace(self._state)

    def delete_state(self) -> None:
        """Delete the state of a server that ends."""
        self._state.unlink(missing_ok=True)

    def listen(self) -> socket.socket:
        """Return a new socket that listens in this folder, or in a temporary folder if the path would be too long."""
        path = str(self.path / "socket")
        if len(os.fsencode(path)) > _LONGEST_SOCKET_PATH:
            path = str(Path(tempfile.mkdtemp(prefix="rowmerge-")) / "socket")  # the folder has the mode 700
        with suppress(FileNotFoundError):
            os.unlink(path)  # the socket of a killed server
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(128)
        return listener

    def connect(self, request: Mapping[str, Any]) -> Channel:
        """Connect to the running server, and send a request.

        Args:
            request: The first message, whose entry `kind` says what the client wants.

        Returns:
            The channel, after the server has accepted the request.

        Raises:
            NoServer: No server runs, or it is about to end.
            ConfigurationError: The server does not answer, or the folder is open to other users.
        """
        state = self.read()
        if state is None:
            raise NoServer
        folder = self.path.stat()
        if folder.st_uid != os.getuid() or folder.st_mode & 0o077:
            problem = f"Other users can write to {self.path}, so it may not contain the server of this user"
            raise ConfigurationError(f"{problem}. Delete it, or set ROWMERGE_CACHE to a folder of your own.")
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.settimeout(_CONNECT_SECONDS)
        try:
            client.connect(state.socket)
            channel = Channel(client)
            channel.send_bytes(state.token.encode())
            channel.send(request)
            if channel.receive() != ACCEPTED:
                raise EOFError
        except TimeoutError as error:
            client.close()
            problem = f"The server of rowmerge with process id {state.pid} does not answer within {_CONNECT_SECONDS:.0f} seconds"
            raise ConfigurationError(f"{problem}. If this does not change, end the process. Its log is {self.log}.") from error
        except (OSError, EOFError) as error:
            client.close()
            raise NoServer from error
        channel.set_timeout(None)
        return channel

    @contextmanager
    def lock(self, name: str) -> Iterator[bool]:
        """Lock a file for a `with` block. The system releases the lock if the process is killed.

        Args:
            name: `start` for a client that starts a server, `run` for a server.

        Yields:
            True after other processes have released the lock; False, without the lock, if it belongs to a server that accepts clients.
        """
        with open(os.open(self.path / f"{name}.lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "w") as file:
            while not _try_lock(file):
                if name == "run" and self._is_alive():
                    yield False
                    return
                time.sleep(_LOCK_SECONDS)
            yield True

    def _is_alive(self) -> bool:
        """Return whether the server that has published its state still exists."""
        state = self.read()
        if state is None:
            return False
        try:
            os.kill(state.pid, 0)  # checks the process, and sends no signal
        except ProcessLookupError:
            return False
        return True

    def delete_if_old(self) -> None:
        """Delete the folder of a server that ended more than a week ago, unless a client is about to start it again."""
        with suppress(OSError):
            if self._is_alive() or time.time() - self.log.stat().st_mtime < _LOG_SECONDS:
                return
            with (self.path / "start.lock").open("w") as file:
                if _try_lock(file):
                    shutil.rmtree(self.path)


def _try_lock(file: IO[str]) -> bool:
    """Lock a file, and return whether this succeeded."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _text(value: object) -> str:
    """Return the value of a setting as Spark's text, so that `true` of YAML and "true" of a command line are equal."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def warehouse_of(arguments: Mapping[str, Any]) -> str:
    """Return the location of the warehouse in the arguments of `connect`: an absolute path or a URL, or the URL of a catalog."""
    location = arguments.get("location")
    if location is None:
        url = urlsplit(str((arguments.get("catalog") or {}).get("uri", "")))
        return urlunsplit((url.scheme, url.netloc.rpartition("@")[2], url.path, "", ""))  # without a password
    return str(location) if "://" in str(location) else os.path.abspath(location)


def _newest_change(folder: Path) -> int:
    """Return the time of the newest change of Python files in nanoseconds. An editable installation changes without a new version."""
    newest = 0
    for path, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        newest = max([newest, *(os.stat(os.path.join(path, name)).st_mtime_ns for name in files if name.endswith(".py"))])
    return newest
