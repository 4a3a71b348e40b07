"""A connection to a session: the statements of one thread, which another thread can cancel."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from typing import Any

from rowmerge.errors import StatementCancelled
from rowmerge.session.answers.outcome import StatementOutcome
from rowmerge.session.answers.results import StatementResult, TableScan
from rowmerge.session.session import Session
from rowmerge.spark.spark_session import is_alive
from rowmerge.sql import split_statements

Column = tuple[str, str, bool]
"""The name, the Spark type and the nullability of a column."""


class Connection:
    """Runs the statements of one thread in a session, which threads share. `cancel`, from any thread, stops them.

    Its methods return only values that can be sent to another process, so that a server can run them for its clients.
    """

    def __init__(self, session: Session) -> None:
        """Create a connection to a session. Its Spark jobs have a tag of their own."""
        self.session = session
        self._frame: Any = None
        self._tag = f"rowmerge-{uuid.uuid4().hex}"
        self._add_tag, self._remove_tag, self._cancel_jobs = _job_tag_methods(session.spark)
        self._cancelled, self._idle = threading.Event(), threading.Event()
        self._idle.set()  # no statement runs

    def execute(self, text: str, audit: Mapping[str, str] | None = None) -> StatementOutcome | None:
        """Run statements in order. Stop at the first one that fails.

        Args:
            text: One or more SQL statements, separated by semicolons.
            audit: The arguments `wap_branch` and `wap_id` of `Session.execute`.

        Returns:
            The outcome of the last statement, or None if the text has no statement. `rows` returns its rows.

        Raises:
            RowmergeError: A statement fails, or the connection was cancelled.
        """
        self._frame, result = None, None
        scans: list[TableScan] = []
        with self._cancelable():
            for statement in split_statements(text):
                result = self.session.execute(statement, **(audit or {}))
                scans += result.scans
            if result is None:
                return None
            self._frame = result.frame
            return StatementOutcome.of(result, scans)

    def columns(self) -> list[Column]:
        """Return the columns of the last statement's rows. No rows are read."""
        return [] if self._frame is None else [(each.name, each.dataType.simpleString(), each.nullable) for each in self._frame.schema]

    def rows(self, limit: int | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of the last statement. Each call runs a query again.

        Args:
            limit: The maximum number of rows, or None for all rows.

        Returns:
            Tuples of Python values. A struct is a dictionary, a binary value a hexadecimal string, and a timestamp has the local time zone.

        Raises:
            RowmergeError: The query fails, or the connection was cancelled.
        """
        if self._frame is None:
            return []
        frame = self._frame if limit is None else self._frame.limit(limit)
        with self._cancelable():
            rows = frame.collect()
        # PySpark returns a `timestamp` as local time without a time zone. A `timestamp_ntz` never has a time zone.
        have_zone = [field.dataType.typeName() == "timestamp" for field in frame.schema]
        return [tuple(map(_python_value, row, have_zone)) for row in rows]

    def call(self, function: Callable[..., Any] | str, *args: Any, **kwargs: Any) -> Any:
        """Call a function with the session, in the process in which the session runs.

        Args:
            function: The name of a method of the session, or a function of a module whose first parameter is the session.
            *args: Further arguments.
            **kwargs: Further arguments by name.

        Returns:
            The result of the function; the outcome of a statement instead of a StatementResult.

        Raises:
            RowmergeError: The connection was cancelled.
        """
        with self._cancelable():
            bound = getattr(self.session, function) if isinstance(function, str) else partial(function, self.session)
            result = bound(*args, **kwargs)
        return StatementOutcome.of(result) if isinstance(result, StatementResult) else result

    def is_alive(self) -> bool:
        """Return whether Spark still runs."""
        return is_alive(self.session.spark)

    def cancel(self) -> None:
        """Stop the Spark jobs of this connection in the background, so that the running statement fails before it commits."""
        self._cancelled.set()
        threading.Thread(target=self._stop_jobs, name=f"cancel {self._tag}", daemon=True).start()

    def close(self) -> None:
        """Release the rows of the last statement. The session stays open."""
        self._frame = None

    @contextmanager
    def _cancelable(self) -> Iterator[None]:
        """Tag the Spark jobs that this thread starts in a `with` block. Raise StatementCancelled after `cancel`."""
        if self._cancelled.is_set():
            raise StatementCancelled
        self._idle.clear()  # Until the connection is idle again, `cancel` stops the jobs with the tag.
        self._add_tag(self._tag)
        try:
            if self._cancelled.is_set():  # since the check above, when there was nothing to stop
                raise StatementCancelled
            yield
        except StatementCancelled:
            raise
        except Exception as error:
            if self._cancelled.is_set():
                raise StatementCancelled from error
            raise
        finally:
            self._idle.set()
            with suppress(Exception):  # Spark may have ended, and that error is not the cause
                self._remove_tag(self._tag)

    def _stop_jobs(self) -> None:
        """Cancel jobs repeatedly until the statement ends, because a statement runs several jobs in sequence."""
        while not self._idle.is_set():
            self._cancel_jobs(self._tag)
            self._idle.wait(0.2)


def _job_tag_methods(spark: Any) -> tuple[Callable[[str], Any], Callable[[str], Any], Callable[[str], Any]]:
    """Return three methods of Spark: add a tag to the jobs of this thread, remove the tag, and cancel all jobs with a tag."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return spark.addTag, spark.removeTag, spark.interruptTag
    # Classic Spark ignores the tags of a session and uses the tags of the Spark context.
    context = spark.sparkContext
    return context.addJobTag, context.removeJobTag, context.cancelJobsWithTag


def _python_value(value: Any, has_zone: bool) -> Any:
    """Return a value for agate and JSON: rows become dictionaries, bytes become hexadecimal strings, and timestamps get a time zone."""
    if isinstance(value, datetime):
        return value.astimezone() if has_zone else value
    if hasattr(value, "asDict"):
        return value.asDict(recursive=True)
    if isinstance(value, bytearray):
        return bytes(value).hex()
    return value
