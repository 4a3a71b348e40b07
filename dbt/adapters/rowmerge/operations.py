"""`dbt run-operation optimize|vacuum|history|restore`: the statement that each stands for, and what it did, for a person to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Dict, List

from dbt.adapters.base import BaseRelation, available
from dbt.adapters.base.meta import AdapterMeta
from dbt_common.exceptions import CompilationError

from dbt.adapters.rowmerge.relations.names import literal
from dbt.adapters.rowmerge.response import count, size

_TARGETS = ("relation", "table")
_TRAVEL = ("version", "timestamp", "reference")
_NODES = ("model", "seed", "snapshot")


class Operations(metaclass=AdapterMeta):
    """A part of the adapter: it uses the session, the connections and the relations of the whole."""

    Relation: Any
    config: Any
    connections: Any

    @available.parse(lambda *a, **k: "")
    def run_operation(self, name: str, arguments: Dict[str, Any], others: List[str], graph: Mapping[str, Any]) -> str:
        """Run `optimize`, `vacuum`, `history` or `restore`; what it did, in lines. Arguments that are None were not given.

        Raises CompilationError for arguments that are missing, too many or wrong, DbtDatabaseError for what the engine refuses.
        """
        if others:
            known = ", ".join(arguments)
            raise CompilationError(f"{name} has no argument {', '.join(map(repr, others))}. Its arguments are {known}.")
        target = target_of(name, arguments)
        relation = target if isinstance(target, BaseRelation) else self._relation_of(str(target), graph)
        sql = statement(name, relation.render(), arguments)
        _, cursor = self.connections.add_query(sql, auto_begin=False)
        with self.connections.exception_handler(sql):
            columns = [column[0] for column in cursor.description or ()]
            rows = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
        return told(name, relation.render(), arguments, rows, cursor.result)

    def _relation_of(self, name: str, graph: Mapping[str, Any]) -> BaseRelation:
        """A table by its name, `schema.name`, or the name of a model, a seed or a snapshot of the project."""
        if "." in name:
            schema, _, identifier = (part.strip("`") for part in name.rpartition("."))
            return self.Relation.create(schema=schema, identifier=identifier, type="table")
        schema, identifier = place_of(name.strip("`"), graph.get("nodes", {}).values()) or (self.config.credentials.schema, name.strip("`"))
        return self.Relation.create(schema=schema, identifier=identifier, type="table")


def target_of(operation: str, arguments: Mapping[str, Any]) -> Any:
    """The table that an operation is about, as it was given. Raises CompilationError for none, and for two."""
    given = [arguments[name] for name in _TARGETS if arguments.get(name)]
    if not given:
        raise CompilationError(f"{operation} needs the argument 'relation': a model's name, or schema.table.")
    if len(given) > 1:
        raise CompilationError(f"{operation} got 'relation' and 'table', which say the same thing. Give one of them.")
    return given[0]


def place_of(name: str, nodes: Iterable[Mapping[str, Any]]) -> tuple[str, str] | None:
    """Schema and alias of the node of a name; None when there is none. Of a model's versions it is the latest, as `ref` says.

    Raises CompilationError for a name that several packages have, and for an ephemeral model.
    """
    found = [node for node in nodes if node["resource_type"] in _NODES and node["name"] == name]
    found = [node for node in found if not node.get("version") or node["version"] == node.get("latest_version")] or found
    if not found:
        return None
    if len(found) > 1:
        places = ", ".join(f"{node['schema']}.{node['alias']}" for node in found)
        raise CompilationError(f"{name} is the name of several nodes of the project. Name the table: {places}.")
    if found[0]["config"].get("materialized") == "ephemeral":
        raise CompilationError(f"{name} is an ephemeral model: it has no table. Name another one.")
    return found[0]["schema"], found[0]["alias"]


def statement(operation: str, table: str, arguments: Mapping[str, Any]) -> str:
    """The SQL of an operation. Raises CompilationError for an argument that is missing, too many, or none of its kind."""
    given = {name: value for name, value in arguments.items() if value is not None and name not in _TARGETS}
    match operation:
        case "optimize":
            return f"optimize {table}" + (f" where {given['where']}" if given.get("where") else "")
        case "vacuum":
            hours = f" retain {_number(operation, 'retain_hours', given['retain_hours'])} hours" if "retain_hours" in given else ""
            return f"vacuum {table}{hours}" + (" dry run" if _dry(arguments) else "")
        case "history":
            return f"describe history {table}" + (f" limit {_whole(operation, 'limit', given['limit'])}" if "limit" in given else "")
        case _:
            return f"restore table {table} to {_moment(operation, given)}"


def _moment(operation: str, given: Mapping[str, Any]) -> str:
    said = [name for name in _TRAVEL if name in given]
    if len(said) != 1:
        problem = f"got {' and '.join(map(repr, said))}" if said else "does not say to what"
        raise CompilationError(f"{operation} {problem}. Give one of version, timestamp, and reference (a branch or a tag).")
    value = given[said[0]]
    if said[0] == "timestamp":
        return f"timestamp as of {literal(value)}"
    return f"version as of {literal(value) if said[0] == 'reference' else _whole(operation, 'version', value)}"


def _whole(operation: str, name: str, value: Any) -> int:
    try:
        if not isinstance(value, (bool, float)):
            return int(value)
    except (TypeError, ValueError):
        pass
    raise CompilationError(f"The argument '{name}' of {operation} is {value!r}. Give a whole number.")


def _number(operation: str, name: str, value: Any) -> str:
    try:
        if not isinstance(value, bool):
            return f"{float(value):.15g}"
    except (TypeError, ValueError):
        pass
    raise CompilationError(f"The argument '{name}' of {operation} is {value!r}. Give a number of hours, such as 168.")


def _dry(arguments: Mapping[str, Any]) -> bool:
    value = arguments.get("dry_run")
    if str(value).lower() not in ("none", "true", "false"):
        raise CompilationError(f"The argument 'dry_run' of vacuum is {value!r}. Give true or false.")
    return str(value).lower() == "true"


# ------------------------------------------------------------------ what it did


def told(operation: str, table: str, arguments: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], result: Any) -> str:
    """What an operation did. `rows`: the statement's answer, `result`: the engine's."""
    match operation:
        case "optimize":
            return f"optimize {table}: {_optimized(rows[0]['metrics'])}, version {result.version}"
        case "vacuum" if _dry(arguments):
            paths = [str(row["path"]) for row in rows]
            return "\n".join([f"vacuum {table}: {count(len(paths), 'file')} would be deleted", *(f"  {path}" for path in sorted(paths))])
        case "vacuum":
            return f"vacuum {table}: {count(result.changes.files_removed, 'file')} deleted"
        case "history":
            return "\n".join([f"history {table}: {count(len(rows), 'version')}, newest first", *_grid([_entry(row) for row in rows])])
        case _:
            return f"restore {table}: {_restored(rows[0])}, version {result.version}"


def _optimized(metrics: Mapping[str, Any]) -> str:
    if not metrics["numFilesRemoved"]:
        return f"nothing to do in {count(metrics['totalConsideredFiles'], 'file')}"
    before, after = metrics["filesRemoved"], metrics["filesAdded"]
    rows = metrics["deletionVectorStats"]["numDeletionVectorRowsRemoved"]
    deleted = f", {count(rows, 'deleted row')} left out" if rows else ""
    return (
        f"{count(before['totalFiles'], 'file')} ({size(before['totalSize'])}) became "
        f"{count(after['totalFiles'], 'file')} ({size(after['totalSize'])}){deleted}"
    )


def _restored(counts: Mapping[str, int]) -> str:
    return (
        f"{count(counts['num_removed_files'], 'file')} removed, {counts['num_restored_files']:,} restored; "
        f"the table has {count(counts['num_of_files_after_restore'], 'file')} ({size(counts['table_size_after_restore'])})"
    )


def _entry(row: Mapping[str, Any]) -> dict[str, str]:
    metrics = {name: value for name, value in (row["operationMetrics"] or {}).items() if value != "0" and not name.endswith("TimeMs")}
    moment: datetime = row["timestamp"]
    return {
        "version": str(row["version"]),
        "timestamp": moment.strftime("%Y-%m-%d %H:%M:%S"),
        "operation": row["operation"],
        "metrics": ", ".join(f"{name}={value}" for name, value in metrics.items()),
    }


def _grid(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Rows of the same columns, one under the other."""
    if not rows:
        return []
    table = [list(rows[0]), *(list(row.values()) for row in rows)]
    widths = [max(len(row[at]) for row in table) for at in range(len(table[0]))]
    return ["  " + "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip() for row in table]
