"""VACUUM: which files of a table's folder no version needs any more, and their deletion.

Needed are the files of the newest version, and those that a version within the retention had: the tombstones that are younger, and whatever
the commits since then removed or recorded as changes. A file younger than the retention is never touched: a statement that runs may
be about to commit it.

Files with hidden names stay, except change data and leftovers of puts. Files outside the table's own folder are never deleted. Files of
killed statements are deleted once they are older than the retention. The folder is listed before the newest version is opened. This version
is read once more before the first deletion.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.files.paths import absolute_paths
from rowmerge.delta.log.log_files import LOG, LogListing, commit_path, read_documents, read_listed
from rowmerge.delta.log.ndjson import Document, cdc_actions, file_actions, other_actions
from rowmerge.delta.metadata.properties import milliseconds_of_hours, tombstone_retention
from rowmerge.delta.snapshots.deletion_vectors import vector_path
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot
from rowmerge.errors import CommitStateUnknown, PlanError, RowmergeError
from rowmerge.storage.deletion import Origin, delete_files
from rowmerge.storage.disk import is_temporary
from rowmerge.storage.store import Storage, StoredObject, local_path
from rowmerge.table.commits.drop_markers import has_markers
from rowmerge.table.commits.inner_tables import inner_tables
from rowmerge.table.commits.request import Change, Committed, Outcome, Unknown
from rowmerge.table.maintenance import Vacuumed, VacuumOptions

_COLLECTED = ("_change_data", "_delta_index")
_BATCH = 500
_RACES = 5


@dataclass(frozen=True)
class Vacuum:
    """One VACUUM. `newest` opens the newest version; `commit` is the table's; `now` in milliseconds since the epoch."""

    storage: Storage
    table: str
    newest: Callable[[], DeltaSnapshot]
    commit: Callable[[DeltaSnapshot, Change], Outcome]
    options: VacuumOptions
    now: int

    def run(self) -> Vacuumed:
        """Delete what is not needed, or only tell what would be.

        Raises UnsupportedTableFeature, PlanError for a retention that is not safe, StorageError, CommitStateUnknown.
        """
        snapshot = self.newest()
        snapshot.check_writable()
        self._check_retention(snapshot)
        before = self.now - self._retention(snapshot)
        # Listed first: what is committed after the listing is either not in it or in the version that is looked at then.
        found = self.storage.list()
        snapshot = self.newest()
        kept = self._kept(snapshot, before)
        old = [o for o in found if o.modified < before and o.path not in kept]
        going = list(_collectable(found, old, snapshot))
        told = Vacuumed(tuple(f"{self.storage.location}/{o.path}" for o in going), snapshot.version)
        if self.options.dry_run:
            return told
        self._record("VACUUM START", self._parameters(snapshot), _sizes(going))
        # A RESTORE may have brought files back while the old ones were counted.
        current = self.newest()
        still = referenced(current)
        version = self._delete([o.path for o in going if o.path not in still], current, found)
        return Vacuumed(told.paths, version)

    # ------------------------------------------------------------------ inside

    def _retention(self, snapshot: DeltaSnapshot) -> int:
        asked = self.options.retain_hours
        return tombstone_retention(snapshot.settings.properties) if asked is None else milliseconds_of_hours(asked)

    def _check_retention(self, snapshot: DeltaSnapshot) -> None:
        """An active reader or writer may still use files that were removed a short while ago."""
        safe = tombstone_retention(snapshot.settings.properties)
        if self.options.check_retention and self._retention(snapshot) < safe:
            hours = -(-safe // 3_600_000)
            raise PlanError(
                f"VACUUM {self.table} RETAIN {self.options.retain_hours:g} HOURS is shorter than the table's retention of {hours} hours: "
                f"statements that are running and readers of older versions could lose their files. Retain {hours} hours or more, "
                f"lower the property delta.deletedFileRetentionDuration, or, when nobody else uses the table, "
                f"SET spark.databricks.delta.retentionDurationCheck.enabled = false."
            )

    def _kept(self, snapshot: DeltaSnapshot, before: int) -> set[str]:
        """Paths below the table that some version within the retention needs."""
        tombstones = snapshot.state.tombstones
        young = tombstones.filter(pc.greater_equal(pc.fill_null(tombstones["deletionTimestamp"], 0), before))
        kept = set(referenced(snapshot)) | paths_below(self.storage.location, young["path"], young["deletionVector"])
        return kept | read_listed(self.storage, lambda listing: self._named_since(listing, snapshot, before))

    def _named_since(self, listing: LogListing, snapshot: DeltaSnapshot, moment: int) -> set[str]:
        """Paths below the table that commits since a moment removed or recorded as changes."""
        paths: set[str] = set()
        for document in _commits_since(self.storage, listing, moment):
            other_actions(document)
            removes = file_actions([document], snapshot.partition_columns).removes
            paths |= paths_below(self.storage.location, removes["path"], removes["deletionVector"])
            paths |= _change_files(self.storage.location, document)
        return paths

    def _parameters(self, snapshot: DeltaSnapshot) -> dict[str, object]:
        parameters: dict[str, object] = {
            "retentionCheckEnabled": self.options.check_retention,
            "defaultRetentionMillis": tombstone_retention(snapshot.settings.properties),
        }
        if self.options.retain_hours is not None:
            parameters["specifiedRetentionMillis"] = milliseconds_of_hours(self.options.retain_hours)
        return parameters

    def _delete(self, paths: Sequence[str], current: DeltaSnapshot, found: Sequence[StoredObject]) -> int:
        absolute = [f"{self.storage.location}/{path}" for path in paths]
        try:
            delete_files(self.storage, [absolute], Origin.LISTED, live=live_paths(current))
        except RowmergeError:
            self._record("VACUUM END", {"status": "FAILED"}, {})
            raise
        folders = {posixpath.dirname(o.path) for o in found if not o.path.startswith(f"{LOG}/")} - {""}
        metrics = {"numDeletedFiles": len(paths), "numVacuumedDirectories": len(folders) + 1}
        return self._record("VACUUM END", {"status": "COMPLETED"}, metrics)

    def _record(self, operation: str, parameters: dict[str, object], metrics: dict[str, int]) -> int:
        """A commit without file actions, for the history; it goes with every other commit."""
        if not self.options.record:
            return self.newest().version
        for attempt in range(_RACES):
            outcome = self.commit(self.newest(), Change(operation, parameters, metrics, data_change=False))
            if isinstance(outcome, Committed):
                return outcome.version
            if isinstance(outcome, Unknown):
                raise CommitStateUnknown(
                    f"It is not known whether {operation} of {self.table} was recorded: {outcome.reason}. Run it again."
                )
            if attempt + 1 == _RACES:
                raise outcome.conflict
        raise AssertionError


def referenced(snapshot: DeltaSnapshot) -> frozenset[str]:
    """The data files and deletion vectors of a version that lie below the table: relative to it, plain."""
    files = snapshot.state.files
    return frozenset(paths_below(snapshot.shape.location, files.column("path"), files.column("deletionVector")))


def live_paths(snapshot: DeltaSnapshot) -> list[str]:
    """Return the absolute paths of a version's data files and deletion vectors."""
    files = snapshot.state.files
    return absolute_paths_of(snapshot.shape.location, files.column("path"), files.column("deletionVector"))


def paths_below(location: str, paths: pa.ChunkedArray, descriptors: pa.ChunkedArray) -> set[str]:
    """Return the paths of files and deletion vectors of the log that lie below the table, relative to it.

    Paths that other writers did not percent-encode count as they are spelled, too.
    """
    inside = {name for path in absolute_paths_of(location, paths, descriptors) if (name := _below(location, path)) is not None}
    return inside | set(paths.to_pylist())


def absolute_paths_of(location: str, paths: pa.ChunkedArray, descriptors: pa.ChunkedArray) -> list[str]:
    """Return the absolute paths of files and deletion vectors of the log."""
    descriptors = descriptors.drop_null().to_pylist()
    vectors = [vector_path(location, descriptor) for descriptor in descriptors if descriptor["storageType"] != "i"]
    return [*absolute_paths(location, paths).to_pylist(), *vectors]


def _below(location: str, path: str) -> str | None:
    """A path relative to the table, None for one that lies elsewhere (a shallow clone's)."""
    if path.startswith(f"{location}/"):
        return posixpath.normpath(path[len(location) + 1 :])
    root, file = local_path(location), local_path(path)
    if root is not None and file is not None:
        real = os.path.relpath(os.path.realpath(file), os.path.realpath(root))
        return None if real.startswith("..") else real
    hadoop, bucket = re.compile(r"^s3[an]?://"), "s3://"
    if hadoop.match(path) and hadoop.match(location):
        store, inside = hadoop.sub(bucket, location), hadoop.sub(bucket, path)
        return posixpath.normpath(inside[len(store) + 1 :]) if inside.startswith(f"{store}/") else None
    return None


def _commits_since(storage: Storage, listing: LogListing, moment: int) -> Iterator[Document]:
    young = [version for version in sorted(listing.commits) if listing.commits[version].modified >= moment]
    for start in range(0, len(young), _BATCH):
        yield from read_documents(storage, [commit_path(version) for version in young[start : start + _BATCH]])


def _change_files(location: str, document: Document) -> set[str]:
    """The change data files of one commit."""
    paths = [action["cdc"]["path"] for action in cdc_actions(document)]
    plain = absolute_paths(location, pa.chunked_array([pa.array(paths, pa.string())])).to_pylist() if paths else []
    return {name for path in plain if (name := _below(location, path)) is not None} | set(paths)


def _collectable(found: Sequence[StoredObject], old: Sequence[StoredObject], snapshot: DeltaSnapshot) -> Iterator[StoredObject]:
    """Those that are the table's to delete: hidden files are not, nor the files of a table in a folder below.

    Temporary files in the log are, which a killed process leaves.
    """
    inner = inner_tables(found)
    if has_markers(list(found), "iceberg"):
        # The last metadata of an Iceberg table that was dropped here.
        inner += ("metadata/",)
    partition = _partition_prefixes(snapshot)
    checksums = {o.path: o for o in found if o.path.endswith(".crc")}
    for candidate in old:
        hidden = any(_is_hidden(part, partition) for part in candidate.path.split("/"))
        left_by_put = candidate.path.startswith(f"{LOG}/") and is_temporary(candidate.path)
        if (hidden and not left_by_put) or candidate.path.startswith(inner):
            continue
        yield candidate
        # What Hadoop's local file system writes beside each file goes with it.
        folder, _, name = candidate.path.rpartition("/")
        if checksum := checksums.get(posixpath.join(folder, f".{name}.crc")):
            yield checksum


def _is_hidden(name: str, partition: tuple[str, ...]) -> bool:
    return name.startswith((".", "_")) and not name.startswith((*_COLLECTED, *partition))


def _partition_prefixes(snapshot: DeltaSnapshot) -> tuple[str, ...]:
    """How the folders of partitions begin, for columns whose names would hide them."""
    names = set(snapshot.partition_columns)
    for field in snapshot.schema:
        if field.name in snapshot.partition_columns:
            names.add(str(field.metadata.get("delta.columnMapping.physicalName", field.name)))
    return tuple(f"{name}=" for name in names)


def _sizes(going: Sequence[StoredObject]) -> dict[str, int]:
    return {"numFilesToDelete": len(going), "sizeOfDataToDelete": sum(o.size for o in going)}
