"""The snapshots that one statement reads: each table, branch and tag at one version, however often the statement names it."""

from __future__ import annotations

from dataclasses import dataclass, field

from rowmerge.table.snapshot import Snapshot, Table


@dataclass
class PinnedSnapshots:
    """Snapshots by their line: the table's location, with its branch or tag.

    `lines_read`: the lines that the statement reads at their newest version. A commit to one of them changes what the statement reads.
    """

    by_line: dict[str, Snapshot] = field(default_factory=dict)
    lines_read: set[str] = field(default_factory=set)

    def newest(self, table: Table) -> Snapshot:
        """Return the version of a table's main branch that is the newest one for this statement."""
        if table.location not in self.by_line:
            self.by_line[table.location] = table.snapshot()
        return self.by_line[table.location]

    def read(self, snapshot: Snapshot) -> Snapshot:
        """Record that the statement reads the newest version of a line. Return the version that the statement has pinned."""
        self.lines_read.add(snapshot.line)
        return self.by_line.setdefault(snapshot.line, snapshot)
