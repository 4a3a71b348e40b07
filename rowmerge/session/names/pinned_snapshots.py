"""The snapshots that one statement reads: each table, branch and tag at one version, however often the statement names it."""

from __future__ import annotations

from dataclasses import dataclass, field

from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table


@dataclass
class PinnedSnapshots:
    """Snapshots by their history key: the table's location, with its branch or tag.

    `keys_read`: the keys of the histories that the statement reads at their newest version. A commit to one of these histories changes what
    the statement reads.
    """

    by_history_key: dict[str, Snapshot] = field(default_factory=dict)
    keys_read: set[str] = field(default_factory=set)

    def newest(self, table: Table) -> Snapshot:
        """Return the version of a table's main branch that is the newest one for this statement."""
        if table.location not in self.by_history_key:
            self.by_history_key[table.location] = table.snapshot()
        return self.by_history_key[table.location]

    def read(self, snapshot: Snapshot) -> Snapshot:
        """Record that the statement reads the newest version of a history. Return the version that the statement has pinned."""
        self.keys_read.add(snapshot.history_key)
        return self.by_history_key.setdefault(snapshot.history_key, snapshot)
