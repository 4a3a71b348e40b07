"""COPY INTO: load each file of a folder once. A file that the table has loaded is skipped, also if it has changed since.

The commit that adds the rows also records their files, and conflicts with a concurrent COPY INTO of one of them. The statement then begins
again, and loads the files that are still missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowmerge.commands.rows import CopyInto
from rowmerge.errors import PlanError
from rowmerge.execution.commit import CommitOptions
from rowmerge.execution.insert import NewRows, insert, validate
from rowmerge.session.answers import frames
from rowmerge.session.answers.results import StatementResult
from rowmerge.session.names.scope import SessionContext
from rowmerge.session.statements.settings import may_evolve
from rowmerge.spark.reading.data_files import escape_patterns
from rowmerge.spark.reading.file_sources import list_source_files, read_file_source
from rowmerge.spark.spark_session import is_case_sensitive
from rowmerge.spark.time_zones import session_time_zone
from rowmerge.table.metadata.copied_files import file_key
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PREVIEW_ROWS = 50


def copy_into(context: SessionContext, command: CopyInto, options: CommitOptions) -> StatementResult:
    """Run COPY INTO. Return the counts of rows or, for VALIDATE, the first rows of the files that it would load.

    Args:
        context: The session.
        command: The parsed statement.
        options: The number of retries, and the transaction of the commit.

    Raises:
        FilesNotFound: The path, or a file after FILES, does not exist.
        PlanError: The target is a branch or an audited table, whose files the table would record before its rows are published.
        UnknownColumn: The table lacks a column of the files, and the statement does not add it.
        TypeMismatch: The type of a column does not fit the table.
        UnsupportedStatement: The folder has partition folders.
    """
    table, rows = _target_table(context, command), FileRows(context, command)
    if command.validate:
        frame = validate(table, rows.unloaded, _PREVIEW_ROWS)
        return StatementResult(frames.empty_frame(context.spark) if frame is None else frame, "COPY INTO")
    result = insert(table, rows.unloaded, None, options)
    inserted = result.counts.inserted
    counts = {"num_affected_rows": inserted, "num_inserted_rows": inserted, "num_skipped_corrupt_files": 0}
    return StatementResult.from_change(frames.count_row(context.spark, counts), "COPY INTO", result)


def _target_table(context: SessionContext, command: CopyInto) -> Table:
    """Return the table to load. Raise PlanError for a branch, and for a table whose changes are audited."""
    target = context.names.target(command.target)
    if target.branch is not None or context.audit.redirects(target.table):
        problem = f"COPY INTO {command.target} writes to a branch or an audited table, but the table records loaded files for all branches"
        raise PlanError(f"{problem}. Load main, or use INSERT INTO … SELECT * FROM read_files(…).")
    return context.audit.target(target).table


@dataclass(frozen=True)
class FileRows:
    """The rows of the files that a COPY INTO names."""

    context: SessionContext
    command: CopyInto

    def unloaded(self, snapshot: Snapshot) -> NewRows | None:
        """Return the rows of the files that the table has not loaded, or None if there are no such files.

        Args:
            snapshot: The version of the table, with the files that it has loaded.
        """
        command, spark = self.command, self.context.spark
        path = command.source.path.rstrip("/")
        below = [escape_patterns(name) for name in command.files] + ([] if command.pattern is None else [command.pattern])
        paths = list_source_files(spark, command.source, [f"{path}/{name}" for name in below] or [command.source.path])
        loaded, keys = snapshot.copied_files, {path: file_key(path) for path in paths}
        selected = paths if command.force else [path for path in paths if keys[path] not in loaded]
        if not selected:
            return None
        return NewRows(
            frame=self._frame(selected),
            columns=command.columns,
            by_name=command.columns is None and not command.by_position,
            evolves=command.schema_evolution or may_evolve(spark, snapshot),
            case_sensitive=is_case_sensitive(spark),
            time_zone=session_time_zone(spark),
            copied_files=frozenset(keys[path] for path in selected) - loaded,
        )

    def _frame(self, paths: list[str]) -> DataFrame:
        """Return the rows of files, or the expressions of SELECT on them."""
        command = self.command
        frame = read_file_source(self.context.spark, command.source, paths)
        if command.alias is not None:
            frame = frame.alias(command.alias)
        if command.select is not None:
            frame = frame.selectExpr(*command.select)
        return frame if command.validated_rows is None else frame.limit(command.validated_rows)
