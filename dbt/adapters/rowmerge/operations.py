"""`dbt run-operation optimize|vacuum|history|restore`: the SQL statement of each operation, and a report of its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Dict, List

from dbt.adapters.base import BaseRelation, available
from dbt.adapters.base.meta import AdapterMeta
from dbt_common.exceptions import CompilationError

from dbt.adapters.rowmerge.relations.names import literal
from dbt.adapters.rowmerge.response import count, size

_TARGET_ARGUMENTS = ("relation", "table")
"""The two names of the argument that names the table of an operation."""
_VERSION_ARGUMENTS = ("version", "timestamp", "reference")
_TABLE_RESOURCE_TYPES = ("model", "seed", "snapshot")


class Operations(metaclass=AdapterMeta):
    """The methods of the adapter for `dbt run-operation` and `dbt debug`. This mixin uses its connections and relations."""

    Relation: Any
    config: Any
    connections: Any

    @available.parse(lambda *a, **k: "")
    def run_operation(self, name: str, arguments: Dict[str, Any], unknown_arguments: List[str], graph: Mapping[str, Any]) -> str:
        """Run `optimize`, `vacuum`, `history` or `restore`, and return a report of the result.

        Args:
            name: The name of the operation.
            arguments: All arguments of the operation by name; None for an argument without a value.
            unknown_arguments: The names of arguments that the operation does not have.
            graph: dbt's graph of the project, in which to look up a model, a seed or a snapshot.

        Raises:
            CompilationError: An argument is missing, unknown, or not valid.
            DbtDatabaseError: The engine rejects the statement.
        """
        if unknown_arguments:
            unknown_names = ", ".join(map(repr, unknown_arguments))
            raise CompilationError(f"{name} has no argument {unknown_names}. The arguments are: {', '.join(arguments)}.")
        table = self._relation_of(target_argument(name, arguments), graph).render()
        sql = operation_sql(name, table, arguments)
        _, cursor = self.connections.add_query(sql, auto_begin=False)
        with self.connections.exception_handler(sql):
            columns = [column_name for column_name, *_ in cursor.description or ()]
            rows = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
        # Besides the rows, the engine's outcome has the version that the statement committed, and the numbers of changed files.
        return format_report(name, table, arguments, rows, result=cursor.outcome)

    def debug_query(self) -> None:
        """Check the environment of the profile, instead of a query. So `dbt debug` starts Spark only if it has executors elsewhere."""
        self.connections.check_environment()

    def _relation_of(self, target: Any, graph: Mapping[str, Any]) -> BaseRelation:
        """Return the relation of a table. `target`: a relation, a name `schema.table`, or the name of a model, a seed or a snapshot."""
        if isinstance(target, BaseRelation):
            return target
        qualifier, dot, identifier = (name.strip("`") for name in str(target).rpartition("."))
        database, _, schema = (name.strip("`") for name in qualifier.rpartition("."))
        if not dot:
            node_table = schema_and_alias(identifier, graph.get("nodes", {}).values())
            schema, identifier = node_table or (self.config.credentials.schema, identifier)
        return self.Relation.create(database=database or None, schema=schema, identifier=identifier, type="table")


def target_argument(operation: str, arguments: Mapping[str, Any]) -> Any:
    """Return the value of the argument that names the table, which is `relation` or `table`.

    Args:
        operation: The name of the operation in messages.
        arguments: The arguments of the operation by name; None for an argument without a value.

    Raises:
        CompilationError: Both arguments have a value, or neither has one.
    """
    targets = [arguments[name] for name in _TARGET_ARGUMENTS if arguments.get(name)]
    if not targets:
        raise CompilationError(f"{operation} requires the argument 'relation': the name of a model, or schema.table.")
    if len(targets) > 1:
        raise CompilationError(f"{operation} got both 'relation' and 'table', which have the same meaning. Keep one of them.")
    return targets[0]


def schema_and_alias(name: str, nodes: Iterable[Mapping[str, Any]]) -> tuple[str, str] | None:
    """Return the schema and the alias of a model, a seed or a snapshot, or None for an unknown name.

    If a model has several versions, its name refers to the latest version, as in dbt's `ref`.

    Args:
        name: The name of the node.
        nodes: The nodes of dbt's graph of the project.

    Raises:
        CompilationError: Several packages have a node with this name, or the node is an ephemeral model.
    """
    candidates = _latest_nodes([node for node in nodes if node["resource_type"] in _TABLE_RESOURCE_TYPES and node["name"] == name])
    if not candidates:
        return None
    if len(candidates) > 1:
        tables = ", ".join(f"{node['schema']}.{node['alias']}" for node in candidates)
        raise CompilationError(f"{name} is the name of several nodes of the project. Use the name of a table: {tables}.")
    [node] = candidates
    if node["config"].get("materialized") == "ephemeral":
        raise CompilationError(f"{name} is an ephemeral model, which has no table. Use another model.")
    return node["schema"], node["alias"]


def _latest_nodes(nodes: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the nodes without older versions of models, or all nodes if none of them is a latest version."""
    return [node for node in nodes if not node.get("version") or node["version"] == node.get("latest_version")] or nodes


def operation_sql(operation: str, table: str, arguments: Mapping[str, Any]) -> str:
    """Return the SQL statement of an operation.

    Args:
        operation: The name of the operation: `optimize`, `vacuum`, `history` or `restore`.
        table: The name of the table in SQL.
        arguments: The arguments of the operation by name; None for an argument without a value.

    Raises:
        CompilationError: An argument is missing, not allowed, or of the wrong type.
    """
    given_arguments = {name: value for name, value in arguments.items() if value is not None and name not in _TARGET_ARGUMENTS}
    match operation:
        case "optimize" if given_arguments.get("where"):
            return f"optimize {table} where {given_arguments['where']}"
        case "optimize":
            return f"optimize {table}"
        case "vacuum":
            return _vacuum_sql(table, given_arguments)
        case "history" if "limit" in given_arguments:
            return f"describe history {table} limit {_whole_number(operation, 'limit', given_arguments['limit'])}"
        case "history":
            return f"describe history {table}"
        case _:  # restore
            return f"restore table {table} to {_restored_version(operation, given_arguments)}"


def _vacuum_sql(table: str, values: Mapping[str, Any]) -> str:
    sql = f"vacuum {table}"
    if "retain_hours" in values:
        sql += f" retain {_number('vacuum', 'retain_hours', values['retain_hours'])} hours"
    return f"{sql} dry run" if _is_dry_run(values) else sql


def _restored_version(operation: str, values: Mapping[str, Any]) -> str:
    """Return the clause of RESTORE that names a version. Raises CompilationError unless exactly one argument names a version."""
    names = [name for name in _VERSION_ARGUMENTS if name in values]
    if len(names) != 1:
        problem = f"got {' and '.join(map(repr, names))}" if names else "got no version"
        raise CompilationError(f"{operation} {problem}. Set exactly one of version, timestamp and reference (a branch or a tag).")
    [name] = names
    if name == "version":
        return f"version as of {_whole_number(operation, name, values[name])}"
    return f"{'timestamp' if name == 'timestamp' else 'version'} as of {literal(values[name])}"


def _whole_number(operation: str, name: str, value: Any) -> int:
    with suppress(TypeError, ValueError):
        if not isinstance(value, (bool, float)):
            return int(value)
    raise CompilationError(f"The argument '{name}' of {operation} is {value!r}. Set it to a whole number.")


def _number(operation: str, name: str, value: Any) -> str:
    with suppress(TypeError, ValueError):
        if not isinstance(value, bool):
            return f"{float(value):.15g}"
    raise CompilationError(f"The argument '{name}' of {operation} is {value!r}. Set it to a number of hours, such as 168.")


def _is_dry_run(arguments: Mapping[str, Any]) -> bool:
    value = arguments.get("dry_run")
    if str(value).lower() not in ("none", "true", "false"):
        raise CompilationError(f"The argument 'dry_run' of vacuum is {value!r}. Set it to true or false.")
    return str(value).lower() == "true"


def format_report(operation: str, table: str, arguments: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], result: Any) -> str:
    """Return a report of an operation's result, in one or more lines.

    Args:
        operation: The name of the operation: `optimize`, `vacuum`, `history` or `restore`.
        table: The name of the table in SQL.
        arguments: The arguments of the operation by name.
        rows: The rows that the statement returned, as mappings by column name.
        result: The engine's StatementOutcome of the statement.
    """
    match operation:
        case "optimize":
            return f"optimize {table}: {_optimize_summary(rows[0]['metrics'])}, version {result.version}"
        case "vacuum" if _is_dry_run(arguments):
            paths = sorted(str(row["path"]) for row in rows)
            return "\n  ".join([f"vacuum {table}: {count(len(paths), 'file')} would be deleted", *paths])
        case "vacuum":
            return f"vacuum {table}: {count(result.changes.files_removed, 'file')} deleted"
        case "history":
            entries = [_history_entry(row) for row in rows]
            return "\n".join([f"history {table}: {count(len(rows), 'version')}, newest first", *_align_columns(entries)])
        case _:
            return f"restore {table}: {_restore_summary(rows[0])}, version {result.version}"


def _optimize_summary(metrics: Mapping[str, Any]) -> str:
    """Return a summary of the numbers and sizes of rewritten files, from metrics of OPTIMIZE in Delta's format."""
    if not metrics["numFilesRemoved"]:
        return f"nothing to do in {count(metrics['totalConsideredFiles'], 'file')}"
    old_files, new_files = metrics["filesRemoved"], metrics["filesAdded"]
    deleted_rows = metrics["deletionVectorStats"]["numDeletionVectorRowsRemoved"]
    deleted_phrase = f", {count(deleted_rows, 'deleted row')} removed" if deleted_rows else ""
    return (
        f"{count(old_files['totalFiles'], 'file')} ({size(old_files['totalSize'])}) became "
        f"{count(new_files['totalFiles'], 'file')} ({size(new_files['totalSize'])}){deleted_phrase}"
    )


def _restore_summary(counts: Mapping[str, int]) -> str:
    return (
        f"{count(counts['num_removed_files'], 'file')} removed, {counts['num_restored_files']:,} restored; "
        f"the table has {count(counts['num_of_files_after_restore'], 'file')} ({size(counts['table_size_after_restore'])})"
    )


def _history_entry(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of a row of DESCRIBE HISTORY as strings, without metrics that are zero or durations."""
    metrics = {name: value for name, value in (row["operationMetrics"] or {}).items() if value != "0" and not name.endswith("TimeMs")}
    return {
        "version": str(row["version"]),
        "timestamp": row["timestamp"].strftime("%Y-%m-%d %H:%M:%S"),
        "operation": row["operation"],
        "metrics": ", ".join(f"{name}={value}" for name, value in metrics.items()),
    }


def _align_columns(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the lines of a plain-text table with a header. Each column is as wide as its longest value."""
    if not rows:
        return []
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  " + "  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
