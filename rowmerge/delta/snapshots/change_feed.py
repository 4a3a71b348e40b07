"""Read the change data feed: the rows that each version in a range changed (PROTOCOL.md, Reader Requirements for AddCDCFile)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cache, partial
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.files.columns import file_schema
from rowmerge.delta.files.live_files import LiveFiles
from rowmerge.delta.log.history import in_commit_timestamp, version_at
from rowmerge.delta.log.log_files import LogListing, list_and_read, read_commits
from rowmerge.delta.log.ndjson import Document, cdc_actions, commit_info, file_actions, non_file_actions
from rowmerge.delta.log.replay import State, apply_table_actions
from rowmerge.delta.metadata.actions import Action, Metadata, Protocol, schema_text
from rowmerge.delta.metadata.features import is_enabled
from rowmerge.delta.metadata.properties import CHANGE_DATA_FEED
from rowmerge.delta.metadata.schema_changes import why_schema_not_readable
from rowmerge.delta.snapshots.deletion_vectors import read_vector
from rowmerge.delta.snapshots.file_listing import list_files
from rowmerge.delta.snapshots.opening import SnapshotReader, without_dropped_table
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot, as_delta_snapshot
from rowmerge.errors import ChangesNotRecorded, CorruptLog, IncompatibleSchemaChange, PlanError, VersionNotFound
from rowmerge.storage.store import Storage
from rowmerge.table.metadata.schema import Struct
from rowmerge.table.snapshots.change_feed import DELETE, INSERT, Bound, ChangedFile, FileStatistics, TableChanges
from rowmerge.table.snapshots.files import FileListing, ListedFile, Positions
from rowmerge.table.snapshots.snapshot import Snapshot

_ROW_METRICS = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


@dataclass(frozen=True)
class _FeedVersion:
    """One version in the range, with the protocol and metadata of the table after this version.

    `number`: the version number. `timestamp`: the time of the commit, in milliseconds since the epoch. `document`: the commit file.
    `replaced_metadata`: the metadata before this version, or None if this version does not change the metadata or the old one is unknown.
    """

    number: int
    timestamp: int
    document: Document
    non_file_actions: Sequence[Action]
    protocol: Protocol
    metadata: Metadata
    replaced_metadata: Metadata | None


@dataclass(frozen=True)
class DeltaChangeFeed:
    """The change data feed of a Delta table. Implements `rowmerge.table.snapshots.change_feed.ChangeFeed`.

    `storage`: the storage of the table's folder. `reader`: opens versions of the table.
    """

    storage: Storage
    reader: SnapshotReader

    def changes(self, newest: Snapshot, first: Bound, last: Bound | None) -> TableChanges:
        """Return the change rows of a range of versions, as `rowmerge.table.snapshots.change_feed.ChangeFeed.changes` defines.

        The rows are read from the commits in the log, without the commits of an older table that was dropped in the same folder.

        Args:
            newest: The newest version of the table. Later versions are ignored.
            first: The first version of the range, or the time at which the range begins.
            last: The last version of the range, or the time at which the range ends. None for the newest version.
        """

        def read_range(listing: LogListing) -> TableChanges:
            """Read the changes in the range, based on one listing of the log."""
            table_log = without_dropped_table(self.storage, listing)
            snapshot_at = partial(self.reader.open, listing)
            return _FeedReader(self.storage, table_log, as_delta_snapshot(newest), snapshot_at).read(first, last)

        # A concurrent log cleanup may delete a listed file before it is read. In that case, `list_and_read` lists and reads a second time.
        return list_and_read(self.storage, read_range)


@dataclass(frozen=True)
class _FeedReader:
    """A reader of a table's change data feed, based on one listing of the log.

    `newest`: the newest version of the table. `snapshot_at`: opens the version with a given number.
    """

    storage: Storage
    listing: LogListing
    newest: DeltaSnapshot
    snapshot_at: Callable[[int], DeltaSnapshot]

    def read(self, first: Bound, last: Bound | None) -> TableChanges:
        """Return the changes in a range of versions. Raises the same errors as `ChangeFeed.changes`."""
        start, end = self._find_start(first), self._find_end(last)
        if end == start - 1 and _are_ordered_times(first, last):
            # Both times are between the same two versions, so the range is empty.
            return TableChanges(self.newest, start, end)
        self._check_range(start, end)
        start_snapshot = self.snapshot_at(start)
        # A table with column mapping is read in the columns of the last version of the range.
        read_as = self.newest if self.newest.metadata.mapping_mode == "none" else self.snapshot_at(end)
        return TableChanges(read_as, start, end, tuple(self._read_changes(self._read_versions(start_snapshot, end), read_as)))

    def _check_range(self, start: int, end: int) -> None:
        """Raise PlanError if the range ends before it starts. Raise VersionNotFound if a log cleanup deleted its first version."""
        if end < start:
            advice = "Choose an end that is not before the start."
            raise PlanError(f"table_changes on {self.newest.name} begins at version {start}, but ends at version {end}. {advice}")
        oldest = self._oldest_version()
        if start < oldest:
            reason = f"in version {start} are not available: the log was cleaned up to version {oldest - 1}."
            raise VersionNotFound(f"The changes of {self.newest.name} {reason} Begin at version {oldest} or later.")

    def _read_changes(self, versions: Iterator[_FeedVersion], read_as: DeltaSnapshot) -> Iterator[ChangedFile]:
        """Yield the changed files of versions. Check each combination of protocol and metadata before the first version that has it."""
        checked_definition: tuple[Protocol, Metadata] | None = None
        for version in versions:
            definition = (version.protocol, version.metadata)
            if definition != checked_definition:
                _check_definition(version, read_as)
                checked_definition = definition
            yield from self._changed_files(_with_partition_types_of(read_as, version), read_as)

    def _find_start(self, bound: Bound) -> int:
        """Return the first version of the range. Raises VersionNotFound if the range would begin after the newest version."""
        start = self._first_version_since(bound.timestamp) if bound.version is None else bound.version
        if start <= self.newest.version:
            return start
        start_text = f"version {start}" if bound.timestamp is None else _time_text(bound.timestamp)
        reason = f"after the newest version, {self.newest.version}. Choose an earlier start."
        raise VersionNotFound(f"table_changes on {self.newest.name} cannot begin at {start_text}, {reason}")

    def _first_version_since(self, timestamp: int | None) -> int:
        """Return the first version at or after a time. This is the number after the newest version if all versions are older."""
        assert timestamp is not None
        # Timestamps are whole milliseconds, so the previous version is the newest one at or before the preceding millisecond.
        previous_version = self._version_at(timestamp - 1)
        return self._oldest_version() if previous_version is None else previous_version + 1

    def _find_end(self, bound: Bound | None) -> int:
        """Return the last version of the range, at most the newest version. Raises VersionNotFound if no version is old enough."""
        if bound is None:
            return self.newest.version
        if bound.version is not None:
            return min(bound.version, self.newest.version)
        assert bound.timestamp is not None
        end = self._version_at(bound.timestamp)
        if end is None:
            reason = f"cannot end at {_time_text(bound.timestamp)}, before its first version. Choose a later end."
            raise VersionNotFound(f"table_changes on {self.newest.name} {reason}")
        # The listing may contain versions that were committed after `newest` was read.
        return min(end, self.newest.version)

    def _version_at(self, timestamp: int) -> int | None:
        return version_at(self.storage, self.listing, self.newest.protocol, self.newest.metadata, timestamp)

    def _oldest_version(self) -> int:
        """Return the oldest version in the log that has no missing commits after it."""
        return max(self.listing.continuous_commits.start, self.listing.oldest_readable)

    def _read_versions(self, start: DeltaSnapshot, end: int) -> Iterator[_FeedVersion]:
        """Yield the versions from `start` to `end`, each with the protocol and metadata of the table after it."""
        state, file_times = start.state, self._file_times(end)
        for number, document in read_commits(self.storage, range(start.version, end + 1)):
            actions = non_file_actions(document)
            timestamp = in_commit_timestamp(self.storage, number, commit_info(actions)) or file_times[number]
            has_metadata = any(action.get("metaData") for action in actions)
            replaced_metadata = self._metadata_before(number, start, state) if has_metadata else None
            # The state of `start` already contains the actions of this version. Applying them again has no effect.
            state = apply_table_actions(state, actions, document.path)
            yield _FeedVersion(number, timestamp, document, actions, state.protocol, state.metadata, replaced_metadata)

    def _file_times(self, end: int) -> dict[int, int]:
        """Return the time of each version up to `end`, in milliseconds since the epoch, based on modification times of commit files."""
        versions = [version for version in self.listing.continuous_commits if version <= end]
        # The times of versions must not decrease, although the modification times of the commit files may.
        return dict(zip(versions, accumulate(map(self.listing.modified, versions), max), strict=True))

    def _metadata_before(self, version: int, first_snapshot: DeltaSnapshot, previous_state: State) -> Metadata | None:
        """Return the metadata of the table before a version in the range.

        Args:
            version: The version number.
            first_snapshot: The first version of the range.
            previous_state: The state of the previous version. Not used for the first version, whose previous version is not in the range.

        Returns:
            The metadata. None if a log cleanup deleted the previous version, or if `version` is the first version of the table.
        """
        if version > first_snapshot.version:
            return previous_state.metadata
        if version <= self.listing.oldest_readable:
            return None  # the previous version does not exist, or a log cleanup deleted it
        try:
            return self.snapshot_at(version - 1).metadata
        except VersionNotFound:
            # The previous version is the drop of another table, whose log this table continues.
            return None

    def _changed_files(self, version: _FeedVersion, read_as: DeltaSnapshot) -> list[ChangedFile]:
        """Return the files with the change rows of a version, from its `cdc` actions or, without these, from its file actions."""
        recorded_actions = cdc_actions(version.document)
        if recorded_actions:
            return self._recorded_files(version, recorded_actions)
        return [] if _changes_no_row(version.non_file_actions) else self._derived_files(version, read_as)

    def _derived_files(self, version: _FeedVersion, read_as: DeltaSnapshot) -> list[ChangedFile]:
        """Return the files whose rows the `add` and `remove` actions of a version insert or delete.

        `read_as`: the version whose columns all change rows get.

        Raises:
            CorruptLog: An action is invalid, or a `remove` action lacks the partition values of its file.
            IncompatibleSchemaChange: The deleted rows cannot be read with the columns of `read_as`.
        """
        actions = file_actions([version.document], version.metadata.stored_partition_columns)
        # Actions without `dataChange` only move rows.
        adds = actions.adds.filter(pc.fill_null(actions.adds["dataChange"], True))
        removes = actions.removes.filter(pc.fill_null(actions.removes["dataChange"], True))
        if version.metadata.partition_columns and not _have_partition_values(removes):
            raise CorruptLog(version.document.path, "a remove action has no partition values")
        added, removed = self._files_by_path(version, adds), self._files_by_path(version, removes)
        added = self._with_statistics(added, version, adds, read_as)
        if removed and version.replaced_metadata is not None:
            # This version changes the metadata, but the rows that it deletes have the columns of the previous version.
            _check_columns(version.number - 1, version.replaced_metadata, read_as)
        return _derive_changes(added, removed)

    def _recorded_files(self, version: _FeedVersion, actions: Sequence[Action]) -> list[ChangedFile]:
        """Return the change data files that `cdc` actions add."""
        files = [action["cdc"] for action in actions]
        rows = [{"path": file["path"], "size": file.get("size"), "partition": file.get("partitionValues") or {}} for file in files]
        table = pa.Table.from_pylist(rows, schema=file_schema(version.metadata.stored_partition_columns))
        listing = list_files(LiveFiles.of(table), self.storage.location, version.metadata)
        return [_changed_file(version, file) for file in listing.files()]

    def _files_by_path(self, version: _FeedVersion, actions: pa.Table) -> dict[str, ChangedFile]:
        """Return the files of `add` or `remove` actions, by path. `rows` of each result contains the rows in its deletion vector."""
        if not actions.num_rows:
            return {}
        listing = list_files(LiveFiles.of(actions), self.storage.location, version.metadata)
        vectors = actions["deletionVector"].to_pylist()
        deleted_rows = [Positions() if vector is None else read_vector(self.storage, vector) for vector in vectors]
        pairs = zip(listing.files(), deleted_rows, strict=True)
        return {file.path: replace(_changed_file(version, file), rows=rows) for file, rows in pairs}

    def _with_statistics(
        self, files: Mapping[str, ChangedFile], version: _FeedVersion, adds: pa.Table, read_as: DeltaSnapshot
    ) -> dict[str, ChangedFile]:
        """Add the statistics of `add` actions to their files.

        Args:
            files: The files by path, in the order of `adds`.
            version: The version with the actions.
            adds: The actions.
            read_as: The version whose columns all change rows get. Only columns with the same definition in both versions have bounds.
        """
        columns = frozenset(
            field.name for field in version.metadata.schema if read_as.schema.find(field.name, case_sensitive=True) == field
        )

        @cache
        def listing(names: frozenset[str]) -> FileListing:
            return list_files(LiveFiles.of(adds), self.storage.location, version.metadata, names & columns)

        return {path: replace(file, statistics=FileStatistics(listing, row)) for row, (path, file) in enumerate(files.items())}


def _with_partition_types_of(read_as: DeltaSnapshot, version: _FeedVersion) -> _FeedVersion:
    """Return a version in which partition columns have the types of `read_as`, to which they may have been widened."""
    metadata = version.metadata
    if metadata.schema_string == read_as.metadata.schema_string:
        return version
    types = {field.name: field.type for field in read_as.schema.select(metadata.partition_columns)}
    columns = Struct(tuple(replace(field, type=types.get(field.name, field.type)) for field in metadata.schema))
    return replace(version, metadata=replace(metadata, schema_string=schema_text(columns)))


def _have_partition_values(removes: pa.Table) -> bool:
    """Return whether all `remove` actions have partition values: those with `extendedFileMetadata`. True if there are no actions."""
    has_values = pc.fill_null(removes["extendedFileMetadata"], False)
    return bool(pc.all(has_values, min_count=0).as_py())


def _changed_file(version: _FeedVersion, file: ListedFile) -> ChangedFile:
    return ChangedFile(version.number, version.timestamp, file.path, None, file.partition or {}, size=file.size or 0)


def _derive_changes(added: Mapping[str, ChangedFile], removed: Mapping[str, ChangedFile]) -> list[ChangedFile]:
    """Return the files whose rows a version inserts or deletes. A file in both mappings only gets a different deletion vector."""
    changed_files: list[ChangedFile] = []
    for path, file in removed.items():
        if path not in added:
            changed_files.append(replace(file, change=DELETE))
            continue
        old_rows, new_rows = file.rows, added[path].rows
        # The new statistics may hold only for the rows that the version keeps.
        deletion = replace(added[path], change=DELETE, rows=new_rows - old_rows, listed=True, statistics=None)
        insertion = replace(added[path], change=INSERT, rows=old_rows - new_rows, listed=True)
        changed_files += (file for file in (deletion, insertion) if file.rows)
    return changed_files + [replace(file, change=INSERT) for path, file in added.items() if path not in removed]


def _check_definition(version: _FeedVersion, read_as: DeltaSnapshot) -> None:
    """Raise ChangesNotRecorded if a version has no change rows, and IncompatibleSchemaChange if `read_as` has incompatible columns."""
    if not is_enabled(version.protocol, version.metadata, CHANGE_DATA_FEED):
        advice = f"Read versions in which {CHANGE_DATA_FEED} was true: DESCRIBE HISTORY {read_as.name} shows when it was set."
        raise ChangesNotRecorded(read_as.name, version.number, advice)
    _check_columns(version.number, version.metadata, read_as)


def _check_columns(version: int, metadata: Metadata, read_as: DeltaSnapshot) -> None:
    """Raise IncompatibleSchemaChange if the rows of a version cannot be read with the columns of `read_as`."""
    reason = why_schema_not_readable(metadata.schema, read_as.schema)
    if metadata.partition_columns != read_as.partition_columns:
        reason = "the table had different partition columns"
    if reason:
        raise IncompatibleSchemaChange(read_as.name, version, reason, "Choose a later start for table_changes.")


def _time_text(timestamp: int) -> str:
    return f"{datetime.fromtimestamp(timestamp / 1000, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def _are_ordered_times(first: Bound, last: Bound | None) -> bool:
    if last is None or first.timestamp is None or last.timestamp is None:
        return False
    return first.timestamp <= last.timestamp


def _changes_no_row(actions: Sequence[Action]) -> bool:
    """Return whether a commit is a MERGE that rewrote files but changed no rows. Delta writers record no change rows for it."""
    info = commit_info(actions)
    metrics = info.get("operationMetrics")
    counts = [str(metrics.get(name)) for name in _ROW_METRICS] if isinstance(metrics, dict) else []
    return info.get("operation") == "MERGE" and counts == ["0"] * len(_ROW_METRICS)
