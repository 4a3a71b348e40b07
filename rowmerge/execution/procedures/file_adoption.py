"""Delta tables that consist of the data files of an Iceberg table or of a Parquet folder: CONVERT TO DELTA and SHALLOW CLONE.

The files stay where they are. Rows that Iceberg's delete files delete become deletion vectors of the Delta table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rowmerge.concurrency import map_concurrently
from rowmerge.errors import AlreadyExists, CommitStateUnknown, TypeMismatch, UnsupportedTableFeature
from rowmerge.execution.commit import Attempt, CommitOptions, commit_with_retry
from rowmerge.execution.procedures.feature_removal import is_narrow
from rowmerge.execution.restore_and_clone import clone_result
from rowmerge.execution.result import ChangeResult, Timings, history_metrics
from rowmerge.execution.row_counts import RowCounts
from rowmerge.spark.writing.specs import write_spec
from rowmerge.table.commits.creation import CreationVersion
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Reads, Unknown
from rowmerge.table.metadata.partitioning import identities
from rowmerge.table.metadata.rules import INITIAL
from rowmerge.table.metadata.schema import FIXED, DataType, Field, parts
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import AddedFile, FileChanges, ListedFile
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table

_MAPPING_MODE, _DELETION_VECTORS = "delta.columnMapping.mode", "delta.enableDeletionVectors"
_FORBIDDEN = frozenset(" ,;{}()\n\t=")
"""The characters that names of columns cannot have without column mapping."""


def definition_of_iceberg(source: Snapshot, properties: Mapping[str, str]) -> TableDefinition:
    """Return the definition of a Delta table with the files of an Iceberg snapshot.

    The table has column mapping by id if older files may have other names of columns. It is partitioned by the columns that partition all
    files by their values.

    Args:
        source: The snapshot.
        properties: The properties of the Delta table.

    Raises:
        UnsupportedTableFeature: A Delta table cannot have the deletes, the defaults or the types of the table, or their files.
        TypeMismatch: A file has an older, narrower type of a column.
    """
    history, paths = source.column_history, source.files().paths
    assert history is not None  # an Iceberg snapshot
    unsupported = partial(UnsupportedTableFeature, source.name, action="make a Delta table of", advice=_COPY)
    if source.equality_deletes(paths):
        raise unsupported("equality deletes")
    for field in _all_fields(source.shape.stored_schema):
        if INITIAL in field.metadata:
            raise unsupported(f"the initial default of the column {field.name}")
        if FIXED in field.metadata:
            raise unsupported(f"the type uuid or fixed of the column {field.name}")
    needs_ids = history.renamed or any(not _FORBIDDEN.isdisjoint(field.name) for field in _all_fields(source.schema))
    layouts = source.layouts(paths)
    if any(layout.missing_columns or (needs_ids and not layout.by_field_id) for layout in layouts if layout.paths):
        raise unsupported("data files without field ids")
    if history.promoted:
        spec = write_spec(source.shape)
        narrow = map_concurrently(partial(is_narrow, source.name, spec), paths)
        if any(narrow):
            problem = f"{paths[narrow.index(True)]} has an older type of a column of {source.name}."
            raise TypeMismatch(f"{problem} Rewrite the files: CALL system.rewrite_data_files(…, options => map('rewrite-all', 'true')).")
    own = {**({_MAPPING_MODE: "id"} if needs_ids else {}), **({_DELETION_VECTORS: "true"} if source.files().total_deleted else {})}
    return TableDefinition(
        source.schema, identities(source.partition_columns), {**properties, **own}, source.description, highest_column_id=history.highest_id
    )


def _all_fields(type_: DataType) -> Iterator[Field]:
    """Yield the fields of a type at all depths."""
    for field in parts(type_):
        yield field
        yield from _all_fields(field.type)


_COPY = "Copy its rows: CREATE TABLE … USING delta AS SELECT."


def files_of_iceberg(source: Snapshot) -> FileChanges:
    """Return the live files of an Iceberg snapshot with their statistics, and the positions of their deleted rows.

    Raises:
        StorageError: The store failed.
        CorruptLog: A manifest or a delete file is damaged.
    """
    listing = source.files(source.schema.names)
    deleted = source.deleted_positions(listing.paths)
    statistics = (listing.rows[name].to_pylist() for name in ("lower", "upper", "nulls"))
    files = (_added_file(file, *values) for file, *values in zip(listing.files(), *statistics, strict=True))
    return FileChanges(tuple(files), deleted={path: rows for path, rows in deleted.items() if rows})


def _added_file(file: ListedFile, lower: Any, upper: Any, nulls: Any) -> AddedFile:
    """Return a file with its statistics, which are structs or None."""
    return AddedFile(file.path, file.size, file.records or 0, _values(file.partition), _values(lower), _values(upper), _values(nulls))


def _values(value: Any) -> dict[str, Any]:
    """Return the fields of a struct that are not NULL, at all depths."""
    return {name: _values(item) if isinstance(item, dict) else item for name, item in (value or {}).items() if item is not None}


@dataclass(frozen=True)
class FileAdoption:
    """The creation or replacement of a Delta table that consists of existing files.

    `table`: the Delta table. `definition`: its definition. `files`: its files. `operation`, `parameters`: for the history of the table.
    """

    table: Table
    definition: TableDefinition
    files: FileChanges
    operation: str
    parameters: Mapping[str, object]
    options: CommitOptions

    def create(self, expected: CreationVersion | None = None) -> ChangeResult:
        """Create the Delta table: commit a first version that has the adopted files.

        Args:
            expected: The version to create, or None for that of the empty folder.

        Raises:
            AlreadyExists: Another statement has created a table in the folder, or changed the table whose files are converted.
            CommitStateUnknown: It is unknown whether the table was created.
        """
        timings, result_row = Timings(), self._result_row(removed=[])
        with timings.measure("commit"):
            request = replace(self._request(result_row), user_metadata=self.options.user_metadata)
            outcome = self.table.create(self.definition, request, expected or self.table.creation_version())
        match outcome:
            case Committed(version):
                return ChangeResult(version, RowCounts(files_added=len(self.files.added)), timings, result_row=result_row)
            case Conflicted(conflict):
                raise AlreadyExists(f"A concurrent statement changed {self.table.name}: {conflict.message}")
            case Unknown(reason):
                problem = f"It is unknown whether {self.table.name} was created: {reason}"
                raise CommitStateUnknown(f"{problem}. Run the statement again if the table does not exist.")

    def replace_table(self) -> ChangeResult:
        """Commit the files as the next version of the existing Delta table, instead of its own.

        Raises:
            CommitConflict: All attempts conflict with concurrent commits.
        """

        def attempt() -> Attempt:
            snapshot = self.table.snapshot()
            listing = snapshot.files()
            new_paths = {file.path for file in self.files.added}
            removed = [file.size for file in listing.files() if file.path not in new_paths]
            result_row = self._result_row(removed)
            request = replace(
                self._request(result_row),
                definition=self.definition,
                reads=Reads(frozenset(listing.paths)),  # files that both versions have must stay until the commit
                replace=True,
            )
            counts = RowCounts(files_added=len(self.files.added), files_removed=len(removed))
            return Attempt(snapshot, request, counts, result_row=result_row)

        return commit_with_retry(self.table, attempt, Timings(), self.options)

    def _request(self, result_row: Mapping[str, int]) -> CommitRequest:
        metrics = history_metrics(result_row) if self.operation == "CLONE" else {"numConvertedFiles": len(self.files.added)}
        return CommitRequest(self.operation, self.parameters, metrics, self.files)

    def _result_row(self, removed: list[int]) -> dict[str, int]:
        return clone_result([file.size for file in self.files.added], removed, ()) if self.operation == "CLONE" else {}
