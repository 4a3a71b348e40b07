"""Build the file actions (`add`, `remove`, `cdc`) of a change, of RESTORE and of CLONE, and write deletion vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from rowmerge.concurrency import map_concurrently
from rowmerge.delta.files.live_files import LiveFiles
from rowmerge.delta.files.paths import absolute_paths, log_path, uri_of
from rowmerge.delta.files.statistics import clustering_columns, parsed_text, statistics_json, with_wide_bounds
from rowmerge.delta.files.text_values import partition_text
from rowmerge.delta.log.checkpoint_reading import read_footer
from rowmerge.delta.log.replay import State
from rowmerge.delta.metadata.actions import Action, Metadata, without_nulls
from rowmerge.delta.metadata.column_mapping import physical_indexed_leaves, values_by_physical_name
from rowmerge.delta.metadata.properties import DeltaSettings, string_prefix_length
from rowmerge.delta.snapshots.deletion_vectors import (
    VectorFiles,
    file_and_vector_paths,
    relative_vector,
    vector_path,
    vector_paths_to_protect,
    write_vectors,
)
from rowmerge.delta.snapshots.file_listing import files_of
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot, as_delta_snapshot
from rowmerge.errors import MissingDataFile, TypeMismatch
from rowmerge.storage.deletion import PathOrigin, try_delete_files
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.snapshots.files import AddedFile, Positions

_BATCH = 10_000
FileIdentity = tuple[str, str, int | None]
"""The identity of a logical file across tables: its absolute path, and the file and the offset of its deletion vector."""


@dataclass
class FileActionBuilder:
    """A builder of the file actions for one change.

    `metadata`: the table's metadata after the change. `now`: the time of the commit, in milliseconds since the epoch. `base`: the version
    on which the change was planned, or None for a new table. `domains`: the metadata domains before the change, as JSON strings by name.
    """

    storage: Storage
    metadata: Metadata
    change: CommitRequest
    now: int
    base: DeltaSnapshot | None = None
    domains: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A replacement removes the table's clustering.
        clustering = () if self.change.replace else clustering_columns(self.domains)
        schema, stored_schema, partition_columns = self.metadata.schema, self.metadata.stored_schema, self.metadata.partition_columns
        self._indexed_leaves = physical_indexed_leaves(schema, stored_schema, partition_columns, self.metadata.configuration, clustering)
        self._string_prefix_length = string_prefix_length(self.metadata.configuration)
        self._partition_fields = schema.select(partition_columns).fields
        self._written_vectors = VectorFiles({}, ())
        self._superseded_vector_paths: list[str] = []
        self._added_paths = frozenset(file.path for file in self.change.files.added)
        self._changed_paths = (frozenset(self.change.files.removed) | frozenset(self.change.files.deleted)) - self._added_paths
        self._live_added_paths = self._find_live_added_paths()

    def build_actions(self, state: State, deleted_positions: Mapping[str, Positions]) -> list[Action]:
        """Write the deletion vectors of the change and return its file actions. A replacement also needs the actions of `replace_files`.

        Args:
            state: The version before the commit.
            deleted_positions: All deleted rows of each file that gets a new deletion vector, by the absolute path of the file.

        Raises:
            ValueError: The change removes a file that is not live in `state`.
            TypeMismatch: A partition value is not valid Unicode.
            MissingDataFile: RESTORE or a deletion needs a file that was deleted, for example by VACUUM.
            StorageError: The store failed.
        """
        if self.change.restored is not None:
            return self._restore_files(state, as_delta_snapshot(self.change.restored))
        actions: list[Action] = [*self._added(deleted_positions), *self._restate(state)]
        actions += [{"cdc": {**self._written_fields(file), "dataChange": False}} for file in self.change.files.change_rows]
        if self.change.replace or not self._changed_paths:
            # A replacement removes all live files. The caller adds these actions (`replace_files`).
            return actions
        changed_files = self._live_files(state, self._changed_paths)
        actions += [self._remove_action(file) for file in changed_files.values()]
        actions += self._mark_deleted(changed_files, deleted_positions)
        return actions

    def replace_files(self, state: State) -> list[Action]:
        """Return the actions with which a replacement or a clone replaces the files of `state`. Return an empty list for other changes."""
        if self.change.feature_step is not None:
            return self._files_without_feature(state)
        if self.change.cloned is None:
            removed = self._remove_all(state.files) if self.change.replace else []
            live = {log_path(self.storage.location, path) for path in self._live_added_paths}
            return [action for action in removed if "deletionVector" in action["remove"] or action["remove"]["path"] not in live]
        # A file that both tables contain is kept, because a version must not add and remove the same file.
        current_rows = _rows_by_identity(self.storage.location, state.files)
        cloned_rows = cloned_files(as_delta_snapshot(self.change.cloned), self.storage.location, self.change.copies)
        new_rows = [row for key, row in cloned_rows.items() if key not in current_rows]
        added = [self._add_with_vector(row, row["deletionVector"], _statistics(row)) for row in new_rows]
        return [*added, *(self._remove_action(row) for key, row in current_rows.items() if key not in cloned_rows)]

    def _files_without_feature(self, state: State) -> list[Action]:
        """Return the file actions of a step that removes a feature: files without row ids, or tombstones of deletion vectors."""
        assert self.change.feature_step is not None
        feature = None if self.change.feature_step.in_protocol else self.change.feature_step.feature
        if feature == "rowTracking":
            without_ids = {"baseRowId": None, "defaultRowCommitVersion": None}
            rows = _rows(state.files.tables())
            return [self._add_with_vector({**row, **without_ids}, without_nulls(row["deletionVector"]), _statistics(row)) for row in rows]
        if feature == "deletionVectors":
            # VACUUM of a client without the feature must not delete the vectors of older versions.
            paths = vector_paths_to_protect(state.tombstones, self.storage.location)
            return [{"remove": {"path": path, "deletionTimestamp": self.now, "dataChange": False}} for path in paths]
        return []

    def _remove_all(self, files: LiveFiles) -> list[Action]:
        return [self._remove_action(row) for row in _rows(block.rows for block in files.blocks)]

    def discard(self) -> None:
        """Delete the vectors of all attempts, because no version refers to them. If a deletion fails, the next VACUUM deletes the file."""
        self._clean_up([*self._superseded_vector_paths, *self._written_vectors.paths])

    def discard_superseded(self) -> None:
        """Delete the vectors of earlier attempts after the last one is committed. If a deletion fails, VACUUM deletes the file later."""
        self._clean_up(self._superseded_vector_paths, live=self._written_vectors.paths)

    def _clean_up(self, paths: Sequence[str], live: Sequence[str] = ()) -> None:
        vector_paths = [f"{self.storage.location}/{path}" for path in paths]
        live_paths = [f"{self.storage.location}/{path}" for path in live]
        try_delete_files(self.storage, [vector_paths], PathOrigin.THIS_PROCESS, live_paths=live_paths)

    def _partition_texts(self, file: AddedFile) -> dict[str, str | None]:
        """Return the `partitionValues` of a file. Raises TypeMismatch if a value is not valid Unicode."""
        texts: dict[str, str | None] = {}
        for column, stored_name in zip(self._partition_fields, self.metadata.stored_partition_columns, strict=True):
            try:
                texts[stored_name] = partition_text(file.partition.get(column.name), column.type)
            except UnicodeDecodeError as error:
                raise TypeMismatch(f"A value of the partition column {column.name} is not UTF-8 ({error}). Cast it to string.") from error
        return texts

    def _find_live_added_paths(self) -> frozenset[str]:
        """Return the added files of another table that the base has already. A replacement adds them again, and does not remove them."""
        foreign = frozenset(path for path in self._added_paths if not path.startswith(f"{self.storage.location}/"))
        if self.base is None or not self.change.replace or not foreign:
            return frozenset()
        without_vector = self.base.state.files.filter(lambda block: block.rows["deletionVector"].is_null())
        paths = absolute_paths(self.storage.location, without_vector.column("path")).to_pylist()
        return frozenset(foreign.intersection(paths).difference(self.change.files.deleted))

    def _added(self, deleted_positions: Mapping[str, Positions]) -> list[Action]:
        """Return the `add` actions of new files. Write deletion vectors for existing files of another table that have deleted rows."""
        files: Sequence[AddedFile] = self.change.files.added
        deleted = {file.path: deleted_positions[file.path] for file in files if file.path in deleted_positions}
        if not deleted:
            return [self._add_action(file) for file in files]
        files = [file for file in files if len(deleted.get(file.path, ())) < file.records or not file.records]
        partly_deleted = {file.path: deleted[file.path] for file in files if file.path in deleted}
        prefix_length = DeltaSettings(self.metadata.configuration).random_prefix_length
        self._superseded_vector_paths += self._written_vectors.paths
        self._written_vectors = write_vectors(self.storage, partly_deleted, prefix_length=prefix_length)
        return [self._add_marked(file) if file.path in partly_deleted else self._add_action(file) for file in files]

    def _add_marked(self, file: AddedFile) -> Action:
        """Return the `add` action of a new file with the deletion vector that was written for it."""
        fields = self._add_action(file)["add"]
        statistics = with_wide_bounds(fields["stats"], file.records)
        return {"add": {**fields, "stats": statistics, "deletionVector": self._written_vectors.descriptors[file.path]}}

    def _add_action(self, file: AddedFile) -> Action:
        """Return the `add` action of a new file (PROTOCOL.md, Add File)."""
        fields = {**self._written_fields(file), "modificationTime": self.now, "dataChange": self.change.data_change}
        return {"add": {**fields, "stats": self._statistics_of(file)}}

    def _statistics_of(self, file: AddedFile) -> str:
        """Return the statistics of a file as JSON, with the physical names of columns."""
        schema, stored_schema = self.metadata.schema, self.metadata.stored_schema
        lower, upper, nulls = (values_by_physical_name(values, schema, stored_schema) for values in (file.lower, file.upper, file.nulls))
        stored_file = replace(file, lower=lower, upper=upper, nulls=nulls)
        return statistics_json(stored_file, self._indexed_leaves, self._string_prefix_length)

    def _written_fields(self, file: AddedFile) -> dict[str, Any]:
        return {"path": log_path(self.storage.location, file.path), "partitionValues": self._partition_texts(file), "size": file.size}

    def _live_files(self, state: State, selected_paths: frozenset[str]) -> dict[str, dict[str, Any]]:
        """Return the rows in the file table of the live files with these absolute paths, by path."""
        files = files_of(state.files, self.storage.location, selected_paths)
        paths = absolute_paths(self.storage.location, files.column("path")).to_pylist()
        rows = dict(zip(paths, _rows(files.tables()), strict=True))
        if unknown_paths := selected_paths - rows.keys():
            raise ValueError(f"{min(unknown_paths)} is not a data file of version {state.version} of the table at {self.storage.location}")
        return rows

    def _restate(self, state: State) -> Iterator[Action]:
        """Yield an `add` action for each file with new statistics. It replaces the one in the log, so that no `remove` is needed."""
        files = {file.path: file for file in self.change.files.restated}
        for path, row in self._live_files(state, frozenset(files)).items() if files else ():
            yield self._add_with_vector(row, without_nulls(row["deletionVector"]), self._statistics_of(files[path]))

    def without_restated(self, actions: Sequence[Action]) -> Sequence[Action]:
        """Return the actions that change the number of files or their sizes: none for new statistics or for a removed feature."""
        live = {log_path(self.storage.location, path) for path in self._live_added_paths}
        actions = [action for action in actions if "add" not in action or action["add"]["path"] not in live] if live else actions
        is_restated = bool(self.change.files.restated) or (self.change.feature_step is not None and self.change.files.empty)
        return [action for action in actions if action.keys().isdisjoint(("add", "remove"))] if is_restated else actions

    def _mark_deleted(self, rows: Mapping[str, dict[str, Any]], deleted_positions: Mapping[str, Positions]) -> list[Action]:
        """Write new deletion vectors and return the `add` actions of their data files. A file whose rows are all deleted gets no `add`."""
        records = {path: self._count_records(path, rows[path]) for path in deleted_positions}
        partly_deleted = {path: positions for path, positions in deleted_positions.items() if len(positions) < records[path]}
        prefix_length = DeltaSettings(self.metadata.configuration).random_prefix_length
        vectors = write_vectors(self.storage, partly_deleted, prefix_length=prefix_length)
        self._superseded_vector_paths += self._written_vectors.paths
        self._written_vectors = vectors
        statistics = {path: with_wide_bounds(_statistics(rows[path]), records[path]) for path in partly_deleted}
        return [self._add_with_vector(rows[path], vectors.descriptors[path], statistics[path]) for path in partly_deleted]

    def _restore_files(self, state: State, source: DeltaSnapshot) -> list[Action]:
        """Return the actions of RESTORE: an `add` for each file that is only in `source`, a `remove` for each that is only in `state`."""
        returning_files = source.state.files.difference(state.files)
        _check_files(self.storage, source.name, returning_files)
        rows = _rows(returning_files.tables())
        added = [self._add_with_vector(row, without_nulls(row["deletionVector"]), _statistics(row)) for row in rows]
        return [*added, *self._remove_all(state.files.difference(source.state.files))]

    def _add_with_vector(self, old_add: Mapping[str, Any], deletion_vector: Mapping[str, Any] | None, statistics: str | None) -> Action:
        """Return a new `add` action for a file that is already in the log, with a different deletion vector.

        Args:
            old_add: The row of the file table (`rowmerge.delta.files.columns`) for the older `add` action. Other fields are copied from it.
            deletion_vector: The descriptor of the new deletion vector, or None if no rows are deleted.
            statistics: The statistics of the file, as JSON.
        """
        fields = {
            **_common_fields(old_add),
            "modificationTime": old_add["modificationTime"],
            "dataChange": self.change.data_change,
            "stats": statistics,
            "tags": dict(old_add["tags"]) if old_add["tags"] else None,
            "deletionVector": deletion_vector,
            "clusteringProvider": old_add["clusteringProvider"],
        }
        return {"add": without_nulls(fields)}

    def _remove_action(self, row: Mapping[str, Any]) -> Action:
        """Return the `remove` action for a file (PROTOCOL.md, Remove File). `row` is the row of the file in the file table."""
        fields = {
            **_common_fields(row),
            "deletionTimestamp": self.now,
            "dataChange": self.change.data_change,
            "extendedFileMetadata": True,
            "deletionVector": without_nulls(row["deletionVector"]),
            "tags": dict(row["tags"]) if row["tags"] else None,
        }
        return {"remove": without_nulls(fields)}

    def _count_records(self, path: str, row: Mapping[str, Any]) -> int:
        """Return the number of rows in a file, including deleted rows, from the statistics or, without them, from the file's footer."""
        records = self._listed_records.get(path)
        if records is not None:
            return records
        folder, _, name = path.rpartition("/")
        try:
            return int(read_footer(self.storage.at(folder), name, row["size"]).num_rows)
        except FileNotFoundError as error:
            raise MissingDataFile(self.base.name if self.base else path, path) from error

    @cached_property
    def _listed_records(self) -> dict[str, int | None]:
        assert self.base is not None
        listing = self.base.files().with_paths(self.change.files.deleted)
        return dict(zip(listing.paths, listing.records.to_pylist(), strict=True))


def _common_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that the `add` and `remove` actions of a file have in common. `row` is the row of the file in the file table."""
    row_ids = {"baseRowId": row["baseRowId"], "defaultRowCommitVersion": row["defaultRowCommitVersion"]}
    return {"path": row["path"], "partitionValues": row["partition"] or {}, "size": row["size"], **row_ids}


def _statistics(row: Mapping[str, Any]) -> str | None:
    """Return the statistics of a file as JSON. Convert them if a checkpoint stores them only as structs."""
    if row["stats"] is None and row.get("parsed"):
        return parsed_text(row["parsed"])
    return row["stats"]  # type: ignore[no-any-return]


def _rows(tables: Iterable[pa.Table]) -> Iterator[dict[str, Any]]:
    """Yield the rows of Arrow tables as dictionaries, converted one batch at a time."""
    for table in tables:
        for batch in table.to_batches(max_chunksize=_BATCH):
            yield from batch.to_pylist()


def cloned_files(source: DeltaSnapshot, location: str, copies: Mapping[str, str] | None) -> dict[FileIdentity, dict[str, Any]]:
    """Return the files of a clone's source as rows for the log of the clone, without row ids.

    Args:
        source: The version that is cloned.
        location: The location of the clone.
        copies: The path of the copy of each file for a deep clone, or None for a shallow clone, which refers to the original files.

    Raises:
        CorruptLog: A path or a descriptor is invalid.
    """
    rows = _rows_by_identity(source.shape.location, source.state.files)
    if copies is None:
        return {identity: _with_uris(identity, row) for identity, row in rows.items()}
    cloned_rows = {}
    for (path, vector, offset), row in rows.items():
        copied_vector = copies.get(vector, vector)  # an inline vector has no file
        descriptor = without_nulls(row["deletionVector"])
        if vector in copies:
            descriptor = {**(descriptor or {}), **relative_vector(location, copied_vector)}
        paths = {"path": log_path(location, copies[path]), "deletionVector": descriptor}
        cloned_rows[copies[path], copied_vector, offset] = {**row, **paths, "baseRowId": None, "defaultRowCommitVersion": None}
    return cloned_rows


def _rows_by_identity(location: str, files: LiveFiles) -> dict[FileIdentity, dict[str, Any]]:
    """Return the rows of the file table, by the identity of the file. Raises CorruptLog if a path or a descriptor is invalid."""
    paths = absolute_paths(location, files.column("path")).to_pylist()
    rows = zip(paths, _rows(files.tables()), strict=True)
    return {(path, *_vector_identity(location, row["deletionVector"])): row for path, row in rows}


def _vector_identity(location: str, descriptor: Mapping[str, Any] | None) -> tuple[str, int | None]:
    """Return the file and the offset of a deletion vector, or its inline text. Equal values identify the same vector in two tables."""
    if descriptor is None:
        return "", None
    is_inline = descriptor["storageType"] == "i"
    return descriptor["pathOrInlineDv"] if is_inline else vector_path(location, descriptor), descriptor["offset"]


def _with_uris(identity: FileIdentity, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file's row for the log of another table: without row ids, and with absolute URIs of the data file and its vector."""
    path, vector_file, _ = identity
    descriptor = without_nulls(row["deletionVector"])
    if descriptor is not None and descriptor["storageType"] != "i":
        descriptor |= {"storageType": "p", "pathOrInlineDv": uri_of(vector_file)}
    return {**row, "path": uri_of(path), "deletionVector": descriptor, "baseRowId": None, "defaultRowCommitVersion": None}


def _check_files(storage: Storage, table: str, files: LiveFiles) -> None:
    """Raise MissingDataFile if one of these files or its deletion vector no longer exists. Also raises StorageError and CorruptLog."""
    paths = sorted(set(file_and_vector_paths(storage.location, files.column("path"), files.column("deletionVector"))))
    results = map_concurrently(partial(_file_exists, storage), paths)
    for path, exists in zip(paths, results, strict=True):
        if not exists:
            raise MissingDataFile(table, path)


def _file_exists(storage: Storage, path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return storage.at(folder).exists(name)
