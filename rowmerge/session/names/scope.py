"""The context of a session, and the scope of one statement, which binds each name in the statement to a Spark view or function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from rowmerge.catalog import Catalog, Function, TablesByPath
from rowmerge.commands.names import TABLE_FORMATS, FileSource, SqlText, TableName
from rowmerge.errors import PlanError
from rowmerge.plan.expressions.moment import replace_time_functions
from rowmerge.session.answers.results import TableScan
from rowmerge.session.names.audit import Audit
from rowmerge.session.names.file_selection import with_constant_values
from rowmerge.session.names.information_schema import information_rows, is_information_table
from rowmerge.session.names.metadata_tables import MetadataRead, is_metadata_table, metadata_read, table_of
from rowmerge.session.names.pinned_snapshots import PinnedSnapshots
from rowmerge.session.names.reads import Read, StatementReads, ViewRead
from rowmerge.session.names.resolver import NameResolver, ResolvedName
from rowmerge.session.names.simple_queries import answer_simple_query
from rowmerge.session.names.spark_names import SparkViews, WarehouseFunctions
from rowmerge.session.names.table_changes import parse_change_range
from rowmerge.spark.functions import BUILT_IN, register_transform, system_function
from rowmerge.spark.reading.file_sources import absolute, read_file_source
from rowmerge.spark.reading.task_sizes import TaskSizes
from rowmerge.spark.spark_session import run_sql
from rowmerge.sql import CalledFunction, TableReference, bind, bind_expression, expression_of, names_of_with
from rowmerge.table.metadata.schema import backquote
from rowmerge.table.snapshots.change_feed import TableChanges
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class SessionContext:
    """The shared state of the statements of one session: Spark, the catalog, and thread-safe objects that resolve names.

    `default_format`: the format of new tables. `tables_by_path`: the tables that `read_files(…)` reads by the paths of their folders.
    `explains`: whether statements are only explained, so that no query runs for them. `audit`: where statements write and read audited
    tables; it applies to one statement.
    """

    spark: SparkSession
    catalog: Catalog
    default_format: str
    tables_by_path: TablesByPath
    names: NameResolver
    views: SparkViews
    functions: WarehouseFunctions
    task_sizes: TaskSizes
    audit: Audit
    explains: bool = False

    def format_of_new(self, schema: str) -> str:
        """Return the format of a new table in a schema if the statement names none."""
        return self.names.default_format(schema) or self.default_format

    def table_at_path(self, source: FileSource) -> Table:
        """Open the table at the path of `read_files(…)`. Raises FilesNotFound if there is no table."""
        return self.tables_by_path.open(absolute(source.path), source.format, source.display_name)


@dataclass(frozen=True)
class WithClause:
    """The WITH list before a statement, whose expressions may read the queries in the list.

    `names`: the names of these queries in lower case.
    """

    text: str = ""
    names: frozenset[str] = frozenset()


@dataclass(frozen=True)
class StatementScope:
    """The resolver of the names in one statement, and in the views and functions that it reads. Each table is read at one version.

    A scope for the text of a view or function shares snapshots, views and functions with the statement. It has its own `schema` for
    unqualified names. `enclosing`: the names of the views and functions that contain the text, outermost first.
    """

    context: SessionContext
    schema: str
    snapshots: PinnedSnapshots
    table_reads: StatementReads
    with_clause: WithClause = WithClause()
    enclosing: tuple[str, ...] = ()
    _reads: dict[tuple[str, ...], Read | str | None] = field(default_factory=dict)
    _functions: dict[tuple[str, str, bool], CalledFunction | None] = field(default_factory=dict)

    @classmethod
    def begin(cls, context: SessionContext, target: Snapshot | None = None, with_clause: SqlText | None = None) -> StatementScope:
        """Return the scope of a new statement.

        Args:
            context: The session.
            target: The version of the written table on which the statement is planned, or None for a query. A statement that also reads
                this table reads the same version.
            with_clause: The WITH list before MERGE, UPDATE or DELETE, or None if there is none.
        """
        snapshots = {} if target is None else {target.history_key: target}
        clause = WithClause() if with_clause is None else WithClause(with_clause.text, names_of_with(with_clause.text))
        table_reads = StatementReads(context.spark, context.views, context.task_sizes, answer_simple_query, explains=context.explains)
        return cls(context, context.names.schema, PinnedSnapshots(context.spark, context.audit, snapshots), table_reads, clause)

    def query(self, text: str) -> DataFrame:
        """Return the rows of a query, which may read tables of the catalog, files, and tables and views of Spark."""
        bound_text = bind(text, self.placeholder_for, self.function_for)
        frame = self._answer(bound_text)
        if frame is None:
            frame = run_sql(self.context.spark, self.table_reads.with_view_names(bound_text, is_frame=True))
        self.table_reads.keep_views_of(frame)
        return frame

    def spark_query(self, text: str) -> str:
        """Return a query in Spark's SQL that has the same rows and reads the same files as `query`."""
        bound_text = bind(text, self.placeholder_for, self.function_for)
        answer = self._answer(bound_text)
        if answer is not None:
            return f"select * from {self.context.views.register_frame(answer)}"
        return self.table_reads.with_view_names(bound_text)

    def _answer(self, bound_text: str) -> DataFrame | None:
        """Return the rows of a query that metadata answer, or that needs only a few files. Return None for other queries."""
        return answer_simple_query(bound_text, self.table_reads, self.context.spark, self.context.views)

    def bind(self, expression: SqlText) -> SqlText:
        """Return an expression in which the names in subqueries and calls are replaced with the names of Spark views and functions."""
        return replace(expression, text=self._bind_expression(expression.text))

    def bind_condition(self, condition: SqlText, columns: Sequence[str]) -> SqlText:
        """Bind the condition of a statement that changes rows, and replace constants such as `current_date() - 7` by their values.

        Only values exclude files, and all jobs and attempts of the statement use the same value.

        Args:
            condition: The condition.
            columns: The columns that the condition can use.
        """
        text = replace_time_functions(self._bind_expression(condition.text), self.table_reads.microseconds, columns)
        return replace(condition, text=with_constant_values(self.context.spark, text, columns))

    def _bind_expression(self, text: str) -> str:
        """Bind an expression, or the body of a function."""
        return self.table_reads.with_view_names(bind_expression(text, self.placeholder_for, self.function_for), is_expression=True)

    def reads(self, snapshot: Snapshot) -> bool:
        """Return whether the statement has read the newest version of this snapshot's table and branch."""
        return snapshot.history_key in self.snapshots.keys_read

    @property
    def scans(self) -> tuple[TableScan, ...]:
        """The tables that the bound queries and expressions read."""
        return tuple(self.table_reads.scans)

    def placeholder_for(self, reference: TableReference) -> str | None:
        """Return the quoted name that stands for a table or view in the bound text, or None if Spark resolves the name.

        It is a placeholder of `table_reads`, or the name of a Spark view.
        """
        first_part = reference.name.parts[0]
        is_plain_name = not reference.has_time_travel and reference.changes is None and len(reference.name.parts) == 1
        if is_plain_name and first_part.lower() in self.with_clause.names:
            query = f"{self.with_clause.text} select * from {backquote(first_part)}"
            return self.table_reads.placeholder(self._view_read(f"WITH {first_part}", query, self.schema))
        key = (self.schema, *_lookup_key(reference))
        if key not in self._reads:
            self._reads[key] = self._read(reference)
        read = self._reads[key]
        return read if read is None or isinstance(read, str) else self.table_reads.placeholder(read)

    def _read(self, reference: TableReference) -> Read | str | None:
        """Resolve a reference to a snapshot or a view. Return the quoted name of a Spark view for other rows, or None for Spark's names."""
        if reference.changes is not None:
            return self._read_changes(reference.changes)
        if reference.files is not None:
            if reference.files.format in TABLE_FORMATS:
                return self.snapshots.of_source(self.context.table_at_path(reference.files), reference.files)
            return self.context.views.register_frame(read_file_source(self.context.spark, reference.files))
        names = self.context.names
        name = names.without_catalog(reference.name)
        if names.is_temporary_view(name):
            return self._temporary_view(name.parts[0], reference)
        resolved_name = names.resolve(name, self.schema)
        if resolved_name is None:
            return self._read_metadata(name, reference)
        if resolved_name.relation.kind == "view":
            return self._catalog_view(resolved_name, reference)
        relation = resolved_name.relation
        table = resolved_name.table or self.context.catalog.open(relation.schema, relation.name)
        return self.snapshots.of_reference(table, resolved_name, reference)

    def _temporary_view(self, name: str, reference: TableReference) -> ViewRead | None:
        """Bind the query of a temporary view. Return None for a view of the DataFrame API. Raise PlanError for VERSION AS OF."""
        if reference.has_time_travel:
            raise PlanError(f"{name} is a temporary view, so it has no versions. Use VERSION or TIMESTAMP AS OF with a table.")
        definition = self.context.names.temporary_views.query(name)
        return None if definition is None else self._view_read(f"temporary view {name}", *definition)

    def _read_metadata(self, name: TableName, reference: TableReference) -> MetadataRead | str | None:
        """Return the name of a view of a table of `information_schema`, or the read of a metadata table. Return None for any other name."""
        spark, catalog, views, names = self.context.spark, self.context.catalog, self.context.views, self.context.names
        if is_information_table(names, name, self.schema):
            catalog_name, catalog_of_rows, _ = names.catalog_of(names.locate(name, self.schema)[0])
            return views.register_frame(information_rows(spark, catalog_of_rows, catalog_name, name.parts[-1].lower()))
        table_name = table_of(names, name, self.schema) if is_metadata_table(name) else None
        return None if table_name is None else metadata_read(catalog, table_name, reference, self.snapshots)

    def _catalog_view(self, resolved_name: ResolvedName, reference: TableReference) -> ViewRead:
        """Bind the query of a view in the catalog. Raise PlanError for VERSION or TIMESTAMP AS OF."""
        relation = resolved_name.relation
        if reference.has_time_travel:
            raise PlanError(f"{relation} is a view, so it has no versions. Use VERSION or TIMESTAMP AS OF with a table.")
        view = self.context.catalog.view(relation.schema, relation.name)
        return self._view_read(str(relation), view.sql, view.default_schema, view.columns.names)

    def _view_read(self, name: str, query: str, schema: str, columns: tuple[str, ...] = ()) -> ViewRead:
        """Bind the query of a view. Raise PlanError if the view reads itself."""
        self._check_not_enclosing(name, f"The view {name} reads itself")
        inner = self._inside(name, schema)
        return ViewRead(name, bind(query, inner.placeholder_for, inner.function_for), columns)

    def _check_not_enclosing(self, name: str, problem: str) -> None:
        """Raise PlanError if this scope is inside the view or function `name`, which would then contain itself."""
        if name in self.enclosing:
            raise PlanError(f"{problem} ({' → '.join((*self.enclosing, name))}). Change one of these definitions.")

    def _inside(self, name: str, schema: str) -> StatementScope:
        """Return the scope for the text of a view or function, in which the WITH list of the statement does not apply."""
        return replace(self, schema=schema, with_clause=WithClause(), enclosing=(*self.enclosing, name))

    def _read_changes(self, arguments: tuple[SqlText, ...]) -> TableChanges:
        """Return the changes whose rows `table_changes(…)` returns."""
        table_name, first, last = parse_change_range(self.context.spark, arguments)
        table = self._table_with_changes(table_name)
        return self.snapshots.changes(table, first, last)

    def _table_with_changes(self, table_name: TableName) -> Table:
        """Open the table that `table_changes(…)` names. Raise PlanError for a view."""
        schema, name = self.context.names.locate(table_name, self.schema)
        relation = self.context.catalog.relation(schema, name)
        if relation is not None and relation.kind == "view":
            raise PlanError(f"{relation} is a view, so it has no change feed. Use table_changes(…) with a table.")
        return self.context.names.table(TableName((schema, name)))

    def function_for(self, name: TableName) -> CalledFunction | None:
        """Return the function of the warehouse that a call names, or None for a Spark function. Raises PlanError if it calls itself."""
        # In a call without a schema, Spark's functions take precedence.
        names = self.context.names
        match names.without_catalog(name).parts:
            case (function_name,) if function_name.lower() not in BUILT_IN:
                return self._find_function(names.schema_of(self.schema, self.schema), function_name, is_qualified=False)
            case (schema, function_name):
                return self._find_function(names.schema_of(schema, self.schema), function_name, is_qualified=True)
        return None

    def _find_function(self, schema: str, name: str, *, is_qualified: bool) -> CalledFunction | None:
        """Find a function in the catalog and bind its body, once per statement. Return None for a function of Spark."""
        call_name = _call_name(schema, name)
        self._check_not_enclosing(call_name, f"The function {call_name} calls itself")
        key = (schema.lower(), name.lower(), is_qualified)
        if key not in self._functions:
            function = self.context.functions.find(schema, name, is_qualified=is_qualified)
            if function is None:
                self._functions[key] = self._system_function(name) if self.context.names.catalog_of(schema)[2].lower() == "system" else None
            else:
                self._functions[key] = self.called_function(function)
        return self._functions[key]

    def _system_function(self, name: str) -> CalledFunction | None:
        """Return a function of Iceberg's schema `system`, such as `system.bucket`, or None for a function of Spark."""
        definition, transform = system_function(name), name.lower()
        if definition is None:
            return None
        register = partial(register_transform, self.context.spark, f"__rowmerge_system_{transform}", transform)
        return CalledFunction(f"system.{transform}", definition, definition.body, register)

    def called_function(self, function: Function) -> CalledFunction:
        """Bind the body of a function, so that it can replace calls. For a body in SQL, raises the errors of `bind_expression`."""
        definition, body = function.definition, ""
        if definition.language == "sql":
            inner = self._inside(_call_name(function.schema, function.name), function.default_schema)
            body = inner._bind_expression(expression_of(definition.body))
        return CalledFunction(str(function), definition, body, partial(self.context.functions.register, function, body))


def _lookup_key(reference: TableReference) -> tuple[str, ...]:
    """Return the cache key of a reference: everything but its position in the text."""
    timestamp = reference.timestamp.text if reference.timestamp else ""
    arguments = (str(reference.files),) if reference.files else tuple(argument.text for argument in reference.changes or ())
    version = (str(reference.version), reference.branch_or_tag or "", timestamp)
    return (*(part.lower() for part in reference.name.parts), *version, *arguments)


def _call_name(schema: str, name: str) -> str:
    return f"{schema}.{name}()".lower()
