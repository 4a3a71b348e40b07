"""The clauses of a MERGE, and `merge_clauses`, which says them in YAML as dbt-duckdb has it."""

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
    """WHEN `kind` AND all `conditions` THEN `action`, which is delete, update, insert, do_nothing, or SQL that begins with `update set`.

    `assignments` pair quoted columns with values; an update or an insert without any takes every column of the source.
    """

    kind: str
    action: str
    conditions: tuple[str, ...] = ()
    assignments: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Columns:
    """The names of the columns that a MERGE may set, and of the model's, each in their order; none where they are not known yet.

    By name, only what both have is copied: an update keeps other columns as they are, an insert leaves them out.
    """

    known: tuple[str, ...]
    source: tuple[str, ...]
    alias: str

    @cached_property
    def lowered(self) -> frozenset[str]:
        return frozenset(name.lower() for name in self.known)

    @cached_property
    def common(self) -> tuple[str, ...]:
        """What both sides have, in small letters."""
        had = {name.lower() for name in self.source}
        return tuple(name.lower() for name in self.known if name.lower() in had)

    def unknown(self, names: Iterable[str]) -> list[str]:
        """A sentence for each name that is none of the columns."""
        wrong = [name for name in names if self.known and plain(name) not in self.lowered]
        return [f"there is no column {name}. {nearest(plain(name), self.known)}" for name in wrong]

    def updates(self, included: Iterable[str], excluded: Iterable[str], expressions: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """What an update sets: the expressions, and the included columns, or all but the excluded ones, to the model's values."""
        wanted, unwanted = {plain(name) for name in included}, {plain(name) for name in excluded}
        computed = {plain(name): (self.spelt(name), text) for name, text in expressions.items()}
        copied = [
            (column, value)
            for name, (column, value) in zip(self.common, self.inserts(), strict=True)
            if name not in computed and (name in wanted if wanted else name not in unwanted)
        ]
        return (*computed.values(), *copied)

    def inserts(self) -> tuple[tuple[str, str], ...]:
        """All columns that both sides have, and the model's values."""
        return tuple((self.spelt(name), f"{self.alias}.{self.spelt(name)}") for name in self.common)

    def by_position(self) -> tuple[tuple[str, str], ...]:
        return tuple((quote(name), f"{self.alias}.{quote(other)}") for name, other in zip(self.known, self.source, strict=False))

    def spelt(self, name: str) -> str:
        """A column as the table spells it, quoted."""
        return quote(next((known for known in self.known if known.lower() == plain(name)), name.strip("`\"'")))


def plain(name: str) -> str:
    """A column's name without quotes, in small letters."""
    return name.strip("`\"'").replace("``", "`").lower()


def clauses_of(said: Any, columns: Columns, evolves: bool, defaults: Iterable[Clause]) -> tuple[list[Clause], list[str]]:
    """The clauses of `merge_clauses`, and what is wrong with them. A kind that it does not mention has its clause of `defaults`."""
    if not isinstance(said, Mapping):
        return [], [f"merge_clauses is {said!r}. It must be a mapping with {', '.join(KINDS)}."]
    problems = [f"merge_clauses: there is no {name}. {nearest(str(name), KINDS)}" for name in said if name not in KINDS]
    if not any(name in KINDS for name in said):
        problems.append(f"merge_clauses says none of {', '.join(KINDS)}. Give at least one of them a list of clauses.")
    clauses = [clause for clause in defaults if not any(KINDS[name] == clause.kind for name in said if name in KINDS)]
    for name, kind in KINDS.items():
        if name not in said:
            continue
        entries = said[name]
        if not isinstance(entries, (list, tuple)) or not entries:
            problems.append(f"merge_clauses.{name} must be a list of at least one clause.")
            continue
        for number, entry in enumerate(entries, 1):
            clause, wrong = _clause(entry, kind, columns, evolves)
            clauses += [clause] if clause else []
            problems += [f"merge_clauses.{name}, clause {number}: {text}" for text in wrong]
    order = list(KINDS.values())
    return sorted(clauses, key=lambda clause: order.index(clause.kind)), problems


def fold_idle(clauses: Iterable[Clause]) -> tuple[list[Clause], list[str]]:
    """The same without `do_nothing`, which MERGE does not know: the clauses after it exclude its rows. Also those never reached."""
    folded, problems = [], []
    guards: dict[str, list[str]] = {}
    closed: set[str] = set()
    for clause in clauses:
        if clause.kind in closed:
            problems.append(f"when {clause.kind}: a clause is never reached. Give the one before it a condition.")
        elif clause.action == "do_nothing" and clause.conditions:
            passed = " and ".join(f"({each})" for each in clause.conditions)
            guards.setdefault(clause.kind, []).append(f"{passed if len(clause.conditions) == 1 else f'({passed})'} is not true")
        elif clause.action != "do_nothing":
            folded.append(replace(clause, conditions=(*guards.get(clause.kind, ()), *clause.conditions)))
        if not clause.conditions:
            closed.add(clause.kind)
    return folded, problems


def _clause(entry: Any, kind: str, columns: Columns, evolves: bool) -> tuple[Clause | None, list[str]]:
    if not isinstance(entry, Mapping):
        return None, [f"{entry!r} is no clause. Make it a mapping with an action."]
    problems = [f"there is no {name}. {nearest(str(name), _KEYS)}" for name in entry if name not in _KEYS]
    kind, wrong = _side(entry.get("by"), kind)
    problems += wrong
    action = str(entry.get("action") or "")
    if action not in _ACTIONS[kind]:
        return None, [*problems, f"action is {action!r}. For when {kind} there are: {', '.join(_ACTIONS[kind])}."]
    conditions = tuple(listed(entry.get("condition")))
    if action == "error":
        return Clause(kind, "insert" if kind == "not matched" else "update", conditions, _failure(entry, kind, columns)), problems
    if action in ("delete", "do_nothing"):
        return Clause(kind, action, conditions), problems
    assignments, wrong = _insert(entry, columns, evolves) if action == "insert" else _update(entry, kind, columns, evolves)
    return Clause(kind, action, conditions, assignments), problems + wrong


def _side(by: Any, kind: str) -> tuple[str, list[str]]:
    """`by: source` below when_not_matched is dbt-duckdb's word for when_not_matched_by_source."""
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
    mode, wrong = _mode(entry, explicit=bool(part or expressions))
    problems += wrong + [text for names in (included, excluded, expressions) for text in columns.unknown(names)]
    if included and excluded:
        problems.append("update.include and update.exclude cannot both be set. Keep one of them.")
    if kind == "not matched by source":
        if not expressions or included or excluded:
            problems.append("an update by source has no source row to copy from. Say what it sets in set_expressions, and only there.")
        return columns.updates((), columns.known, expressions), problems
    if mode == "by_position":
        return columns.by_position(), problems
    if mode != "explicit" and evolves:
        return (), problems
    assignments = columns.updates(included, excluded, expressions)
    if columns.known and not assignments and not problems:
        problems.append("it sets no column. Exclude less, or make its action do_nothing.")
    return assignments, problems


def _insert(entry: Mapping[str, Any], columns: Columns, evolves: bool) -> tuple[tuple[tuple[str, str], ...], list[str]]:
    part, problems = _part(entry, "insert")
    names, values = listed(part.get("columns")), listed(part.get("values"))
    mode, wrong = _mode(entry, explicit=bool(part))
    problems += wrong + columns.unknown(names)
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
    """The first column set to what stops the statement."""
    message = str(entry.get("error_message") or f"merge_clauses: a row for `when {kind}` is an error.")
    return ((quote(columns.known[0]) if columns.known else "", f"raise_error({literal(message)})"),)
