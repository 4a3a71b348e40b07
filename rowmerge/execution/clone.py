"""SHALLOW CLONE: a table of the files that a version of another table has, by metadata alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow.compute as pc

from rowmerge.errors import AlreadyExists, CommitStateUnknown
from rowmerge.execution.commit import Attempt, CommitOptions, commit_with_retry
from rowmerge.execution.result import ChangeResult, RowCounts, Timings
from rowmerge.table.commits.request import Change, Committed, Conflicted, Unknown
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table


@dataclass
class Clone:
    """One clone of `source`, called `source_name`; `properties` are put above its own. After `run`, `counts` tells of it as Delta does."""

    table: Table
    name: str
    source: Snapshot
    source_name: str
    properties: Mapping[str, str]
    options: CommitOptions
    counts: dict[str, int] = field(default_factory=dict)

    def run(self, *, or_replace: bool) -> ChangeResult:
        """Commit, in one version; a table that is replaced keeps its history.

        Raises AlreadyExists without `or_replace`, ConfigurationError and UnsupportedTableFeature for what the clone cannot be,
        CommitConflict, CommitStateUnknown.
        """
        if not self.table.exists():
            return self._create()
        if not or_replace:
            raise AlreadyExists(f"The table {self.name} exists already. Add IF NOT EXISTS or OR REPLACE, or drop it first.")
        return commit_with_retry(self.table, self._replacement, Timings(), self.options)

    def _create(self) -> ChangeResult:
        timings = Timings()
        change, counts = self._change(None)
        with timings.measure("commit"):
            outcome = self.table.create(TableDefinition(properties=self.properties), change)
        match outcome:
            case Committed(version):
                return ChangeResult(version, counts, timings)
            case Conflicted():
                raise AlreadyExists(f"The table {self.name} was made by somebody else just now. Add IF NOT EXISTS or OR REPLACE.")
            case Unknown(reason):
                advice = "Look at SHOW TABLES before you run it again."
                raise CommitStateUnknown(f"It is not known whether {self.name} was created: {reason}. {advice}")

    def _replacement(self) -> Attempt:
        snapshot = self.table.snapshot()
        return Attempt(snapshot, *self._change(snapshot))

    def _change(self, replaced: Snapshot | None) -> tuple[Change, RowCounts]:
        sizes = _sizes(self.source)
        gone = {path: size for path, size in ({} if replaced is None else _sizes(replaced)).items() if path not in sizes}
        # In the order of delta-spark's result; nothing is ever copied.
        self.counts = {
            "source_table_size": sum(sizes.values()),
            "source_num_of_files": len(sizes),
            "num_removed_files": len(gone),
            "num_copied_files": 0,
            "removed_files_size": sum(gone.values()),
            "copied_files_size": 0,
        }
        change = Change(
            "CLONE",
            parameters={"source": self.source_name, "sourceVersion": self.source.version},
            metrics={_in_history(name): count for name, count in self.counts.items()},
            definition=None if replaced is None else TableDefinition(properties=self.properties),
            replace=replaced is not None,
            cloned=self.source,
        )
        return change, RowCounts(files_added=len(sizes), files_removed=len(gone))


def _sizes(snapshot: Snapshot) -> dict[str, int]:
    listing = snapshot.files()
    return dict(zip(listing.paths, pc.fill_null(listing.sizes, 0).to_pylist(), strict=True))


def _in_history(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.title() for word in others)
