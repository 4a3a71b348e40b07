"""Convert steps to SQL, for engines that run SQL."""

from __future__ import annotations

from benchmarks.scenarios import Clause, Compact, DeleteInsert, Merge, Overwrite, Query, Scenario, Step, Update


def text_of(step: Step, scenario: Scenario, table: str, compaction: str) -> str:
    """Return the SQL statement of a step. `compaction`: the engine's statement for compaction."""
    match step:
        case Merge():
            clauses = " ".join(_clause(clause, scenario.columns) for clause in step.clauses)
            return f"merge into {table} as t using {step.source} as s on {step.on} {clauses}"
        case Update():
            return f"update {table} set {_assigned(step.values)} where {step.condition}"
        case DeleteInsert():
            columns = ", ".join(scenario.columns)
            return f"insert into {table} replace using ({', '.join(step.keys)}) select {columns} from {step.source}"
        case Overwrite():
            return f"insert overwrite {table} select {', '.join(scenario.columns)} from {step.source}"
        case Query():
            return f"select {step.select} from {table}" + (f" where {step.condition}" if step.condition else "")
        case Compact():
            return compaction


def _clause(clause: Clause, columns: tuple[str, ...]) -> str:
    condition = f" and ({clause.condition})" if clause.condition else ""
    if clause.action == "UPDATE":
        values = clause.values or {column: f"s.{column}" for column in columns}
        action = f"update set {_assigned({f't.{column}': value for column, value in values.items()})}"
    elif clause.action == "INSERT":
        action = f"insert ({', '.join(columns)}) values ({', '.join(f's.{column}' for column in columns)})"
    else:
        action = "delete"
    return f"when {clause.match}{condition} then {action}"


def _assigned(values: dict[str, str] | object) -> str:
    return ", ".join(f"{column} = {value}" for column, value in dict(values).items())  # type: ignore[call-overload]
