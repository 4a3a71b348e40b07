"""What becomes of a table's columns when they are renamed, dropped, moved or get another type."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rowmerge.commands.definitions import AlterColumn, ColumnDefinition, ColumnPlace, DropColumns, RenameColumn
from rowmerge.errors import PlanError, UnknownColumn
from rowmerge.plan.column_refs import mentions
from rowmerge.spark.columns import fields_of
from rowmerge.table.schema import CHAR_VARCHAR, Array, DataType, Field, Map, Primitive, Struct, sql_name
from rowmerge.table.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Path = tuple[str, ...]
"""A column, or a field inside it: names from the top, `element`, `key` and `value` where arrays and maps are passed."""


_HELD: dict[type, str] = {Array: "Its elements are named `element`.", Map: "Its parts are named `key` and `value`."}
SchemaChange = Callable[[Struct], Struct]


def changed_paths(command: RenameColumn | DropColumns | AlterColumn) -> tuple[Path, ...]:
    """The columns that mean something else after the command than before."""
    match command:
        case DropColumns(_, columns, _):
            return columns
        case RenameColumn(_, column, _):
            return (column,)
        case AlterColumn(_, column, type_, _, _):
            return (column,) if type_ is not None else ()


def schema_change(spark: SparkSession, command: RenameColumn | DropColumns | AlterColumn) -> tuple[str, dict[str, object], SchemaChange]:
    """The operation and its parameters as Delta's history names them, and what the command makes of a schema."""
    match command:
        case RenameColumn(_, column, new):
            parameters: dict[str, object] = {"oldColumnPath": ".".join(column), "newColumnPath": ".".join((*column[:-1], new))}
            return "RENAME COLUMN", parameters, lambda schema: renamed_column(schema, column, new)
        case DropColumns(_, columns, if_exists):
            shown = [".".join(column) for column in columns]
            return "DROP COLUMNS", {"columns": shown}, lambda schema: without_columns(schema, columns, if_exists=if_exists)
        case AlterColumn(_, column, type_, comment, place):
            declared = None if type_ is None else fields_of(spark, [ColumnDefinition(column[-1], type_)]).fields[0]

            def change(schema: Struct) -> Struct:
                if declared is not None:
                    schema = retyped_column(schema, column, declared)
                if comment is not None:
                    schema = commented(schema, column, comment)
                return schema if place is None else moved_column(schema, column, place)

            told = {"name": column[-1], "type": None if declared is None else declared.sql_type}
            return "CHANGE COLUMN", {"column": told, "position": str(place) if place else None}, change


def check_unused(snapshot: Snapshot, path: Path) -> None:
    """Raises PlanError naming the constraint or the generated column whose expression uses a column that is about to change."""
    rules = snapshot.rules
    users = [(f"the constraint {check.told}", check.expression) for check in rules.checks if not check.told.startswith("NOT NULL")]
    users += [(f"the generated column `{name}`, which is {text}", text) for name, text in rules.generated.items()]
    for user, expression in users:
        if mentions(expression, path):
            advice = "Drop it first, and add it again afterwards." if user.startswith("the constraint") else "Change that column first."
            raise PlanError(f"The column `{'.'.join(path)}` of {snapshot.name} is used by {user}. {advice}")


def renamed_column(schema: Struct, path: Path, new: str) -> Struct:
    """Raises UnknownColumn, PlanError for a name that stands beside it already."""

    def change(struct: Struct, field: Field) -> Struct:
        if any(other is not field and other.name.lower() == new.lower() for other in struct):
            raise PlanError(f"There is a column `{new}` beside `{'.'.join(path)}` already. Choose another name.")
        return _with(struct, field, replace(field, name=new))

    return _changed(schema, path, change)


def without_columns(schema: Struct, paths: Sequence[Path], *, if_exists: bool) -> Struct:
    """The schema without these columns and fields. Raises UnknownColumn, PlanError for the last field of a struct."""

    def change(struct: Struct, field: Field) -> Struct:
        if len(struct) == 1:
            raise PlanError(f"`{field.name}` is the last one left beside its like, so it cannot be dropped. Drop the whole column instead.")
        return Struct(tuple(other for other in struct if other is not field))

    for path in paths:
        try:
            schema = _changed(schema, path, change)
        except UnknownColumn:
            if not if_exists:
                raise
    return schema


def moved_column(schema: Struct, path: Path, place: ColumnPlace) -> Struct:
    """The schema with one column first, or after another. Raises UnknownColumn."""

    def change(struct: Struct, field: Field) -> Struct:
        rest = [other for other in struct if other is not field]
        if place.after is None:
            return Struct((field, *rest))
        before = Struct(tuple(rest)).find(place.after)
        if before is None:
            raise UnknownColumn(place.after, [other.name for other in rest], where="AFTER")
        rest.insert(rest.index(before) + 1, field)
        return Struct(tuple(rest))

    return _changed(schema, path, change)


def retyped_column(schema: Struct, path: Path, new: Field) -> Struct:
    """The schema with another type of one column, field, element, key or value; `new` is the type as a definition declares it.

    Raises UnknownColumn, PlanError for a struct, an array or a map, which is changed by its parts.
    """
    return _retyped_struct(schema, path, new, ".".join(path))


def commented(schema: Struct, path: Path, comment: str | None) -> Struct:
    """The schema with another comment (None: none) on one column or field. Raises UnknownColumn, PlanError."""

    def change(struct: Struct, field: Field) -> Struct:
        metadata = {key: value for key, value in field.metadata.items() if key != "comment"}
        return _with(struct, field, replace(field, metadata={**metadata, "comment": comment} if comment else metadata))

    return _changed(schema, path, change)


def in_struct(type_: DataType, path: Path, change: Callable[[Struct], Struct], *, above: Path = ()) -> DataType:
    """The type with the struct at a path changed; the empty path is the type itself. Raises UnknownColumn, PlanError."""
    if isinstance(type_, Struct) and not path:
        return change(type_)
    if not path:
        raise PlanError(f"`{'.'.join(above)}` is {sql_name(type_)}, which has no fields of its own. {_HELD.get(type(type_), '')}".rstrip())
    part, inside = path[0].lower(), partial(in_struct, path=path[1:], change=change, above=(*above, path[0]))
    match type_:
        case Struct():
            field = _field(type_, path[0])
            return _with(type_, field, replace(field, type=inside(field.type)))
        case Array() if part == "element":
            return replace(type_, element=inside(type_.element))
        case Map() if part == "key":
            return replace(type_, key=inside(type_.key))
        case Map() if part == "value":
            return replace(type_, value=inside(type_.value))
    raise _no_field(type_, above, path[0])


def _changed(schema: Struct, path: Path, change: Callable[[Struct, Field], Struct]) -> Struct:
    """The schema with a struct of it changed: the one that holds the field at the end of the path."""
    changed = in_struct(schema, path[:-1], lambda struct: change(struct, _field(struct, path[-1])))
    assert isinstance(changed, Struct)
    return changed


def _retyped_struct(struct: Struct, rest: Path, new: Field, told: str) -> Struct:
    field = _field(struct, rest[0])
    if len(rest) > 1:
        return _with(struct, field, replace(field, type=_retyped(field.type, rest[1:], new, told)))
    _check_declared(field, new, told)
    metadata = {key: value for key, value in field.metadata.items() if key != CHAR_VARCHAR}
    if CHAR_VARCHAR in new.metadata:
        metadata[CHAR_VARCHAR] = new.metadata[CHAR_VARCHAR]
    return _with(struct, field, replace(field, type=_leaf(field.type, new.type, told), metadata=metadata))


def _retyped(type_: DataType, rest: Path, new: Field, told: str) -> DataType:
    if isinstance(type_, Struct):
        return _retyped_struct(type_, rest, new, told)
    part = rest[0].lower()
    if isinstance(type_, Array) and part == "element":
        return replace(type_, element=_retyped(type_.element, rest[1:], new, told) if rest[1:] else _leaf(type_.element, new.type, told))
    if isinstance(type_, Map) and part == "key":
        return replace(type_, key=_retyped(type_.key, rest[1:], new, told) if rest[1:] else _leaf(type_.key, new.type, told))
    if isinstance(type_, Map) and part == "value":
        return replace(type_, value=_retyped(type_.value, rest[1:], new, told) if rest[1:] else _leaf(type_.value, new.type, told))
    raise _no_field(type_, (told.removesuffix("." + ".".join(rest)),), rest[0])


def _leaf(old: DataType, new: DataType, told: str) -> DataType:
    if old != new and (isinstance(old, Struct | Array | Map) or isinstance(new, Struct | Array | Map)):
        raise PlanError(
            f"`{told}` is {sql_name(old)} and cannot become {sql_name(new)}. Change its fields one by one: ADD COLUMN, DROP COLUMN, "
            f"ALTER COLUMN {told}.<field> TYPE, with element, key and value for what arrays and maps hold."
        )
    return old if old == new else new


def _check_declared(field: Field, new: Field, told: str) -> None:
    """The length of char and varchar may grow, or go; it does not come in later, for the rows that are there were not held against it."""
    if field.type != Primitive("string") or new.type != Primitive("string") or CHAR_VARCHAR not in new.metadata:
        return
    old, wanted = _length(field), _length(new)
    becomes_char = str(new.metadata[CHAR_VARCHAR]).startswith("char") and field.sql_type != new.sql_type
    if old is None or wanted is None or wanted < old or becomes_char:
        raise PlanError(
            f"`{told}` is {field.sql_type} and cannot become {new.sql_type}: rows that are there may not fit. "
            f"Use a longer varchar, or string."
        )


def _length(field: Field) -> int | None:
    found = re.fullmatch(r"(?:var)?char\((\d+)\)", field.sql_type)
    return int(found[1]) if found else None


def _field(struct: Struct, name: str) -> Field:
    field = struct.find(name)
    if field is None:
        raise UnknownColumn(name, struct.names)
    return field


def _no_field(type_: DataType, above: Path, name: str) -> PlanError:
    return PlanError(f"`{'.'.join(above)}` is {sql_name(type_)} and has no field `{name}`. {_HELD.get(type(type_), 'It is no struct.')}")


def _with(struct: Struct, old: Field, new: Field) -> Struct:
    return Struct(tuple(new if field is old else field for field in struct))
