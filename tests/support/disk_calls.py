"""Record the calls of this process that sync and name files, to verify that the newest commit of a table survives a power cut."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rowmerge.delta import DeltaTable
from rowmerge.delta.maintenance.vacuum import referenced_paths
from rowmerge.storage.store import Storage
from tests.support.iceberg_lake import needed


@dataclass
class DiskCalls:
    """The calls of a process that sync and name files, in order.

    An event is ("sync", inode) or ("name", path). A temporary file and the file that it is renamed to have the same inode.
    """

    events: list[tuple[str, Any]] = field(default_factory=list)
    failing: dict[int, int] = field(default_factory=dict)
    """Errors by the inode whose sync fails."""

    def record(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fsync, link, replace = os.fsync, os.link, os.replace

        def recorded_fsync(descriptor: int) -> None:
            inode = os.fstat(descriptor).st_ino
            if inode in self.failing:
                raise OSError(self.failing[inode], os.strerror(self.failing[inode]))
            fsync(descriptor)
            self.events.append(("sync", inode))

        def recorded_link(source: Path, target: Path) -> None:
            link(source, target)
            self.events.append(("name", str(target)))

        def recorded_replace(source: Path, target: Path) -> None:
            replace(source, target)
            self.events.append(("name", str(target)))

        monkeypatch.setattr(os, "fsync", recorded_fsync)
        monkeypatch.setattr(os, "link", recorded_link)
        monkeypatch.setattr(os, "replace", recorded_replace)

    def find_naming(self, path: Path) -> int:
        """Return the index of the event that named the path."""
        return max(at for at, event in enumerate(self.events) if event == ("name", str(path)))

    def syncs(self, path: Path) -> list[int]:
        """Return the indexes of the events that synced a file or folder."""
        inode = path.stat().st_ino
        return [at for at, event in enumerate(self.events) if event == ("sync", inode)]


def newest_commit(folder: Path) -> Path:
    files = [*folder.glob("_delta_log/*.json"), *folder.glob("metadata/v*.metadata.json")]
    return max(files, key=lambda path: int("".join(filter(str.isdigit, path.name))))


def named_files(folder: Path) -> set[Path]:
    """Return the files that the newest version references, its metadata files, and the change data files of all versions."""
    if (folder / "_delta_log").exists():
        snapshot = DeltaTable(Storage(str(folder)), "s.t").snapshot()
        return {folder / path for path in referenced_paths(snapshot)} | set(folder.glob("_change_data/**/*.parquet"))
    return {folder / path for path in needed(folder) if path != "metadata/version-hint.text"} - {newest_commit(folder)}


def assert_durable(calls: DiskCalls, folder: Path) -> None:
    """Verify that the newest commit was synced before it was named, that its folder was synced afterwards, and its files before."""
    commit = newest_commit(folder)
    moment = calls.find_naming(commit)
    assert [at for at in calls.syncs(commit) if at < moment], "the commit is synced before it has its name"
    assert [at for at in calls.syncs(commit.parent) if at > moment], "its folder is synced before it is acknowledged"
    names = named_files(folder)
    for path in names:
        assert (synced := [at for at in calls.syncs(path) if at < moment]), f"{path} is synced before a commit names it"
        assert [at for at in calls.syncs(path.parent) if synced[0] < at < moment], f"the name of {path} is synced before a commit names it"
    for path in [commit, *names]:
        assert all(calls.syncs(above.parent) for above in path.parents if folder in (above, *above.parents)), "folders have durable names"
