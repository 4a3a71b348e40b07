"""Changes of existing columns: RENAME, DROP, ALTER of type, comment and position."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rowmerge.commands.definitions import AlterColumn, ColumnDefinition, ColumnPlace, DropColumns, RenameColumn
from rowmerge.errors import PlanError, UnknownColumn
from rowmerge.plan.expressions.column_refs import mentions
from rowmerge.spark.columns import parse_columns
from rowmerge.table.metadata.schema import CHAR_VARCHAR, Array, DataType, Field, Map, Primitive, Struct, sql_name
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Path = tuple[str, ...]
"""A column, or a field inside it: names from the top, `element`, `key` and `value` where arrays and maps are passed."""


_HELD: dict[type, str] = {Array: "Its elements are named `element`.", Map: "Its parts are named `key` and `value`."}
SchemaChange = Callable[[Struct], Struct]


def changed_paths(command: RenameColumn | DropColumns | AlterColumn) -> tuple[Path, ...]:
    """Return the columns whose name or type the command changes."""
    match command:
        case DropColumns(_, columns, _):
            return columns
        case RenameColumn(_, column, _):
            return (column,)
        case AlterColumn(_, column, type_, _, _):
            return (column,) if type_ is not None else ()


def schema_change(spark: SparkSession, command: RenameColumn | DropColumns | AlterColumn) -> tuple[str, dict[str, object], SchemaChange]:
    """Return the operation and its parameters as Delta's history names them, and the change of the schema."""
    match command:
        case RenameColumn(_, column, new):
            parameters: dict[str, object] = {"oldColumnPath": ".".join(column), "newColumnPath": ".".join((*column[:-1], new))}
            return "RENAME COLUMN", parameters, lambda schema: renamed_column(schema, column, new)
        case DropColumns(_, columns, if_exists):
            shown = [".".join(column) for column in columns]
            return "DROP COLUMNS", {"columns": shown}, lambda schema: without_columns(schema, columns, if_exists=if_exists)
        case AlterColumn(_, column, type_, comment, place):
            declared = None if type_ is None else parse_columns(spark, [ColumnDefinition(column[-1], type_)]).fields[0]

            def change(schema: Struct) -> Struct:
                if declared is not None:
                    schema = retyped_column(schema, column, declared)
                if comment is not None:
                    schema = commented(schema, column, comment)
                return schema if place is None else moved_column(schema, column, place)

            definition = {"name": column[-1], "type": None if declared is None else declared.sql_type}
            return "CHANGE COLUMN", {"column": definition, "position": str(place) if place else None}, change


def check_unused(snapshot: Snapshot, path: Path) -> None:
    """Raises PlanError naming the constraint or the generated column whose expression uses a column that is about to change."""
    rules = snapshot.shape.rules
    users = [(f"the constraint {check.told}", check.expression) for check in rules.checks if not check.told.startswith("NOT NULL")]
    users += [(f"the generated column `{name}`, which is {text}", text) for name, text in rules.generated.items()]
    for user, expression in users:
        if mentions(expression, path):
            advice = "Drop it first, and add it again afterwards." if user.startswith("the constraint") else "Change that column first."
            raise PlanError(f"The column `{'.'.join(path)}` of {snapshot.name} is used by {user}. {advice}")


def renamed_column(schema: Struct, path: Path, new: str) -> Struct:
    """Rename a column or field. Raises UnknownColumn, and PlanError if a sibling has the new name."""

    def change(struct: Struct, field: Field) -> Struct:
        if any(other is not field and other.name.lower() == new.lower() for other in struct):
            raise PlanError(f"There is a column `{new}` beside `{'.'.join(path)}` already. Choose another name.")
        return _replace_field(struct, field, replace(field, name=new))

    return _change_field(schema, path, change)


def without_columns(schema: Struct, paths: Sequence[Path], *, if_exists: bool) -> Struct:
    """Remove columns and fields. Raises UnknownColumn, PlanError for the last field of a struct."""

    def change(struct: Struct, field: Field) -> Struct:
        if len(struct) == 1:
            raise PlanError(f"`{field.name}` is the last one left beside its like, so it cannot be dropped. Drop the whole column instead.")
        return Struct(tuple(other for other in struct if other is not field))

    for path in paths:
        try:
            schema = _change_field(schema, path, change)
        except UnknownColumn:
            if not if_exists:
                raise
    return schema


def moved_column(schema: Struct, path: Path, place: ColumnPlace) -> Struct:
    """Move a column to the first place, or after another one. Raises UnknownColumn."""

    def change(struct: Struct, field: Field) -> Struct:
        rest = [other for other in struct if other is not field]
        if place.after is None:
            return Struct((field, *rest))
        before = Struct(tuple(rest)).find(place.after)
        if before is None:
            raise UnknownColumn(place.after, [other.name for other in rest], where="AFTER")
        rest.insert(rest.index(before) + 1, field)
        return Struct(tuple(rest))

    return _change_field(schema, path, change)


def retyped_column(schema: Struct, path: Path, new: Field) -> Struct:
    """Change the type of a column, field, element, key or value. `new`: a field with the type as the statement declares it.

    Raises UnknownColumn, PlanError for a struct, an array or a map, which is changed by its parts.
    """
    return _retype_field(schema, path, new, ".".join(path))


def commented(schema: Struct, path: Path, comment: str | None) -> Struct:
    """Replace the comment on a column or field; None removes it. Raises UnknownColumn, PlanError."""

    def change(struct: Struct, field: Field) -> Struct:
        metadata = {key: value for key, value in field.metadata.items() if key != "comment"}
        return _replace_field(struct, field, replace(field, metadata={**metadata, "comment": comment} if comment else metadata))

    return _change_field(schema, path, change)


def in_struct(type_: DataType, path: Path, change: Callable[[Struct], Struct], *, above: Path = ()) -> DataType:
    """Change the struct at a path inside a type; the empty path is the type itself. Raises UnknownColumn, PlanError."""
    if isinstance(type_, Struct) and not path:
        return change(type_)
    if not path:
        raise PlanError(f"`{'.'.join(above)}` is {sql_name(type_)}, which has no fields of its own. {_HELD.get(type(type_), '')}".rstrip())
    part, inside = path[0].lower(), partial(in_struct, path=path[1:], change=change, above=(*above, path[0]))
    match type_:
        case Struct():
            field = _find_field(type_, path[0])
            return _replace_field(type_, field, replace(field, type=inside(field.type)))
        case Array() if part == "element":
            return replace(type_, element=inside(type_.element))
        case Map() if part == "key":
            return replace(type_, key=inside(type_.key))
        case Map() if part == "value":
            return replace(type_, value=inside(type_.value))
    raise _no_field(type_, above, path[0])


def _change_field(schema: Struct, path: Path, change: Callable[[Struct, Field], Struct]) -> Struct:
    """Change the struct that holds the field at the end of a path."""
    changed = in_struct(schema, path[:-1], lambda struct: change(struct, _find_field(struct, path[-1])))
    assert isinstance(changed, Struct)
    return changed


def _retype_field(struct: Struct, rest: Path, new: Field, column_name: str) -> Struct:
    field = _find_field(struct, rest[0])
    if len(rest) > 1:
        return _replace_field(struct, field, replace(field, type=_retype(field.type, rest[1:], new, column_name)))
    _check_declared(field, new, column_name)
    metadata = {key: value for key, value in field.metadata.items() if key != CHAR_VARCHAR}
    if CHAR_VARCHAR in new.metadata:
        metadata[CHAR_VARCHAR] = new.metadata[CHAR_VARCHAR]
    return _replace_field(struct, field, replace(field, type=_new_type(field.type, new.type, column_name), metadata=metadata))


def _retype(type_: DataType, rest: Path, new: Field, column_name: str) -> DataType:
    """Change the type at the end of a path inside a type; the empty path is the type itself."""
    if not rest:
        return _new_type(type_, new.type, column_name)
    if isinstance(type_, Struct):
        return _retype_field(type_, rest, new, column_name)
    part, inside = rest[0].lower(), partial(_retype, rest=rest[1:], new=new, column_name=column_name)
    if isinstance(type_, Array) and part == "element":
        return replace(type_, element=inside(type_.element))
    if isinstance(type_, Map) and part == "key":
        return replace(type_, key=inside(type_.key))
    if isinstance(type_, Map) and part == "value":
        return replace(type_, value=inside(type_.value))
    raise _no_field(type_, (column_name.removesuffix("." + ".".join(rest)),), rest[0])


def _new_type(old: DataType, new: DataType, column_name: str) -> DataType:
    if old != new and (isinstance(old, Struct | Array | Map) or isinstance(new, Struct | Array | Map)):
        raise PlanError(
            f"`{column_name}` is {sql_name(old)} and cannot become {sql_name(new)}. Change its fields one by one: ADD COLUMN, DROP COLUMN, "
            f"ALTER COLUMN {column_name}.<field> TYPE, with element, key and value for what arrays and maps hold."
        )
    return new


def _check_declared(field: Field, new: Field, column_name: str) -> None:
    """Raises PlanError for a char or varchar that is shorter than before, or new: existing rows may not fit."""
    if field.type != Primitive("string") or new.type != Primitive("string") or CHAR_VARCHAR not in new.metadata:
        return
    old_length, new_length = _length(field), _length(new)
    becomes_char = str(new.metadata[CHAR_VARCHAR]).startswith("char") and field.sql_type != new.sql_type
    if old_length is None or new_length is None or new_length < old_length or becomes_char:
        raise PlanError(
            f"`{column_name}` is {field.sql_type} and cannot become {new.sql_type}: rows that are there may not fit. "
            f"Use a longer varchar, or string."
        )


def _length(field: Field) -> int | None:
    match = re.fullmatch(r"(?:var)?char\((\d+)\)", field.sql_type)
    return int(match[1]) if match else None


def _find_field(struct: Struct, name: str) -> Field:
    field = struct.find(name)
    if field is None:
        raise UnknownColumn(name, struct.names)
    return field


def _no_field(type_: DataType, above: Path, name: str) -> PlanError:
    return PlanError(f"`{'.'.join(above)}` is {sql_name(type_)} and has no field `{name}`. {_HELD.get(type(type_), 'It is no struct.')}")


def _replace_field(struct: Struct, old: Field, new: Field) -> Struct:
    return Struct(tuple(new if field is old else field for field in struct))
