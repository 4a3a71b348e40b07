"""The clauses of a MERGE, and the config `merge_clauses`, which lists them in YAML with the format of dbt-duckdb."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dbt.adapters.rowmerge.configs.config_values import as_list, suggest_names, text_mapping
from dbt.adapters.rowmerge.relations.names import literal, lower_name, quote

KINDS = {"when_matched": "matched", "when_not_matched": "not matched", "when_not_matched_by_source": "not matched by source"}
_ACTIONS = {
    "matched": ("update", "delete", "do_nothing", "error"),
    "not matched": ("insert", "do_nothing", "error"),
    "not matched by source": ("update", "delete", "do_nothing", "error"),
}
_MODES = ("by_name", "by_position", "star", "explicit")
"""The modes of an update or insert: pair columns by name, pair them by position, write all columns, or write the columns in the clause."""
_KEYS = ("action", "mode", "condition", "by", "update", "insert", "set_expressions", "error_message")
_NESTED_KEYS = {"update": ("include", "exclude", "set_expressions"), "insert": ("columns", "values")}
_KIND_BY_SIDE = {
    ("not matched", "target"): "not matched",
    ("not matched", "source"): "not matched by source",
    ("not matched by source", "source"): "not matched by source",
}
"""The kind of a clause, by the kind of its list and the value of its key `by`. Other pairs are errors."""

Assignments = tuple[tuple[str, str], ...]
"""Pairs of a quoted column name and the SQL of its new value."""
ALL_COLUMNS: Assignments = ()
"""The assignments of UPDATE SET * and INSERT *, which also write columns that the target lacks."""


@dataclass(frozen=True)
class Clause:
    """A clause of a MERGE: WHEN `kind` AND all `conditions` THEN `action`.

    Attributes:
        kind: The kind of rows to which the clause applies: `matched`, `not matched` or `not matched by source`.
        action: `delete`, `update`, `insert`, `do_nothing`, or SQL that begins with `update set`.
        conditions: SQL conditions; empty for a clause that applies to all rows of its kind.
        assignments: Pairs of a quoted column name and the SQL of its new value. If empty, the clause renders as UPDATE SET * or INSERT *.
    """

    kind: str
    action: str
    conditions: tuple[str, ...] = ()
    assignments: Assignments = ()


@dataclass(frozen=True)
class ColumnSelection:
    """The columns that an update sets: `included_names` if not empty, else all columns except `excluded_names`.

    `expressions` contains the SQL of new values by column name. All other columns get the model's values.
    """

    included_names: Sequence[str]
    excluded_names: Sequence[str]
    expressions: Mapping[str, str]


@dataclass(frozen=True)
class Columns:
    """The columns of both sides of a MERGE. A MERGE that copies columns by name copies only columns that both sides have.

    Attributes:
        target: The names of the columns that the MERGE may set, in the order of the table; empty if they are unknown.
        source: The names of the model's columns, in the order of the model.
        alias: The SQL alias of the model's rows.
        with_schema_evolution: Whether the MERGE adds columns that the target lacks.
    """

    target: tuple[str, ...]
    source: tuple[str, ...] = ()
    alias: str = ""
    with_schema_evolution: bool = False

    @cached_property
    def lower_names(self) -> frozenset[str]:
        return frozenset(name.lower() for name in self.target)

    @cached_property
    def common_names(self) -> tuple[str, ...]:
        """The names of columns that exist on both sides, in lower case."""
        source_names = {name.lower() for name in self.source}
        return tuple(name.lower() for name in self.target if name.lower() in source_names)

    def unknown_column_problems(self, names: Iterable[str]) -> list[str]:
        """Return an error message for each name that is not a column of the target."""
        unknown_names = [name for name in names if self.target and lower_name(name) not in self.lower_names]
        return [f"there is no column {name}. {suggest_names(lower_name(name), self.target)}" for name in unknown_names]

    def update_assignments(self, selection: ColumnSelection) -> Assignments:
        """Return the assignments of an update: first the expressions, then the model's values for the other selected columns.

        The configs select either included columns, or all columns except the excluded ones. Columns with an expression are not copied.
        """
        expressions = {lower_name(name): (self.quoted(name), sql) for name, sql in selection.expressions.items()}
        selected_names = set(map(lower_name, selection.included_names))
        if not selected_names:
            selected_names = set(self.common_names) - set(map(lower_name, selection.excluded_names))
        copied_names = [name for name in self.common_names if name in selected_names and name not in expressions]
        return (*expressions.values(), *map(self._copy_assignment, copied_names))

    def insert_assignments(self) -> Assignments:
        """Return the assignments of an insert, which set each common column to the model's value."""
        return tuple(map(self._copy_assignment, self.common_names))

    def positional_assignments(self) -> Assignments:
        """Return assignments that pair the columns of both sides by position."""
        pairs = zip(self.target, self.source, strict=False)
        return tuple((quote(target_name), f"{self.alias}.{quote(source_name)}") for target_name, source_name in pairs)

    def quoted(self, name: str) -> str:
        """Return the quoted name of a column, spelled with the upper and lower case of the target's column."""
        return quote(next((column for column in self.target if column.lower() == lower_name(name)), name.strip("`\"'")))

    def _copy_assignment(self, name: str) -> tuple[str, str]:
        return self.quoted(name), f"{self.alias}.{self.quoted(name)}"


def parse_clauses(config: Any, columns: Columns, defaults: Iterable[Clause]) -> tuple[list[Clause], list[str]]:
    """Return the clauses of the config `merge_clauses`, and a message for each error in it.

    Args:
        config: The value of the config, with lists of clauses below `when_matched`, `when_not_matched` and `when_not_matched_by_source`.
        columns: The columns of both sides of the MERGE.
        defaults: The clauses of a merge without this config. They apply to each kind of rows that has no list.
    """
    if not isinstance(config, Mapping):
        return [], [f"merge_clauses is {config!r}. It must be a mapping with {', '.join(KINDS)}."]
    problems = _list_name_problems(config)
    configured_kinds = {name: kind for name, kind in KINDS.items() if name in config}
    clauses = [clause for clause in defaults if clause.kind not in configured_kinds.values()]
    for name in configured_kinds:
        kind_clauses, kind_problems = _parse_clause_list(config[name], name, columns)
        clauses += kind_clauses
        problems += kind_problems
    kind_order = list(KINDS.values())
    return sorted(clauses, key=lambda clause: kind_order.index(clause.kind)), problems


def _list_name_problems(config: Mapping[Any, Any]) -> list[str]:
    """Return an error message for each unknown key of `merge_clauses`, and one if it has no list of clauses."""
    problems = [f"merge_clauses: there is no {name}. {suggest_names(str(name), KINDS)}" for name in config if name not in KINDS]
    if KINDS.keys().isdisjoint(config):
        problems.append(f"merge_clauses has none of {', '.join(KINDS)}. Set at least one of them to a list of clauses.")
    return problems


def remove_do_nothing(clauses: Iterable[Clause]) -> tuple[list[Clause], list[str]]:
    """Replace `do_nothing`, which MERGE lacks, by conditions. Return the new clauses, and an error for each unreachable clause.

    The later clauses of the same kind exclude the rows of a `do_nothing`. For example, `when matched and a then do_nothing` and `when
    matched then update` become `when matched and (a) is not true then update`. No clause follows an unconditional `do_nothing`, so that it
    only disappears.
    """
    reachable_clauses, problems = _remove_unreachable(clauses)
    executed_clauses = []
    exclusions_by_kind: dict[str, tuple[str, ...]] = {}
    for clause in reachable_clauses:
        exclusions = exclusions_by_kind.get(clause.kind, ())
        if clause.action != "do_nothing":
            executed_clauses.append(replace(clause, conditions=exclusions + clause.conditions))
        elif clause.conditions:
            exclusions_by_kind[clause.kind] = (*exclusions, _negate(clause.conditions))
    return executed_clauses, problems


def _remove_unreachable(clauses: Iterable[Clause]) -> tuple[list[Clause], list[str]]:
    """Return the reachable clauses, and an error for each clause that follows an unconditional clause of the same kind."""
    reachable_clauses, problems = [], []
    complete_kinds = set()
    for clause in clauses:
        if clause.kind in complete_kinds:
            problems.append(f"when {clause.kind}: a clause is never reached. Add a condition to the clause before it.")
            continue
        reachable_clauses.append(clause)
        if not clause.conditions:
            complete_kinds.add(clause.kind)
    return reachable_clauses, problems


def _negate(conditions: Sequence[str]) -> str:
    """Return a condition that is true unless all given conditions are true. A condition that is NULL counts as not true."""
    conjunction = " and ".join(f"({condition})" for condition in conditions)
    return f"{conjunction} is not true" if len(conditions) == 1 else f"({conjunction}) is not true"


def _parse_clause_list(clause_configs: Any, kind_name: str, columns: Columns) -> tuple[list[Clause], list[str]]:
    """Return the clauses of one kind, and a message for each error in them.

    `clause_configs`: the list of clauses under `kind_name`, which is a key of `merge_clauses` such as `when_matched`.
    """
    if not isinstance(clause_configs, (list, tuple)) or not clause_configs:
        return [], [f"merge_clauses.{kind_name} must be a list of at least one clause."]
    clauses, problems = [], []
    for number, clause_config in enumerate(clause_configs, 1):
        parser = _ClauseParser(clause_config, columns)
        clause = parser.parse(KINDS[kind_name])
        if clause is not None:
            clauses.append(clause)
        problems += [f"merge_clauses.{kind_name}, clause {number}: {problem}" for problem in parser.problems]
    return clauses, problems


class _ClauseParser:
    """A parser of one clause of the config `merge_clauses`.

    For each error, the methods add a message to `problems` and continue, so that dbt reports all errors of a model at once.
    """

    def __init__(self, clause_config: Any, columns: Columns) -> None:
        self._clause_config, self._columns = clause_config, columns
        self.problems: list[str] = []

    def parse(self, list_kind: str) -> Clause | None:
        """Parse the clause, or return None if it has no valid action. Call this method once, and then read `problems`.

        Args:
            list_kind: The kind of the list that contains the clause, such as `not matched`. The key `by` may change the kind.
        """
        if not isinstance(self._clause_config, Mapping):
            self.problems.append(f"{self._clause_config!r} is not a clause. Write a mapping with an action.")
            return None
        unknown_keys = [key for key in self._clause_config if key not in _KEYS]
        self.problems += [f"there is no {key}. {suggest_names(str(key), _KEYS)}" for key in unknown_keys]
        kind = self._parse_kind(list_kind)
        action = str(self._clause_config.get("action") or "")
        if action not in _ACTIONS[kind]:
            self.problems.append(f"action is {action!r}. The actions of when {kind} are: {', '.join(_ACTIONS[kind])}.")
            return None
        conditions = tuple(as_list(self._clause_config.get("condition")))
        if action == "error":
            return self._error_clause(kind, conditions)
        return Clause(kind, action, conditions, self._parse_assignments(kind, action))

    def _parse_kind(self, list_kind: str) -> str:
        """Return the kind of the clause: the kind of its list, unless the key `by` of dbt-duckdb changes it.

        `by` names the side of the MERGE that lacks the row. A clause of `when_not_matched` with `by: source` is WHEN NOT MATCHED BY SOURCE,
        and `by: target` is the default. A clause of `when_matched` must not have this key, because both sides have the row.
        """
        by_value = self._clause_config.get("by")
        if not by_value:
            return list_kind
        missing_side = str(by_value).lower()
        if (list_kind, missing_side) not in _KIND_BY_SIDE:
            self.problems.append(f"by is {by_value!r}. Under when_not_matched, set it to source or target. Under other keys, remove it.")
        return _KIND_BY_SIDE.get((list_kind, missing_side), list_kind)

    def _error_clause(self, kind: str, conditions: tuple[str, ...]) -> Clause:
        """Return a clause that stops the statement: it sets the first column to an expression that raises an error."""
        default_message = f"merge_clauses: a row for `when {kind}` is an error."
        message = str(self._clause_config.get("error_message") or default_message)
        first_column = quote(self._columns.target[0]) if self._columns.target else ""
        action = "insert" if kind == "not matched" else "update"
        return Clause(kind, action, conditions, ((first_column, f"raise_error({literal(message)})"),))

    def _parse_assignments(self, kind: str, action: str) -> Assignments:
        """Return the assignments of an update or an insert, or an empty tuple for other actions."""
        if action == "insert":
            return self._parse_insert()
        if action != "update":
            return ()
        return self._parse_update_by_source() if kind == "not matched by source" else self._parse_update()

    def _parse_update(self) -> Assignments:
        """Return the assignments of an update of matched rows, by the mode of the clause.

        The mode `by_position` pairs the columns of both sides by position. `by_name` and `star` set all common columns. `explicit` sets the
        columns that the clause selects.
        """
        selection, mode, is_valid = self._parse_column_selection()
        if mode == "by_position":
            return self._columns.positional_assignments()
        if mode in ("by_name", "star") and self._columns.with_schema_evolution:
            return ALL_COLUMNS  # UPDATE SET *, the only form that also writes new columns
        assignments = self._columns.update_assignments(selection)
        sets_no_column = bool(self._columns.target) and not assignments
        if sets_no_column and is_valid:  # an invalid selection, such as of an unknown column, has already added its own error
            self.problems.append("it sets no column. Exclude fewer columns, or set the action to do_nothing.")
        return assignments

    def _parse_update_by_source(self) -> Assignments:
        """Return the assignments of an update of target rows without a source row. Only expressions are possible in this update."""
        selection, _, _ = self._parse_column_selection()
        if not selection.expressions or selection.included_names or selection.excluded_names:
            self.problems.append("an update by source has no source row to copy values from. Set columns only in set_expressions.")
        # Without included names, and with all columns excluded, the assignments consist only of the expressions.
        return self._columns.update_assignments(replace(selection, included_names=(), excluded_names=self._columns.target))

    def _parse_column_selection(self) -> tuple[ColumnSelection, str, bool]:
        """Return the columns that an update sets, the mode of the clause (see `_MODES`), and whether both are valid.

        If they are not, add the errors to `problems`. Expressions may be under the key `update` or, as in dbt-duckdb, directly in the
        clause. A clause with columns or expressions has the mode `explicit`.
        """
        earlier_problem_count = len(self.problems)
        update = self._nested_mapping("update")
        expressions = {**text_mapping(self._clause_config.get("set_expressions")), **text_mapping(update.get("set_expressions"))}
        selection = ColumnSelection(as_list(update.get("include")), as_list(update.get("exclude")), expressions)
        mode = self._parse_mode(is_explicit=bool(update or expressions))
        for names in (selection.included_names, selection.excluded_names, expressions):
            self.problems += self._columns.unknown_column_problems(names)
        if selection.included_names and selection.excluded_names:
            self.problems.append("update.include and update.exclude cannot both be set. Keep one of them.")
        return selection, mode, len(self.problems) == earlier_problem_count

    def _parse_insert(self) -> Assignments:
        """Return the assignments of an insert. Add errors to `problems`, and continue with the valid parts of the config."""
        insert = self._nested_mapping("insert")
        column_names, sql_values = as_list(insert.get("columns")), as_list(insert.get("values"))
        mode = self._parse_mode(is_explicit=bool(insert))
        self.problems += self._columns.unknown_column_problems(column_names)
        if self._clause_config.get("set_expressions"):
            self.problems.append("an insert cannot have set_expressions. Set insert.columns and insert.values.")
        if mode == "explicit":
            return self._pair_columns(column_names, sql_values)
        if mode == "by_position":
            return self._columns.positional_assignments()
        # The modes `by_name` and `star`. INSERT * also writes columns that the target lacks.
        return ALL_COLUMNS if self._columns.with_schema_evolution else self._columns.insert_assignments()

    def _pair_columns(self, names: Sequence[str], sql_values: Sequence[str]) -> Assignments:
        """Return the assignments from `insert.columns` and `insert.values`. Add an error if the two lists have different lengths."""
        if not names or len(names) != len(sql_values):
            counts = f"insert.columns has {len(names)} names, and insert.values has {len(sql_values)} values"
            self.problems.append(f"{counts}. Write one value for each column.")
        return tuple((self._columns.quoted(name), value) for name, value in zip(names, sql_values, strict=False))

    def _nested_mapping(self, action: str) -> Mapping[str, Any]:
        """Return the mapping under the key `update` or `insert`. For any other value, add an error and return an empty mapping."""
        mapping = self._clause_config.get(action) or {}
        keys = _NESTED_KEYS[action]
        if not isinstance(mapping, Mapping):
            self.problems.append(f"{action} is {mapping!r}. It must be a mapping with {' and '.join(keys)}.")
            return {}
        self.problems += [f"{action}: there is no {name}. {suggest_names(str(name), keys)}" for name in mapping if name not in keys]
        return mapping

    def _parse_mode(self, is_explicit: bool) -> str:
        """Return the mode of the clause. `is_explicit`: whether the clause names columns, which makes `explicit` the default mode."""
        mode = str(self._clause_config.get("mode") or ("explicit" if is_explicit else "by_name"))
        if mode not in _MODES:
            self.problems.append(f"mode is {mode!r}. {suggest_names(mode, _MODES)}")
        elif is_explicit and mode != "explicit":
            self.problems.append(f"mode is {mode}, but the clause lists columns. Set mode to explicit, or remove the columns.")
        return mode
