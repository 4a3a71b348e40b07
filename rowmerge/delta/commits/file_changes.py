"""From FileChanges to `add` and `remove` actions, deletion vectors included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from rowmerge.delta.commits.clone import cloned_files, files_by_identity
from rowmerge.delta.commits.restore import check_files
from rowmerge.delta.files.live_files import LiveFiles
from rowmerge.delta.files.paths import absolute_paths, log_path
from rowmerge.delta.files.statistics import clustering_columns, parsed_text, statistics_json, with_wide_bounds
from rowmerge.delta.files.text_values import to_text
from rowmerge.delta.log.checkpoint_reading import read_footer
from rowmerge.delta.log.replay import State
from rowmerge.delta.metadata.actions import Action, Metadata
from rowmerge.delta.metadata.column_mapping import stored_indexed_leaves, stored_values
from rowmerge.delta.snapshots.deletion_vectors import VectorFiles, write_vectors
from rowmerge.delta.snapshots.file_listing import files_of
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot, own_snapshot
from rowmerge.errors import MissingDataFile, TypeMismatch
from rowmerge.storage.deletion import Origin, clean_up
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import Change
from rowmerge.table.metadata.schema import Field
from rowmerge.table.snapshots.files import AddedFile, Positions

_BATCH = 10_000


class FileWriter:
    """The file actions of one change on `base` (None: on nothing yet); `metadata` is the table's after the change."""

    def __init__(
        self, storage: Storage, base: DeltaSnapshot | None, metadata: Metadata, domains: Mapping[str, str], change: Change, now: int
    ) -> None:
        self._storage, self._base, self._metadata, self._change, self._now = storage, base, metadata, change, now
        clustering = () if change.replace else clustering_columns(domains)
        self._indexed = stored_indexed_leaves(
            metadata.schema, metadata.stored_schema, metadata.partition_columns, metadata.configuration, clustering
        )
        self._vectors = VectorFiles({}, ())
        self._superseded: list[str] = []
        self.touched = frozenset(change.files.removed) | frozenset(change.files.deleted)

    def actions(self, state: State, deleted: Mapping[str, Positions]) -> list[Action]:
        """All file actions but those of a replacement, for the version after `state`. Writes the deletion vectors.

        `deleted`: all positions that are now deleted in the files that stay, those that `state` has among them.
        Raises StorageError, TypeMismatch, MissingDataFile, ValueError for a path that the state does not have.
        """
        self._superseded += self._vectors.paths
        self._vectors = VectorFiles({}, ())
        if self._change.restored is not None:
            return self._restored(state, own_snapshot(self._change.restored))
        partition = self._metadata.schema.select(self._metadata.partition_columns).fields
        actions: list[Action] = [self._added(file, partition) for file in self._change.files.added]
        actions += [self._change_rows(file, partition) for file in self._change.files.change_rows]
        if self.touched and not self._change.replace:
            rows = self._touched_rows(state)
            actions += [self._removed(row) for row in rows.values()]
            actions += self._marked(rows, deleted)
        return actions

    def replacement_of(self, state: State) -> list[Action]:
        """What the version after `state` has instead of all of its files, besides `actions`: removals, and what a clone has in common with
        another table. A file that both have stays: one version never adds and removes the same file."""
        if self._change.cloned is None:
            return self._removals(state.files) if self._change.replace else []
        there, wanted = files_by_identity(self._storage.location, state.files), cloned_files(own_snapshot(self._change.cloned))
        added = [self._readded(row, row["deletionVector"], self._stats(row)) for key, row in wanted.items() if key not in there]
        return [*added, *(self._removed(row) for key, row in there.items() if key not in wanted)]

    def _removals(self, files: LiveFiles) -> list[Action]:
        """The removals of all these files."""
        batches = (batch for block in files.blocks for batch in block.rows.to_batches(max_chunksize=_BATCH))
        return [self._removed(row) for batch in batches for row in batch.to_pylist()]

    def discard(self) -> None:
        """Delete the vectors that were written: no version refers to them. A failure leaves them until the next VACUUM."""
        self._clean_up([*self._superseded, *self._vectors.paths])

    def discard_superseded(self) -> None:
        """Delete the vectors of earlier attempts, after the last one is committed. A failure leaves them until the next VACUUM."""
        self._clean_up(self._superseded, live=self._vectors.paths)

    def _clean_up(self, paths: Sequence[str], live: Sequence[str] = ()) -> None:
        location = self._storage.location
        clean_up(self._storage, [[f"{location}/{path}" for path in paths]], Origin.WRITTEN, live=[f"{location}/{path}" for path in live])

    def _partition_texts(self, file: AddedFile, partition: Sequence[Field]) -> dict[str, str | None]:
        values: dict[str, str | None] = {}
        for field, name in zip(partition, self._metadata.stored_partition_columns, strict=True):
            try:
                values[name] = to_text(file.partition.get(field.name), field.type)
            except UnicodeDecodeError as error:
                raise TypeMismatch(f"A value of the partition column {field.name} is no text ({error}). Cast it to string.") from error
        return values

    def _change_rows(self, file: AddedFile, partition: Sequence[Field]) -> Action:
        fields = {
            "path": log_path(self._storage.location, file.path),
            "partitionValues": self._partition_texts(file, partition),
            "size": file.size,
            "dataChange": False,
        }
        return {"cdc": fields}

    def _added(self, file: AddedFile, partition: Sequence[Field]) -> Action:
        return {
            "add": {
                "path": log_path(self._storage.location, file.path),
                "partitionValues": self._partition_texts(file, partition),
                "size": file.size,
                "modificationTime": self._now,
                "dataChange": self._change.data_change,
                "stats": statistics_json(self._as_stored(file), self._indexed),
            }
        }

    def _as_stored(self, file: AddedFile) -> AddedFile:
        """The file with statistics under the names that the log holds them by."""
        schema, stored = self._metadata.schema, self._metadata.stored_schema
        lower, upper, nulls = (stored_values(values, schema, stored) for values in (file.lower, file.upper, file.nulls))
        return replace(file, lower=lower, upper=upper, nulls=nulls)

    def _touched_rows(self, state: State) -> dict[str, dict[str, Any]]:
        touched = files_of(state.files, self._storage.location, self.touched)
        paths = absolute_paths(self._storage.location, touched.column("path")).to_pylist()
        rows = dict(zip(paths, touched.table().to_pylist(), strict=True))
        if unknown := self.touched - rows.keys():
            raise ValueError(f"{min(unknown)} is no data file of version {state.version} of {self._storage.location}")
        return rows

    def _marked(self, rows: Mapping[str, dict[str, Any]], deleted: Mapping[str, Positions]) -> list[Action]:
        """The files that stay, with their new vectors; a file whose rows are all deleted does not stay."""
        records = {path: self._records(path, rows[path]) for path in deleted}
        staying = {path: positions for path, positions in deleted.items() if len(positions) < records[path]}
        self._vectors = write_vectors(self._storage, staying)
        vectors = self._vectors.descriptors
        return [self._readded(rows[path], vectors[path], with_wide_bounds(self._stats(rows[path]), records[path])) for path in staying]

    def _restored(self, state: State, wanted: DeltaSnapshot) -> list[Action]:
        back = wanted.state.files.difference(state.files)
        check_files(self._storage, wanted.name, back)
        added = [
            self._readded(row, _without_nulls(row["deletionVector"]), self._stats(row))
            for table in back.tables()
            for row in table.to_pylist()
        ]
        return [*added, *self._removals(state.files.difference(wanted.state.files))]

    def _readded(self, row: Mapping[str, Any], vector: Mapping[str, Any] | None, stats: str | None) -> Action:
        fields = {
            **_common(row),
            "modificationTime": row["modificationTime"],
            "dataChange": self._change.data_change,
            "stats": stats,
            "tags": dict(row["tags"]) if row["tags"] else None,
            "deletionVector": vector,
            "clusteringProvider": row["clusteringProvider"],
        }
        return {"add": {name: value for name, value in fields.items() if value is not None}}

    def _removed(self, row: Mapping[str, Any]) -> Action:
        fields = {
            **_common(row),
            "deletionTimestamp": self._now,
            "dataChange": self._change.data_change,
            "extendedFileMetadata": True,
            "deletionVector": _without_nulls(row["deletionVector"]),
            "tags": dict(row["tags"]) if row["tags"] else None,
        }
        return {"remove": {name: value for name, value in fields.items() if value is not None}}

    def _stats(self, row: Mapping[str, Any]) -> str | None:
        if row["stats"] is None and row.get("parsed"):
            return parsed_text(row["parsed"])
        return row["stats"]  # type: ignore[no-any-return]

    def _records(self, path: str, row: Mapping[str, Any]) -> int:
        """Rows in the file, deleted ones too: from the listing, or else from the file's footer."""
        known = self._recorded.get(path)
        return known if known is not None else self._records_in_footer(path, row["size"])

    @cached_property
    def _recorded(self) -> dict[str, int | None]:
        assert self._base is not None
        listing = self._base.files()
        wanted = listing.with_paths(self._change.files.deleted)
        return dict(zip(wanted.paths, wanted.records.to_pylist(), strict=True))

    def _records_in_footer(self, path: str, size: int) -> int:
        folder, _, name = path.rpartition("/")
        try:
            return int(read_footer(self._storage.at(folder), name, size).num_rows)
        except FileNotFoundError as error:
            raise MissingDataFile(self._base.name if self._base else path, path) from error


def _common(row: Mapping[str, Any]) -> dict[str, Any]:
    """What `add` and `remove` say alike about a file that the log has."""
    return {
        "path": row["path"],
        "partitionValues": row["partition"] or {},
        "size": row["size"],
        "baseRowId": row["baseRowId"],
        "defaultRowCommitVersion": row["defaultRowCommitVersion"],
    }


def _without_nulls(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if value is None else {name: inner for name, inner in value.items() if inner is not None}
