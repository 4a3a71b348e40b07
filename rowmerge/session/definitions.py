"""Statements that define and describe, carried out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rowmerge.catalog import Catalog, Relation
from rowmerge.commands.definitions import (
    AddColumns,
    AddConstraint,
    AlterColumn,
    ChangePartitioning,
    CloneTable,
    CommentOn,
    CommentOnColumns,
    CreateSchema,
    CreateTable,
    CreateView,
    DefinitionCommand,
    Describe,
    Detail,
    Drop,
    DropColumns,
    DropConstraint,
    DropSchema,
    RenameColumn,
    SetDefault,
    SetNullable,
    SetProperties,
    SetWriteOrder,
    ShowColumns,
    ShowProperties,
    ShowSchemas,
    ShowTables,
    UnsetProperties,
    UseSchema,
)
from rowmerge.commands.names import TableName
from rowmerge.errors import AlreadyExists, PlanError, SchemaNotFound, TableNotFound
from rowmerge.execution.commit import AS_THE_TABLE_SAYS, CommitOptions
from rowmerge.execution.insert import NewRows
from rowmerge.execution.result import ChangeResult
from rowmerge.execution.table_change import change_definition, create_table
from rowmerge.session import answers
from rowmerge.session.binding import Binder
from rowmerge.session.clones import Clones
from rowmerge.session.column_changes import changed_paths, check_unused, commented, schema_change
from rowmerge.session.columns import new_properties, query_columns, renamed, view_columns, with_columns
from rowmerge.session.constraints import Constraints, checks_by_name
from rowmerge.session.description import RelationDescription, describe
from rowmerge.session.partitioning import change_of, partitioning, write_order
from rowmerge.session.results import StatementResult
from rowmerge.spark.columns import fields_of
from rowmerge.spark.definition_rules import check_rules
from rowmerge.spark.types import check_storable
from rowmerge.table.schema import quote
from rowmerge.table.snapshot import Snapshot, Table, TableDefinition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Definitions:
    """Carries out definition commands on one catalog."""

    spark: SparkSession
    catalog: Catalog
    binder: Binder
    default_format: str

    def run(self, command: DefinitionCommand, options: CommitOptions) -> StatementResult:
        """The result of a command. Raises TableError, PlanError and what the catalog and the format raise."""
        match command:
            case CreateTable():
                return self._create_table(command, options)
            case CloneTable():
                return Clones(self.spark, self.catalog, self.binder).run(command, options)
            case CreateView():
                return self._create_view(command)
            case CreateSchema(name, if_not_exists, comment, properties):
                self.catalog.create_schema(name, if_not_exists=if_not_exists, comment=comment, properties=properties)
                return self._done("CREATE SCHEMA")
            case DropSchema(name, if_exists, cascade):
                self.catalog.drop_schema(name, if_exists=if_exists, cascade=cascade)
                return self._done("DROP SCHEMA")
            case Drop():
                return self._drop(command)
            case AddColumns():
                return self._add_columns(command)
            case RenameColumn() | DropColumns() | AlterColumn():
                return self._change_columns(command)
            case SetProperties() | UnsetProperties():
                return self._properties(command)
            case ChangePartitioning() | SetWriteOrder():
                operation, definition = change_of(command) if isinstance(command, ChangePartitioning) else write_order(command)
                return self._changed(command.name, operation, {}, definition)
            case CommentOn():
                return self._comment(command)
            case CommentOnColumns():
                return self._comment_on_columns(command)
            case AddConstraint() | DropConstraint() | SetDefault() | SetNullable():
                result = Constraints(self.spark, self.binder).run(command)
                return StatementResult(answers.nothing(self.spark), "ALTER TABLE", None, result.version, result.timings.seconds)
            case Describe() | ShowSchemas() | ShowTables() | ShowProperties() | ShowColumns():
                return self._told(command)
            case UseSchema(name):
                if not self.catalog.schema_exists(name):
                    raise SchemaNotFound(quote(name), self.catalog.schemas())
                self.binder.schema = name.lower()
                return self._done("USE")

    def describe(self, name: TableName) -> RelationDescription:
        """What is known of a relation. Raises TableNotFound."""
        relation = self._relation(name)
        return describe(self.catalog, relation, self.catalog.location_of(relation.schema, relation.name))

    # ---------------------------------------------------------- tables

    def create(
        self,
        name: TableName,
        definition: TableDefinition,
        rows: NewRows | None,
        options: CommitOptions = AS_THE_TABLE_SAYS,
        *,
        or_replace: bool,
        format_: str | None = None,
        location: str | None = None,
        base: Snapshot | None = None,
    ) -> ChangeResult:
        """Make or replace a table; `base` is the version on which the rows were looked up.

        `format_`: None for that of the table that is there, or else the session's. Raises AlreadyExists, also for a view of that name,
        PlanError for a table of another format.
        """
        schema, table_name = self.binder.locate(name)
        relation = self.catalog.relation(schema, table_name)
        if relation is not None and relation.kind == "view":
            raise AlreadyExists(f"{schema}.{table_name} is a view. Drop it with DROP VIEW, or choose another name.")
        table: Table
        if relation is not None:
            if or_replace and format_ not in (None, relation.format):
                raise PlanError(
                    f"{schema}.{table_name} has the format {relation.format}, which CREATE OR REPLACE cannot change to {format_}. "
                    f"Drop the table first."
                )
            table = self.catalog.open(schema, table_name)
            format_ = relation.format or self.default_format
        else:
            format_ = format_ or self.default_format
            table = self.catalog.table_at(schema, table_name, format_, location)
        if location is not None and relation is None and table.exists() and rows is None and not definition.schema:
            opened = change_definition(table, "CREATE TABLE", {}, lambda snapshot: None)
            self.catalog.register(schema, table_name, format_, location)
            return opened
        if not definition.schema:
            raise PlanError(f"CREATE TABLE {name} has no columns. List them, add AS SELECT, or give the LOCATION of a table that exists.")
        check_rules(self.spark, f"{schema}.{table_name}", definition.schema, table.shape(definition).rules)
        result = create_table(table, f"{schema}.{table_name}", definition, rows, options, or_replace=or_replace, base=base)
        if location is not None and relation is None:
            self.catalog.register(schema, table_name, format_, location)
        return result

    def _create_table(self, command: CreateTable, options: CommitOptions) -> StatementResult:
        schema, name = self.binder.locate(command.name)
        existing = self.catalog.relation(schema, name)
        if existing is not None and command.if_not_exists:
            return self._done("CREATE TABLE")
        rows: NewRows | None = None
        base: Snapshot | None = None
        columns = fields_of(self.spark, command.columns)
        if command.query is not None:
            if existing is not None and existing.kind == "table":
                base = self.catalog.open(schema, name).snapshot()
            names = None if base is None else self.binder.statement(base)
            frame = self.binder.query(command.query.text, names)
            columns = columns or query_columns(frame)
            rows = NewRows(frame, reads_table=base is not None and names is not None and base.line in names.read)
        check_storable(columns)
        partitioned_by = partitioning(columns, command.partitioned_by)
        checks = checks_by_name(command.checks, name)
        definition = TableDefinition(columns, partitioned_by, command.properties, command.comment, checks or None)
        result = self.create(
            command.name,
            definition,
            rows,
            options,
            or_replace=command.or_replace,
            format_=command.format,
            location=command.location,
            base=base,
        )
        operation = "CREATE OR REPLACE TABLE" if command.or_replace else "CREATE TABLE"
        outcome = StatementResult.of(answers.nothing(self.spark), operation, result)
        return outcome if rows is not None else replace(outcome, changes=None)

    def _drop(self, command: Drop) -> StatementResult:
        operation = "DROP VIEW" if command.view else "DROP TABLE"
        if command.view and len(command.name.parts) == 1 and self.binder.drop_temporary(command.name.parts[0]):
            return self._done(operation)
        schema, name = self.binder.locate(command.name)
        if self.catalog.relation(schema, name) is None and command.if_exists:
            return self._done(operation)
        if command.view:
            self.catalog.drop_view(schema, name)
        else:
            self.catalog.drop_table(schema, name)
        return self._done(operation)

    def _add_columns(self, command: AddColumns) -> StatementResult:
        added = fields_of(self.spark, command.columns)

        def definition(snapshot: Snapshot) -> TableDefinition:
            return TableDefinition(schema=with_columns(snapshot, added, command))

        parameters: dict[str, object] = {"columns": [{"column": {"name": f.name, "type": f.sql_type}} for f in added]}
        return self._changed(command.name, "ADD COLUMNS", parameters, definition)

    def _change_columns(self, command: RenameColumn | DropColumns | AlterColumn) -> StatementResult:
        operation, parameters, change = schema_change(self.spark, command)

        def definition(snapshot: Snapshot) -> TableDefinition | None:
            schema = change(snapshot.schema)
            for path in changed_paths(command):
                check_unused(snapshot, path)
            return TableDefinition(schema=schema) if schema != snapshot.schema else None

        return self._changed(command.name, operation, parameters, definition)

    def _properties(self, command: SetProperties | UnsetProperties) -> StatementResult:
        if self._relation(command.name).kind == "view":
            return self._view_properties(command)

        def definition(snapshot: Snapshot) -> TableDefinition:
            return TableDefinition(properties=new_properties(command, snapshot.properties))

        if isinstance(command, SetProperties):
            return self._changed(command.name, "SET TBLPROPERTIES", {"properties": dict(command.properties)}, definition)
        return self._changed(command.name, "UNSET TBLPROPERTIES", {"properties": list(command.keys)}, definition)

    def _comment(self, command: CommentOn) -> StatementResult:
        relation = self._relation(command.name)
        if relation.kind == "view":
            return self._comment_on_view(relation, command)

        def definition(snapshot: Snapshot) -> TableDefinition:
            if command.column is None:
                return TableDefinition(description=command.comment or "")
            return TableDefinition(schema=commented(snapshot.schema, command.column, command.comment))

        operation = "CHANGE COLUMN" if command.column else "COMMENT ON TABLE"
        return self._changed(command.name, operation, {"comment": command.comment or ""}, definition)

    def _comment_on_columns(self, command: CommentOnColumns) -> StatementResult:
        def definition(snapshot: Snapshot) -> TableDefinition:
            schema = snapshot.schema
            for path, comment in command.comments:
                schema = commented(schema, path, comment)
            return TableDefinition(schema=schema)

        parameters: dict[str, object] = {"columns": [{"path": ".".join(path), "comment": text} for path, text in command.comments]}
        return self._changed(command.name, "CHANGE COLUMNS", parameters, definition)

    def _changed(self, name: TableName, operation: str, parameters: dict[str, object], definition: object) -> StatementResult:
        assert callable(definition)
        result = change_definition(self.binder.table(name), operation, parameters, definition)
        return StatementResult(answers.nothing(self.spark), operation, None, result.version, result.timings.seconds)

    # ---------------------------------------------------------- views

    def _create_view(self, command: CreateView) -> StatementResult:
        if command.temporary:
            name = command.name.parts[-1]
            if len(command.name.parts) > 1:
                raise PlanError(f"A temporary view has no schema: CREATE TEMPORARY VIEW {quote(name)}.")
            if self.binder.is_temporary(name) and not command.or_replace:
                if command.if_not_exists:
                    return self._done("CREATE VIEW")
                raise AlreadyExists(f"The temporary view {name} exists already. Add OR REPLACE.")
            text = command.query.text
            if command.columns:
                aliases = ", ".join(quote(column) for column, _ in command.columns)
                text = f"select * from ({text}) as __rowmerge_view ({aliases})"
            self.binder.add_temporary(name, text)
            return self._done("CREATE VIEW")
        schema, name = self.binder.locate(command.name)
        existing = self.catalog.relation(schema, name)
        if existing is not None and command.if_not_exists:
            return self._done("CREATE VIEW")
        columns = view_columns(self.binder.query(command.query.text))
        if command.columns:
            columns = renamed(columns, command.columns)
        self.catalog.put_view(
            schema,
            name,
            command.query.text,
            default_schema=self.binder.schema,
            columns=columns,
            comment=command.comment,
            properties=command.properties,
            or_replace=command.or_replace,
        )
        return self._done("CREATE VIEW")

    def _view_properties(self, command: SetProperties | UnsetProperties) -> StatementResult:
        schema, name = self.binder.locate(command.name)
        view = self.catalog.view(schema, name)
        self.catalog.put_view(
            schema,
            name,
            view.sql,
            default_schema=view.default_schema,
            columns=view.columns,
            comment=view.comment,
            properties=new_properties(command, view.properties),
            or_replace=True,
        )
        return self._done("ALTER VIEW")

    def _comment_on_view(self, relation: Relation, command: CommentOn) -> StatementResult:
        view = self.catalog.view(relation.schema, relation.name)
        columns = view.columns if command.column is None else commented(view.columns, command.column, command.comment)
        self.catalog.put_view(
            relation.schema,
            relation.name,
            view.sql,
            default_schema=view.default_schema,
            columns=columns,
            comment=command.comment if command.column is None else view.comment,
            properties=view.properties,
            or_replace=True,
        )
        return self._done("COMMENT ON")

    # ---------------------------------------------------------- answers

    def _told(self, command: Describe | ShowSchemas | ShowTables | ShowProperties | ShowColumns) -> StatementResult:
        return StatementResult(self._answer(command), "SHOW" if not isinstance(command, Describe) else command.detail.value)

    def _answer(self, command: Describe | ShowSchemas | ShowTables | ShowProperties | ShowColumns) -> DataFrame:
        match command:
            case Describe(name, Detail.HISTORY, limit):
                return answers.history_of(self.spark, self.binder.table(name).history(limit))
            case Describe(name, Detail.DETAIL):
                return answers.detail_of(self.spark, self.describe(name), self.binder.table(name).snapshot())
            case Describe(name, detail):
                if len(name.parts) == 1 and self.binder.is_temporary(name.parts[0]):
                    return self.spark.sql(f"describe {name}")
                return answers.columns_of(self.spark, self.describe(name), detail is Detail.EXTENDED)
            case ShowSchemas(like):
                return answers.names(self.spark, "namespace", self.catalog.schemas(), like)
            case ShowTables(schema, like, views, extended):
                return self._relations(schema or self.binder.schema, like, views, extended)
            case ShowProperties(name, key):
                return answers.properties(self.spark, self.describe(name).properties, key)
            case ShowColumns(name):
                return answers.names(self.spark, "col_name", [f.name for f in self.describe(name).columns], None)

    def _relations(self, schema: str, like: str | None, views: bool, extended: bool) -> DataFrame:
        if not self.catalog.schema_exists(schema):
            raise SchemaNotFound(quote(schema), self.catalog.schemas())
        listed = [r for r in self.catalog.relations(schema) if answers.matches(r.name, like) and (r.kind == "view" or not views)]
        if extended:
            return answers.relations_extended(self.spark, [self.describe(TableName((r.schema, r.name))) for r in listed])
        return answers.relations(self.spark, [(r.schema, r.name, False) for r in listed], "viewName" if views else "tableName")

    def _relation(self, name: TableName) -> Relation:
        schema, relation_name = self.binder.locate(name)
        relation = self.catalog.relation(schema, relation_name)
        if relation is None:
            self.binder.table(name)
            raise TableNotFound(str(name))
        return relation

    def _done(self, operation: str) -> StatementResult:
        return StatementResult(answers.nothing(self.spark), operation)
