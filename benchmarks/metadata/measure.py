"""Measure one engine's operations on one synthetic Delta table in its own process: `measure.py ENGINE TABLE FILES` prints JSON."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from benchmarks.metadata.delta_logs import KEYS_OF_A_FILE, ROWS_OF_A_FILE, commit_of, file_name, statistics, table_schema

PRUNED_TO = 10


class NotMeasured(Exception):
    """Raised for an operation that an engine or a format does not have."""


class Engine(ABC):
    """The operations that are compared, on the table in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def open(self) -> int:
        """Open the newest version in a new process, and return the number of its files."""

    @abstractmethod
    def open_again(self) -> int:
        """Open the newest version in a process that has opened the previous one."""

    @abstractmethod
    def prune(self, low: int, high: int) -> int:
        """Return the number of files that can contain an l_orderkey from `low` to `high`."""

    def commit(self, number: int) -> None:
        """Commit one more file."""
        raise NotMeasured

    def checkpoint(self) -> None:
        """Write a checkpoint of the newest version."""
        raise NotMeasured

    @abstractmethod
    def commit_of_another(self, number: int) -> None:
        """Let another writer commit one more file."""


class DeltaEngine(Engine):
    def commit_of_another(self, number: int) -> None:
        log = self.folder / "_delta_log"
        newest = max(int(path.stem) for path in log.glob("*.json") if path.stem.isdigit())
        (log / f"{newest + 1:020d}.json").write_text(commit_of(number))


class Rowmerge(DeltaEngine):
    def __init__(self, folder: Path) -> None:
        from rowmerge.delta import DeltaTable
        from rowmerge.plan.expressions.sides import Side
        from rowmerge.plan.pruning.file_pruning import file_mask
        from rowmerge.storage.store import Storage

        super().__init__(folder)
        self._mask, self._side = file_mask, Side
        self._storage = Storage(str(folder))
        self._table = DeltaTable(self._storage, "lineitem")

    def open(self) -> int:
        self._snapshot = self._table.snapshot()
        return len(self._snapshot.files())

    def open_again(self) -> int:
        return self.open()

    def prune(self, low: int, high: int) -> int:
        schema = self._snapshot.schema
        side = self._side("t", (("t",),), schema.names)
        mask, columns = self._mask([f"t.l_orderkey BETWEEN {low} AND {high}"], side, schema, ())
        files = self._snapshot.files(columns)
        return len(files.filter(mask(files)))

    def commit(self, number: int) -> None:
        from rowmerge.table.commits.request import CommitRequest, Committed
        from rowmerge.table.snapshots.files import AddedFile, FileChanges

        low = number * KEYS_OF_A_FILE
        path = f"{self._storage.location}/{file_name(number)}"
        file = AddedFile(path, 12_000_000, ROWS_OF_A_FILE, {}, {"l_orderkey": low}, {"l_orderkey": low + KEYS_OF_A_FILE - 1})
        outcome = self._table.commit(self._snapshot, CommitRequest("WRITE", files=FileChanges(added=(file,))))
        assert isinstance(outcome, Committed), outcome

    def checkpoint(self) -> None:
        from rowmerge.delta.log.checkpoints import write_checkpoint

        write_checkpoint(self._storage, self._table.snapshot().state)


class DeltaRs(DeltaEngine):
    def __init__(self, folder: Path) -> None:
        import deltalake
        import deltalake.transaction

        super().__init__(folder)
        self._module = deltalake

    def open(self) -> int:
        self._table = self._module.DeltaTable(str(self.folder))
        return len(self._table.file_uris())

    def open_again(self) -> int:
        self._table.update_incremental()
        return len(self._table.file_uris())

    def prune(self, low: int, high: int) -> int:
        import pyarrow as pa

        actions = pa.table(self._table.get_add_actions(flatten=True))
        least, greatest = actions["min.l_orderkey"], actions["max.l_orderkey"]
        return actions.filter(pc.and_(pc.less_equal(least, high), pc.greater_equal(greatest, low))).num_rows

    def commit(self, number: int) -> None:
        add = self._module.transaction.AddAction(file_name(number), 12_000_000, {}, 1_750_000_000_000, True, statistics(number))
        schema = self._module.Schema.from_json(table_schema())
        properties = self._module.PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
        self._table.create_write_transaction([add], "append", schema, post_commithook_properties=properties)

    def checkpoint(self) -> None:
        self._table.create_checkpoint()


ENGINES = {"rowmerge": Rowmerge, "delta-rs": DeltaRs}


def measured(engine: Engine, files: int) -> dict[str, Any]:
    """Return the seconds, the CPU seconds and the peak of resident memory in MB of each operation, in execution order."""
    measurements: dict[str, Any] = {"start MB": peak()}

    def run(name: str, operation: Any, expected: int | None = None) -> None:
        reset_peak()
        start, computed = time.perf_counter(), time.process_time()
        try:
            answer = operation()
        except NotMeasured:
            return
        measurements[name] = time.perf_counter() - start
        measurements[f"{name} CPU"] = time.process_time() - computed
        measurements[f"{name} MB"] = peak()
        assert expected is None or answer == expected, f"{name}: {answer} files instead of {expected}"

    middle = files // 2
    low, high = middle * KEYS_OF_A_FILE, (middle + PRUNED_TO) * KEYS_OF_A_FILE - 1
    run("open", engine.open, files)
    run("prune", lambda: engine.prune(low, high), PRUNED_TO)
    engine.commit_of_another(files)
    run("open again", engine.open_again, files + 1)
    run("prune again", lambda: engine.prune(low, high), PRUNED_TO)
    run("commit", lambda: engine.commit(files + 1))
    if "commit" in measurements:
        run("open after own commit", engine.open_again, files + 2)
    run("checkpoint", engine.checkpoint)
    return measurements


def peak() -> int:
    """Return the peak of resident memory since the last reset, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    return 0


def reset_peak() -> None:
    """Reset the peak of resident memory."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    print(json.dumps(measured(ENGINES[sys.argv[1]](Path(sys.argv[2])), int(sys.argv[3]))))
