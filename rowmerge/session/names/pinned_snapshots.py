"""The versions of tables that one statement reads. The newest version of a table stays the same for the whole statement."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rowmerge.commands.names import FileSource
from rowmerge.errors import PlanError
from rowmerge.session.names.audit import Audit
from rowmerge.session.names.resolver import ResolvedName, branches_of, change_feed_of
from rowmerge.spark.spark_session import evaluate_timestamp_millis
from rowmerge.sql import TableReference
from rowmerge.table.metadata.schema import string_literal
from rowmerge.table.snapshots.change_feed import Bound, TableChanges
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class PinnedSnapshots:
    """The snapshots that a statement uses, by history key: the table's location, with its branch or tag.

    `spark`: the session that evaluates times. `keys_read`: the history keys that the statement reads at their newest version. A concurrent
    commit to one of them changes the rows that the statement would read. `audit`: the branch from which audited tables are read.
    """

    spark: SparkSession
    audit: Audit
    by_history_key: dict[str, Snapshot] = field(default_factory=dict)
    keys_read: set[str] = field(default_factory=set)

    def newest(self, table: Table) -> Snapshot:
        """Return the newest version of a table's main branch. It stays the same for the whole statement."""
        if table.location not in self.by_history_key:
            self.by_history_key[table.location] = table.snapshot()
        return self.by_history_key[table.location]

    def record_read(self, snapshot: Snapshot) -> Snapshot:
        """Record that the statement reads the newest version of a branch or tag. Return the version that the statement has pinned."""
        self.keys_read.add(snapshot.history_key)
        return self.by_history_key.setdefault(snapshot.history_key, snapshot)

    def of_reference(self, table: Table, resolved_name: ResolvedName, reference: TableReference) -> Snapshot:
        """Return the snapshot of a table at the branch, tag, version or time in the statement, or the newest one if none is given.

        Args:
            table: The table.
            resolved_name: Its name, which can contain the branch or tag (`orders.branch_audit`).
            reference: The reference in the statement, which can have VERSION or TIMESTAMP AS OF.

        Raises:
            PlanError: The name has a branch or tag, and the reference has VERSION or TIMESTAMP AS OF. Or the reference has an option.
        """
        if reference.read_option is not None:
            advice = "Leave it out. For another version, use VERSION AS OF; for the size of tasks, the table properties read.split.*."
            raise PlanError(f"The read option {reference.read_option} of {resolved_name.relation} is not supported. {advice}")
        branch_in_name = resolved_name.branch_or_tag
        if branch_in_name is not None and reference.has_time_travel:
            problem = f"The name of {resolved_name.relation} already selects {branch_in_name}."
            raise PlanError(f"{problem} Omit VERSION or TIMESTAMP AS OF, or remove the branch or tag from the name.")
        branch_or_tag = branch_in_name or reference.branch_or_tag
        if branch_or_tag is not None:
            return self.record_read(branches_of(table, table.name).snapshot(branch_or_tag))
        return self._at(table, reference.version, None if reference.timestamp is None else reference.timestamp.text)

    def of_source(self, table: Table, source: FileSource) -> Snapshot:
        """Return the snapshot of a table at a path: at `versionAsOf` or `timestampAsOf`, or the newest one if neither is given.

        Args:
            table: The table.
            source: The call of `read_files(…)` with its options.

        Raises:
            PlanError: `versionAsOf` is not a whole number.
        """
        version, timestamp = source.options.get("versionAsOf"), source.options.get("timestampAsOf")
        if version is not None and not version.lstrip("-").isdecimal():
            raise PlanError(f"versionAsOf of {source.display_name} is {version!r}, which is not a version. Specify a whole number.")
        version_number = None if version is None else int(version)
        return self._at(table, version_number, None if timestamp is None else string_literal(timestamp))

    def changes(self, table: Table, first: Bound, last: Bound | None) -> TableChanges:
        """Return the changes between two versions or times of a table.

        Args:
            table: The table, which must have a change feed.
            first: The first version or time.
            last: The last version or time, or None for the newest version.
        """
        newest = self.newest(table)
        changes = change_feed_of(table).changes(newest, first, last)
        # A range that ends at a fixed version has the same rows whatever others commit.
        has_fixed_end = last is not None and last.version == changes.last
        if changes.last == newest.version and not has_fixed_end:
            self.record_read(newest)
        return changes

    def _at(self, table: Table, version: int | None, timestamp: str | None) -> Snapshot:
        """Return the snapshot at a version, or at the time that a SQL expression gives. If both are None, pin and return the newest one."""
        if version is not None:
            return table.snapshot_at(version=version)
        if timestamp is not None:
            return table.snapshot_at(timestamp=evaluate_timestamp_millis(self.spark, timestamp))
        source = self.audit.source(table)
        return self.record_read(self.newest(table) if source is table else source.snapshot())
