"""A storage on which one chosen call fails, and a process that ends at that call."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from rowmerge.errors import StorageError
from rowmerge.storage.store import Put, Storage, StoredObject

_Result = TypeVar("_Result")


class Kind(Enum):
    """How the chosen call fails."""

    KILLED = "the process is killed before it"
    TORN = "the process is killed in the middle of it"
    FAILED = "it fails and has done nothing"
    LIED = "it fails, and has done what was asked"
    LOST = "it and all after it fail and do nothing"


@dataclass
class Fault:
    """The call that fails (counted from 1) and how it fails. `calls` lists the calls that were made."""

    kind: Kind = Kind.FAILED
    at: int = 0
    calls: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def around(self, storage: Storage, name: str, path: str, do: Callable[[], _Result], data: bytes = b"") -> _Result:
        with self._lock:
            self.calls.append(f"{name} {path}")
            number = len(self.calls)
        if number < self.at or not self.at or (number > self.at and self.kind is not Kind.LOST):
            return do()
        if self.kind is Kind.LIED:
            do()
        if self.kind is Kind.TORN and data:
            # Where a put to a disk writes before the object gets its name.
            temporary_file = Path(f"{storage.location.removeprefix('file://')}/{path}#1")
            temporary_file.parent.mkdir(parents=True, exist_ok=True)
            temporary_file.write_bytes(data[: len(data) // 2])
        if self.kind in (Kind.KILLED, Kind.TORN):
            os.kill(os.getpid(), signal.SIGKILL)
        raise StorageError(f"{storage.location}/{path}", f"no answer to {name}")


class FaultyStorage(Storage):
    """A storage with a fault. Each deleted object counts as one call."""

    def __init__(self, location: str, fault: Fault, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(location, options)
        self.fault = fault

    def child(self, path: str) -> Storage:
        return FaultyStorage(f"{self.location}/{path}", self.fault)

    def at(self, location: str) -> Storage:
        return FaultyStorage(location, self.fault)

    def get(self, path: str) -> bytes:
        return self.fault.around(self, "get", path, lambda: Storage.get(self, path))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        return self.fault.around(self, "get_range", path, lambda: Storage.get_range(self, path, start, length))

    def put(self, path: str, data: bytes) -> None:
        self.fault.around(self, "put", path, lambda: Storage.put(self, path, data), data)

    def put_if_absent(self, path: str, data: bytes) -> Put:
        return self.fault.around(self, "put_if_absent", path, lambda: Storage.put_if_absent(self, path, data), data)

    def exists(self, path: str) -> bool:
        return self.fault.around(self, "exists", path, lambda: Storage.exists(self, path))

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.fault.around(self, "delete", path, lambda: Storage.delete(self, [path]))  # noqa: B023

    def list(self, prefix: str = "", *, after: str | None = None) -> list[StoredObject]:
        return self.fault.around(self, "list", prefix, lambda: Storage.list(self, prefix, after=after))


def serve(run: Callable[[str, str, Fault], None]) -> None:
    """Answer requests `{"operation", "folder", "kind", "at"}` on standard input. Each runs in a child process, which may be killed.

    The answer contains how the child process ended and which calls it made. Forking is safe, because this process has no threads.
    """
    for line in sys.stdin:
        request = json.loads(line)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            fault = Fault(Kind[request["kind"]], request["at"])
            run(request["operation"], request["folder"], fault)
            with os.fdopen(write, "w") as output:
                json.dump(fault.calls, output)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as answer:
            calls = answer.read()
        _, status = os.waitpid(child, 0)
        sys.stdout.write(json.dumps({"killed": os.WIFSIGNALED(status), "calls": json.loads(calls or "[]")}) + "\n")
        sys.stdout.flush()
