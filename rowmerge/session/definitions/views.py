"""CREATE VIEW, and changes of a view's comments and properties."""

from __future__ import annotations

from dataclasses import replace

from rowmerge.catalog import Relation, View
from rowmerge.commands.definitions import CommentOn, CreateView, SetProperties, UnsetProperties
from rowmerge.errors import AlreadyExists, PlanError
from rowmerge.session.definitions.column_changes import set_comment
from rowmerge.session.definitions.columns import new_properties, rename_view_columns, view_columns
from rowmerge.session.names.context import SessionContext
from rowmerge.session.names.scope import StatementScope
from rowmerge.table.metadata.schema import quote


def create_view(context: SessionContext, command: CreateView) -> None:
    """Create or replace a view. Raises AlreadyExists, SchemaNotFound, PlanError, and what Spark raises for the query."""
    if command.temporary:
        _create_temporary_view(context, command)
        return
    place = context.names.place(command.name)
    if place.existing is not None and command.if_not_exists:
        return
    columns = view_columns(StatementScope.begin(context).query(command.query.text))
    if command.columns:
        columns = rename_view_columns(columns, command.columns)
    relation = Relation(place.schema, place.name, "view", None)
    view = View(relation, command.query.text, context.names.schema, columns, command.comment, command.properties)
    context.catalog.put_view(view, or_replace=command.or_replace)


def _create_temporary_view(context: SessionContext, command: CreateView) -> None:
    """Create or replace a temporary view. Raise PlanError for a name with a schema, AlreadyExists."""
    name, views = command.name.parts[-1], context.names.temporary_views
    if len(command.name.parts) > 1:
        raise PlanError(f"A temporary view has no schema: CREATE TEMPORARY VIEW {quote(name)}.")
    if not command.or_replace and views.exists(name):
        if command.if_not_exists:
            return
        raise AlreadyExists(f"The temporary view {name} exists already. Add OR REPLACE.")
    query = command.query.text
    if command.columns:
        aliases = ", ".join(quote(column) for column, _ in command.columns)
        query = f"select * from ({query}) as __rowmerge_view ({aliases})"
    views.create(name, query, StatementScope.begin(context).query(query))


def set_view_properties(context: SessionContext, relation: Relation, command: SetProperties | UnsetProperties) -> None:
    """Change the properties of a view. Raises TableError if UNSET names a property that the view lacks."""
    view = context.catalog.view(relation.schema, relation.name)
    context.catalog.put_view(replace(view, properties=new_properties(command, view.properties)), or_replace=True)


def comment_on_view(context: SessionContext, relation: Relation, command: CommentOn) -> None:
    """Comment on a view or one of its columns. Raises UnknownColumn."""
    view = context.catalog.view(relation.schema, relation.name)
    if command.column is None:
        view = replace(view, comment=command.comment)
    else:
        view = replace(view, columns=set_comment(view.columns, command.column, command.comment))
    context.catalog.put_view(view, or_replace=True)
