"""A database cursor for dbt, which runs statements in the engine's session."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from rowmerge import split_statements

CANCELLED = "The run was cancelled. The statement was stopped and committed nothing."


class Handle:
    """The connection of a thread: the shared session, and the tag of the thread's Spark jobs. `cancel` stops the jobs with this tag."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.tag = f"dbt-{uuid.uuid4().hex}"
        self.audit: dict[str, str] = {}
        """The arguments of the session's `execute` that say where statements write and read audited tables, for the current model."""
        self._add_tag, self._remove_tag, self._cancel_jobs = _job_tag_methods(session.spark)
        self._cancelled, self._idle = threading.Event(), threading.Event()
        self._idle.set()  # no statement runs

    @contextmanager
    def cancelable(self) -> Iterator[None]:
        """Make the Spark jobs of a `with` block cancelable. A call of `cancel` from any thread stops these jobs.

        Raises:
            DbtRuntimeError: The connection was cancelled, either before the block or during it.
        """
        if self._cancelled.is_set():
            raise DbtRuntimeError(CANCELLED)
        is_inner_block = not self._idle.is_set()  # The outer block has already tagged the thread's jobs.
        with nullcontext() if is_inner_block else self._tag_jobs():
            yield

    @contextmanager
    def _tag_jobs(self) -> Iterator[None]:
        """Tag the Spark jobs that this thread starts in a `with` block. Raises DbtRuntimeError instead of the error of a cancelled job."""
        self._idle.clear()  # A statement runs. Until the connection is idle again, `cancel` stops the jobs with the tag.
        self._add_tag(self.tag)
        try:
            yield
        except Exception as error:
            if self._cancelled.is_set():
                raise DbtRuntimeError(CANCELLED) from error
            raise
        finally:
            self._idle.set()
            self._remove_tag(self.tag)

    def cursor(self) -> Cursor:
        return Cursor(self)

    def cancel(self) -> None:
        """Stop the Spark jobs of this connection in the background, so that the running statement fails before it commits."""
        self._cancelled.set()
        threading.Thread(target=self._stop_jobs, name=f"cancel {self.tag}", daemon=True).start()

    def _stop_jobs(self) -> None:
        """Cancel jobs repeatedly until the statement ends, because a statement runs several jobs in sequence."""
        while not self._idle.is_set():
            self._cancel_jobs(self.tag)
            self._idle.wait(0.2)

    def rollback(self) -> None:
        """Skip the rollback, because every statement is a separate transaction."""

    def close(self) -> None:
        """Keep the session open, because all connections of the process share it."""


def _job_tag_methods(spark: Any) -> tuple[Callable[[str], Any], Callable[[str], Any], Callable[[str], Any]]:
    """Return three methods of Spark: add a tag to the jobs of this thread, remove the tag, and cancel all jobs with a tag."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return spark.addTag, spark.removeTag, spark.interruptTag
    # Classic Spark ignores the tags of a session and uses the tags of the Spark context.
    context = spark.sparkContext
    return context.addJobTag, context.removeJobTag, context.cancelJobsWithTag


class Cursor:
    """A cursor that runs SQL statements and returns the rows of the last one. The first fetch collects all rows."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._rows: list[tuple[Any, ...]] | None = None
        self._position = 0
        self.result: Any = None
        self.scans: list[Any] = []  # the tables that all statements of the last call of `execute` read

    def execute(self, sql: str, bindings: Sequence[Any] | None = None) -> None:
        """Run one or more SQL statements in order. Stop at the first statement that fails.

        Args:
            sql: SQL statements, separated by semicolons.
            bindings: Must be empty or None, because the engine does not support parameters.

        Raises:
            DbtRuntimeError: `bindings` is not empty, or the connection was cancelled.
            RowmergeError: A statement fails.
        """
        if bindings:
            raise DbtRuntimeError("rowmerge does not support bindings. Write the values into the SQL statement.")
        self._rows, self._position, self.scans = None, 0, []
        with self._handle.cancelable():
            for statement in split_statements(sql):
                self.result = self._handle.session.execute(statement, **self._handle.audit)
                self.scans += self.result.scans

    @property
    def description(self) -> list[tuple[str, str, None, None, None, None, bool]] | None:
        """The name, Spark type and nullability of each column in the result of the last statement; None before the first statement.

        Access to this property does not read rows.
        """
        if self.result is None:
            return None
        fields = self.result.frame.schema.fields
        return [(field.name, field.dataType.simpleString(), None, None, None, None, field.nullable) for field in fields]

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._next_rows(None)

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        if self._rows is None and self.result is not None:
            # dbt calls this method once, with the limit of `dbt show`, so Spark need not compute more rows.
            return self._collect(self.result.frame.limit(size))
        return self._next_rows(size)

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(iter(self._next_rows(1)), None)

    def close(self) -> None:
        self.result, self._rows, self._position, self.scans = None, None, 0, []

    def _next_rows(self, limit: int | None) -> list[tuple[Any, ...]]:
        """Return at most `limit` of the rows that have not been fetched yet; all of these rows if `limit` is None."""
        if self._rows is None:
            self._rows = [] if self.result is None else self._collect(self.result.frame)
        rows = self._rows[self._position : None if limit is None else self._position + limit]
        self._position += len(rows)
        return rows

    def _collect(self, frame: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a DataFrame as tuples of Python values."""
        with self._handle.cancelable():
            rows = frame.collect()
        # PySpark returns a `timestamp` as local time without a time zone. A `timestamp_ntz` never has a time zone.
        have_zone = [field.dataType.typeName() == "timestamp" for field in frame.schema.fields]
        return [tuple(map(_python_value, row, have_zone)) for row in rows]


def _python_value(value: Any, has_zone: bool) -> Any:
    """Return a value for agate and JSON: rows become dictionaries, bytes become hexadecimal strings, and timestamps get a time zone."""
    if isinstance(value, datetime):
        return value.astimezone() if has_zone else value
    if hasattr(value, "asDict"):
        return value.asDict(recursive=True)
    if isinstance(value, bytearray):
        return bytes(value).hex()
    return value
