"""Session: SQL on the tables of one warehouse, over one Spark session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from rowmerge.catalog import Catalog, DirectoryCatalog, IcebergCatalog, Relation, TablesByPath
from rowmerge.commands.definitions import CreateTable, Query
from rowmerge.commands.explain import Explain
from rowmerge.commands.functions import CreateFunction, DescribeFunction, DropFunction, ShowFunctions
from rowmerge.commands.maintenance import DropReference, Optimize, Reorg, Restore, SetReference, Vacuum
from rowmerge.commands.names import TableName
from rowmerge.commands.procedures import Call
from rowmerge.commands.rows import Delete, Insert, Merge, Truncate, Update
from rowmerge.errors import ConfigurationError, PlanError, TableNotFound, UnsupportedStatement
from rowmerge.execution.commit import CommitOptions
from rowmerge.execution.insert import NewRows, append, overwrite
from rowmerge.session import answers
from rowmerge.session.binding import Binder
from rowmerge.session.change_arguments import sql_constant
from rowmerge.session.columns import query_columns
from rowmerge.session.definitions import Definitions
from rowmerge.session.description import RelationDescription
from rowmerge.session.embedded import start_spark
from rowmerge.session.explanations import Explanations
from rowmerge.session.functions import FunctionStatements
from rowmerge.session.idempotency import IdempotencyKey, key_in_settings, transaction_of
from rowmerge.session.maintenance import Maintenance
from rowmerge.session.partitioning import partition_field, partitioning
from rowmerge.session.results import StatementResult
from rowmerge.session.rows import RowStatements
from rowmerge.session.settings import is_checksum_mismatch_fatal, may_evolve
from rowmerge.spark.failures import translated
from rowmerge.spark.hadoop import set_hadoop_settings
from rowmerge.spark.types import frame_of
from rowmerge.spark.versions import check_session
from rowmerge.sql import Statement, parse, references
from rowmerge.sql import idempotency_key as hinted_key
from rowmerge.storage.configuration import StorageConfiguration
from rowmerge.storage.hadoop import hadoop_settings
from rowmerge.storage.store import Durability, Storage
from rowmerge.table.schema import Field, Primitive, Struct
from rowmerge.table.snapshot import Snapshot, TableDefinition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("delta", "iceberg")
"""The formats of tables."""
Mode = Literal["append", "overwrite", "replace"]


def connect(
    location: str | None = None,
    *,
    catalog: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
    spark_config: Mapping[str, object] | None = None,
    schema: str = "default",
    default_format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    commit_retries: int | None = None,
    durability: str = "full",
) -> Session:
    """Open a warehouse: a folder, or a prefix of an object store, with schemas, tables and views in it; it is made when missing.

    `catalog`: the configuration of a catalog of Iceberg tables as pyiceberg takes it (`{"type": "rest", "uri": …}`; also sql, hive, glue).
    It then says what schemas, tables and views there are, and its `name` may stand before theirs (`lake.db.orders`); `location` is where
    new tables are put, without it the catalog says where.
    `default_format`: `delta` or `iceberg`; without it Delta, and Iceberg in such a catalog.
    `spark` is a session to use (classic or Connect); without one, a Spark starts inside this process with `spark_config`. `schema` is where
    unqualified names are looked up. `storage_options` configure object stores for metadata, for data files and for Spark.
    `commit_retries`: how often a statement begins again after it lost a race for a table's next version, 0 for never; without it the
    tables' properties say.
    `durability` says what a commit on a local disk survives: `full` a power cut, `process` the death of the process, which saves the syncs.
    Raises StorageError for a location that is a file or not writable, ConfigurationError for wrong arguments or a missing Java.
    """
    if spark is not None and spark_config:
        raise ConfigurationError("Give spark or spark_config, not both: a running Spark session is configured where it was made.")
    if default_format is None:
        default_format = "delta" if catalog is None else "iceberg"
    if default_format not in FORMATS:
        raise ConfigurationError(f"default_format {default_format!r} is not known. Use one of {', '.join(FORMATS)}.")
    if commit_retries is not None and commit_retries < 0:
        raise ConfigurationError(f"commit_retries is {commit_retries}. Give a whole number, 0 or more.")
    if durability not in (levels := [level.value for level in Durability]):
        raise ConfigurationError(f"durability {durability!r} is not known. Use one of {', '.join(levels)}.")
    configuration = StorageConfiguration.parse(storage_options or {})
    open_storage = partial(Storage, options=configuration, durability=Durability(durability))
    opened = _open(location, catalog, default_format, open_storage)
    if spark is not None:
        check_session(spark)
    owned = spark is None
    by_path, started = TablesByPath(open_storage), spark or start_spark(spark_config)
    set_hadoop_settings(started, hadoop_settings(configuration))
    return Session(
        opened,
        started,
        schema,
        default_format,
        owns_spark=owned,
        commit_retries=commit_retries,
        by_path=by_path,
        catalog_name=None if catalog is None else catalog.get("name"),
    )


def _open(
    location: str | None, configuration: Mapping[str, Any] | None, default_format: str, open_storage: Callable[[str], Storage]
) -> Catalog:
    if configuration is not None:
        if default_format != "iceberg":
            raise ConfigurationError(f"default_format {default_format!r} is not what the catalog holds. Leave it out, or give 'iceberg'.")
        return IcebergCatalog(configuration, location, open_storage)
    if location is None:
        raise ConfigurationError("There is no location and no catalog. Give the folder or URL of a warehouse, or a catalog.")
    return DirectoryCatalog(open_storage(location))


class Session:
    """Runs SQL on the tables of a warehouse. Several threads may use one session."""

    def __init__(
        self,
        catalog: Catalog,
        spark: SparkSession,
        schema: str,
        default_format: str,
        *,
        owns_spark: bool,
        commit_retries: int | None = None,
        by_path: TablesByPath | None = None,
        catalog_name: str | None = None,
    ) -> None:
        self._catalog = catalog
        self._spark = spark
        self._owns_spark = owns_spark
        self._options = CommitOptions(retries=commit_retries)
        for tables in (catalog, by_path):
            if isinstance(tables, DirectoryCatalog | TablesByPath):
                tables.is_mismatch_fatal = partial(is_checksum_mismatch_fatal, spark)
        self._binder = Binder(spark, catalog, schema, by_path, catalog_name)
        self._definitions = Definitions(spark, catalog, self._binder, default_format)
        self._functions = FunctionStatements(spark, catalog, self._binder)
        self._rows = RowStatements(spark, self._binder)
        self._maintenance = Maintenance(spark, self._binder, self._options)

    @property
    def spark(self) -> SparkSession:
        """The Spark session underneath."""
        return self._spark

    def sql(self, text: str, *, idempotency_key: IdempotencyKey | None = None) -> DataFrame:
        """Run one statement; its rows. Row-level statements return counts as Delta does. `idempotency_key` as `execute` says."""
        return self.execute(text, idempotency_key=idempotency_key).frame

    def execute(self, text: str, *, idempotency_key: IdempotencyKey | None = None) -> StatementResult:
        """Run one statement; its rows and what it did.

        `idempotency_key`: a statement that writes rows is done once for each key and table, however often it is run; also written as
        `MERGE /*+ IDEMPOTENCY_KEY('…') */ INTO …`. An application's name with a version is done once for each version, which must rise.
        Raises RowmergeError.
        """
        command = parse(text)
        options = self._options_for(command, text, idempotency_key)
        with translated(text):
            match command:
                case Query(query):
                    return StatementResult(self._binder.query(query), _first_word(query))
                case Explain():
                    told = "\n".join(Explanations(self._spark, self._binder, self._rows).lines(command))
                    return StatementResult(answers.answer(self._spark, {"plan": Primitive("string")}, [(told,)]), "EXPLAIN")
                case Merge() | Update() | Delete() | Insert() | Truncate():
                    return self._rows.run(command, options)
                case Vacuum() | Optimize() | Reorg() | Restore() | Call() | SetReference() | DropReference():
                    return self._maintenance.run(command)
                case CreateFunction() | DropFunction() | DescribeFunction() | ShowFunctions():
                    return self._functions.run(command)
                case _:
                    return self._definitions.run(command, options)

    def _options_for(self, command: Statement, text: str, key: IdempotencyKey | None) -> CommitOptions:
        """Raises UnsupportedStatement for a key of a statement that writes no rows, ConfigurationError for two keys."""
        hinted = hinted_key(text)
        if key is not None and hinted is not None:
            raise ConfigurationError("The statement has an idempotency key as an argument and one in a hint. Give one of them.")
        key = hinted if key is None else key
        creates = isinstance(command, CreateTable) and command.query is not None
        if creates or isinstance(command, Merge | Update | Delete | Insert | Truncate):
            return self._with_key(key)
        if key is not None:
            raise UnsupportedStatement(
                "An idempotency key is for statements that write rows: MERGE, UPDATE, DELETE, INSERT, TRUNCATE and CREATE TABLE … AS. "
                "Leave it out",
                text=text,
            )
        return self._options

    def _with_key(self, key: IdempotencyKey | None) -> CommitOptions:
        key = key_in_settings(self._spark) if key is None else key
        return self._options if key is None else replace(self._options, transaction=transaction_of(key))

    def table(self, name: str) -> DataFrame:
        """The rows of a table's newest version, of a view, or of a temporary view; `name` as in SQL."""
        with translated(name):
            return self._binder.query(f"select * from {name}")

    def table_changes(self, name: str, start: int | str | datetime, end: int | str | datetime | None = None) -> DataFrame:
        """The change rows of a table, both ends included, as `table_changes(…)` in SQL gives them; `name` as in SQL.

        Ends are versions or times (a datetime without a zone is in the session's). Raises TableNotFound, VersionNotFound,
        ChangesNotRecorded, IncompatibleSchemaChange.
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
        """Rows into a table in one commit: `append` (by name), `overwrite` (all rows, the definition stays), `replace` (create or replace).

        `name` as in SQL; `format` and `partitioned_by` (columns, or transforms as SQL writes them) are of a table that is replaced: without
        a format it keeps its own, and a new one has the session's.
        `schema_evolution` says whether columns that the table lacks are added to it; None: as the session's setting
        `spark.databricks.delta.schema.autoMerge.enabled` and the table's property `rowmerge.write.schema-evolution` say.
        `idempotency_key` as `execute` says. Raises TableNotFound, UnknownColumn, TypeMismatch, …
        """
        command = parse(f"create table {name} (x int)")
        assert isinstance(command, CreateTable)
        options = self._with_key(idempotency_key)
        with translated(name, name):
            # What fits into this process fits into one file.
            frame = frame_of(self._spark, data).coalesce(1) if isinstance(data, pa.Table) else data
            rows = NewRows(frame, by_name=True)

            def rows_for(snapshot: Snapshot) -> NewRows:
                return replace(rows, evolves=may_evolve(self._spark, snapshot) if schema_evolution is None else schema_evolution)

            if format is not None and (mode != "replace" or format not in FORMATS):
                raise ConfigurationError(f"format is {format!r}. Give one of {', '.join(FORMATS)}, and only with mode 'replace'.")
            if mode == "replace":
                if schema_evolution is not None:
                    raise ConfigurationError("mode 'replace' takes the schema of the rows anyway. Leave schema_evolution out.")
                columns = _with_comments(query_columns(frame), column_comments or {})
                fields = partitioning(columns, tuple(partition_field(columns, text) for text in partitioned_by))
                definition = TableDefinition(columns, fields, dict(properties or {}), comment)
                result = self._definitions.create(command.name, definition, rows, options, or_replace=True, format_=format)
            elif mode == "append":
                result = append(self._binder.table(command.name), rows_for, options)
            elif mode == "overwrite":
                result = overwrite(self._binder.table(command.name), rows_for, options, dynamic=False)
            else:
                raise ConfigurationError(f"mode {mode!r} is unknown. Use 'append', 'overwrite' or 'replace'.")
            frame = answers.row_counts(self._spark, "INSERT", result.changes)
        return StatementResult.of(frame, "INSERT", result)

    def schemas(self) -> list[str]:
        """The names of all schemas."""
        return self._catalog.schemas()

    def relations(self, schema: str) -> list[Relation]:
        """The tables and views of a schema; none when it does not exist. Names are plain, unquoted."""
        return self._catalog.relations(schema)

    def relation(self, schema: str, name: str) -> Relation | None:
        """One table or view, or None."""
        return self._catalog.relation(schema, name)

    def functions(self, schema: str) -> list[str]:
        """The names of a schema's functions, unquoted; none when it does not exist."""
        return self._catalog.functions(schema)

    def describe(self, schema: str, name: str) -> RelationDescription:
        """Columns, partitioning, properties, size and version of a table or view. Raises TableNotFound."""
        if self._catalog.relation(schema, name) is None:
            raise TableNotFound(f"{schema}.{name}", [str(relation) for relation in self._catalog.relations(schema)])
        return self._definitions.describe(TableName((schema, name)))

    def describe_files(self, text: str) -> RelationDescription:
        """Columns, size and age of the files that `read_files(…)` reads, or what `describe` tells of the table in its folder.

        `text` is the function as in SQL. Raises FilesNotFound, PlanError for a text that is something else.
        """
        found = references(f"select * from {text}")
        if len(found) != 1 or found[0].files is None:
            raise PlanError(f"{text} is not read_files('…'). Give the function with its arguments, as SQL has it.")
        with translated(text):
            return self._binder.describe_files(found[0].files)

    def close(self) -> None:
        """Stop the embedded Spark; a session that was brought along stays."""
        if self._owns_spark:
            self._spark.stop()


def _first_word(text: str) -> str:
    words = text.replace("(", " ").split(maxsplit=1)
    return words[0].upper() if words else "SELECT"


def _with_comments(columns: Struct, comments: Mapping[str, str]) -> Struct:
    def commented(field: Field) -> Field:
        comment = comments.get(field.name)
        return replace(field, metadata={**field.metadata, "comment": comment}) if comment else field

    return Struct(tuple(commented(field) for field in columns))
