"""The clauses of a MERGE, and the config `merge_clauses`, which lists them in YAML as in dbt-duckdb."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dbt.adapters.rowmerge.configs.model_config import listed, nearest
from dbt.adapters.rowmerge.relations.names import literal, quote

KINDS = {"when_matched": "matched", "when_not_matched": "not matched", "when_not_matched_by_source": "not matched by source"}
_ACTIONS = {
    "matched": ("update", "delete", "do_nothing", "error"),
    "not matched": ("insert", "do_nothing", "error"),
    "not matched by source": ("update", "delete", "do_nothing", "error"),
}
_MODES = ("by_name", "by_position", "star", "explicit")
_KEYS = ("action", "mode", "condition", "by", "update", "insert", "set_expressions", "error_message")
_PARTS = {"update": ("include", "exclude", "set_expressions"), "insert": ("columns", "values")}


@dataclass(frozen=True)
class Clause:
    """Describe WHEN `kind` AND all `conditions` THEN `action`.

    Attributes:
        kind: `matched`, `not matched` or `not matched by source`.
        action: `delete`, `update`, `insert`, `do_nothing`, or SQL that begins with `update set`.
        conditions: Conditions in SQL; empty for a clause that applies to each row of its kind.
        assignments: Pairs of a quoted column and its value; an update or an insert without pairs takes every column of the source.
    """

    kind: str
    action: str
    conditions: tuple[str, ...] = ()
    assignments: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Columns:
    """Hold the columns of both sides of a MERGE. By name, a MERGE copies only columns of both sides.

    Attributes:
        target: The names of the columns that the MERGE may set, in their order; empty before they are known.
        source: The names of the model's columns, in their order.
        alias: The alias of the model's rows.
    """

    target: tuple[str, ...]
    source: tuple[str, ...]
    alias: str

    @cached_property
    def lowered(self) -> frozenset[str]:
        return frozenset(name.lower() for name in self.target)

    @cached_property
    def common(self) -> tuple[str, ...]:
        """The columns of both sides, in lower case."""
        source_names = {name.lower() for name in self.source}
        return tuple(name.lower() for name in self.target if name.lower() in source_names)

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Return a sentence for each name that is not a column of the target."""
        missing = [name for name in names if self.target and plain(name) not in self.lowered]
        return [f"there is no column {name}. {nearest(plain(name), self.target)}" for name in missing]

    def updates(self, included: Iterable[str], excluded: Iterable[str], expressions: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """Return the assignments of an update: expressions first, then the model's values for the other columns.

        If `included` is empty, the other columns are all except those in `excluded`.
        """
        included_names, excluded_names = {plain(name) for name in included}, {plain(name) for name in excluded}
        computed = {plain(name): (self.spelt(name), text) for name, text in expressions.items()}
        copied = [
            (column, value)
            for name, (column, value) in zip(self.common, self.inserts(), strict=True)
            if name not in computed and (name in included_names if included_names else name not in excluded_names)
        ]
        return (*computed.values(), *copied)

    def inserts(self) -> tuple[tuple[str, str], ...]:
        """Return the assignments of an insert: the columns of both sides and the model's values."""
        return tuple((self.spelt(name), f"{self.alias}.{self.spelt(name)}") for name in self.common)

    def by_position(self) -> tuple[tuple[str, str], ...]:
        """Return assignments that pair the columns of both sides by their positions."""
        return tuple((quote(name), f"{self.alias}.{quote(other)}") for name, other in zip(self.target, self.source, strict=False))

    def spelt(self, name: str) -> str:
        """Return a column's name quoted, in the case of the target."""
        return quote(next((column for column in self.target if column.lower() == plain(name)), name.strip("`\"'")))


def plain(name: str) -> str:
    """Return a column's name without quotes, in lower case."""
    return name.strip("`\"'").replace("``", "`").lower()


def clauses_of(entries: Any, columns: Columns, evolves: bool, defaults: Iterable[Clause]) -> tuple[list[Clause], list[str]]:
    """Return the clauses of the config `merge_clauses`, and a sentence for each error in it.

    `entries` is the config. `evolves` states whether the MERGE adds columns. Kinds without an entry keep their clauses of `defaults`.
    """
    if not isinstance(entries, Mapping):
        return [], [f"merge_clauses is {entries!r}. It must be a mapping with {', '.join(KINDS)}."]
    problems = [f"merge_clauses: there is no {name}. {nearest(str(name), KINDS)}" for name in entries if name not in KINDS]
    kinds = {name: kind for name, kind in KINDS.items() if name in entries}
    if not kinds:
        problems.append(f"merge_clauses says none of {', '.join(KINDS)}. Give at least one of them a list of clauses.")
    clauses = [clause for clause in defaults if clause.kind not in kinds.values()]
    for name, kind in kinds.items():
        if not isinstance(entries[name], (list, tuple)) or not entries[name]:
            problems.append(f"merge_clauses.{name} must be a list of at least one clause.")
            continue
        for number, entry in enumerate(entries[name], 1):
            clause, clause_problems = _clause(entry, kind, columns, evolves)
            clauses += [clause] if clause else []
            problems += [f"merge_clauses.{name}, clause {number}: {text}" for text in clause_problems]
    order = list(KINDS.values())
    return sorted(clauses, key=lambda clause: order.index(clause.kind)), problems


def fold_idle(clauses: Iterable[Clause]) -> tuple[list[Clause], list[str]]:
    """Return the clauses without `do_nothing`, which MERGE lacks, and an error for each clause that no row reaches.

    The clauses after a `do_nothing` exclude its rows by a condition.
    """
    folded, problems = [], []
    guards: dict[str, list[str]] = {}
    complete_kinds: set[str] = set()
    for clause in clauses:
        if clause.kind in complete_kinds:
            problems.append(f"when {clause.kind}: a clause is never reached. Give the one before it a condition.")
        elif clause.action == "do_nothing" and clause.conditions:
            skipped = " and ".join(f"({condition})" for condition in clause.conditions)
            guards.setdefault(clause.kind, []).append(f"{skipped if len(clause.conditions) == 1 else f'({skipped})'} is not true")
        elif clause.action != "do_nothing":
            folded.append(replace(clause, conditions=(*guards.get(clause.kind, ()), *clause.conditions)))
        if not clause.conditions:
            complete_kinds.add(clause.kind)
    return folded, problems


def _clause(entry: Any, kind: str, columns: Columns, evolves: bool) -> tuple[Clause | None, list[str]]:
    if not isinstance(entry, Mapping):
        return None, [f"{entry!r} is no clause. Make it a mapping with an action."]
    problems = [f"there is no {name}. {nearest(str(name), _KEYS)}" for name in entry if name not in _KEYS]
    kind, side_problems = _side(entry.get("by"), kind)
    problems += side_problems
    action = str(entry.get("action") or "")
    if action not in _ACTIONS[kind]:
        return None, [*problems, f"action is {action!r}. For when {kind} there are: {', '.join(_ACTIONS[kind])}."]
    conditions = tuple(listed(entry.get("condition")))
    if action == "error":
        return Clause(kind, "insert" if kind == "not matched" else "update", conditions, _failure(entry, kind, columns)), problems
    if action in ("delete", "do_nothing"):
        return Clause(kind, action, conditions), problems
    assignments, action_problems = _insert(entry, columns, evolves) if action == "insert" else _update(entry, kind, columns, evolves)
    return Clause(kind, action, conditions, assignments), problems + action_problems


def _side(by: Any, kind: str) -> tuple[str, list[str]]:
    """Return the kind of a clause with this `by`, and its errors. In dbt-duckdb, `by: source` means when_not_matched_by_source."""
    side = str(by or "").lower()
    if side == "source" and kind != "matched":
        return "not matched by source", []
    if side and not (side == "target" and kind == "not matched"):
        return kind, [f"by is {by!r}. Below when_not_matched it may be source or target, and else it is left out."]
    return kind, []


def _update(entry: Mapping[str, Any], kind: str, columns: Columns, evolves: bool) -> tuple[tuple[tuple[str, str], ...], list[str]]:
    part, problems = _part(entry, "update")
    expressions = {**_mapping(entry.get("set_expressions")), **_mapping(part.get("set_expressions"))}
    included, excluded = listed(part.get("include")), listed(part.get("exclude"))
    mode, mode_problems = _mode(entry, explicit=bool(part or expressions))
    problems += mode_problems + [text for names in (included, excluded, expressions) for text in columns.unknown(names)]
    if included and excluded:
        problems.append("update.include and update.exclude cannot both be set. Keep one of them.")
    if kind == "not matched by source":
        if not expressions or included or excluded:
            problems.append("an update by source has no source row to copy from. Say what it sets in set_expressions, and only there.")
        return columns.updates((), columns.target, expressions), problems
    if mode == "by_position":
        return columns.by_position(), problems
    if mode != "explicit" and evolves:
        return (), problems
    assignments = columns.updates(included, excluded, expressions)
    if columns.target and not assignments and not problems:
        problems.append("it sets no column. Exclude less, or make its action do_nothing.")
    return assignments, problems


def _insert(entry: Mapping[str, Any], columns: Columns, evolves: bool) -> tuple[tuple[tuple[str, str], ...], list[str]]:
    part, problems = _part(entry, "insert")
    names, values = listed(part.get("columns")), listed(part.get("values"))
    mode, mode_problems = _mode(entry, explicit=bool(part))
    problems += mode_problems + columns.unknown(names)
    if entry.get("set_expressions"):
        problems.append("an insert has no set_expressions. Say insert.columns and insert.values.")
    if mode == "by_position":
        return columns.by_position(), problems
    if mode != "explicit":
        return () if evolves else columns.inserts(), problems
    if not names or len(names) != len(values):
        problems.append(f"insert.columns has {len(names)} names, and insert.values {len(values)} values. Give each column its value.")
    return tuple((columns.spelt(name), value) for name, value in zip(names, values, strict=False)), problems


def _part(entry: Mapping[str, Any], action: str) -> tuple[Mapping[str, Any], list[str]]:
    part = entry.get(action) or {}
    if not isinstance(part, Mapping):
        return {}, [f"{action} is {part!r}. It must be a mapping with {' and '.join(_PARTS[action])}."]
    return part, [f"{action}: there is no {name}. {nearest(str(name), _PARTS[action])}" for name in part if name not in _PARTS[action]]


def _mode(entry: Mapping[str, Any], explicit: bool) -> tuple[str, list[str]]:
    mode = str(entry.get("mode") or ("explicit" if explicit else "by_name"))
    problems = [] if mode in _MODES else [f"mode is {mode!r}. {nearest(mode, _MODES)}"]
    if mode in _MODES and explicit and mode != "explicit":
        problems.append(f"mode is {mode}, and columns are said. Make it explicit, or leave the columns out.")
    return mode, problems


def _mapping(value: Any) -> dict[str, str]:
    return {str(name): str(text) for name, text in value.items()} if isinstance(value, Mapping) else {}


def _failure(entry: Mapping[str, Any], kind: str, columns: Columns) -> tuple[tuple[str, str], ...]:
    """Return an assignment that stops the statement: the first column is set to an expression that raises an error."""
    message = str(entry.get("error_message") or f"merge_clauses: a row for `when {kind}` is an error.")
    return ((quote(columns.target[0]) if columns.target else "", f"raise_error({literal(message)})"),)
