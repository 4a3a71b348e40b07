"""WHEN clauses and SET lists as a plan has them: stars written out, names settled, fields of structs put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from rowmerge.commands.rows import Assignment, DeleteAction, InsertAction, Match, UpdateAction, When
from rowmerge.errors import PlanError, UnknownColumn
from rowmerge.plan.expressions.conditions import Side
from rowmerge.plan.expressions.qualification import qualify, replace_qualifiers
from rowmerge.plan.expressions.sides import without_qualifier
from rowmerge.plan.row_plan import Clause, Effect
from rowmerge.table.metadata.rules import Rules
from rowmerge.table.metadata.schema import Field, Struct, backquote, string_literal

_COMPUTED = ""
"""Stands for the value of a generated column that is given as DEFAULT; no expression is empty."""
_EVOLVE = "To let the source change the table's schema, write MERGE WITH SCHEMA EVOLUTION INTO."


@dataclass(frozen=True)
class Columns:
    """The columns that a clause reads and writes: those `before` the command, and those that the table has `after` it."""

    before: Struct
    after: Struct
    rules: Rules
    evolves: bool = False


def clause_of(when: When, target: Side, source: Side, columns: Columns, case_sensitive: bool) -> Clause:
    """A WHEN clause with its names settled and its stars written out. Raises UnknownColumn, PlanError."""
    condition = when.condition.text if when.condition else None
    visible = {Match.MATCHED: None, Match.NOT_MATCHED: source, Match.NOT_MATCHED_BY_SOURCE: target}[when.match]
    if condition is not None:
        condition = _settle(condition, visible, target, source, case_sensitive)
    match when.action:
        case DeleteAction():
            return Clause(when.match, Effect.DELETE, condition)
        case UpdateAction(assignments):
            if assignments is None:
                values = _star(columns, source, f"{when.match.value} THEN UPDATE SET *", case_sensitive)
            elif when.match is Match.MATCHED:
                values = assigned(assignments, visible, target, columns, case_sensitive, source)
            else:
                # Without a source row there is nothing that could bring a new column.
                values = assigned(assignments, visible, target, replace(columns, after=columns.before), case_sensitive)
            return Clause(when.match, Effect.UPDATE, condition, values, keeps_fields=columns.evolves and assignments is None)
        case InsertAction(assignments):
            if assignments is None:
                values = {**columns.rules.defaults, **_star(columns, source, f"{when.match.value} THEN INSERT *", case_sensitive)}
            else:
                listed = (replace(a, column=without_qualifier(a.column, target, columns.after)) for a in assignments)
                values = _inserted(listed, source, columns, case_sensitive)
            return Clause(when.match, Effect.INSERT, condition, values)


def _settle(text: str, visible: Side | None, target: Side, source: Side | None, case_sensitive: bool) -> str:
    if visible is not None:
        return qualify(text, visible, case_sensitive=case_sensitive)
    return replace_qualifiers(text, (target,) if source is None else (target, source), case_sensitive=case_sensitive)


def _star(columns: Columns, source: Side, where: str, case_sensitive: bool) -> dict[str, str]:
    """The source's columns by the table's names. When the schema may evolve, columns that the source lacks are left out."""
    values = {}
    for field in columns.after:
        found = [name for name in source.columns if name == field.name or (not case_sensitive and name.lower() == field.name.lower())]
        if not found and field.name in columns.rules.generated:
            continue
        if not found and columns.evolves:
            if other := next((name for name in source.columns if name.lower() == field.name.lower()), None):
                raise PlanError(
                    f"The source's column `{other}` and the table's `{field.name}` differ in case alone, and no table can hold both. "
                    f"Select it AS `{field.name}`, or set spark.sql.caseSensitive to false."
                )
            continue
        if not found:
            raise UnknownColumn(
                field.name, source.columns, where=f"the source, and {where} needs every column of the table", advice=_EVOLVE
            )
        if len(found) > 1:
            raise PlanError(f"The source has the column `{field.name}` {len(found)} times. Select it once, or under another name.")
        values[field.name] = f"{backquote(source.alias)}.{backquote(found[0])}"
    return values


def _inserted(assignments: Iterable[Assignment], source: Side, columns: Columns, case_sensitive: bool) -> dict[str, str]:
    values: dict[str, str] = {}
    for assignment in assignments:
        if len(assignment.column) != 1:
            raise PlanError(
                f"INSERT takes whole columns, not the field `{'.'.join(assignment.column)}`. Build the struct with named_struct()."
            )
        name = column_of(
            columns.after, assignment.column[0], case_sensitive, "the INSERT list", _allowing(columns, source, assignment.column)
        ).name
        if name in values:
            raise PlanError(f"The column `{name}` is given twice in the INSERT list. Name it once.")
        values[name] = _value(assignment, name, columns.rules, source, source, None, case_sensitive)
    return {**columns.rules.defaults, **_without_computed(values)}


def assigned(
    assignments: Iterable[Assignment],
    visible: Side | None,
    target: Side,
    columns: Columns,
    case_sensitive: bool,
    source: Side | None = None,
) -> dict[str, str]:
    """UPDATE SET's values by column; assignments to fields of structs become the whole struct."""
    trees: dict[str, dict[str, object] | str] = {}
    fields: dict[str, Field] = {}
    for assignment in assignments:
        path = without_qualifier(assignment.column, target, columns.after)
        field = column_of(columns.after, path[0], case_sensitive, "the SET list", _allowing(columns, source, path))
        fields[field.name] = field
        column = field.name if len(path) == 1 else None
        _place(trees, field, path, _value(assignment, column, columns.rules, visible, target, source, case_sensitive), case_sensitive)
    alias = backquote(target.alias)
    was = {name: columns.before.find(name, case_sensitive=True) for name in trees}
    rendered = {name: _render(tree, fields[name], was[name], f"{alias}.{backquote(name)}") for name, tree in trees.items()}
    return _without_computed(rendered)


def _place(trees: dict[str, dict[str, object] | str], field: Field, path: tuple[str, ...], value: str, case_sensitive: bool) -> None:
    """Put one assignment into the tree of assignments; two that overlap are an error."""
    shown = ".".join(path)
    node: dict[str, object] = trees  # type: ignore[assignment]
    for depth, _ in enumerate(path):
        if depth + 1 == len(path):
            if field.name in node:
                raise PlanError(f"The column `{shown}` is assigned twice, or together with one of its fields. Assign it once.")
            node[field.name] = value
            return
        if not isinstance(field.type, Struct):
            raise PlanError(f"`{shown}` is no field: `{field.name}` is {field.sql_type}, not a struct. Assign the whole column.")
        inner = node.setdefault(field.name, {})
        if not isinstance(inner, dict):
            raise PlanError(f"The column `{shown}` is assigned twice, or together with one of its fields. Assign it once.")
        node = inner
        field = column_of(field.type, path[depth + 1], case_sensitive, f"the struct `{field.name}`")


def _render(tree: object, field: Field, before: Field | None, current: str) -> str:
    """The value of a column of which some fields are assigned; of the others, those that were there `before` keep their values."""
    if isinstance(tree, str):
        return tree
    assert isinstance(tree, dict) and isinstance(field.type, Struct)
    parts = []
    for inner in field.type:
        here = f"{current}.{backquote(inner.name)}"
        old = before.type.find(inner.name) if before is not None and isinstance(before.type, Struct) else None
        if inner.name in tree:
            value = _render(tree[inner.name], inner, old, here)
        else:
            value = "NULL" if old is None else here
        parts.append(f"{string_literal(inner.name)}, {value}")
    return f"named_struct({', '.join(parts)})"


def _value(
    assignment: Assignment, column: str | None, rules: Rules, visible: Side | None, target: Side, source: Side | None, case_sensitive: bool
) -> str:
    """The text of a value; `column` is the exact name of the column that it is for, None for a field inside one.

    DEFAULT is the column's default value, NULL where it has none; of a generated column, what is computed.
    """
    text = assignment.value.text
    if text.strip().upper() != "DEFAULT":
        return _settle(text, visible, target, source, case_sensitive)
    if column in rules.generated:
        return _COMPUTED
    return rules.defaults.get(column, "NULL") if column is not None else "NULL"


def _without_computed(values: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in values.items() if text != _COMPUTED}


def column_of(schema: Struct, name: str, case_sensitive: bool, where: str, advice: str = "") -> Field:
    """The column of this name. Raises UnknownColumn, which says `where` it stands and what to do."""
    field = schema.find(name, case_sensitive=case_sensitive)
    if field is None:
        raise UnknownColumn(name, schema.names, where=where, advice=advice)
    return field


def _allowing(columns: Columns, source: Side | None, path: tuple[str, ...]) -> str:
    """How a column that the source could bring would become one of the table's."""
    brought = source is not None and path[0].lower() in {name.lower() for name in source.columns}
    return _EVOLVE if brought and not columns.evolves else ""
