"""dbt's connections to the engine: open them, run statements, and convert the engine's errors to dbt's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from dbt.adapters.base.query_headers import MacroQueryStringSetter
from dbt.adapters.contracts.connection import AdapterResponse, Connection, ConnectionState
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.exceptions import FailedToConnectError
from dbt.adapters.sql import SQLConnectionManager
from dbt.flags import get_flags
from dbt_common.clients.agate_helper import empty_table
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError
from dbt_common.ui import green, red, yellow

from dbt.adapters.rowmerge.cursor import Handle
from dbt.adapters.rowmerge.frames.python_models import line_of_model
from dbt.adapters.rowmerge.response import RowmergeResponse, response_from
from dbt.adapters.rowmerge.sessions import close_server_sessions, connection_for, environment_checks, start_early
from rowmerge.errors import RowmergeError, StatementCancelled

if TYPE_CHECKING:
    import agate


logger = AdapterLogger("rowmerge")
_COLORS = {"OK": green, "WARNING": yellow, "ERROR": red}


_COMMANDS_WITH_STATEMENTS = ("build", "clone", "retry", "run", "seed", "show", "snapshot", "test")
"""The commands of dbt that need Spark as soon as the project is read. Other commands start it if they need it."""


class _CommentBelow(MacroQueryStringSetter):
    """A query comment below the statement, so that line numbers in error messages match the compiled model."""

    DEFAULT_QUERY_COMMENT_APPEND = True


class RowmergeConnectionManager(SQLConnectionManager):
    """The connections of all threads to a shared session. Each statement is a transaction, so begin and commit do nothing."""

    TYPE = "rowmerge"

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        """Open a connection to the session of its profile. The first call starts Spark.

        Raises:
            FailedToConnectError: Spark or the engine fails to start, or the profile does not match the Spark session of the process.
        """
        if connection.state == ConnectionState.OPEN:
            return connection
        try:
            connection.handle = Handle(connection_for(connection.credentials))
        except Exception as error:
            connection.handle = None
            connection.state = ConnectionState.FAIL
            if not isinstance(error, DbtRuntimeError) and not _is_engine_error(error):
                raise
            raise FailedToConnectError(_message(error)) from error
        connection.state = ConnectionState.OPEN
        return connection

    @classmethod
    def get_response(cls, cursor: Any) -> AdapterResponse:
        return RowmergeResponse(_message="OK") if cursor.outcome is None else response_from(cursor.outcome)

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        """Convert errors of the engine and of Spark in a `with` block to dbt's error. dbt adds the model and its file to the message.

        Raises:
            DbtRuntimeError: The connection was cancelled.
            DbtDatabaseError: The engine or Spark raises an error in the block.
        """
        try:
            yield
        except StatementCancelled as error:
            raise DbtRuntimeError(error.message) from error
        except Exception as error:
            if not _is_engine_error(error):
                raise
            raise DbtDatabaseError(_message(error)) from error

    def execute(
        self, sql: str, auto_begin: bool = False, fetch: bool = False, limit: Optional[int] = None
    ) -> Tuple[AdapterResponse, agate.Table]:
        """Run SQL statements, and return the adapter response and the rows of the last statement.

        Args:
            sql: One or more SQL statements.
            auto_begin: Has no effect, because each statement is a transaction.
            fetch: Whether to return rows. If false, the returned table is empty.
            limit: The maximum number of rows; None for all rows.

        Raises:
            DbtDatabaseError: The engine or Spark fails.
        """
        sql = self._add_query_comment(sql)
        _, cursor = self.add_query(sql, auto_begin)
        response = self.get_response(cursor)
        if not fetch:
            return response, empty_table()
        # Spark runs a query only when its rows are fetched.
        with self.exception_handler(sql):
            return response, self.get_result_from_cursor(cursor, limit)

    def check_environment(self) -> None:
        """Print one line for each check of the profile's environment, for `dbt debug`.

        Raises:
            DbtRuntimeError: A check fails, or the profile is invalid.
        """
        failures = []
        with self.exception_handler("check the environment"):
            for check in environment_checks(self.profile.credentials):
                logger.info(f"  {check.name}: [{_COLORS.get(check.status, str)(check.status)}] {check.detail}")
                if check.status == "ERROR":
                    failures.append(f"{check.name}: {check.detail}")
        if failures:
            raise DbtRuntimeError("\n  >".join(failures))

    def cleanup_all(self) -> None:
        super().cleanup_all()
        close_server_sessions()

    def set_query_header(self, query_header_context: Dict[str, Any]) -> None:
        """Set the query comment. dbt calls this method when it begins to read the project, so Spark starts meanwhile."""
        if getattr(get_flags(), "WHICH", None) in _COMMANDS_WITH_STATEMENTS:
            start_early(self.profile.credentials)
        self.query_header = _CommentBelow(self.profile, query_header_context)

    @classmethod
    def data_type_code_to_name(cls, type_code: int | str) -> str:
        return str(type_code)

    def cancel(self, connection: Connection) -> None:
        connection.handle.cancel()

    def begin(self) -> Connection:
        return self.get_thread_connection()

    def commit(self) -> Connection:
        return self.get_thread_connection()

    def clear_transaction(self) -> None:
        pass


_LOST_SESSION = ("INVALID_HANDLE.SESSION_", "NO_ACTIVE_SESSION")
"""The beginnings of Spark's error conditions for a session that a Spark Connect server does not have any more."""


def _is_engine_error(error: Exception) -> bool:
    """Return whether an error is one of the engine, or one of Spark: a query can fail when its rows are fetched.

    Errors of Spark are recognized by name, because PySpark takes some time to import, and clients of a server do not need it.
    """
    classes = {f"{class_.__module__.partition('.')[0]}.{class_.__name__}" for class_ in type(error).__mro__}
    return isinstance(error, RowmergeError) or bool(classes & {"pyspark.PySparkException", "py4j.Py4JJavaError"})


def _message(error: Exception) -> str:
    """Return the message of an error, without the JVM stack trace and with the line of the Python model that raised the error."""
    condition = error.getCondition() if hasattr(error, "getCondition") else None
    if (condition or "").startswith(_LOST_SESSION):
        cause = "The Spark Connect server does not have the session any more: it has restarted, or the session was idle for too long."
        return f"{cause} The next node opens a new session. Run this node again with `dbt retry`."
    message = str(error.java_exception.getMessage()) if hasattr(error, "java_exception") else str(error)
    return message.split("\n\nJVM stacktrace:", 1)[0].split("\n\nDriver stacktrace:", 1)[0].rstrip() + line_of_model(error)
