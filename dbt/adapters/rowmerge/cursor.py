"""A database cursor, as dbt expects one, over the engine's session."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from rowmerge import split_statements

CANCELLED = "The run was cancelled. The statement was stopped, and nothing of it was committed."


class Handle:
    """Hold the connection of a thread: the shared session, and the tag of the thread's Spark jobs, with which `cancel` stops them."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.tag = f"dbt-{uuid.uuid4().hex}"
        self._add_tag, self._remove_tag, self._cancel_jobs = _job_tag_methods(session.spark)
        self._cancelled, self._idle = threading.Event(), threading.Event()
        self._idle.set()

    @contextmanager
    def cancelable(self) -> Iterator[None]:
        """Make the Spark jobs of a block cancelable. A call of `cancel` in any thread stops them.

        Raises:
            DbtRuntimeError: The connection was cancelled, before the block or in it.
        """
        if self._cancelled.is_set():
            raise DbtRuntimeError(CANCELLED)
        is_inner_block = not self._idle.is_set()  # The outer block has tagged the thread's jobs already.
        with nullcontext() if is_inner_block else self._tag_jobs():
            yield

    @contextmanager
    def _tag_jobs(self) -> Iterator[None]:
        """Tag the Spark jobs of this thread in a block. Raises DbtRuntimeError in place of the error of a cancelled job."""
        self._idle.clear()
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
        """Stop the Spark jobs of this connection in the background, so that its statement fails before it commits."""
        self._cancelled.set()
        threading.Thread(target=self._stop_jobs, name=f"cancel {self.tag}", daemon=True).start()

    def _stop_jobs(self) -> None:
        """Cancel jobs until the statement ends. Spark cancels only running jobs, and a statement starts several jobs in sequence."""
        while not self._idle.is_set():
            self._cancel_jobs(self.tag)
            self._idle.wait(0.2)

    def rollback(self) -> None:
        """Change nothing, because every statement is a separate transaction."""

    def close(self) -> None:
        """Keep the session open, because all connections of the process share it."""


def _job_tag_methods(spark: Any) -> tuple[Callable[[str], Any], Callable[[str], Any], Callable[[str], Any]]:
    """Return the methods of Spark that add a tag to the jobs of this thread, remove the tag, and cancel the jobs with a tag."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return spark.addTag, spark.removeTag, spark.interruptTag
    # Classic Spark ignores the tags of a session, and uses those of the context.
    context = spark.sparkContext
    return context.addJobTag, context.removeJobTag, context.cancelJobsWithTag


class Cursor:
    """Run SQL statements, and return the rows of the last one. The first fetch collects all rows."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._rows: list[tuple[Any, ...]] | None = None
        self._position = 0
        self.result: Any = None

    def execute(self, sql: str, bindings: Sequence[Any] | None = None) -> None:
        """Run the SQL statements of a text in order, until one fails.

        Args:
            sql: One or several statements, separated by semicolons.
            bindings: Must be empty or None, because the engine has no parameters.

        Raises:
            DbtRuntimeError: `bindings` has values, or the connection was cancelled.
            RowmergeError: A statement fails.
        """
        if bindings:
            raise DbtRuntimeError("rowmerge takes no bindings with a statement. Write the values into the SQL text.")
        self._rows, self._position = None, 0
        with self._handle.cancelable():
            for statement in split_statements(sql):
                self.result = self._handle.session.execute(statement)

    @property
    def description(self) -> list[tuple[str, str, None, None, None, None, bool]] | None:
        """The name, Spark type and nullability of each column of the last statement. This reads no rows."""
        if self.result is None:
            return None
        fields = self.result.frame.schema.fields
        return [(field.name, field.dataType.simpleString(), None, None, None, None, field.nullable) for field in fields]

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._next_rows(None)

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        if self._rows is None and self.result is not None:
            # dbt calls this method once, with the limit of `dbt show`, so Spark need not compute the rows beyond it.
            return self._collect(self.result.frame.limit(size))
        return self._next_rows(size)

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(iter(self._next_rows(1)), None)

    def close(self) -> None:
        self.result, self._rows, self._position = None, None, 0

    def _next_rows(self, limit: int | None) -> list[tuple[Any, ...]]:
        """Return at most `limit` of the rows that were not fetched yet, or all of them for None."""
        if self._rows is None:
            self._rows = [] if self.result is None else self._collect(self.result.frame)
        rows = self._rows[self._position : None if limit is None else self._position + limit]
        self._position += len(rows)
        return rows

    def _collect(self, frame: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a DataFrame as tuples of Python values."""
        with self._handle.cancelable():
            rows = frame.collect()
        # PySpark returns a `timestamp` as local time without a time zone. A `timestamp_ntz` has no time zone.
        have_zone = [field.dataType.typeName() == "timestamp" for field in frame.schema.fields]
        return [tuple(map(_python_value, row, have_zone)) for row in rows]


def _python_value(value: Any, has_zone: bool) -> Any:
    """Return a value for agate and JSON: rows become dictionaries, bytes become hexadecimal text, and timestamps get a time zone."""
    if isinstance(value, datetime):
        return value.astimezone() if has_zone else value
    if hasattr(value, "asDict"):
        return value.asDict(recursive=True)
    if isinstance(value, bytearray):
        return bytes(value).hex()
    return value
