"""The dispatch of statements that define and describe to the modules that execute them."""

from __future__ import annotations

from dataclasses import dataclass

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
from rowmerge.session.answers.results import StatementResult
from rowmerge.session.definitions.alterations import AlterTable, alteration_of
from rowmerge.session.definitions.clones import clone_table
from rowmerge.session.definitions.constraints import ConstraintCommand, change_constraint
from rowmerge.session.definitions.creation import TableCreation
from rowmerge.session.definitions.listings import ListingCommand, listing_rows
from rowmerge.session.definitions.views import comment_on_view, create_view, set_view_properties
from rowmerge.session.names.context import SessionContext
from rowmerge.table.metadata.schema import quote


@dataclass(frozen=True)
class Definitions:
    """Executes definition commands. `default_format`: as `TableCreation` takes it."""

    context: SessionContext
    default_format: str

    def run(self, command: DefinitionCommand, options: CommitOptions) -> StatementResult:
        """Execute a command. Raises TableError, PlanError and what the catalog and the format raise."""
        if isinstance(command, ConstraintCommand):
            return self._altered("ALTER TABLE", change_constraint(self.context, command))
        if isinstance(command, ListingCommand):
            operation = command.detail.value if isinstance(command, Describe) else "SHOW"
            return StatementResult(listing_rows(self.context, command), operation)
        match command:
            case CreateTable():
                return TableCreation(self.context, self.default_format).run(command, options)
            case CloneTable():
                return clone_table(self.context, command, options)
            case CreateView():
                create_view(self.context, command)
                return self._done("CREATE VIEW")
            case CreateSchema(name, if_not_exists, comment, properties):
                self.context.catalog.create_schema(name, if_not_exists=if_not_exists, comment=comment, properties=properties)
                return self._done("CREATE SCHEMA")
            case DropSchema(name, if_exists, cascade):
                self.context.catalog.drop_schema(name, if_exists=if_exists, cascade=cascade)
                return self._done("DROP SCHEMA")
            case Drop():
                return self._drop(command)
            case UseSchema(name):
                return self._use(name)
        return self._alter(command)

    def _alter(self, command: AlterTable) -> StatementResult:
        """Change the definition of a table, or the properties or comments of a view."""
        if isinstance(command, SetProperties | UnsetProperties | CommentOn):
            relation = self.context.names.existing(command.name)
            if relation.kind == "view":
                return self._alter_view(relation, command)
        alteration = alteration_of(self.context, command)
        table = self.context.names.table(command.name)
        result = change_definition(table, alteration.operation, alteration.parameters, alteration.definition)
        return self._altered(alteration.operation, result)

    def _alter_view(self, relation: Relation, command: SetProperties | UnsetProperties | CommentOn) -> StatementResult:
        if isinstance(command, CommentOn):
            comment_on_view(self.context, relation, command)
            return self._done("COMMENT ON")
        set_view_properties(self.context, relation, command)
        return self._done("ALTER VIEW")

    def _drop(self, command: Drop) -> StatementResult:
        """Drop a table or a view. A temporary view comes before a view of the catalog with the same name."""
        operation = "DROP VIEW" if command.view else "DROP TABLE"
        names, catalog = self.context.names, self.context.catalog
        if command.view and len(command.name.parts) == 1 and names.temporary_views.drop(command.name.parts[0]):
            return self._done(operation)
        place = names.place(command.name)
        if place.existing is None and command.if_exists:
            return self._done(operation)
        drop = catalog.drop_view if command.view else catalog.drop_table
        drop(place.schema, place.name)
        return self._done(operation)

    def _use(self, schema: str) -> StatementResult:
        if not self.context.catalog.schema_exists(schema):
            raise SchemaNotFound(quote(schema), self.context.catalog.schemas())
        self.context.names.schema = schema.lower()
        return self._done("USE")

    def _altered(self, operation: str, result: ChangeResult) -> StatementResult:
        return StatementResult(frames.empty_frame(self.context.spark), operation, None, result.version, result.timings.seconds)

    def _done(self, operation: str) -> StatementResult:
        return StatementResult(frames.empty_frame(self.context.spark), operation)
