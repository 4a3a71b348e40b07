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
"""Stands for the value of a generated column that a statement sets to DEFAULT. No SQL expression is empty."""
_EVOLVE = "To let the source change the table's schema, write MERGE WITH SCHEMA EVOLUTION INTO."


@dataclass(frozen=True)
class ClauseScope:
    """The names that the clauses of one statement may use, and the columns that they read and write.

    `old_schema` and `new_schema` have the table's columns before and after the statement. `evolves`: whether the source may add columns.
    `visible`: the side whose columns a clause may use, or None for both sides.
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
        """Return the scope of the conditions and values of a WHEN clause."""
        match match:
            case Match.MATCHED:
                return self
            case Match.NOT_MATCHED:
                return replace(self, visible=self.source)
            case Match.NOT_MATCHED_BY_SOURCE:
                # Without a source row, a new column gets no value.
                return replace(self, visible=self.target, source=None, new_schema=self.old_schema)

    def qualified(self, text: str) -> str:
        """Return an expression with the alias of its side before each column."""
        if self.visible is not None:
            return qualify(text, self.visible, case_sensitive=self.case_sensitive)
        sides = (self.target,) if self.source is None else (self.target, self.source)
        return replace_qualifiers(text, sides, case_sensitive=self.case_sensitive)

    def column(self, name: str, clause: str) -> Field:
        """Return the column to which a clause assigns a value.

        Args:
            name: The column's name as the statement has it.
            clause: The noun for the clause in the message of UnknownColumn, such as `the SET list`.
        """
        is_source_column = self.source is not None and name.lower() in map(str.lower, self.source.columns)
        advice = _EVOLVE if is_source_column and not self.evolves else ""
        return column_of(self.new_schema, name, self.case_sensitive, clause, advice)


def clause_of(when: When, statement_scope: ClauseScope) -> Clause:
    """Return the clause of a plan for a WHEN clause: names are resolved, and `*` is expanded.

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
        case UpdateAction(tuple(assignments)):
            return Clause(when.match, Effect.UPDATE, condition, update_values(assignments, scope))
        case UpdateAction():  # SET * has no assignments
            values = _star_values(statement_scope, f"{when.match.value} THEN UPDATE SET *")
            return Clause(when.match, Effect.UPDATE, condition, values, keeps_fields=scope.evolves)
        case InsertAction(tuple(assignments)):
            return Clause(when.match, Effect.INSERT, condition, _insert_values(assignments, scope))
        case InsertAction():  # INSERT * has no assignments
            values = _star_values(statement_scope, f"{when.match.value} THEN INSERT *")
            return Clause(when.match, Effect.INSERT, condition, {**scope.rules.defaults, **values})


def _star_values(scope: ClauseScope, clause: str) -> dict[str, str]:
    """Return the values of `SET *` or `INSERT *`: for each column of the table, the source's column of the same name, as SQL text.

    A column that the source lacks gets no value if the schema may evolve. Otherwise it is an error, whose message names `clause`.
    """
    source = scope.source
    assert source is not None
    expressions = {}
    for field in scope.new_schema:
        source_column = _source_column(source, field, scope.case_sensitive)
        if source_column is not None:
            expressions[field.name] = f"{backquote(source.alias)}.{backquote(source_column)}"
        elif field.name not in scope.rules.generated:
            _check_missing_column(source, field, clause, evolves=scope.evolves)
    return expressions


def _source_column(source: Side, field: Field, case_sensitive: bool) -> str | None:
    """Return the source's column of a field's name, or None. Raises PlanError if there are several."""
    matches = [name for name in source.columns if is_same_name((name,), (field.name,), case_sensitive)]
    if len(matches) > 1:
        raise PlanError(f"The source has the column `{field.name}` {len(matches)} times. Select it once, or under another name.")
    return matches[0] if matches else None


def _check_missing_column(source: Side, field: Field, clause: str, *, evolves: bool) -> None:
    """Raise UnknownColumn for a column of the table that the source lacks, unless the schema may evolve.

    Schema evolution (WITH SCHEMA EVOLUTION) permits a source with fewer columns than the table. It would add a column of the source that
    the table lacks. If its name differs from `field` in case alone, the table cannot have both, and this raises PlanError. Only with
    case-sensitive names can `field` be missing then.
    """
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
    """Return the values of INSERT (columns) VALUES (…) as SQL text by column. A column that is not in the list gets its default."""
    values: dict[str, str] = {}
    for assignment in assignments:
        column = without_qualifier(assignment.column, scope.target, scope.new_schema)
        if len(column) != 1:
            raise PlanError(f"INSERT takes whole columns, not the field `{'.'.join(column)}`. Build the struct with named_struct().")
        name = scope.column(column[0], "the INSERT list").name
        if name in values:
            raise PlanError(f"The column `{name}` is given twice in the INSERT list. Name it once.")
        values[name] = _assigned_value(assignment, _default_value(name, scope.rules), scope)
    return {**scope.rules.defaults, **_without_computed_columns(values)}


Assignments = dict[str, "str | Assignments"]
"""The assigned SQL text of each column. For a struct whose fields are assigned, the assignments of the fields."""


def update_values(assignments: Iterable[Assignment], scope: ClauseScope) -> dict[str, str]:
    """Return the values of UPDATE SET as SQL text by column. Assignments to fields of a struct become the value of the whole struct.

    A generated column that is set to DEFAULT has no value, because the writer computes it.

    Args:
        assignments: The assignments of the SET list.
        scope: The names that the values may use, and the schemas before and after the statement.

    Raises:
        UnknownColumn: The table has no such column or field.
        PlanError: A column is assigned twice or together with one of its fields, or a path leads into a column that is not a struct.
    """
    values = {}
    for name, assigned in _assignments_by_column(assignments, scope).items():
        new_column = scope.column(name, "the SET list")
        old_column = scope.old_schema.find(name, case_sensitive=True)
        old_value = f"{backquote(scope.target.alias)}.{backquote(name)}"
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

    Assignments nest as the structs do: `SET a = 1, s.x.y = 2` becomes `{"a": "1", "s": {"x": {"y": "2"}}}`. `path`: the name of the column
    as the statement has it, and then the names of the fields inside it.
    """
    dotted_path = ".".join(path)
    siblings, field = assignments, column  # a column or field, and the assignments to it and to its siblings
    for name in path[1:]:  # go down one level
        if not isinstance(field.type, Struct):
            raise PlanError(f"`{dotted_path}` is no field: `{field.name}` is {field.sql_type}, not a struct. Assign the whole column.")
        children = siblings.setdefault(field.name, {})
        if isinstance(children, str):  # the whole struct is assigned
            raise _double_assignment_error(dotted_path)
        siblings, field = children, column_of(field.type, name, case_sensitive, f"the struct `{field.name}`")
    if field.name in siblings:
        raise _double_assignment_error(dotted_path)
    siblings[field.name] = value


def _double_assignment_error(column: str) -> PlanError:
    return PlanError(f"The column `{column}` is assigned twice, or together with one of its fields. Assign it once.")


def _updated_value(assigned: str | Assignments | None, field: Field, old_field: Field | None, old_value: str) -> str:
    """Return the SQL text of the value of a column or a struct's field after an UPDATE.

    `assigned` is the assigned SQL text, or the assignments to the fields of a struct. With None, the field keeps `old_value`. A field
    that the UPDATE adds to the schema has no `old_field`, and is NULL then.
    """
    if assigned is None:
        return "NULL" if old_field is None else old_value
    if isinstance(assigned, str):
        return assigned
    assert isinstance(field.type, Struct)
    old_type = old_field.type if old_field is not None and isinstance(old_field.type, Struct) else Struct()
    arguments = []
    for child in field.type:
        old_child_value = f"{old_value}.{backquote(child.name)}"
        child_value = _updated_value(assigned.get(child.name), child, old_type.find(child.name), old_child_value)
        arguments.append(f"{string_literal(child.name)}, {child_value}")
    return f"named_struct({', '.join(arguments)})"


def _assigned_value(assignment: Assignment, default: str, scope: ClauseScope) -> str:
    """Return the SQL text of an assigned value. The keyword DEFAULT means `default`."""
    text = assignment.value.text
    return default if text.strip().upper() == "DEFAULT" else scope.qualified(text)


def _default_value(column: str, rules: Rules) -> str:
    """Return the SQL text of a column's default, or NULL if it has none. A generated column has `_COMPUTED`."""
    return _COMPUTED if column in rules.generated else rules.defaults.get(column, "NULL")


def _without_computed_columns(values: Mapping[str, str]) -> dict[str, str]:
    """Return the values without those of generated columns, which the writer computes."""
    return {name: value for name, value in values.items() if value != _COMPUTED}


def column_of(schema: Struct, name: str, case_sensitive: bool, where: str, advice: str = "") -> Field:
    """Return the column or the struct's field with a name.

    Args:
        schema: The columns of a table, or the fields of a struct.
        name: The name as the statement has it.
        case_sensitive: Whether names that differ in case alone are different, as with spark.sql.caseSensitive.
        where: The place of the name in the statement, for the error message, such as `the SET list`.
        advice: A sentence for the error message with the way out.

    Raises:
        UnknownColumn: The schema has no such column.
    """
    field = schema.find(name, case_sensitive=case_sensitive)
    if field is None:
        raise UnknownColumn(name, schema.names, where=where, advice=advice)
    return field
