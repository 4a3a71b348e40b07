"""Measure one repetition: seconds, bytes, files and memory. Bytes read and memory of the processes come from Linux's /proc."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Measured:
    """The measurements of one repetition of a scenario.

    Attributes:
        seconds: The durations by the labels of the scenario.
        bytes_read: The bytes that all read calls returned, whether from the page cache or from the disk.
        bytes_written: The bytes of the new files in the table's folder.
        files: The number of data files and delete files that the statements wrote, removed or replaced.
        memory: The highest resident size of all processes of the engine together, in bytes.
        memory_of_java: The same of Java only.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    bytes_read: int | None = None
    bytes_written: int = 0
    files: int = 0
    memory: int | None = None
    memory_of_java: int | None = None
    stages: dict[str, float] = field(default_factory=dict)
    """What the engine says of where its time went."""

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


@contextmanager
def measured(place: Path) -> Iterator[Measured]:
    """Measure the effects of the block on the table in a folder. The block itself measures the seconds."""
    result = Measured()
    old_files, processes = _files(place), _processes()
    read = _read_by(processes)
    for process in processes:
        _forget_peak(process)
    yield result
    processes = _processes()
    bytes_at_end = _read_by(processes)
    result.bytes_read = None if read is None or bytes_at_end is None else bytes_at_end - read
    result.memory = _peak_of(processes)
    result.memory_of_java = _peak_of([process for process in processes if _name(process) == "java"])
    now = _files(place)
    new = {path: size for path, size in now.items() if path not in old_files}
    result.bytes_written = sum(new.values())
    result.files = _touched(place, new)


@contextmanager
def stopwatch(seconds: dict[str, float], label: str) -> Iterator[None]:
    """Add the duration of the block."""
    begun = time.perf_counter()
    yield
    seconds[label] = seconds.get(label, 0.0) + time.perf_counter() - begun


def _files(place: Path) -> dict[str, int]:
    if not place.exists():
        return {}
    files = [path for path in place.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return {str(path.relative_to(place)): path.stat().st_size for path in files}


def _touched(place: Path, new: Mapping[str, int]) -> int:
    """Return the number of data files in new commits of a Delta log, or of files that new Iceberg snapshots added or removed."""
    touched: set[str] = set()
    counted = 0
    for name in new:
        if name.startswith("_delta_log/") and name.endswith(".json"):
            for line in (place / name).read_text().splitlines():
                action = json.loads(line)
                touched |= {(action.get(kind) or {}).get("path", "") for kind in ("add", "remove") if kind in action}
        elif name.startswith("metadata/") and name.endswith(".metadata.json"):
            metadata = json.loads((place / name).read_text())
            current = metadata.get("current-snapshot-id")
            summary = next((s["summary"] for s in metadata.get("snapshots", ()) if s["snapshot-id"] == current), {})
            counted += sum(int(summary.get(key, 0)) for key in ("added-data-files", "deleted-data-files", "added-delete-files"))
    return len(touched) + counted


def _processes() -> list[int]:
    """Return the ids of this process and its descendants."""
    if not Path("/proc/self/stat").exists():
        return []
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue  # it has ended
            children.setdefault(int(stat.rsplit(")", 1)[1].split()[1]), []).append(int(entry.name))
    processes = [os.getpid()]
    for process in processes:
        processes += children.get(process, [])
    return processes


def _read_by(processes: list[int]) -> int | None:
    counts = [_number(f"/proc/{process}/io", "rchar:") for process in processes]
    return sum(count for count in counts if count is not None) if processes else None


def _peak_of(processes: list[int]) -> int | None:
    peaks = [_number(f"/proc/{process}/status", "VmHWM:") for process in processes]
    return 1024 * sum(peak for peak in peaks if peak is not None) if processes else None


def _name(process: int) -> str | None:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return None


def _forget_peak(process: int) -> None:
    try:
        Path(f"/proc/{process}/clear_refs").write_text("5")
    except OSError:
        return  # it has ended, or the kernel does not let us: then the peak is that of the whole run


def _number(path: str, name: str) -> int | None:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), None)
