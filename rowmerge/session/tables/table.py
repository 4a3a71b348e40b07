"""The Python API of a table: methods that read, change and maintain it, each of which runs one statement of SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rowmerge.commands.names import TABLE_FORMATS, TableName
from rowmerge.errors import ConfigurationError, PlanError
from rowmerge.session.answers.results import StatementResult
from rowmerge.session.session import Session
from rowmerge.session.statements.settings import IdempotencyKey
from rowmerge.session.tables.expressions import (
    Expression,
    column_text,
    condition_text,
    expression_text,
    properties_list,
    set_list,
)
from rowmerge.session.tables.merges import TableMerge
from rowmerge.session.tables.reads import TableReads, Version, open_name, time_travel
from rowmerge.session.tables.sources import source_relation
from rowmerge.sql import parse_table_name
from rowmerge.table.metadata.schema import quote, string_literal

if TYPE_CHECKING:
    from rowmerge.session.tables.sources import Source


class Table(TableReads):
    """One table of a warehouse, Delta or Iceberg. Each method runs one statement of SQL, with the same effects and errors.

    Names of columns are written as in SQL, quoted if needed. Conditions and values are SQL texts. A value can also be a Python value other
    than a string. `rowmerge.literal` returns the SQL text of a string. Columns of PySpark are errors, because they have no public text.

    The keyword arguments `idempotency_key`, `wap_branch` and `wap_id` are those of `Session.execute`.
    """

    @classmethod
    def for_name(cls, session: Session, name: str) -> Table:
        """Return the table of a name.

        Args:
            session: The session of the table.
            name: The name as in SQL, quoted if needed: `orders`, `analytics.orders`. It can end with the branch of an Iceberg table:
                `analytics.orders.branch_audit`.

        Raises:
            TableNotFound: There is no such table.
            TableError: The name is that of a view.
            VersionNotFound: The table has no such branch.
        """
        return cls(session, name)

    @classmethod
    def for_path(cls, session: Session, path: str, format_: str = "delta") -> Table:
        """Return the table in a folder, as `DeltaTable.forPath` of Delta Lake does.

        Args:
            session: The session of the table.
            path: The absolute path or the URL of the folder.
            format_: `delta` or `iceberg`.

        Raises:
            ConfigurationError: The format is unknown.
            TableNotFound: The folder has no table of the format.
        """
        if format_ not in TABLE_FORMATS:
            raise ConfigurationError(f"The format {format_!r} is unknown. Use one of {', '.join(TABLE_FORMATS)}.")
        return cls(session, str(TableName((format_, path))))

    def branch(self, name: str) -> Table:
        """Return a branch of an Iceberg table, which can be read and written. `name`: the unquoted name of the branch.

        Raises:
            PlanError: The table is not an Iceberg table, or it is a branch itself.
            VersionNotFound: The table has no such branch.
        """
        return Table(self._session, open_name(self._whole_table("branch"), name))

    def create_branch(self, name: str, version: int | None = None) -> Table:
        """Create a branch of an Iceberg table, and return it.

        Args:
            name: The unquoted name of the branch.
            version: The id of the snapshot at which the branch begins, or None for the newest one.

        Raises:
            PlanError: The table is not an Iceberg table.
            AlreadyExists: The table has such a branch or tag.
        """
        start = "" if version is None else f" AS OF VERSION {int(version)}"
        self._session.execute(f"ALTER TABLE {self._whole_table('create_branch')} CREATE BRANCH {quote(name)}{start}")
        return self.branch(name)

    def merge(self, source: Source, on: str, *, source_alias: str = "source", target_alias: str = "target") -> TableMerge:
        """Begin a MERGE into the table, which `execute` of the returned builder runs.

        Args:
            source: A DataFrame of Spark, pandas or Polars, or a table, batch or reader of Arrow. As text: the name of a table, or a query.
            on: The condition in SQL under which a source row matches a target row: `target.id = source.id`.
            source_alias: The name of the source in conditions and values.
            target_alias: The name of the table in conditions and values.
        """
        return TableMerge(self._session, self.name, source, on, source_alias, target_alias)

    def update(
        self,
        set: Mapping[str, Expression],
        where: str | None = None,
        *,
        idempotency_key: IdempotencyKey | None = None,
        wap_branch: str | None = None,
        wap_id: str | None = None,
    ) -> StatementResult:
        """Update columns of rows. Return the counts of changed rows and files.

        Args:
            set: The new value of each column: SQL text, or a Python value other than a string.
            where: A condition in SQL, or None for all rows.
            idempotency_key: See `Session.execute`.
            wap_branch: See `Session.execute`.
            wap_id: See `Session.execute`.

        Raises:
            RowmergeError: The base class of all errors.
        """
        text = f"UPDATE {self.name} {set_list(set)}{condition_text('WHERE', where)}"
        return self._session.execute(text, idempotency_key=idempotency_key, wap_branch=wap_branch, wap_id=wap_id)

    def delete(
        self,
        where: str | None = None,
        *,
        idempotency_key: IdempotencyKey | None = None,
        wap_branch: str | None = None,
        wap_id: str | None = None,
    ) -> StatementResult:
        """Delete rows. Return the counts of changed rows and files.

        Args:
            where: A condition in SQL, or None for all rows.
            idempotency_key: See `Session.execute`.
            wap_branch: See `Session.execute`.
            wap_id: See `Session.execute`.

        Raises:
            RowmergeError: The base class of all errors.
        """
        text = f"DELETE FROM {self.name}{condition_text('WHERE', where)}"
        return self._session.execute(text, idempotency_key=idempotency_key, wap_branch=wap_branch, wap_id=wap_id)

    def append(
        self,
        source: Source,
        *,
        schema_evolution: bool = False,
        idempotency_key: IdempotencyKey | None = None,
        wap_branch: str | None = None,
        wap_id: str | None = None,
    ) -> StatementResult:
        """Add rows in one commit. Columns are matched by name, and columns that the rows lack get their default, or NULL.

        Args:
            source: The rows, see `merge`.
            schema_evolution: Whether columns that the table lacks are added to it.
            idempotency_key: See `Session.execute`.
            wap_branch: See `Session.execute`.
            wap_id: See `Session.execute`.

        Raises:
            ConfigurationError: The source has a type that is not supported.
            UnknownColumn: The table lacks a column, and the call does not add it.
            TypeMismatch: The table cannot store a column of this type.
        """
        statement = f"INSERT {'WITH SCHEMA EVOLUTION ' if schema_evolution else ''}INTO {self.name} BY NAME"
        with source_relation(self._session.spark, source) as relation:
            text = f"{statement} SELECT * FROM {relation}"
            return self._session.execute(text, idempotency_key=idempotency_key, wap_branch=wap_branch, wap_id=wap_id)

    def overwrite(
        self,
        source: Source,
        where: str | None = None,
        *,
        dynamic: bool = False,
        idempotency_key: IdempotencyKey | None = None,
        wap_branch: str | None = None,
        wap_id: str | None = None,
    ) -> StatementResult:
        """Replace rows in one commit. Columns are matched by name, and the definition of the table stays.

        Args:
            source: The new rows, see `merge`.
            where: The condition of the rows to replace, which new rows must satisfy, too. None replaces all rows.
            dynamic: Whether only the partitions of the new rows are replaced.
            idempotency_key: See `Session.execute`.
            wap_branch: See `Session.execute`.
            wap_id: See `Session.execute`.

        Raises:
            PlanError: Both `where` and `dynamic` are specified.
            RowError: A new row does not satisfy the condition.
            RowmergeError: See `append`.
        """
        if where is not None and dynamic:
            raise PlanError("where and dynamic exclude each other. Use where for a condition, or dynamic for the partitions of the rows.")
        mode = "dynamic" if dynamic else "static"
        begin = f"INSERT OVERWRITE {self.name} WITH ('partitionOverwriteMode' = '{mode}') BY NAME"
        if where is not None:
            begin = f"INSERT INTO {self.name} BY NAME REPLACE WHERE {expression_text(where)}"
        with source_relation(self._session.spark, source) as relation:
            text = f"{begin} SELECT * FROM {relation}"
            return self._session.execute(text, idempotency_key=idempotency_key, wap_branch=wap_branch, wap_id=wap_id)

    def vacuum(self, retention_hours: float | None = None, *, dry_run: bool = False) -> StatementResult:
        """Delete files that no version within the retention period needs. The rows of the result have the table's location.

        Args:
            retention_hours: The retention period, or None for that of the table's properties.
            dry_run: Whether to delete no file. The rows of the result then have the paths of the files.

        Raises:
            RowmergeError: The base class of all errors.
        """
        retention = "" if retention_hours is None else f" RETAIN {retention_hours} HOURS"
        return self._session.execute(f"VACUUM {self._whole_table('vacuum')}{retention}{' DRY RUN' if dry_run else ''}")

    def optimize(self, where: str | None = None, *, zorder_by: Sequence[str] = ()) -> StatementResult:
        """Combine small files. Return the counts and sizes of files that Delta returns.

        Args:
            where: A condition on partition columns in SQL, or None for all files.
            zorder_by: The columns of a Z-order. As in SQL, they are an error, and the message says what to do instead.

        Raises:
            UnsupportedStatement: Columns of a Z-order are specified.
            PlanError: The condition uses other columns than partition columns.
        """
        order = f" ZORDER BY ({', '.join(map(column_text, zorder_by))})" if zorder_by else ""
        return self._session.execute(f"OPTIMIZE {self._whole_table('optimize')}{condition_text('WHERE', where)}{order}")

    def restore(self, version: Version | None = None, *, timestamp: str | datetime | None = None) -> StatementResult:
        """Commit an older version again. Return the counts and sizes of files that Delta returns.

        Args:
            version: The version, or the name of a branch or tag.
            timestamp: The time whose version is restored. See `to_df`.

        Raises:
            PlanError: Both arguments are specified, or none.
            VersionNotFound: The table has no such version.
        """
        if version is None and timestamp is None:
            raise PlanError("restore has neither a version nor a timestamp. Specify one of them. history() lists the versions.")
        return self._session.execute(f"RESTORE TABLE {self._whole_table('restore')} TO{time_travel(version, timestamp)}")

    def clone(
        self,
        name: str,
        *,
        version: Version | None = None,
        timestamp: str | datetime | None = None,
        shallow: bool = True,
        replace: bool = False,
        properties: Mapping[str, Any] | None = None,
        location: str | None = None,
    ) -> Table:
        """Create a clone in one commit, and return it. A shallow clone references the files of this table, a deep clone copies them.

        Args:
            name: The name of the new table as in SQL.
            version: The version to clone, or None for the newest one.
            timestamp: The time whose version is cloned. See `to_df`.
            shallow: Whether the clone references the files instead of copying them.
            replace: Whether the clone replaces an existing table.
            properties: The properties of the clone that differ from those of this table.
            location: The folder of the clone, or None for that of its name.

        Raises:
            AlreadyExists: There is a table of this name.
            VersionNotFound: The table has no such version.
        """
        create, kind = "CREATE OR REPLACE TABLE" if replace else "CREATE TABLE", "SHALLOW" if shallow else "DEEP"
        text = f"{create} {parse_table_name(name)} {kind} CLONE {self._whole_table('clone')}{time_travel(version, timestamp)}"
        text += f" TBLPROPERTIES {properties_list(properties)}" if properties else ""
        self._session.execute(text if location is None else f"{text} LOCATION {string_literal(location)}")
        return Table(self._session, name)

    def set_properties(self, properties: Mapping[str, Any]) -> StatementResult:
        """Set table properties. `properties`: the value of each property. Raises PlanError for unknown properties and invalid values."""
        return self._session.execute(f"ALTER TABLE {self._whole_table('set_properties')} SET TBLPROPERTIES {properties_list(properties)}")

    def unset_properties(self, keys: Sequence[str], *, if_exists: bool = False) -> StatementResult:
        """Remove table properties.

        Args:
            keys: The names of the properties.
            if_exists: Whether to ignore properties that the table lacks.

        Raises:
            PlanError: The table lacks a property.
        """
        names = ", ".join(map(string_literal, keys))
        exists = "IF EXISTS " if if_exists else ""
        return self._session.execute(f"ALTER TABLE {self._whole_table('unset_properties')} UNSET TBLPROPERTIES {exists}({names})")
