"""Bind WHEN clauses and SET lists to columns: expand stars, resolve names, and combine assignments to struct fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from rowmerge.commands.rows import Assignment, DeleteAction, InsertAction, Match, UpdateAction, When
from rowmerge.errors import PlanError, UnknownColumn
from rowmerge.plan.expressions.conditions import Side, is_same_name
from rowmerge.plan.expressions.qualification import qualify, replace_qualifiers, without_qualifier
from rowmerge.plan.row_plan import Clause, Effect
from rowmerge.table.metadata.rules import Rules
from rowmerge.table.metadata.schema import Field, Struct, backquote, string_literal

_COMPUTED = ""
"""Represents DEFAULT for a generated column. No expression is empty."""
_EVOLVE = "To let the source change the table's schema, write MERGE WITH SCHEMA EVOLUTION INTO."


@dataclass(frozen=True)
class ClauseScope:
    """The names that the clauses of one statement may use, and the columns that they read and write.

    `before`, `after`: the table's columns before and after the statement; `evolves`: whether the source may add columns; `visible`: the
    side whose columns a clause sees, or None for both sides.
    """

    target: Side
    source: Side | None
    before: Struct
    after: Struct
    rules: Rules
    evolves: bool = False
    case_sensitive: bool = False
    visible: Side | None = None

    def of_clause(self, match: Match) -> ClauseScope:
        """Return the scope of the conditions and values of a WHEN clause."""
        match match:
            case Match.MATCHED:
                return self
            case Match.NOT_MATCHED:
                return replace(self, visible=self.source)
            case Match.NOT_MATCHED_BY_SOURCE:
                # Without a source row, no value can come for a new column.
                return replace(self, visible=self.target, source=None, after=self.before)

    def qualified(self, text: str) -> str:
        """Return an expression whose column references name their side."""
        if self.visible is not None:
            return qualify(text, self.visible, case_sensitive=self.case_sensitive)
        sides = (self.target,) if self.source is None else (self.target, self.source)
        return replace_qualifiers(text, sides, case_sensitive=self.case_sensitive)

    def column(self, name: str, clause: str) -> Field:
        """Return the column to which a clause (`the SET list`) assigns a value. Raises UnknownColumn."""
        is_source_column = self.source is not None and name.lower() in map(str.lower, self.source.columns)
        advice = _EVOLVE if is_source_column and not self.evolves else ""
        return column_of(self.after, name, self.case_sensitive, clause, advice)


def clause_of(when: When, statement: ClauseScope) -> Clause:
    """Bind a WHEN clause. Raises UnknownColumn, PlanError."""
    scope = statement.of_clause(when.match)
    condition = None if when.condition is None else scope.qualified(when.condition.text)
    match when.action:
        case DeleteAction():
            return Clause(when.match, Effect.DELETE, condition)
        case UpdateAction(tuple(assignments)):
            return Clause(when.match, Effect.UPDATE, condition, update_values(assignments, scope))
        case UpdateAction():
            values = _star_values(statement, f"{when.match.value} THEN UPDATE SET *")
            return Clause(when.match, Effect.UPDATE, condition, values, keeps_fields=scope.evolves)
        case InsertAction(tuple(assignments)):
            return Clause(when.match, Effect.INSERT, condition, _insert_values(assignments, scope))
        case InsertAction():
            values = _star_values(statement, f"{when.match.value} THEN INSERT *")
            return Clause(when.match, Effect.INSERT, condition, {**scope.rules.defaults, **values})


def _star_values(scope: ClauseScope, clause: str) -> dict[str, str]:
    """Return the source's columns by the table's names. If the schema may evolve, columns that the source lacks are left out."""
    source = scope.source
    assert source is not None
    values = {}
    for field in scope.after:
        source_column = _source_column(source, field, scope.case_sensitive)
        if source_column is not None:
            values[field.name] = f"{backquote(source.alias)}.{backquote(source_column)}"
        elif field.name not in scope.rules.generated:
            _check_may_lack(source, field, clause, evolves=scope.evolves)
    return values


def _source_column(source: Side, field: Field, case_sensitive: bool) -> str | None:
    """Return the source's column of a field's name, or None. Raises PlanError if there are several."""
    matches = [name for name in source.columns if is_same_name((name,), (field.name,), case_sensitive)]
    if len(matches) > 1:
        raise PlanError(f"The source has the column `{field.name}` {len(matches)} times. Select it once, or under another name.")
    return matches[0] if matches else None


def _check_may_lack(source: Side, field: Field, clause: str, *, evolves: bool) -> None:
    """Raise the error for a column of the table that the source lacks, unless the schema may evolve."""
    if not evolves:
        where = f"the source, and {clause} needs every column of the table"
        raise UnknownColumn(field.name, source.columns, where=where, advice=_EVOLVE)
    for name in source.columns:
        if name.lower() == field.name.lower():
            raise PlanError(
                f"The source's column `{name}` and the table's `{field.name}` differ in case alone, and no table can hold both. "
                f"Select it AS `{field.name}`, or set spark.sql.caseSensitive to false."
            )


def _insert_values(assignments: Iterable[Assignment], scope: ClauseScope) -> dict[str, str]:
    """Return the values of INSERT (columns) VALUES (…) by column."""
    values: dict[str, str] = {}
    for assignment in assignments:
        column = without_qualifier(assignment.column, scope.target, scope.after)
        if len(column) != 1:
            raise PlanError(f"INSERT takes whole columns, not the field `{'.'.join(column)}`. Build the struct with named_struct().")
        name = scope.column(column[0], "the INSERT list").name
        if name in values:
            raise PlanError(f"The column `{name}` is given twice in the INSERT list. Name it once.")
        values[name] = _value(assignment, name, scope)
    return {**scope.rules.defaults, **_without_computed(values)}


Assignments = dict[str, "str | Assignments"]
"""SQL text by column, or for a struct by the fields that are assigned."""


def update_values(assignments: Iterable[Assignment], scope: ClauseScope) -> dict[str, str]:
    """Return the values of UPDATE SET by column. Assignments to fields of a struct become the value of the whole struct."""
    by_column: Assignments = {}
    for assignment in assignments:
        path = without_qualifier(assignment.column, scope.target, scope.after)
        column = scope.column(path[0], "the SET list")
        text = _value(assignment, column.name if len(path) == 1 else None, scope)
        _add_assignment(by_column, column, path, text, case_sensitive=scope.case_sensitive)
    values = {}
    for name, value in by_column.items():
        column, old_column = scope.column(name, "the SET list"), scope.before.find(name, case_sensitive=True)
        values[name] = _render(value, column, old_column, f"{backquote(scope.target.alias)}.{backquote(name)}")
    return _without_computed(values)


def _add_assignment(assignments: Assignments, field: Field, path: tuple[str, ...], value: str, *, case_sensitive: bool) -> None:
    """Add the assignment to the field at `path`. Raises PlanError if it overlaps another one."""
    text = ".".join(path)
    for name in path[1:]:
        if not isinstance(field.type, Struct):
            raise PlanError(f"`{text}` is no field: `{field.name}` is {field.sql_type}, not a struct. Assign the whole column.")
        field_assignments = assignments.setdefault(field.name, {})
        if isinstance(field_assignments, str):
            raise _assigned_twice(text)
        assignments = field_assignments
        field = column_of(field.type, name, case_sensitive, f"the struct `{field.name}`")
    if field.name in assignments:
        raise _assigned_twice(text)
    assignments[field.name] = value


def _assigned_twice(column: str) -> PlanError:
    return PlanError(f"The column `{column}` is assigned twice, or together with one of its fields. Assign it once.")


def _render(value: str | Assignments | None, field: Field, old_field: Field | None, current: str) -> str:
    """Return the SQL text of a column or field. `current`: the text of its old value, which it keeps if `value` is None."""
    if value is None:
        return "NULL" if old_field is None else current
    if isinstance(value, str):
        return value
    assert isinstance(field.type, Struct)
    old_type = old_field.type if old_field is not None and isinstance(old_field.type, Struct) else Struct()
    arguments = []
    for inner in field.type:
        inner_text = _render(value.get(inner.name), inner, old_type.find(inner.name), f"{current}.{backquote(inner.name)}")
        arguments.append(f"{string_literal(inner.name)}, {inner_text}")
    return f"named_struct({', '.join(arguments)})"


def _value(assignment: Assignment, column: str | None, scope: ClauseScope) -> str:
    """Return the SQL text of an assigned value. `column` is the exact name of the column, or None for a field of a struct.

    DEFAULT means the default of the column, or NULL without a default. For a generated column it means the computed value.
    """
    text = assignment.value.text
    if text.strip().upper() != "DEFAULT":
        return scope.qualified(text)
    if column in scope.rules.generated:
        return _COMPUTED
    return "NULL" if column is None else scope.rules.defaults.get(column, "NULL")


def _without_computed(values: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in values.items() if text != _COMPUTED}


def column_of(schema: Struct, name: str, case_sensitive: bool, where: str, advice: str = "") -> Field:
    """Return the column of this name. Raises UnknownColumn, whose message says `where` the name stands and what to do."""
    field = schema.find(name, case_sensitive=case_sensitive)
    if field is None:
        raise UnknownColumn(name, schema.names, where=where, advice=advice)
    return field
