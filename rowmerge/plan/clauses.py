"""Bind WHEN clauses and SET lists to columns: expand stars, resolve names, and combine assignments to struct fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from rowmerge.commands.rows import Assignment, DeleteAction, InsertAction, Match, UpdateAction, When
from rowmerge.errors import PlanError, UnknownColumn
from rowmerge.plan.expressions.qualification import qualify, replace_qualifiers, without_qualifier
from rowmerge.plan.expressions.sides import Side, is_same_name
from rowmerge.plan.row_plan import Clause, Effect
from rowmerge.table.metadata.rules import Rules
from rowmerge.table.metadata.schema import Field, Struct, backquote, string_literal

_COMPUTED = ""
"""A placeholder for the value of a generated column that a statement sets to DEFAULT. No SQL expression is empty."""
_EVOLVE = "To let the source change the table's schema, write MERGE WITH SCHEMA EVOLUTION INTO."


@dataclass(frozen=True)
class ClauseScope:
    """The names that the clauses of one statement may use, and the columns that the clauses read and write.

    `old_schema` and `new_schema` contain the table's columns before and after the statement. `rules`: the defaults, constraints and
    generated columns of the table. `evolves`: whether the source may add columns. `visible`: the side whose columns a clause may use, or
    None for both sides.
    """

    target: Side
    source: Side | None
    old_schema: Struct
    new_schema: Struct
    rules: Rules
    evolves: bool = False
    case_sensitive: bool = False
    visible: Side | None = None

    def of_clause(self, match: Match) -> ClauseScope:
        """Return this scope, restricted to the sides that the conditions and values of a WHEN clause may use."""
        match match:
            case Match.MATCHED:
                return self
            case Match.NOT_MATCHED:
                return replace(self, visible=self.source)
            case Match.NOT_MATCHED_BY_SOURCE:
                # Without a source row, there is no value for a new column.
                return replace(self, visible=self.target, source=None, new_schema=self.old_schema)

    def qualified(self, text: str) -> str:
        """Return an expression in which each column is qualified by the alias of its side."""
        if self.visible is not None:
            return qualify(text, self.visible, case_sensitive=self.case_sensitive)
        sides = (self.target,) if self.source is None else (self.target, self.source)
        return replace_qualifiers(text, sides, case_sensitive=self.case_sensitive)

    def column(self, name: str, clause: str) -> Field:
        """Return the column to which a clause assigns a value.

        Args:
            name: The column's name as written in the statement.
            clause: The noun for the clause in the message of UnknownColumn, such as `the SET list`.
        """
        is_source_column = self.source is not None and name.lower() in map(str.lower, self.source.columns)
        advice = _EVOLVE if is_source_column and not self.evolves else ""
        return column_of(self.new_schema, name, self.case_sensitive, clause, advice)


def clause_of(when: When, statement_scope: ClauseScope) -> Clause:
    """Convert a WHEN clause into a clause of a plan, with resolved names and with `*` expanded.

    Args:
        when: The WHEN clause of the statement.
        statement_scope: The scope of the whole statement, which `of_clause` narrows to the sides that the clause may use.

    Raises:
        UnknownColumn: A column does not exist, or the source lacks a column that `*` needs.
        PlanError: A column is assigned twice, or a name is ambiguous.
    """
    scope = statement_scope.of_clause(when.match)
    condition = None if when.condition is None else scope.qualified(when.condition.text)
    match when.action:
        case DeleteAction():
            return Clause(when.match, Effect.DELETE, condition)
        case UpdateAction(tuple(assignments)):  # SET * has no tuple, but None
            return Clause(when.match, Effect.UPDATE, condition, update_values(assignments, scope))
        case UpdateAction():  # SET *
            values = _star_values(statement_scope, f"{when.match.value} THEN UPDATE SET *")
            return Clause(when.match, Effect.UPDATE, condition, values, keeps_fields=scope.evolves)
        case InsertAction(tuple(assignments)):
            return Clause(when.match, Effect.INSERT, condition, _insert_values(assignments, scope))
        case InsertAction():  # INSERT *
            values = _star_values(statement_scope, f"{when.match.value} THEN INSERT *")
            return Clause(when.match, Effect.INSERT, condition, {**scope.rules.defaults, **values})


def _star_values(scope: ClauseScope, clause: str) -> dict[str, str]:
    """Return the values of `SET *` or `INSERT *`: for each column of the table, the source column of the same name, as SQL text.

    If the schema may evolve, a column that the source lacks is left out. Otherwise, raise UnknownColumn. `clause`: the noun for the clause
    in the error message.
    """
    source = scope.source
    assert source is not None
    expressions = {}
    for field in scope.new_schema:
        source_column = _source_column(source, field, scope.case_sensitive)
        if source_column is not None:
            expressions[field.name] = f"{backquote(source.alias)}.{backquote(source_column)}"
        elif field.name not in scope.rules.generated:  # a generated column is computed
            _refuse_missing_column(source, field, clause, evolves=scope.evolves)
    return expressions


def _source_column(source: Side, field: Field, case_sensitive: bool) -> str | None:
    """Return the source column with the same name as `field`, or None. Raise PlanError if several columns match."""
    matches = [name for name in source.columns if is_same_name((name,), (field.name,), case_sensitive)]
    if len(matches) > 1:
        raise PlanError(f"The source has the column `{field.name}` {len(matches)} times. Select it once, or under another name.")
    return matches[0] if matches else None


def _refuse_missing_column(source: Side, field: Field, clause: str, *, evolves: bool) -> None:
    """Raise UnknownColumn because the source lacks `field`, a column of the table, unless WITH SCHEMA EVOLUTION permits this.

    Raise PlanError if the source has a column whose name differs only in case, which is possible with case-sensitive names.
    """
    if not evolves:
        where = f"the source, and {clause} needs every column of the table"
        raise UnknownColumn(field.name, source.columns, where=where, advice=_EVOLVE)
    # Schema evolution would add such a source column to the table.
    for name in source.columns:
        if name.lower() == field.name.lower():
            raise PlanError(
                f"The source's column `{name}` and the table's `{field.name}` differ only in case, and a table cannot have both. "
                f"Select it AS `{field.name}`, or set spark.sql.caseSensitive to false."
            )


def _insert_values(assignments: Iterable[Assignment], scope: ClauseScope) -> dict[str, str]:
    """Return the values of INSERT (columns) VALUES (…) as SQL text by column. A column outside the list gets its default."""
    values: dict[str, str] = {}
    for assignment in assignments:
        column = without_qualifier(assignment.column, scope.target, scope.new_schema)
        if len(column) != 1:
            raise PlanError(f"INSERT takes whole columns, not the field `{'.'.join(column)}`. Build the struct with named_struct().")
        name = scope.column(column[0], "the INSERT list").name
        if name in values:
            raise PlanError(f"The column `{name}` occurs twice in the INSERT list. Name it once.")
        values[name] = _assigned_value(assignment, _default_value(name, scope.rules), scope)
    return {**scope.rules.defaults, **_without_computed_columns(values)}


Assignments = dict[str, "str | Assignments"]
"""The SQL text assigned to each column. If fields of a struct are assigned, the value is a nested mapping for those fields."""


def update_values(assignments: Iterable[Assignment], scope: ClauseScope) -> dict[str, str]:
    """Return the values of UPDATE SET as SQL text by column. Assignments to struct fields become a value for the whole struct.

    A generated column that is set to DEFAULT is left out, because the writer computes its value.

    Args:
        assignments: The assignments of the SET list.
        scope: The names that the values may use, and the schemas before and after the statement.

    Raises:
        UnknownColumn: The table has no such column or field.
        PlanError: A column is assigned twice or together with one of its fields, or a path goes into a column that is not a struct.
    """
    values = {}
    for name, assigned in _assignments_by_column(assignments, scope).items():
        new_column = scope.column(name, "the SET list")
        old_column = scope.old_schema.find(name, case_sensitive=True)  # `name` is the exact name; None for a new column
        old_value = f"{backquote(scope.target.alias)}.{backquote(name)}"  # which keeps the struct fields that are not assigned
        values[name] = _updated_value(assigned, new_column, old_column, old_value)
    return _without_computed_columns(values)


def _assignments_by_column(assignments: Iterable[Assignment], scope: ClauseScope) -> Assignments:
    """Return the SQL text that a SET list assigns to each column, or to each field of a struct column."""
    assignments_by_column: Assignments = {}
    for assignment in assignments:
        path = without_qualifier(assignment.column, scope.target, scope.new_schema)
        column = scope.column(path[0], "the SET list")
        # `rules` has the defaults of whole columns only, so that DEFAULT means NULL for a field of a struct.
        default = _default_value(column.name, scope.rules) if len(path) == 1 else "NULL"
        value = _assigned_value(assignment, default, scope)
        _add_assignment(assignments_by_column, column, path, value, case_sensitive=scope.case_sensitive)
    return assignments_by_column


def _add_assignment(assignments: Assignments, column: Field, path: tuple[str, ...], value: str, *, case_sensitive: bool) -> None:
    """Add the assignment of `value` to a column, or to a field of a struct. Raise PlanError if it overlaps another assignment.

    Assignments are nested like the structs: `SET a = 1, s.x.y = 2` becomes `{"a": "1", "s": {"x": {"y": "2"}}}`. `path`: the name of the
    column as written in the statement, followed by the names of the nested fields.
    """
    dotted_path = ".".join(path)
    level, field = assignments, column  # the current column or field, and the assignments at its level of nesting
    for name in path[1:]:
        if not isinstance(field.type, Struct):
            raise PlanError(f"`{dotted_path}` is not a field: `{field.name}` is {field.sql_type}, not a struct. Assign the whole column.")
        nested_assignments = level.setdefault(field.name, {})
        if isinstance(nested_assignments, str):  # the whole struct is assigned
            raise _double_assignment_error(dotted_path)
        level = nested_assignments
        field = column_of(field.type, name, case_sensitive, f"the struct `{field.name}`")
    if field.name in level:
        raise _double_assignment_error(dotted_path)
    level[field.name] = value


def _double_assignment_error(column: str) -> PlanError:
    return PlanError(f"The column `{column}` is assigned twice, or together with one of its fields. Assign it once.")


def _updated_value(assigned: str | Assignments | None, field: Field, old_field: Field | None, old_value: str) -> str:
    """Return the SQL text of the value of a column or a struct field after an UPDATE.

    `assigned` is the assigned SQL text, or the assignments to the fields of a struct. If `assigned` is None, the field keeps `old_value`.
    `old_field` is None for a field that the statement adds to the schema. Such a field is NULL unless it is assigned.
    """
    if assigned is None:
        return "NULL" if old_field is None else old_value
    if isinstance(assigned, str):
        return assigned
    assert isinstance(field.type, Struct)  # `_add_assignment` refuses fields of any other type
    # If the old column is not a struct, all fields are new.
    old_type = old_field.type if old_field is not None and isinstance(old_field.type, Struct) else Struct()
    arguments = []
    for child in field.type:
        old_child_value = f"{old_value}.{backquote(child.name)}"
        child_value = _updated_value(assigned.get(child.name), child, old_type.find(child.name), old_child_value)
        arguments.append(f"{string_literal(child.name)}, {child_value}")
    return f"named_struct({', '.join(arguments)})"


def _assigned_value(assignment: Assignment, default: str, scope: ClauseScope) -> str:
    """Return the SQL text of an assigned value. The keyword DEFAULT is replaced by `default`."""
    text = assignment.value.text
    return default if text.strip().upper() == "DEFAULT" else scope.qualified(text)


def _default_value(column: str, rules: Rules) -> str:
    """Return the SQL text of a column's default, `NULL` if the column has none, or `_COMPUTED` for a generated column."""
    return _COMPUTED if column in rules.generated else rules.defaults.get(column, "NULL")


def _without_computed_columns(values: Mapping[str, str]) -> dict[str, str]:
    """Return the values without the entries of generated columns, whose values the writer computes."""
    return {name: value for name, value in values.items() if value != _COMPUTED}


def column_of(schema: Struct, name: str, case_sensitive: bool, where: str, advice: str = "") -> Field:
    """Return the column or the struct field with the given name.

    Args:
        schema: The columns of a table, or the fields of a struct.
        name: The name as written in the statement.
        case_sensitive: Whether names that differ only in case are different, as with spark.sql.caseSensitive.
        where: The place of the name in the statement, for the error message, such as `the SET list`.
        advice: A sentence for the error message that says how to correct the statement.

    Raises:
        UnknownColumn: The schema has no such column.
    """
    field = schema.find(name, case_sensitive=case_sensitive)
    if field is None:
        raise UnknownColumn(name, schema.names, where=where, advice=advice)
    return field
