"""The change data feed of a table: which rows each version of a range changed (PROTOCOL.md, Reader Requirements for AddCDCFile)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.files.columns import file_schema
from rowmerge.delta.files.live_files import LiveFiles
from rowmerge.delta.log.history import in_commit_timestamp, version_at
from rowmerge.delta.log.log_files import LogListing, commit_path, read_documents, read_listed
from rowmerge.delta.log.ndjson import Document, cdc_actions, file_actions, other_actions
from rowmerge.delta.metadata.actions import Action, Metadata, Protocol
from rowmerge.delta.metadata.features import keeps_change_rows
from rowmerge.delta.metadata.properties import CHANGE_DATA_FEED
from rowmerge.delta.metadata.read_compatibility import why_not_readable
from rowmerge.delta.snapshots.deletion_vectors import read_vector
from rowmerge.delta.snapshots.file_listing import list_files
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot, own_snapshot
from rowmerge.errors import ChangesNotRecorded, CorruptLog, IncompatibleSchemaChange, PlanError, VersionNotFound
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.change_feed import DELETE, INSERT, Bound, ChangedFile, TableChanges
from rowmerge.table.snapshots.files import ListedFile, Positions
from rowmerge.table.snapshots.snapshot import Snapshot

_BATCH = 100
_UNCHANGED_MERGE = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


@dataclass(frozen=True)
class _Version:
    """One version of the range; `protocol` and `metadata` are what it left, `before` is the metadata that it replaced, where it did."""

    number: int
    timestamp: int
    document: Document
    small: Sequence[Action]
    protocol: Protocol
    metadata: Metadata
    before: Metadata | None


@dataclass(frozen=True)
class DeltaChangeFeed:
    """Implements `rowmerge.table.snapshots.change_feed.ChangeFeed`.

    `own_log`: the part of a listed log that belongs to this table. `snapshot_in`: opens a version of a listed log.
    """

    storage: Storage
    own_log: Callable[[LogListing], LogListing]
    snapshot_in: Callable[[LogListing, int], DeltaSnapshot]

    def changes(self, newest: Snapshot, first: Bound, last: Bound | None) -> TableChanges:
        """Return the change rows of a range of versions. Raises as `ChangeFeed.changes` says."""

        def read(listing: LogListing) -> TableChanges:
            snapshot_at = partial(self.snapshot_in, listing)
            return _FeedReader(self.storage, self.own_log(listing), own_snapshot(newest), snapshot_at).changes(first, last)

        return read_listed(self.storage, read)


@dataclass(frozen=True)
class _FeedReader:
    """Reads the feed of a table of which `newest` is the newest version. `snapshot_at` opens an older one."""

    storage: Storage
    listing: LogListing
    newest: DeltaSnapshot
    snapshot_at: Callable[[int], DeltaSnapshot]

    def changes(self, first: Bound, last: Bound | None) -> TableChanges:
        """Return the changes of a range. Raises as `ChangeFeed.changes` says."""
        start, end = self._first(first), self._last(last)
        if _between(first, last) and end == start - 1:
            return TableChanges(self.newest, start, end)
        if end < start:
            raise PlanError(
                f"table_changes on {self.newest.name} would begin at version {start} and end at version {end}. Give an end that is not "
                f"before the start."
            )
        self._check_there(start)
        before = self.snapshot_at(start)
        schema_of = self.newest if self.newest.metadata.mapping_mode == "none" else self.snapshot_at(end)
        files: list[ChangedFile] = []
        checked: tuple[Protocol, Metadata] | None = None
        for version in self._versions(before, start, end):
            if checked != (version.protocol, version.metadata):
                self._check(version, schema_of)
                checked = (version.protocol, version.metadata)
            files += self._changed(version, schema_of)
        return TableChanges(schema_of, start, end, tuple(files))

    # ------------------------------------------------------------------ the range

    def _first(self, bound: Bound) -> int:
        newest = self.newest
        if bound.version is not None:
            version = bound.version
        else:
            assert bound.timestamp is not None
            before = self._at(bound.timestamp - 1)
            version = self._oldest() if before is None else before + 1
        if version > newest.version:
            asked = f"version {version}" if bound.version is not None else _shown(bound.timestamp or 0)
            raise VersionNotFound(
                f"table_changes on {newest.name} would begin at {asked}, after the newest version, {newest.version}. Begin earlier."
            )
        return version

    def _last(self, bound: Bound | None) -> int:
        if bound is None:
            return self.newest.version
        if bound.version is not None:
            return min(bound.version, self.newest.version)
        assert bound.timestamp is not None
        version = self._at(bound.timestamp)
        if version is None:
            raise VersionNotFound(
                f"table_changes on {self.newest.name} would end at {_shown(bound.timestamp)}, before its first version. End later."
            )
        return min(version, self.newest.version)

    def _at(self, timestamp: int) -> int | None:
        return version_at(self.storage, self.listing, self.newest.protocol, self.newest.metadata, timestamp)

    def _oldest(self) -> int:
        """The oldest version from which on every commit is there."""
        return max(self.listing.continuous_commits.start, self.listing.oldest_readable)

    def _check_there(self, start: int) -> None:
        oldest = self._oldest()
        if start < oldest:
            raise VersionNotFound(
                f"The changes of {self.newest.name} in version {start} are gone: the log has been cleaned up to version {oldest - 1}. "
                f"Begin at version {oldest} or later."
            )

    def _versions(self, first: DeltaSnapshot, start: int, end: int) -> Iterator[_Version]:
        protocol, metadata = first.protocol, first.metadata
        latest = max((self.listing.modified(number) for number in self.listing.continuous_commits if number < start), default=0)
        for low in range(start, end + 1, _BATCH):
            numbers = range(low, min(low + _BATCH, end + 1))
            for number, document in zip(numbers, read_documents(self.storage, [commit_path(n) for n in numbers]), strict=True):
                small = other_actions(document)
                latest = max(latest, self.listing.modified(number))
                timestamp, before = latest, None
                for action in small:
                    if fields := action.get("protocol"):
                        protocol = Protocol.of(fields)
                    elif fields := action.get("metaData"):
                        before, metadata = self._before(number) if number == start else metadata, Metadata.of(fields)
                    elif fields := action.get("commitInfo"):
                        timestamp = in_commit_timestamp(self.storage, number, fields) or timestamp
                yield _Version(number, timestamp, document, small, protocol, metadata, before)

    def _before(self, start: int) -> Metadata | None:
        """What the first version of the range replaced; None when that is gone, or there was nothing."""
        try:
            return self.snapshot_at(start - 1).metadata if start > self.listing.oldest_readable else None
        except VersionNotFound:
            # The version before the first one of a table that continues the log of a dropped table.
            return None

    def _check(self, version: _Version, read_as: DeltaSnapshot) -> None:
        """Change rows were kept, and fit the columns that they are read in."""
        if not keeps_change_rows(version.protocol, version.metadata):
            advice = f"Read versions in which {CHANGE_DATA_FEED} was true: DESCRIBE HISTORY {read_as.name} shows when it was set."
            raise ChangesNotRecorded(read_as.name, version.number, advice)
        _check_columns(version.number, version.metadata, read_as)

    # ------------------------------------------------------------------ one version

    def _changed(self, version: _Version, read_as: DeltaSnapshot) -> list[ChangedFile]:
        recorded = cdc_actions(version.document)
        if recorded:
            return self._recorded(version, recorded)
        if _changed_nothing(version.small):
            return []
        actions = file_actions([version.document], version.metadata.stored_partition_columns)
        added, removed = self._by_path(version, actions.adds), self._by_path(version, actions.removes)
        if removed and version.before is not None:
            _check_columns(version.number - 1, version.before, read_as)
        found: list[ChangedFile] = []
        for path in [*removed, *(path for path in added if path not in removed)]:
            if path not in added:
                found.append(replace(removed[path], change=DELETE))
            elif path not in removed:
                found.append(replace(added[path], change=INSERT))
            else:
                before, after = removed[path].rows, added[path].rows
                for change, rows in ((DELETE, after - before), (INSERT, before - after)):
                    if rows:
                        found.append(replace(added[path], change=change, rows=rows, listed=True))
        return found

    def _recorded(self, version: _Version, actions: Sequence[Action]) -> list[ChangedFile]:
        stored = version.metadata.stored_partition_columns
        rows = []
        for action in actions:
            fields = action["cdc"]
            values = fields.get("partitionValues") or {}
            rows.append({"path": fields["path"], "size": fields.get("size"), "partition": {name: values.get(name) for name in stored}})
        schema = file_schema(stored)
        table = pa.Table.from_pylist([{**dict.fromkeys(schema.names), **row} for row in rows], schema=schema)
        listing = list_files(LiveFiles.of(table), self.storage.location, version.metadata)
        return [self._file(version, file, None) for file in listing.files()]

    def _by_path(self, version: _Version, actions: pa.Table) -> dict[str, ChangedFile]:
        """The files of add or remove actions that change data, with the rows that their deletion vectors take away."""
        actions = actions.filter(pc.fill_null(actions["dataChange"], True))
        told = actions["extendedFileMetadata"] if "extendedFileMetadata" in actions.schema.names else None
        if version.metadata.partition_columns and told is not None and not pc.all(pc.fill_null(told, False), min_count=0).as_py():
            raise CorruptLog(version.document.path, "a remove action does not tell the partition of its file")
        if not actions.num_rows:
            return {}
        listing = list_files(LiveFiles.of(actions), self.storage.location, version.metadata)
        files = {}
        for file, vector in zip(listing.files(), actions["deletionVector"].to_pylist(), strict=True):
            positions = Positions() if vector is None else read_vector(self.storage, vector)
            files[file.path] = replace(self._file(version, file, None), rows=positions)
        return files

    def _file(self, version: _Version, file: ListedFile, change: str | None) -> ChangedFile:
        return ChangedFile(version.number, version.timestamp, file.path, change, file.partition or {})


def _check_columns(version: int, metadata: Metadata, read_as: DeltaSnapshot) -> None:
    """Raises IncompatibleSchemaChange when the rows of a version cannot be read in the columns of another."""
    reason = why_not_readable(metadata.schema, read_as.schema)
    if metadata.partition_columns != read_as.partition_columns:
        reason = "the table was partitioned otherwise"
    if reason:
        raise IncompatibleSchemaChange(read_as.name, version, reason, "Give table_changes a range that does not reach so far back.")


def _shown(timestamp: int) -> str:
    return f"{datetime.fromtimestamp(timestamp / 1000, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def _between(first: Bound, last: Bound | None) -> bool:
    """Whether both ends are times in their order: they may lie between two versions, and nothing happened there."""
    times = (first.timestamp, last.timestamp if last else None)
    return times[0] is not None and times[1] is not None and times[0] <= times[1]


def _changed_nothing(small: Sequence[Action]) -> bool:
    """A MERGE that rewrote files and changed no row, by its own count: Delta's writers left no change rows then."""
    for action in small:
        info = action.get("commitInfo") or {}
        metrics = info.get("operationMetrics")
        counts = [str(metrics.get(name)) for name in _UNCHANGED_MERGE] if isinstance(metrics, dict) else []
        if info.get("operation") == "MERGE" and counts == ["0"] * len(_UNCHANGED_MERGE):
            return True
    return False
