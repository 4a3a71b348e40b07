"""Dispatch of statements that define or describe schemas, tables and views to the modules that execute them."""

from __future__ import annotations

from dataclasses import replace

from rowmerge.commands import definitions as commands
from rowmerge.commands.listings import DescribeAsJson, DescribeColumn, DescribePartition
from rowmerge.commands.tables import CreateTableLike, Rename, SetLocation
from rowmerge.errors import PlanError
from rowmerge.execution.commit import CommitOptions
from rowmerge.execution.table_change import change_definition
from rowmerge.session.answers.results import StatementResult, empty_result
from rowmerge.session.definitions.alterations import build_alteration
from rowmerge.session.definitions.creation import clone_table, run_create_table
from rowmerge.session.definitions.like import create_table_like
from rowmerge.session.definitions.listings import listing_rows
from rowmerge.session.definitions.relocation import rename, set_location
from rowmerge.session.definitions.views import AlterView, alter_view, create_view
from rowmerge.session.names.scope import SessionContext


def run_definition(context: SessionContext, command: commands.DefinitionCommand, options: CommitOptions) -> StatementResult:
    """Execute a statement that defines or describes schemas, tables and views.

    Args:
        context: The session.
        command: The parsed statement.
        options: The number of retries, and the transaction of CREATE TABLE … AS SELECT.
    """
    if isinstance(command, commands.ListingCommand):
        is_description = isinstance(command, DescribePartition | DescribeColumn | DescribeAsJson)
        operation = command.detail.value if isinstance(command, commands.Describe) else "DESCRIBE" if is_description else "SHOW"
        return StatementResult(listing_rows(context, command), operation)
    match command:
        case commands.CreateTable():
            return run_create_table(context, command, options)
        case commands.CloneTable():
            return clone_table(context, command, options)
        case commands.CreateView():
            create_view(context, command)
            return empty_result(context.spark, "CREATE VIEW")
        case commands.Drop():
            _drop(context, command)
            return empty_result(context.spark, "DROP VIEW" if command.view else "DROP TABLE")
        case Rename():
            rename(context, command)
            return empty_result(context.spark, "ALTER VIEW" if command.view else "ALTER TABLE")
        case SetLocation():
            set_location(context, command)
            return empty_result(context.spark, "ALTER TABLE")
        case CreateTableLike():
            return create_table_like(context, command, options)
        case commands.CreateSchema() | commands.DropSchema() | commands.UseSchema():
            return _run_schema_command(context, command)
    return _alter(context, command)


def _alter(context: SessionContext, command: commands.AlterTable) -> StatementResult:
    """Change the definition of a table, or the properties or comments of a view."""
    if isinstance(command, AlterView):
        relation = context.names.existing_relation(command.name)
        if relation.kind == "view":
            alter_view(context, relation, command)
            return empty_result(context.spark, "COMMENT ON" if isinstance(command, commands.CommentOn) else "ALTER VIEW")
    return _alter_table(context, command)


def _alter_table(context: SessionContext, command: commands.AlterTable) -> StatementResult:
    """Commit a change to the definition of a table. The result has no rows, and names the operation as Delta's history does."""
    change = build_alteration(context, command)
    table = context.names.table(command.name)
    result = change_definition(table, change.operation, change.parameters, change.definition, reads_rows=change.reads_rows)
    operation = "ALTER TABLE" if isinstance(command, commands.ConstraintCommand) else change.operation
    return replace(empty_result(context.spark, operation), version=result.version, seconds=result.timings.seconds)


def _drop(context: SessionContext, command: commands.Drop) -> None:
    """Drop a table or a view. A temporary view takes precedence over a view of the catalog with the same name."""
    may_be_temporary = command.view and len(command.name.parts) == 1
    if may_be_temporary and context.names.temporary_views.drop(command.name.parts[0]):
        context.views.uncache(command.name.parts[0].lower())
        return
    name = context.names.qualify(command.name)
    if name.relation is None and command.if_exists:
        return
    drop = context.catalog.drop_view if command.view else context.catalog.drop_table
    drop(name.schema, name.name)
    context.views.uncache(str(name.relation or name).lower())


def _run_schema_command(context: SessionContext, command: commands.SchemaCommand) -> StatementResult:
    """Run CREATE SCHEMA, DROP SCHEMA or USE. Raise SchemaNotFound for a missing schema, and the errors of the catalog."""
    catalog, name = context.catalog, context.names.schema_of(command.name)
    match command:
        case commands.CreateSchema(_, if_not_exists, comment, properties):
            catalog.create_schema(name, if_not_exists=if_not_exists, comment=comment, properties=properties)
            return empty_result(context.spark, "CREATE SCHEMA")
        case commands.DropSchema(_, if_exists, cascade):
            catalog.drop_schema(name, if_exists=if_exists, cascade=cascade)
            return empty_result(context.spark, "DROP SCHEMA")
        case commands.UseSchema():
            if command.name.lower() in context.names.catalogs and not catalog.schema_exists(name):
                raise PlanError(f"{command.name} is a catalog. Name a schema in it: USE {command.name}.default.")
            context.names.check_schema(name)
            context.names.schema = name.lower()
            return empty_result(context.spark, "USE")
