"""EXPLAIN: plan a query, or a command on the newest version of its target. Spark analyses the queries, but does not run them."""

from __future__ import annotations

from dataclasses import replace

from rowmerge.commands.definitions import CreateTable, Explain, Query
from rowmerge.commands.names import TableName
from rowmerge.commands.rows import ExplainedRowCommand, Insert, Merge, Truncate
from rowmerge.execution.explanation import explain_create, explain_insert, explain_row_change, explain_truncate
from rowmerge.execution.insert import NewRows
from rowmerge.execution.partition_masks import partition_mask
from rowmerge.plan.insert_columns import static_partition
from rowmerge.session.answers import frames
from rowmerge.session.answers.description import row_count
from rowmerge.session.answers.results import StatementResult, TableScan
from rowmerge.session.definitions.columns import query_columns
from rowmerge.session.names.resolver import Target
from rowmerge.session.names.scope import SessionContext, StatementScope
from rowmerge.session.statements.inserts import InsertStatement
from rowmerge.session.statements.rows import planner_of, source_query
from rowmerge.session.statements.scans import explain_scans
from rowmerge.sql import references
from rowmerge.table.metadata.schema import backquote
from rowmerge.table.snapshots.snapshot import Snapshot

_Explanation = tuple[list[str], tuple[TableScan, ...]]
"""The lines of EXPLAIN for a command, and the scans of its queries."""


def run_explain(context: SessionContext, explain: Explain) -> StatementResult:
    """Return the plan of a query or command as one string in the column `plan`. Planning may raise the same errors as the command itself.

    Args:
        context: The session.
        explain: The parsed EXPLAIN, with the command and the mode of Spark's plan.
    """
    command, context = explain.command, replace(context, explains=True)
    if isinstance(command, Query):
        return _explain_query(context, explain.mode, command.text)
    lines, scans = _explain_create(context, command) if isinstance(command, CreateTable) else _explain_rows(context, command)
    lines += explain_scans(context.spark, "  tables that its queries read:", scans)
    query = _query_of(command)
    if explain.mode and query is not None:
        lines += ["", "Spark's plan of the query:", *_spark_plan_lines(StatementScope.begin(context), explain.mode, query)]
    return _result(context, lines)


def _result(context: SessionContext, lines: list[str]) -> StatementResult:
    return StatementResult(frames.text_column(context.spark, "plan", ["\n".join(lines)]), "EXPLAIN")


def _explain_query(context: SessionContext, mode: str, query: str) -> StatementResult:
    """Return the files that a query reads, and Spark's plan over these files."""
    scope = StatementScope.begin(context)
    spark_lines = _spark_plan_lines(scope, mode, query)
    scan_lines = explain_scans(context.spark, "tables that the query reads:", scope.scans)
    if scan_lines:
        scan_lines += (f"  not used to exclude files: {' '.join(text.split())}" for text in scope.table_reads.conditions_not_used)
    return _result(context, [*scan_lines, "", *spark_lines] if scan_lines else spark_lines)


def _spark_plan_lines(scope: StatementScope, mode: str, query: str) -> list[str]:
    """Return the lines of Spark's EXPLAIN for a query. `mode`: EXTENDED, FORMATTED or another mode of Spark, or an empty string."""
    lines: list[str] = []
    for (text,) in scope.context.spark.sql(f"explain {mode} {scope.spark_query(query)}").collect():
        lines += text.splitlines()
    return lines


def _query_of(command: ExplainedRowCommand | CreateTable) -> str | None:
    """Return the query of a command, for which Spark can show a plan, or None if the command has no query."""
    if isinstance(command, Merge):
        return source_query(command)
    return str(command.query) if isinstance(command, Insert | CreateTable) else None


def _explain_rows(context: SessionContext, command: ExplainedRowCommand) -> _Explanation:
    """Return the lines of EXPLAIN for a command that changes rows of an existing table."""
    target = context.audit.target(context.names.target(command.target))
    snapshot = target.table.snapshot()
    match command:
        case Insert():
            return _explain_insert(context, command, target, snapshot)
        case Truncate():
            values = static_partition(snapshot.shape, [(name, value.text) for name, value in command.partition])
            return explain_truncate(snapshot, partition_mask(context.spark, snapshot, values)), ()
    planner = planner_of(context, command, target)
    plan = planner.plan(snapshot)
    source = _describe_source(context, command.source.text) if isinstance(command, Merge) else None
    return explain_row_change(context.spark, snapshot, plan, source), planner.scans


def _explain_insert(context: SessionContext, command: Insert, target: Target, snapshot: Snapshot) -> _Explanation:
    """Return the lines of EXPLAIN for an INSERT in any of its forms."""
    statement = InsertStatement(context, command, target)
    source = _describe_source(context, command.query.text)
    rows = statement.rows(snapshot)
    if statement.replace_form:
        lines = explain_row_change(context.spark, snapshot, statement.plan(snapshot), source)
        lines[0] = f"INSERT INTO {snapshot.name} REPLACE {statement.replace_form}"
    else:
        lines = explain_insert(snapshot, rows, source, statement.overwrite)
    return _with_column_names(lines, rows), statement.scans


def _with_column_names(lines: list[str], rows: NewRows) -> list[str]:
    """Replace the positional names of the query's columns in a plan with their real names. Rows with an alias have real names already."""
    if rows.alias is not None:
        return lines
    for position_name, name in zip(rows.plan_source.columns, rows.frame.columns, strict=True):
        lines = [line.replace(f"`{position_name}`", backquote(name)) for line in lines]
    return lines


def _explain_create(context: SessionContext, command: CreateTable) -> _Explanation:
    """Return the lines of EXPLAIN for CREATE TABLE … AS SELECT."""
    assert command.query is not None
    query, name = command.query.text, context.names.qualify(command.name)
    snapshot = None if name.relation is None else context.names.table(command.name).snapshot()
    scope = StatementScope.begin(context, snapshot)
    columns = query_columns(scope.query(query))
    return explain_create(str(name), command, columns, snapshot, _describe_source(context, query)), scope.scans


def _describe_source(context: SessionContext, source: str) -> str:
    """Return the text of a source, with its number of rows if it is a table whose metadata contains the number."""
    source = source.strip()
    if source.lower().startswith("table "):
        source = source[len("table ") :].strip()
    table_name = _table_name_of(source)
    count = None if table_name is None else _count_rows_by_metadata(context, table_name)
    if count is not None:
        return f"{source}, {count:,} row(s) according to its metadata, not read by EXPLAIN"
    text = " ".join(source.split())
    excerpt = text if len(text) <= 200 else f"{text[:200]}…"
    return f"{excerpt}, not evaluated by EXPLAIN, so its number of rows is unknown"


def _table_name_of(source: str) -> TableName | None:
    """Return the name of the table if a source consists only of this name, or None for a query."""
    match references(f"select * from {source}"):
        case [table] if source.replace("`", "").lower() == ".".join(table.name.parts).lower():
            return table.name
    return None


def _count_rows_by_metadata(context: SessionContext, name: TableName) -> int | None:
    """Return the number of rows in a table, or None for a view, or for a table whose metadata lacks the number."""
    if context.names.is_temporary_view(name):
        return None
    relation = context.names.qualify(name).relation
    if relation is None or relation.kind != "table":
        return None
    return row_count(context.audit.source(context.names.table(name)).snapshot().files())
