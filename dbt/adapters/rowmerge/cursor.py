"""A database cursor for dbt, which runs statements on a connection of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dbt_common.exceptions import DbtRuntimeError


class Handle:
    """The connection of a thread: a `rowmerge.Connection`, in this process or in a server."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.audit: dict[str, str] = {}
        """The arguments of the session's `execute` that say where statements write and read audited tables, for the current model."""

    @property
    def session(self) -> Any:
        """The engine's session, or the methods of the session in a server."""
        return self.connection.session

    def cursor(self) -> Cursor:
        return Cursor(self)

    def cancel(self) -> None:
        """Stop the running statement in the background, so that it fails before it commits."""
        self.connection.cancel()

    def rollback(self) -> None:
        """Skip the rollback, because every statement is a separate transaction."""

    def close(self) -> None:
        """Close the connection. The session stays open, because all connections of the process share it."""
        self.connection.close()


class Cursor:
    """A cursor that runs SQL statements and returns the rows of the last one. The first fetch reads all rows."""

    def __init__(self, handle: Handle) -> None:
        self._handle, self._connection = handle, handle.connection
        self._rows: list[tuple[Any, ...]] | None = None
        self._position = 0
        self.outcome: Any = None
        """The StatementOutcome of the last statement; None before the first one."""

    def execute(self, sql: str, bindings: Sequence[Any] | None = None) -> None:
        """Run one or more SQL statements in order. Stop at the first statement that fails.

        Args:
            sql: SQL statements, separated by semicolons.
            bindings: Must be empty or None, because the engine does not support parameters.

        Raises:
            DbtRuntimeError: `bindings` is not empty.
            RowmergeError: A statement fails, or the connection was cancelled.
        """
        if bindings:
            raise DbtRuntimeError("rowmerge does not support bindings. Write the values into the SQL statement.")
        self._rows, self._position = None, 0
        self.outcome = self._connection.execute(sql, self._handle.audit)

    @property
    def description(self) -> list[tuple[str, str, None, None, None, None, bool]] | None:
        """The name, Spark type and nullability of each column in the result of the last statement; None before the first statement.

        Access to this property does not read rows.
        """
        if self.outcome is None:
            return None
        return [(name, type_, None, None, None, None, is_nullable) for name, type_, is_nullable in self._connection.columns()]

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._next_rows(None)

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        if self._rows is None:
            # dbt calls this method once, with the limit of `dbt show`, so Spark need not compute more rows.
            rows: list[tuple[Any, ...]] = self._connection.rows(size)
            return rows
        return self._next_rows(size)

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(iter(self._next_rows(1)), None)

    def close(self) -> None:
        self.outcome, self._rows, self._position = None, None, 0

    def _next_rows(self, limit: int | None) -> list[tuple[Any, ...]]:
        """Return at most `limit` of the rows that have not been fetched yet; all of these rows if `limit` is None."""
        if self._rows is None:
            self._rows = [] if self.outcome is None else self._connection.rows()
        rows = self._rows[self._position : None if limit is None else self._position + limit]
        self._position += len(rows)
        return rows
