"""A database cursor, as dbt expects one, over the engine's session."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from rowmerge import split_statements

CANCELLED = "The run was cancelled. The statement was stopped, and nothing of it was committed."


class Handle:
    """One thread's connection: the shared session, and a tag by which this thread's Spark jobs can be stopped."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.tag = f"dbt-{uuid.uuid4().hex}"
        # A session's own tags reach its jobs on Spark Connect only; in process, the context's do.
        self._remote = type(session.spark).__module__.startswith("pyspark.sql.connect")
        self._cancelled = threading.Event()
        self._idle = threading.Event()
        self._idle.set()

    @contextmanager
    def cancelable(self) -> Iterator[None]:
        """Jobs that this thread starts inside can be stopped by `cancel`, from any thread. Raises DbtRuntimeError after that."""
        if self._cancelled.is_set():
            raise DbtRuntimeError(CANCELLED)
        if not self._idle.is_set():
            yield  # inside another one
            return
        self._idle.clear()
        spark = self.session.spark
        if self._remote:
            spark.addTag(self.tag)
        else:
            spark.sparkContext.addJobTag(self.tag)
        try:
            yield
        except Exception as error:
            if self._cancelled.is_set():
                raise DbtRuntimeError(CANCELLED) from error
            raise
        finally:
            self._idle.set()
            if self._remote:
                spark.removeTag(self.tag)
            else:
                spark.sparkContext.removeJobTag(self.tag)

    def cursor(self) -> Cursor:
        return Cursor(self)

    def cancel(self) -> None:
        """Stop the Spark jobs that this connection runs, and those that its statement begins next: it fails before it commits."""
        self._cancelled.set()
        threading.Thread(target=self._stop_jobs, name=f"cancel {self.tag}", daemon=True).start()

    def _stop_jobs(self) -> None:
        """Until the statement has ended: what is asked of Spark stops the jobs of a moment, and a statement has many."""
        spark = self.session.spark
        while not self._idle.is_set():
            if self._remote:
                spark.interruptTag(self.tag)
            else:
                spark.sparkContext.cancelJobsWithTag(self.tag)
            self._idle.wait(0.2)

    def rollback(self) -> None:
        """Nothing to undo: every statement is a transaction of its own."""

    def close(self) -> None:
        """The session belongs to the process, not to a connection."""


class Cursor:
    """Runs statements and hands out the rows of the last one. Rows are collected when somebody fetches, not before."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._rows: list[tuple[Any, ...]] | None = None
        self._next = 0
        self.result: Any = None

    def execute(self, sql: str, bindings: Sequence[Any] | None = None) -> None:
        """Run the statements of a text in order; stop at the first that fails. Raises what the engine raises."""
        if bindings:
            raise DbtRuntimeError("rowmerge takes no bindings with a statement. Write the values into the SQL text.")
        self._rows, self._next = None, 0
        with self._handle.cancelable():
            for statement in split_statements(sql):
                self.result = self._handle.session.execute(statement)

    @property
    def description(self) -> list[tuple[str, str, None, None, None, None, bool]] | None:
        """(name, Spark type, …, nullable) of every column of the last statement, without reading a row."""
        if self.result is None:
            return None
        return [
            (field.name, field.dataType.simpleString(), None, None, None, None, field.nullable) for field in self.result.frame.schema.fields
        ]

    def fetchall(self) -> list[tuple[Any, ...]]:
        rows = self._collected()[self._next :]
        self._next += len(rows)
        return rows

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        if self._rows is None and self.result is not None:
            # dbt asks once, with the limit of `dbt show`: the rows beyond it need not be computed.
            return self._values(self.result.frame.limit(size))
        rows = self._collected()[self._next : self._next + size]
        self._next += len(rows)
        return rows

    def fetchone(self) -> tuple[Any, ...] | None:
        rows = self._collected()[self._next : self._next + 1]
        self._next += len(rows)
        return rows[0] if rows else None

    def close(self) -> None:
        self.result, self._rows, self._next = None, None, 0

    def _collected(self) -> list[tuple[Any, ...]]:
        if self._rows is None:
            self._rows = [] if self.result is None else self._values(self.result.frame)
        return self._rows

    def _values(self, frame: Any) -> list[tuple[Any, ...]]:
        with self._handle.cancelable():
            collected = frame.collect()
        # Spark's `timestamp` is a moment, and arrives as local time without a zone; `timestamp_ntz` has none and stays so.
        moments = {i for i, field in enumerate(frame.schema.fields) if field.dataType.typeName() == "timestamp"}
        return [tuple(_plain(value, i in moments) for i, value in enumerate(row)) for row in collected]


def _plain(value: Any, moment: bool) -> Any:
    """A value that agate and JSON know: rows become dicts, bytes stay bytes, moments carry their zone."""
    if isinstance(value, datetime):
        return value.astimezone() if moment else value
    if hasattr(value, "asDict"):
        return value.asDict(recursive=True)
    if isinstance(value, bytearray):
        return bytes(value).hex()
    return value
