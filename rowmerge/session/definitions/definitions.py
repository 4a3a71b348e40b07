"""The dispatch of statements that define and describe to the modules that execute them."""

from __future__ import annotations

from rowmerge.catalog import Relation
from rowmerge.commands.definitions import (
    CloneTable,
    CommentOn,
    CreateSchema,
    CreateTable,
    CreateView,
    DefinitionCommand,
    Describe,
    Drop,
    DropSchema,
    SetProperties,
    UnsetProperties,
    UseSchema,
)
from rowmerge.errors import SchemaNotFound
from rowmerge.execution.commit import CommitOptions
from rowmerge.execution.result import ChangeResult
from rowmerge.execution.table_change import change_definition
from rowmerge.session.answers import frames
from rowmerge.session.answers.results import StatementResult, empty_result
from rowmerge.session.definitions.alterations import AlterTable, alteration_of
from rowmerge.session.definitions.clones import clone_table
from rowmerge.session.definitions.constraints import ConstraintCommand, change_constraint
from rowmerge.session.definitions.creation import run_create_table
from rowmerge.session.definitions.listings import ListingCommand, listing_rows
from rowmerge.session.definitions.views import comment_on_view, create_view, set_view_properties
from rowmerge.session.names.context import SessionContext
from rowmerge.table.metadata.schema import quote


def run_definition(context: SessionContext, command: DefinitionCommand, options: CommitOptions) -> StatementResult:
    """Execute a command that defines or describes. Raises TableError, PlanError and what the catalog and the format raise."""
    if isinstance(command, ConstraintCommand):
        return _result(context, "ALTER TABLE", change_constraint(context, command))
    if isinstance(command, ListingCommand):
        operation = command.detail.value if isinstance(command, Describe) else "SHOW"
        return StatementResult(listing_rows(context, command), operation)
    match command:
        case CreateTable():
            return run_create_table(context, command, options)
        case CloneTable():
            return clone_table(context, command, options)
        case CreateView():
            create_view(context, command)
            return empty_result(context.spark, "CREATE VIEW")
        case CreateSchema(name, if_not_exists, comment, properties):
            context.catalog.create_schema(name, if_not_exists=if_not_exists, comment=comment, properties=properties)
            return empty_result(context.spark, "CREATE SCHEMA")
        case DropSchema(name, if_exists, cascade):
            context.catalog.drop_schema(name, if_exists=if_exists, cascade=cascade)
            return empty_result(context.spark, "DROP SCHEMA")
        case Drop():
            return _drop(context, command)
        case UseSchema(name):
            return _use(context, name)
    return _alter(context, command)


def _alter(context: SessionContext, command: AlterTable) -> StatementResult:
    """Change the definition of a table, or the properties or comments of a view."""
    if isinstance(command, SetProperties | UnsetProperties | CommentOn):
        relation = context.names.existing(command.name)
        if relation.kind == "view":
            return _alter_view(context, relation, command)
    alteration = alteration_of(context, command)
    table = context.names.table(command.name)
    result = change_definition(table, alteration.operation, alteration.parameters, alteration.definition)
    return _result(context, alteration.operation, result)


def _alter_view(context: SessionContext, relation: Relation, command: SetProperties | UnsetProperties | CommentOn) -> StatementResult:
    if isinstance(command, CommentOn):
        comment_on_view(context, relation, command)
        return empty_result(context.spark, "COMMENT ON")
    set_view_properties(context, relation, command)
    return empty_result(context.spark, "ALTER VIEW")


def _drop(context: SessionContext, command: Drop) -> StatementResult:
    """Drop a table or a view. A temporary view comes before a view of the catalog with the same name."""
    operation = "DROP VIEW" if command.view else "DROP TABLE"
    names, catalog = context.names, context.catalog
    if command.view and len(command.name.parts) == 1 and names.temporary_views.drop(command.name.parts[0]):
        return empty_result(context.spark, operation)
    place = names.place(command.name)
    if place.existing is None and command.if_exists:
        return empty_result(context.spark, operation)
    drop = catalog.drop_view if command.view else catalog.drop_table
    drop(place.schema, place.name)
    return empty_result(context.spark, operation)


def _use(context: SessionContext, schema: str) -> StatementResult:
    if not context.catalog.schema_exists(schema):
        raise SchemaNotFound(quote(schema), context.catalog.schemas())
    context.names.schema = schema.lower()
    return empty_result(context.spark, "USE")


def _result(context: SessionContext, operation: str, result: ChangeResult) -> StatementResult:
    return StatementResult(frames.empty_frame(context.spark), operation, None, result.version, result.timings.seconds)
