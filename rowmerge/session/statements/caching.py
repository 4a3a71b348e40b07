"""CACHE TABLE, UNCACHE TABLE, CLEAR CACHE and REFRESH TABLE.

Cached rows belong to one version of each table. Spark caches a view of this version, and statements that read the version use the view.
After a commit, statements read another version, so that they never see old rows.
"""

from __future__ import annotations

from dataclasses import replace

from rowmerge.commands.caching import CacheCommand, CacheTable, ClearCache, RefreshTable, UncacheTable
from rowmerge.commands.definitions import CreateView
from rowmerge.commands.names import TableName
from rowmerge.session.answers.results import StatementResult, empty_result
from rowmerge.session.definitions.views import create_view
from rowmerge.session.names.scope import SessionContext, StatementScope
from rowmerge.session.names.spark_names import CachedView
from rowmerge.spark.spark_session import cache_view, uncache_view
from rowmerge.sql import references


def run_cache_command(context: SessionContext, command: CacheCommand) -> StatementResult:
    """Run a statement about cached rows.

    Args:
        context: The session.
        command: The parsed statement.

    Raises:
        TableNotFound: No table or view has the name.
        SchemaNotFound: The catalog has no such schema.
        AlreadyExists: CACHE TABLE … AS names an existing temporary view.
        ConfigurationError: Spark has no such storage level.
    """
    match command:
        case CacheTable():
            _cache(context, command)
            return empty_result(context.spark, "CACHE TABLE")
        case UncacheTable():
            _uncache(context, command)
            return empty_result(context.spark, "UNCACHE TABLE")
        case ClearCache():
            context.views.clear_cache()
            return empty_result(context.spark, "CLEAR CACHE")
        case RefreshTable():
            _refresh(context, command)
            return empty_result(context.spark, "REFRESH TABLE")


def _cache(context: SessionContext, command: CacheTable) -> None:
    """Let Spark cache the present rows of a table or view, or of a query, which becomes a temporary view."""
    name = command.name
    if command.query is not None:
        create_view(context, CreateView(name, command.query, temporary=True))
    if _is_frame(context, name):
        cache_view(context.spark, name.parts[0], command.storage_level)
        view = str(name)
    else:
        relation = _relation_key(context, name)
        view = _present_rows(context, name)
        context.views.cache(relation, CachedView(view, command.storage_level))
    if not command.lazy:
        context.spark.sql(f"select count(*) from {view}").collect()


def _present_rows(context: SessionContext, name: TableName) -> str:
    """Register the rows of a table or view in their newest version, and return the quoted name of the Spark view."""
    scope = StatementScope.begin(context)
    (reference,) = references(f"select * from {name}")
    placeholder = scope.placeholder_for(reference)
    assert placeholder is not None, f"{name} exists"
    return scope.table_reads.register_whole(placeholder)


def _uncache(context: SessionContext, command: UncacheTable) -> None:
    """Remove rows from the cache. With IF EXISTS, a missing table or view is no error."""
    name = command.name
    if _is_frame(context, name):
        uncache_view(context.spark, name.parts[0])
    elif not command.if_exists or context.names.is_temporary_view(name) or context.names.qualify(name).relation is not None:
        context.views.uncache(_relation_key(context, name))


def _refresh(context: SessionContext, command: RefreshTable) -> None:
    """Replace the cached rows of a table or view by its present ones. Statements always read the newest version of other tables."""
    name = command.name
    if _is_frame(context, name):
        context.spark.catalog.refreshTable(str(name))
    elif command.may_be_path and not context.names.is_temporary_view(name) and context.names.qualify(name).relation is None:
        context.spark.catalog.refreshByPath(".".join(name.parts))
    else:
        relation = _relation_key(context, name)
        cached = context.views.uncache(relation)
        if cached is not None:
            context.views.cache(relation, replace(cached, name=_present_rows(context, name)))


def _is_frame(context: SessionContext, name: TableName) -> bool:
    """Return whether a name is that of a temporary view that a DataFrame created, which Spark caches and refreshes itself."""
    return context.names.is_temporary_view(name) and context.names.temporary_views.query(name.parts[0]) is None


def _relation_key(context: SessionContext, name: TableName) -> str:
    """Return the name under which rows are cached. Raise TableNotFound if there is no such table or view."""
    return name.parts[0].lower() if context.names.is_temporary_view(name) else str(context.names.existing_relation(name))
