"""Add existing Parquet files to a table, or create a table that consists of them. The files stay where they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.concurrency import map_in_batches
from rowmerge.errors import AlreadyExists, CommitStateUnknown, PlanError, UnsupportedTableFeature
from rowmerge.errors.environment import unreadable_data_file
from rowmerge.execution.commit import DEFAULT_COMMIT_OPTIONS, Attempt, CommitOptions, commit_with_retry
from rowmerge.execution.result import ChangeResult, Timings
from rowmerge.execution.row_counts import RowCounts
from rowmerge.parquet.filesystems import UnreadableFile, open_data_file
from rowmerge.parquet.statistics.footers import ExpectedColumns, describe_file, widens_number
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Reads, Unknown
from rowmerge.table.metadata.partitioning import identity_columns
from rowmerge.table.metadata.rules import not_null_paths
from rowmerge.table.metadata.schema import CHAR_VARCHAR, FIELD_ID, arrow_schema
from rowmerge.table.metadata.shape import TableDefinition, TableShape
from rowmerge.table.snapshots.files import AddedFile, FileChanges, FileListing
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table


@dataclass(frozen=True)
class SourceFile:
    """An existing Parquet file. `path`: absolute, as in a listing of files. `partition`: its partition values by column."""

    path: str
    size: int
    partition: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FileImport:
    """The import of files. `threads`: how many footers are read at the same time. `ignores_missing`: whether missing files are skipped."""

    files: Sequence[SourceFile]
    threads: int = 1
    ignores_missing: bool = False

    def without_duplicates(self, snapshot: Snapshot, *, is_error: bool) -> FileImport:
        """Return the import of those files that the table does not contain.

        Args:
            snapshot: The newest version of the table.
            is_error: Whether a file that the table contains is an error.

        Raises:
            PlanError: The table contains a file, and this is an error.
        """
        duplicates = set(snapshot.files().with_paths([file.path for file in self.files]).paths)
        if duplicates and is_error:
            problem = f"{snapshot.name} already contains {min(duplicates)}, so that its rows would occur twice."
            raise PlanError(f"{problem} Leave out such files, or set check_duplicate_files => false to skip them.")
        return replace(self, files=[file for file in self.files if file.path not in duplicates])

    def check_partitioning(self, snapshot: Snapshot) -> None:
        """Check that the files have values of the partition columns of a table, and of no other columns.

        Raises:
            PlanError: A concurrent statement has changed the partitioning since the values were read.
        """
        columns = identity_columns(snapshot.shape.partitioning)
        if any(set(file.partition) != set(columns) for file in self.files) or len(columns) < len(snapshot.shape.partitioning):
            raise PlanError(f"A concurrent statement changed the partitioning of {snapshot.name}. Run add_files again.")

    def describe(self, shape: TableShape) -> tuple[AddedFile, ...]:
        """Return the files as a table records them, with the statistics in their footers.

        Raises:
            TypeMismatch: The table cannot read a column of a file.
            ConstraintViolated: A column that must not be NULL has NULLs.
            MissingDataFile, UnreadableDataFile: A file is missing or damaged.
        """
        columns = _expected_columns(shape)
        described_files = map_in_batches(partial(self._describe_file, shape, columns), self.files, self.threads)
        return tuple(file for file in described_files if file is not None)

    def _describe_file(self, shape: TableShape, columns: ExpectedColumns, file: SourceFile) -> AddedFile | None:
        """Return a file with its statistics, or None for a missing file that is skipped."""
        try:
            with open_data_file(file.path, shape.filesystem_options, by_field_id=False) as source:
                description = describe_file(file.path, source.metadata, columns)
        except UnreadableFile as error:
            if error.reason is None and self.ignores_missing:
                return None
            raise unreadable_data_file(shape.name, file.path, error.reason) from error
        statistics: dict[str, Any] = dict(description.statistics)
        return AddedFile(file.path, file.size, description.records, file.partition, split_offsets=description.split_offsets, **statistics)


def add_files(
    table: Table,
    files: FileImport,
    options: CommitOptions = DEFAULT_COMMIT_OPTIONS,
    *,
    checks_duplicates: bool,
    parameters: Mapping[str, object],
) -> ChangeResult:
    """Add existing files to a table in one commit.

    Args:
        table: The table.
        files: The files, with a value for each partition column of the table.
        options: The number of retries, and the transaction of the commit.
        checks_duplicates: Whether a file that the table already contains is an error. Otherwise, such files are left out.
        parameters: The parameters for the table's history.

    Raises:
        PlanError: The table contains one of the files already, or a concurrent statement changed its partitioning.
        UnsupportedTableFeature: The table has rules for its rows, which are not verified for existing files.
        TypeMismatch: The table cannot read a column of a file.
        CommitConflict: All attempts conflict with concurrent commits.
    """
    # Over 40 lines: the documentation of its arguments.
    timings = Timings()

    def attempt() -> Attempt:
        with timings.measure("plan"):
            snapshot = table.snapshot()
            snapshot.check_writable()
            check_no_rules(snapshot.shape)
            files.check_partitioning(snapshot)
            new_files = files.without_duplicates(snapshot, is_error=checks_duplicates)
            added = new_files.describe(snapshot.shape)
            new_properties = table.import_properties()
        properties = {**snapshot.settings.properties, **new_properties}
        definition = TableDefinition(properties=properties) if new_properties else None
        # The same files in a concurrent commit are a conflict, after which the next attempt finds the duplicates.
        reads = Reads(may_match=partial(_has_path, {file.path for file in added}))
        change = CommitRequest("ADD FILES", parameters, _metrics(added), FileChanges(added), reads, definition)
        partitions = {tuple(file.partition.values()) for file in added}
        result_row = {"added_files_count": len(added), "changed_partition_count": len(partitions)}
        # The attempt names no new files, because files that this statement did not write are never deleted.
        return Attempt(snapshot, change if added else None, _counts(added), result_row=result_row)

    return commit_with_retry(table, attempt, timings, options)


def create_from_files(
    table: Table,
    definition: TableDefinition,
    files: FileImport,
    options: CommitOptions = DEFAULT_COMMIT_OPTIONS,
    *,
    operation: str,
    parameters: Mapping[str, object],
) -> ChangeResult:
    """Create a table that consists of existing files, in one commit. Readers see it with all files, or not at all.

    Args:
        table: The table, which does not exist.
        definition: The columns, partitioning and properties of the table.
        files: The files, with a value for each partition column.
        options: The text for the table's history.
        operation: The name of the operation for the table's history.
        parameters: The parameters for the table's history.

    Raises:
        AlreadyExists: The table exists.
        TypeMismatch: The table cannot read a column of a file.
        CommitStateUnknown: The commit may or may not have happened.
    """
    # Over 40 lines: the documentation of its arguments.
    creation_version = table.creation_version()
    if creation_version is None:
        raise AlreadyExists(f"The table {table.name} already exists. Drop it first, or choose another name.")
    timings = Timings()
    complete_request = options.begin_request(table)
    with timings.measure("plan"):
        shape = table.resolve_shape(definition)
        added = files.describe(shape)
        properties = {**(definition.properties or {}), **table.import_properties(definition)}
    complete_definition = replace(definition, schema=shape.schema, properties=properties)
    request = CommitRequest(operation, parameters, _metrics(added), FileChanges(added))
    with timings.measure("commit"):
        outcome = table.create(complete_definition, complete_request(request), creation_version)
    match outcome:
        case Committed(version):
            return ChangeResult(version, _counts(added), timings)
        case Conflicted():
            raise AlreadyExists(f"A concurrent statement created the table {table.name}. Drop it first, or choose another name.")
        case Unknown(reason):
            problem = f"It is unknown whether {table.name} was created: {reason}."
            raise CommitStateUnknown(f"{problem} Check SHOW TABLES before you run it again.")


def check_no_rules(shape: TableShape) -> None:
    """Check that a table has no rules for its rows except NOT NULL, which footers prove.

    Raises:
        UnsupportedTableFeature: The table has another rule.
    """
    rules = shape.rules
    nullable = {f"NOT NULL of column `{'.'.join(path)}`" for path in not_null_paths(shape.schema)}
    described = [check.text for check in rules.checks if check.text not in nullable]
    described += [f"the generated column {name}" for name in rules.generated]
    described += [f"the length of the column {field.name}" for field in shape.schema if CHAR_VARCHAR in field.metadata]
    if described:
        advice = "The rows of existing files are not verified. Copy them instead: INSERT INTO … SELECT * FROM parquet.`…`."
        raise UnsupportedTableFeature(shape.name, described[0], action="add files to", advice=advice)


def _expected_columns(shape: TableShape) -> ExpectedColumns:
    """Return the columns that data files of a table must have.

    Iceberg finds the columns of files without field ids by the names in a name mapping, which `Table.import_properties` adds. Delta finds
    them by id only in tables with column mapping by id, and otherwise by their stored names.
    """
    has_name_mapping = shape.partition_values_in_files  # Iceberg
    file_columns = shape.schema if has_name_mapping else shape.stored_schema
    names = {column.name: field.name for column, field in zip(file_columns, shape.schema, strict=True)}
    field_ids = {
        column.name: int(column.metadata[FIELD_ID]) for column in file_columns if shape.by_field_id and FIELD_ID in column.metadata
    }
    return ExpectedColumns(
        names,
        arrow_schema(file_columns),
        field_ids,
        requires_ids=shape.by_field_id and not has_name_mapping,
        partition_columns=frozenset(identity_columns(shape.partitioning)),
        required=frozenset(not_null_paths(shape.schema)),
        can_widen=widens_number if has_name_mapping else _is_never_wider,
    )


def _is_never_wider(expected: pa.DataType, actual: pa.DataType) -> bool:
    """Return false: the files of a Delta table have the types of its columns, unless it has the feature `typeWidening`."""
    return False


def _has_path(paths: Collection[str], files: FileListing) -> pa.ChunkedArray:
    """Return a mask of the files with one of these paths."""
    return pc.is_in(files.rows["path"], value_set=pa.array(sorted(paths), pa.string()))


def _metrics(files: Sequence[AddedFile]) -> dict[str, int]:
    return {
        "numFiles": len(files),
        "numOutputRows": sum(file.records for file in files),
        "numOutputBytes": sum(file.size for file in files),
    }


def _counts(files: Sequence[AddedFile]) -> RowCounts:
    added_rows, added_bytes = sum(file.records for file in files), sum(file.size for file in files)
    return RowCounts(inserted=added_rows, files_added=len(files), bytes_added=added_bytes)
