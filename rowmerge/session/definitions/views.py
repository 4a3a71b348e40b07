"""CREATE VIEW, and changes to the comments and properties of a view."""

from __future__ import annotations

from dataclasses import replace

from rowmerge.catalog import View
from rowmerge.commands.definitions import CommentOn, CreateView, PropertyCommand
from rowmerge.errors import AlreadyExists, PlanError
from rowmerge.session.definitions.columns import new_properties, rename_view_columns, set_comment, view_columns
from rowmerge.session.names.scope import SessionContext, StatementScope
from rowmerge.table.metadata.schema import quote
from rowmerge.table.relations import Relation

AlterView = PropertyCommand | CommentOn


def create_view(context: SessionContext, command: CreateView) -> None:
    """Create or replace a view.

    Args:
        context: The session.
        command: The parsed statement.

    Raises:
        AlreadyExists: A table or view has the name, and the statement has neither IF NOT EXISTS nor OR REPLACE.
        SchemaNotFound: The catalog has no such schema.
        PlanError: The name or the columns of the view are invalid.
    """
    create = _create_temporary_view if command.temporary else _create_stored_view
    create(context, command)


def _create_stored_view(context: SessionContext, command: CreateView) -> None:
    """Create or replace a view in the catalog. With IF NOT EXISTS, an existing table or view of this name stays unchanged."""
    view_name = context.names.qualify(command.name)
    if command.if_not_exists and view_name.relation is not None:
        return
    columns = view_columns(StatementScope.begin(context).query(command.query.text))
    if command.columns:
        columns = rename_view_columns(columns, command.columns)
    relation = Relation(view_name.schema, view_name.name, kind="view", format=None)
    view = View(relation, command.query.text, context.names.schema, columns, command.comment, command.properties)
    context.catalog.put_view(view, or_replace=command.or_replace)


def _create_temporary_view(context: SessionContext, command: CreateView) -> None:
    """Create or replace a temporary view.

    Raise PlanError if its name has a schema. Raise AlreadyExists if a view has the name, and the statement has neither IF NOT EXISTS nor
    OR REPLACE.
    """
    name, views = command.name.parts[-1], context.names.temporary_views
    if len(command.name.parts) > 1:
        raise PlanError(f"A temporary view has no schema. Write CREATE TEMPORARY VIEW {quote(name)}.")
    is_taken = not command.or_replace and views.exists(name)
    if is_taken and command.if_not_exists:
        return
    if is_taken:
        raise AlreadyExists(f"The temporary view {name} already exists. Add OR REPLACE.")
    query = command.query.text
    if command.columns:
        aliases = ", ".join(quote(alias) for alias, _ in command.columns)
        query = f"select * from ({query}) as __rowmerge_view ({aliases})"
    # Each SQL statement evaluates the text of the view again, on the newest versions of its tables. `spark.table(name)` has no text, and
    # returns the DataFrame, which reads the versions of now.
    views.create(name, query, context.names.schema, frame=StatementScope.begin(context).query(query))


def alter_view(context: SessionContext, relation: Relation, command: AlterView) -> None:
    """Change the properties of a view, its comment, or the comment on a column.

    Args:
        context: The session.
        relation: The view.
        command: The parsed statement.

    Raises:
        UnknownColumn: The view has no such column.
        TableError: UNSET names a property that the view lacks.
    """
    view = context.catalog.view(relation.schema, relation.name)
    if not isinstance(command, CommentOn):
        view = replace(view, properties=new_properties(command, view.properties))
    elif command.column is None:
        view = replace(view, comment=command.comment)
    else:
        view = replace(view, columns=set_comment(view.columns, command.column, command.comment))
    context.catalog.put_view(view, or_replace=True)
