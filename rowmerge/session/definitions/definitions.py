"""Statements that define and describe, each given to the module that executes it."""

from __future__ import annotations

from dataclasses import dataclass

from rowmerge.commands.definitions import (
    AddConstraint,
    CloneTable,
    CommentOn,
    CreateSchema,
    CreateTable,
    CreateView,
    DefinitionCommand,
    Describe,
    Drop,
    DropConstraint,
    DropSchema,
    SetDefault,
    SetNullable,
    SetProperties,
    ShowColumns,
    ShowProperties,
    ShowSchemas,
    ShowTables,
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
from rowmerge.session.definitions.clones import Clones
from rowmerge.session.definitions.constraints import Constraints
from rowmerge.session.definitions.creation import TableCreation
from rowmerge.session.definitions.listings import Listings
from rowmerge.session.definitions.views import ViewDefinitions
from rowmerge.session.names.context import SessionContext
from rowmerge.table.metadata.schema import quote


@dataclass(frozen=True)
class Definitions:
    """Executes definition commands. `default_format`: as `TableCreation` takes it."""

    context: SessionContext
    default_format: str

    def run(self, command: DefinitionCommand, options: CommitOptions) -> StatementResult:
        """Execute a command. Raises TableError, PlanError and what the catalog and the format raise."""
        match command:
            case CreateTable():
                return TableCreation(self.context, self.default_format).run(command, options)
            case CloneTable():
                return Clones(self.context).run(command, options)
            case CreateView():
                ViewDefinitions(self.context).create(command)
                return self._done("CREATE VIEW")
            case CreateSchema(name, if_not_exists, comment, properties):
                self.context.catalog.create_schema(name, if_not_exists=if_not_exists, comment=comment, properties=properties)
                return self._done("CREATE SCHEMA")
            case DropSchema(name, if_exists, cascade):
                self.context.catalog.drop_schema(name, if_exists=if_exists, cascade=cascade)
                return self._done("DROP SCHEMA")
            case Drop():
                return self._drop(command)
            case AddConstraint() | DropConstraint() | SetDefault() | SetNullable():
                return self._altered("ALTER TABLE", Constraints(self.context).run(command))
            case Describe() | ShowSchemas() | ShowTables() | ShowProperties() | ShowColumns():
                operation = command.detail.value if isinstance(command, Describe) else "SHOW"
                return StatementResult(Listings(self.context).rows(command), operation)
            case UseSchema(name):
                if not self.context.catalog.schema_exists(name):
                    raise SchemaNotFound(quote(name), self.context.catalog.schemas())
                self.context.names.schema = name.lower()
                return self._done("USE")
        return self._alter(command)

    def _alter(self, command: AlterTable) -> StatementResult:
        if isinstance(command, SetProperties | UnsetProperties | CommentOn):
            relation = self.context.names.existing(command.name)
            views = ViewDefinitions(self.context)
            if relation.kind == "view" and isinstance(command, CommentOn):
                views.comment(relation, command)
                return self._done("COMMENT ON")
            if relation.kind == "view" and not isinstance(command, CommentOn):
                views.set_properties(relation, command)
                return self._done("ALTER VIEW")
        alteration = alteration_of(self.context, command)
        table = self.context.names.table(command.name)
        result = change_definition(table, alteration.operation, alteration.parameters, alteration.definition)
        return self._altered(alteration.operation, result)

    def _drop(self, command: Drop) -> StatementResult:
        operation = "DROP VIEW" if command.view else "DROP TABLE"
        names, catalog = self.context.names, self.context.catalog
        if command.view and len(command.name.parts) == 1 and names.temporary_views.drop(command.name.parts[0]):
            return self._done(operation)
        place = names.place(command.name)
        if place.existing is None and command.if_exists:
            return self._done(operation)
        if command.view:
            catalog.drop_view(place.schema, place.name)
        else:
            catalog.drop_table(place.schema, place.name)
        return self._done(operation)

    def _altered(self, operation: str, result: ChangeResult) -> StatementResult:
        return StatementResult(frames.empty(self.context.spark), operation, None, result.version, result.timings.seconds)

    def _done(self, operation: str) -> StatementResult:
        return StatementResult(frames.empty(self.context.spark), operation)
