"""Sessions that run SQL on the tables of one warehouse with one Spark session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa

from rowmerge.catalog import Catalog, TablesByPath, with_paths
from rowmerge.commands.definitions import Explain, Query
from rowmerge.commands.functions import FunctionCommand
from rowmerge.commands.maintenance import MaintenanceCommand
from rowmerge.commands.names import TABLE_FORMATS, TableName
from rowmerge.commands.rows import RowCommand
from rowmerge.errors import ConfigurationError, PlanError, TableNotFound
from rowmerge.execution.commit import CommitOptions
from rowmerge.execution.insert import NewRows, Overwrite, insert
from rowmerge.execution.result import ChangeResult
from rowmerge.session.answers import frames
from rowmerge.session.answers.description import describe
from rowmerge.session.answers.results import StatementResult
from rowmerge.session.definitions.columns import query_columns
from rowmerge.session.definitions.creation import NewTable, create_or_replace_table, with_comments
from rowmerge.session.definitions.definitions import run_definition
from rowmerge.session.definitions.listings import describe_files
from rowmerge.session.definitions.partitioning import partition_field, resolve_partitioning
from rowmerge.session.names.audit import Audit
from rowmerge.session.names.resolver import NameResolver, Target
from rowmerge.session.names.scope import SessionContext, StatementScope
from rowmerge.session.names.spark_names import SparkViews, TemporaryViews, WarehouseFunctions
from rowmerge.session.names.table_changes import sql_constant
from rowmerge.session.startup.catalogs import open_catalogs, served_locations
from rowmerge.session.startup.cluster import check_executors
from rowmerge.session.startup.connectors import configure_stores, warehouse_locations
from rowmerge.session.startup.embedded import is_separate_session, start_spark
from rowmerge.session.statements.explanations import run_explain
from rowmerge.session.statements.functions import run_function_command
from rowmerge.session.statements.maintenance import run_maintenance
from rowmerge.session.statements.rows import run_row_command
from rowmerge.session.statements.settings import (
    IdempotencyKey,
    apply_checksum_setting,
    key_of_statement,
    may_evolve,
    with_settings,
)
from rowmerge.spark.failures import translated
from rowmerge.spark.reading.task_sizes import TaskSizes
from rowmerge.spark.spark_session import check_session
from rowmerge.spark.types import frame_of
from rowmerge.sql import parse, parse_table_name, references
from rowmerge.storage.configuration import StorageConfiguration
from rowmerge.storage.store import Durability, Storage
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.relations import Relation, RelationDescription
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Mode = Literal["append", "overwrite", "replace"]


def connect(
    location: str | None = None,
    *,
    catalog: Mapping[str, Any] | None = None,
    catalogs: Sequence[Mapping[str, Any]] = (),
    spark: SparkSession | None = None,
    spark_config: Mapping[str, object] | None = None,
    schema: str = "default",
    default_format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    commit_retries: int | None = None,
    durability: str = "full",
) -> Session:
    """Open a warehouse: schemas, tables, views and functions in a folder, an object store or an Iceberg catalog.

    Args:
        location: The path or URL of the warehouse folder, which is created if it is missing. With a catalog: the folder of new tables, or
            None for the folder that the catalog chooses.
        catalog: The configuration of an Iceberg catalog for pyiceberg, such as `{"type": "rest", "uri": …}`. The type may also be sql, hive
            or glue. Its `name` may qualify a schema (`lake.db.orders`).
        catalogs: Further catalogs, each with a `name`, and the `warehouse` of a folder or the settings of pyiceberg. `file_format` is the
            format of new tables in a folder. The tables have names such as `lake.db.orders`.
        spark: A running Spark session, classic or Connect. None starts Spark inside this process.
        spark_config: The Spark settings of the session that starts.
        schema: The current schema, in which unqualified names are looked up.
        default_format: The format of new tables if the statement names none, `delta` or `iceberg`. None: Delta, or Iceberg in a catalog.
        storage_options: Credentials, endpoints and regions of object stores, for metadata, data files and Spark (docs/profiles.md).
        commit_retries: The number of retries after a conflict with a concurrent commit. None means that the properties of each table
            decide.
        durability: The failure that a commit on a local disk survives: `full` for a power cut, `process` for a crash of the process
            (without syncs).

    Raises:
        StorageError: The location is a file or not writable.
        ConfigurationError: The arguments contradict each other, or Java is missing.
    """
    # Over 40 lines: the signature and the documentation of ten public arguments.
    if default_format is None:
        default_format = "delta" if catalog is None else "iceberg"
    if spark is not None and spark_config:
        raise ConfigurationError("Specify either spark or spark_config: a running Spark session is already configured.")
    _check_settings(default_format, commit_retries, durability)
    configuration = StorageConfiguration.parse(storage_options or {})
    open_storage = partial(Storage, options=configuration, durability=Durability(durability))
    tables = open_catalogs(location, catalog, catalogs, default_format, open_storage)
    if spark is not None:
        check_session(spark)
    locations = [*warehouse_locations(location, catalog, catalogs), *served_locations(tables, configuration)]
    spark_session = spark or start_spark(spark_config, locations)
    check_executors(spark_session)
    configure_stores(spark_session, configuration, locations)
    return Session(
        tables,
        spark_session,
        schema,
        default_format,
        owns_spark=spark is None,
        commit_retries=commit_retries,
        tables_by_path=TablesByPath(open_storage),
        catalog_name=None if catalog is None else catalog.get("name"),
    )


def _check_settings(default_format: str, commit_retries: int | None, durability: str) -> None:
    """Raise ConfigurationError for an unknown format or level of durability, and for negative retries."""
    if default_format not in TABLE_FORMATS:
        raise ConfigurationError(f"default_format {default_format!r} is unknown. Use one of {', '.join(TABLE_FORMATS)}.")
    if commit_retries is not None and commit_retries < 0:
        raise ConfigurationError(f"commit_retries is {commit_retries}. Specify a whole number, 0 or greater.")
    levels = [level.value for level in Durability]
    if durability not in levels:
        raise ConfigurationError(f"durability {durability!r} is unknown. Use one of {', '.join(levels)}.")


class Session:
    """A session that runs SQL on the tables of one warehouse. Several threads may use it."""

    def __init__(
        self,
        catalog: Catalog,
        spark: SparkSession,
        schema: str,
        default_format: str,
        *,
        owns_spark: bool,
        commit_retries: int | None = None,
        tables_by_path: TablesByPath | None = None,
        catalog_name: str | None = None,
    ) -> None:
        """Create a session. Applications call `connect`, which creates the arguments.

        Args:
            catalog: The catalog of the warehouse.
            spark: The Spark session on which statements run.
            schema: The current schema, in which unqualified names are looked up.
            default_format: The format of new tables, `delta` or `iceberg`.
            owns_spark: Whether `close` stops Spark.
            commit_retries: The number of retries after a conflict, or None for the property of each table.
            tables_by_path: The tables that `read_files(…)` opens by their paths. None means that default storage options apply.
            catalog_name: A name of the catalog that may qualify a schema, or None if there is no such name.
        """
        tables_by_path = tables_by_path or TablesByPath()
        apply_checksum_setting(spark, catalog, tables_by_path)
        catalog = with_paths(catalog, tables_by_path)
        self._catalog, self._spark, self._owns_spark = catalog, spark, owns_spark
        self._options = CommitOptions(retries=commit_retries)
        names = NameResolver(catalog, TemporaryViews(spark), schema, catalog_name)
        functions = WarehouseFunctions(spark, catalog)
        views, task_sizes = SparkViews(spark), TaskSizes(spark, may_set=owns_spark or is_separate_session(spark))
        self._context = SessionContext(spark, catalog, default_format, tables_by_path, names, views, functions, task_sizes, Audit(spark))

    @property
    def spark(self) -> SparkSession:
        """The Spark session on which statements run."""
        return self._spark

    def sql(self, text: str, *, idempotency_key: IdempotencyKey | None = None) -> DataFrame:
        """Run one statement and return its rows, or Delta's counts of changed rows.

        Args:
            text: One statement in Spark's SQL.
            idempotency_key: See `execute`.

        Raises:
            RowmergeError: The base class of all errors of the engine and of Spark.
        """
        return self.execute(text, idempotency_key=idempotency_key).frame

    def execute(
        self, text: str, *, idempotency_key: IdempotencyKey | None = None, wap_branch: str | None = None, wap_id: str | None = None
    ) -> StatementResult:
        """Run one statement. Return its rows, and the counts of changed rows and files.

        Args:
            text: One statement in Spark's SQL.
            idempotency_key: A key with which a table commits a statement that writes rows only once. If it is a name and a version, each
                version is committed once, and versions must increase. `MERGE /*+ IDEMPOTENCY_KEY('…') */ INTO …` has the same effect.
            wap_branch: The branch that the statement writes and reads, in Iceberg tables with `write.wap.enabled`.
            wap_id: The id under which it stages a snapshot of such a table. If both are None, `spark.wap.branch` and `spark.wap.id` apply.

        Raises:
            RowmergeError: The base class of all errors of the engine and of Spark.
        """
        command, context = parse(text, self._context.names.catalogs), replace(self._context, audit=Audit(self._spark, wap_branch, wap_id))
        key = key_of_statement(command, text, idempotency_key)
        with translated(text):
            options = self._options if isinstance(command, Query) else with_settings(self._spark, self._options, key, command)
            if isinstance(command, Query):
                scope = StatementScope.begin(context)
                frame = scope.query(command.text)
                return StatementResult(frame, _first_word(command.text), scans=scope.scans)
            if isinstance(command, Explain):
                return run_explain(context, command)
            if isinstance(command, RowCommand):
                return run_row_command(context, command, options)
            if isinstance(command, MaintenanceCommand):
                return run_maintenance(context, command, options)
            if isinstance(command, FunctionCommand):
                return run_function_command(context, command)
            return run_definition(context, command, options)

    def table(self, name: str, where: str | None = None) -> DataFrame:
        """Return the rows of a table's newest version, of a view, or of a temporary view.

        A condition on the returned DataFrame itself reads all files, except those of other identity partitions in Hive-style folders.

        Args:
            name: The name as in SQL, quoted if needed.
            where: A SQL condition. Files that cannot contain a matching row are not read. None means all rows.

        Raises:
            TableNotFound: There is no such table or view.
        """
        with translated(name):
            query = f"select * from {name}" if where is None else f"select * from {name} where {where}"
            return StatementScope.begin(replace(self._context, audit=Audit(self._spark))).query(query)

    def table_changes(self, name: str, start: int | str | datetime, end: int | str | datetime | None = None) -> DataFrame:
        """Return the change rows of a table between two versions or times, both inclusive, as `table_changes(…)` does in SQL.

        Args:
            name: The name of the table as in SQL.
            start: The first version or time. A datetime without a time zone is in the time zone of the Spark session.
            end: The last version or time, or None for the newest version.

        Raises:
            TableNotFound: The table does not exist.
            VersionNotFound: The table has no such version.
            ChangesNotRecorded: The table has no change feed for these versions.
            IncompatibleSchemaChange: The schema changed between the versions, and no schema fits all change rows.
        """
        arguments = ", ".join(sql_constant(value) for value in (name, start, end) if value is not None)
        return self.sql(f"select * from table_changes({arguments})")

    def write(
        self,
        data: pa.Table | DataFrame,
        name: str,
        *,
        mode: Mode = "append",
        format: str | None = None,
        partitioned_by: Sequence[str] = (),
        comment: str | None = None,
        properties: Mapping[str, str] | None = None,
        column_comments: Mapping[str, str] | None = None,
        schema_evolution: bool | None = None,
        idempotency_key: IdempotencyKey | None = None,
    ) -> StatementResult:
        """Write rows to a table in one commit. Columns are matched by name.

        Args:
            data: An Arrow table or a Spark DataFrame.
            name: The name of the table as in SQL.
            mode: `append`, `overwrite` (replace all rows and keep the definition), or `replace` (create the table or replace it).
            format: The format of a new table in mode `replace`. None means the format of the replaced table, or the session's default.
            partitioned_by: Columns or transforms in SQL, in mode `replace`.
            comment: The comment on the table in mode `replace`.
            properties: The table properties in mode `replace`.
            column_comments: The comments by column name in mode `replace`.
            schema_evolution: Whether columns that the table lacks are added to it. None: Spark's setting
                `spark.databricks.delta.schema.autoMerge.enabled` and the table's property `rowmerge.write.schema-evolution` decide.
            idempotency_key: See `execute`.

        Raises:
            ConfigurationError: The mode is unknown, or does not take one of the arguments.
            TableNotFound: The table does not exist, in mode `append` or `overwrite`.
            UnknownColumn: The table lacks a column, and the statement does not add it.
            TypeMismatch: The table cannot store a column of this type.
        """
        # Over 40 lines: the signature and the documentation of ten public arguments.
        _check_write(mode, format, schema_evolution)
        table_name, options = parse_table_name(name), with_settings(self._spark, self._options, idempotency_key)
        with translated(name, name):
            # An Arrow table fits into this process, so its rows fit into one file.
            frame = frame_of(self._spark, data).coalesce(1) if isinstance(data, pa.Table) else data
            rows = NewRows(frame, by_name=True)
            if mode == "replace":
                columns = with_comments(query_columns(frame), column_comments or {})
                partition_fields = resolve_partitioning(columns, tuple(partition_field(columns, text) for text in partitioned_by))
                definition = TableDefinition(columns, partition_fields, dict(properties or {}), comment)
                table = NewTable(self._context.names.qualify(table_name), definition, rows, or_replace=True, format=format)
                result = create_or_replace_table(replace(self._context, audit=Audit(self._spark)), table, options)
            else:
                result = self._insert(table_name, rows, mode, schema_evolution, options)
            return StatementResult.from_change(frames.changed_row_counts(self._spark, "INSERT", result.counts), "INSERT", result)

    def _insert(self, name: TableName, rows: NewRows, mode: Mode, schema_evolution: bool | None, options: CommitOptions) -> ChangeResult:
        """Append the rows to an existing table, or overwrite all its rows."""

        def rows_for(snapshot: Snapshot) -> NewRows:
            return replace(rows, evolves=may_evolve(self._spark, snapshot) if schema_evolution is None else schema_evolution)

        target = Audit(self._spark).target(Target(self._context.names.table(name), name))
        return insert(target.table, rows_for, None if mode == "append" else Overwrite(dynamic=False), options)

    def schemas(self, catalog: str | None = None) -> list[str]:
        """Return the names of the schemas of one catalog. Without `catalog`, return those of all catalogs: `raw`, `lake.raw`.

        Raises:
            ConfigurationError: There is no such catalog.
        """
        return self._catalog.schemas() if catalog is None else self._context.names.catalog_with_name(catalog).schemas()

    def relations(self, schema: str) -> list[Relation]:
        """Return the tables and views of a schema, with unquoted names. Return an empty list if the schema does not exist."""
        return self._catalog.relations(schema)

    def relation(self, schema: str, name: str) -> Relation | None:
        """Return the table or view of this unquoted name, or None if there is none."""
        return self._catalog.relation(schema, name)

    def functions(self, schema: str) -> list[str]:
        """Return the unquoted names of a schema's functions. Return an empty list if the schema does not exist."""
        return self._catalog.functions.names(schema)

    def describe(self, schema: str, name: str) -> RelationDescription:
        """Return the columns, partitioning, properties, size and version of a table or view.

        Args:
            schema: The unquoted name of the schema, after the name of a further catalog and a dot: `lake.raw`.
            name: The unquoted name of the table or view.

        Raises:
            TableNotFound: No table or view has this name.
        """
        relation = self._catalog.relation(schema, name)
        if relation is None:
            raise TableNotFound(f"{schema}.{name}", [str(existing) for existing in self._catalog.relations(schema)])
        return describe(self._catalog, relation)

    def describe_files(self, text: str) -> RelationDescription:
        """Return the columns, size and age of the files that `read_files(…)` reads, or the description of the table at its path.

        Args:
            text: The call of `read_files` as in SQL.

        Raises:
            PlanError: The text is not a call of `read_files`.
            FilesNotFound: There are no files or no table at the path.
        """
        sources = [reference.files for reference in references(f"select * from {text}")]
        if len(sources) != 1 or sources[0] is None:
            raise PlanError(f"{text} is not a call of read_files. Write it as in SQL: read_files('…').")
        with translated(text):
            return describe_files(self._context, sources[0])

    def close(self) -> None:
        """Stop Spark if `connect` started it. Spark keeps running if the caller passed a Spark session."""
        if self._owns_spark:
            self._spark.stop()


def target_of(session: Session, name: str) -> Target:
    """Return the table and the branch that a name in SQL has. Raises TableNotFound, VersionNotFound, and TableError for a view."""
    with translated(name):
        return session._context.names.target(parse_table_name(name))


def _check_write(mode: Mode, format_: str | None, schema_evolution: bool | None) -> None:
    """Raise ConfigurationError for an unknown mode, and for arguments that the mode does not take."""
    if mode not in get_args(Mode):
        raise ConfigurationError(f"mode {mode!r} is unknown. Use 'append', 'overwrite' or 'replace'.")
    if format_ is not None and (mode != "replace" or format_ not in TABLE_FORMATS):
        raise ConfigurationError(f"format is {format_!r}. Use one of {', '.join(TABLE_FORMATS)}, and only with mode 'replace'.")
    if mode == "replace" and schema_evolution is not None:
        raise ConfigurationError("mode 'replace' always uses the schema of the rows. Omit schema_evolution.")


def _first_word(text: str) -> str:
    """Return the first word of a query in upper case, such as `SELECT`, as the name of the statement."""
    words = text.replace("(", " ").split(maxsplit=1)
    return words[0].upper() if words else "SELECT"
