"""Read-only methods of the Python API of a table: rows, versions, files and properties."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from rowmerge.commands.names import TableName
from rowmerge.errors import ConfigurationError, PlanError
from rowmerge.session.session import Session, target_of
from rowmerge.session.tables.expressions import column_text, condition_text
from rowmerge.spark.failures import translated
from rowmerge.spark.source.local_rows import arrow_rows
from rowmerge.spark.types import to_spark
from rowmerge.sql import parse_table_name
from rowmerge.table.metadata.schema import string_literal
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    import polars as pl
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Version = int | str
"""The number of a version, the id of an Iceberg snapshot, or the name of a branch or tag."""


class TableReads:
    """The rows, versions, files and properties of one table, or of a branch of an Iceberg table."""

    def __init__(self, session: Session, name: str) -> None:
        """Store the name of an existing table with its schema. The name resolves now, so a later USE does not change the table.

        Args:
            session: The session of the table.
            name: The name as in SQL, quoted if needed. It can end with a branch: `analytics.orders.branch_audit`.

        Raises:
            TableNotFound: There is no such table.
            TableError: The name is that of a view.
            VersionNotFound: The table has no such branch.
        """
        self._session = session
        target = target_of(session, name)
        self._table_name, self._branch = target.name, target.branch

    @property
    def name(self) -> str:
        """The name of the table with its schema, and its branch if there is one, as in SQL."""
        return str(self._name)

    @property
    def _name(self) -> TableName:
        return self._table_name if self._branch is None else TableName((*self._table_name.parts, f"branch_{self._branch}"))

    @property
    def _snapshot(self) -> Snapshot:
        return target_of(self._session, self.name).table.snapshot()

    def _whole_table(self, method: str) -> str:
        """Return the name for a statement about the entire table. Raise PlanError for a branch."""
        if self._branch is not None:
            advice = f"Call it on Table.for_name(session, {str(self._table_name)!r})."
            raise PlanError(f"{method} concerns all branches, and {self.name} is one branch. {advice}")
        return self.name

    def to_df(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        version: Version | None = None,
        timestamp: str | datetime | None = None,
    ) -> DataFrame:
        """Return rows as a DataFrame of Spark, which reads only the files that can contain a matching row.

        Args:
            columns: The names of columns as in SQL, or None for all columns.
            where: A condition in SQL, or None for all rows.
            version: The version to read, or None for the newest one.
            timestamp: The time whose version is read. A datetime without a time zone is in the time zone of the Spark session.

        Raises:
            PlanError: Both a version and a time are specified, or no column.
            UnknownColumn: The table has no such column.
            VersionNotFound: The table has no such version.
        """
        if columns is not None and (isinstance(columns, str) or not columns):
            raise PlanError(f"columns is {columns!r}. Pass a list with at least one name of a column, or omit it.")
        selected = "*" if columns is None else ", ".join(map(column_text, columns))
        text = f"SELECT {selected} FROM {self.name}{time_travel(version, timestamp)}{condition_text('WHERE', where)}"
        return self._session.sql(text)

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        version: Version | None = None,
        timestamp: str | datetime | None = None,
    ) -> pa.Table:
        """Return rows as an Arrow table, in the memory of this process.

        Args:
            columns: See `to_df`.
            where: See `to_df`.
            version: See `to_df`.
            timestamp: See `to_df`.

        Raises:
            RowmergeError: See `to_df`.
        """
        with translated(self.name, self.name):
            return arrow_rows(self.to_df(columns, where, version=version, timestamp=timestamp))

    def to_pandas(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        version: Version | None = None,
        timestamp: str | datetime | None = None,
    ) -> pd.DataFrame:
        """Return rows as a pandas DataFrame, in the memory of this process.

        Args:
            columns: See `to_df`.
            where: See `to_df`.
            version: See `to_df`.
            timestamp: See `to_df`.

        Raises:
            RowmergeError: See `to_df`.
        """
        return self.to_arrow(columns, where, version=version, timestamp=timestamp).to_pandas()

    def to_polars(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        version: Version | None = None,
        timestamp: str | datetime | None = None,
    ) -> pl.DataFrame:
        """Return rows as a Polars DataFrame, in the memory of this process.

        Args:
            columns: See `to_df`.
            where: See `to_df`.
            version: See `to_df`.
            timestamp: See `to_df`.

        Raises:
            ConfigurationError: Polars is not installed.
            RowmergeError: See `to_df`.
        """
        try:
            import polars as pl
        except ImportError as error:
            raise ConfigurationError("to_polars needs the package polars. Install it (pip install polars), or use to_arrow.") from error
        frame = pl.from_arrow(self.to_arrow(columns, where, version=version, timestamp=timestamp))
        assert isinstance(frame, pl.DataFrame), "a table becomes a DataFrame"
        return frame

    def schema(self) -> StructType:
        """Return the columns and their types in Spark."""
        return to_spark(self._snapshot.schema)

    def version(self) -> int:
        """Return the newest version: its number in a Delta table, or the id of the snapshot in an Iceberg table."""
        return self._snapshot.version

    def properties(self) -> dict[str, str]:
        """Return the table properties."""
        return dict(self._snapshot.settings.properties)

    def detail(self) -> DataFrame:
        """Return one row with the format, location, size and properties, as DESCRIBE DETAIL does."""
        return self._session.sql(f"DESCRIBE DETAIL {self._whole_table('detail')}")

    def history(self, limit: int | None = None) -> DataFrame:
        """Return a row for each version, the newest first. `limit`: the maximum number of rows, or None for all."""
        text = "" if limit is None else f" LIMIT {int(limit)}"
        return self._session.sql(f"DESCRIBE HISTORY {self._whole_table('history')}{text}")

    def files(self, *, version: Version | None = None) -> DataFrame:
        """Return a row for each data file and delete file. `version`: the version that has the files, or None for the newest one."""
        return self.metadata_table("files", version=version)

    def snapshots(self) -> DataFrame:
        """Return a row for each snapshot, or each version in the log of a Delta table."""
        return self.metadata_table("snapshots")

    def refs(self) -> DataFrame:
        """Return a row for each branch and tag."""
        return self.metadata_table("refs")

    def metadata_table(self, name: str, *, version: Version | None = None) -> DataFrame:
        """Return the rows of a metadata table.

        Args:
            name: The name of the metadata table, such as `partitions`.
            version: The version that it describes, or None for the newest one.

        Raises:
            PlanError: The table has no such metadata table, or it describes all versions and `version` is set.
        """
        if version is None and self._branch is not None:
            version = self._branch
        table = TableName((*self._table_name.parts, name))
        return self._session.sql(f"SELECT * FROM {table}{time_travel(version, None)}")


def open_name(name: str, branch: str) -> str:
    """Return the name of a branch as in SQL. `name`: the name of the table as in SQL. `branch`: the unquoted name of the branch."""
    return str(TableName((*parse_table_name(name).parts, f"branch_{branch}")))


def time_travel(version: Version | None, timestamp: str | datetime | None) -> str:
    """Return ` VERSION AS OF …` or ` TIMESTAMP AS OF …`, or an empty text for the newest version.

    Args:
        version: The version, or the name of a branch or tag.
        timestamp: The time, as text or a datetime.

    Raises:
        PlanError: Both are set, or the version is of another type.
    """
    if version is not None and timestamp is not None:
        raise PlanError(f"version is {version!r} and timestamp is {timestamp!r}. Specify only one of them.")
    if timestamp is not None:
        return f" TIMESTAMP AS OF {string_literal(timestamp.isoformat() if isinstance(timestamp, datetime) else timestamp)}"
    if version is None:
        return ""
    if isinstance(version, bool) or not isinstance(version, int | str):
        raise PlanError(f"version is {version!r}. Specify a whole number, or the name of a branch or tag.")
    return f" VERSION AS OF {string_literal(version) if isinstance(version, str) else version}"
