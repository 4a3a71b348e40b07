"""Columns of queries and views, and columns and properties as ALTER TABLE and ALTER VIEW change them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rowmerge.commands.definitions import AddColumns, ColumnPlace, PropertyCommand, SetProperties
from rowmerge.errors import PlanError, TableError, UnknownColumn, UnsupportedStatement
from rowmerge.plan.expressions.column_refs import mentions
from rowmerge.spark.types import check_storable, schema_of
from rowmerge.table.metadata.rules import DEFAULT, GENERATED
from rowmerge.table.metadata.schema import CHAR_VARCHAR, Array, DataType, Field, Map, Primitive, Struct, nullable, sql_name
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Path = tuple[str, ...]
"""The names from a column down to a nested field: `element` inside an array, `key` and `value` inside a map."""

_NESTED_NAMES: dict[type, str] = {Array: "Its elements are named `element`.", Map: "Its parts are named `key` and `value`."}


def query_columns(frame: DataFrame) -> Struct:
    """Return the columns of a query as columns of a new table: nullable at every depth, and without comments.

    Raises PlanError for a duplicate column name, TypeMismatch for a type that no table can store.
    """
    columns = view_columns(frame)
    check_storable(schema_of(frame))
    return columns


def view_columns(frame: DataFrame) -> Struct:
    """Return the columns of a query as columns of a view. Views also have types that no table can store: void, of an untyped NULL.

    Raises PlanError for a duplicate column name, TypeMismatch for a type that has no name.
    """
    schema = schema_of(frame)
    name_counts = Counter(field.name.lower() for field in schema)
    for field in schema:
        if name_counts[field.name.lower()] > 1:
            raise PlanError(f"The query has the column `{field.name}` twice. Give one of them another name with AS.")
    return Struct(tuple(Field(field.name, nullable(field.type)) for field in schema))


def add_columns(snapshot: Snapshot, columns: Struct, command: AddColumns) -> Struct:
    """Return the schema after ALTER TABLE … ADD COLUMNS. `columns`: those of the command, analysed. Raises PlanError, UnknownColumn."""
    schema = snapshot.schema
    for column, definition in zip(columns, command.columns, strict=True):
        # DEFAULT NULL means the same as no default.
        is_default_null = str(column.metadata.get(DEFAULT)).strip().lower() == "null"
        field = set_metadata(column, DEFAULT, None) if is_default_null else column
        _check_addable(field, supports_initial_defaults=snapshot.shape.supports_initial_defaults)
        schema = change_struct(schema, definition.within, partial(_add_field, field=field, path=definition.path, command=command))
    return schema


def _check_addable(field: Field, *, supports_initial_defaults: bool) -> None:
    """Raise UnsupportedStatement or PlanError for a column whose value existing rows cannot have."""
    if GENERATED in field.metadata:
        raise _unsupported_column(field, "is GENERATED", "Create the table anew with it")
    if DEFAULT in field.metadata and not supports_initial_defaults:
        raise _unsupported_column(field, "has a DEFAULT", "Add it without, then ALTER COLUMN … SET DEFAULT")
    if not field.nullable:
        problem = f"The new column `{field.name}` cannot be NOT NULL: the rows that are there have no value for it."
        raise PlanError(f"{problem} Leave NOT NULL out.")


def _unsupported_column(field: Field, feature: str, advice: str) -> UnsupportedStatement:
    problem = f"The new column `{field.name}` {feature}, and the rows that are there would not have its value"
    return UnsupportedStatement(f"{problem}. {advice}", text=field.name)


def _add_field(struct: Struct, field: Field, path: str, command: AddColumns) -> Struct:
    """Add a field in the position that the command gives for its path, or as the last one."""
    if struct.find(field.name):
        raise PlanError(f"{command.name} has the column `{path}` already. Choose another name.")
    if path not in command.positions:
        return Struct((*struct, field))
    return insert_field(struct, field, ColumnPlace(command.positions[path]))


def new_properties(command: PropertyCommand, properties: Mapping[str, str]) -> dict[str, str]:
    """Return all properties after SET or UNSET TBLPROPERTIES. Raises TableError if UNSET names a property that does not exist."""
    if isinstance(command, SetProperties):
        return {**properties, **command.properties}
    missing_keys = [key for key in command.keys if key not in properties]
    if missing_keys and not command.if_exists:
        advice = f"Add IF EXISTS, or look at SHOW TBLPROPERTIES {command.name}."
        raise TableError(f"{command.name} has no property {missing_keys[0]!r}. {advice}")
    return {key: value for key, value in properties.items() if key not in command.keys}


def rename_view_columns(columns: Struct, aliases: tuple[tuple[str, str | None], ...]) -> Struct:
    """Return the columns with the names and comments in `aliases`. Raises PlanError if the numbers of columns differ."""
    if len(columns) != len(aliases):
        raise PlanError(f"The view names {len(aliases)} column(s), but its query has {len(columns)}. Name each of them once.")
    fields = []
    for column, (name, comment) in zip(columns, aliases, strict=True):
        fields.append(replace(column, name=name, metadata={"comment": comment} if comment else {}))
    return Struct(tuple(fields))


def check_unused(snapshot: Snapshot, path: Path) -> None:
    """Raise PlanError if a constraint or a generated column uses a column that is about to change."""
    for check in snapshot.shape.rules.checks:
        if not check.text.startswith("NOT NULL") and mentions(check.expression, path):
            raise _used_column_error(snapshot, path, f"the constraint {check.text}. Drop it first, and add it again afterwards.")
    for name, text in snapshot.shape.rules.generated.items():
        if mentions(text, path):
            raise _used_column_error(snapshot, path, f"the generated column `{name}`, which is {text}. Change that column first.")


def _used_column_error(snapshot: Snapshot, path: Path, user: str) -> PlanError:
    return PlanError(f"The column `{'.'.join(path)}` of {snapshot.name} is used by {user}")


def rename_column(schema: Struct, path: Path, new_name: str) -> Struct:
    """Rename a column or field. Raises UnknownColumn, and PlanError if a sibling has the new name."""

    def rename(struct: Struct, field: Field) -> Struct:
        if any(other is not field and other.name.lower() == new_name.lower() for other in struct):
            raise PlanError(f"There is a column `{new_name}` beside `{'.'.join(path)}` already. Choose another name.")
        return replace_field(struct, field, replace(field, name=new_name))

    return _change_field(schema, path, rename)


def drop_columns(schema: Struct, paths: Sequence[Path], *, if_exists: bool) -> Struct:
    """Remove columns and fields. Raises UnknownColumn, PlanError for the last field of a struct."""
    for path in paths:
        try:
            schema = _change_field(schema, path, _drop_field)
        except UnknownColumn:
            if not if_exists:
                raise
    return schema


def _drop_field(struct: Struct, field: Field) -> Struct:
    if len(struct) == 1:
        raise PlanError(f"`{field.name}` is the last one left beside its like, so it cannot be dropped. Drop the whole column instead.")
    return _without_field(struct, field)


def move_column(schema: Struct, path: Path, place: ColumnPlace) -> Struct:
    """Move a column to the first place, or after another one. Raises UnknownColumn."""
    return _change_field(schema, path, lambda struct, field: insert_field(_without_field(struct, field), field, place))


def insert_field(struct: Struct, field: Field, place: ColumnPlace) -> Struct:
    """Insert a field as the first one, or after another one. Raises UnknownColumn."""
    if place.after is None:
        return Struct((field, *struct))
    previous_field = struct.find(place.after)
    if previous_field is None:
        raise UnknownColumn(place.after, struct.names, where="AFTER")
    position = struct.fields.index(previous_field) + 1
    return Struct((*struct.fields[:position], field, *struct.fields[position:]))


def retype_column(schema: Struct, path: Path, declared_field: Field) -> Struct:
    """Change the type of a column, field, element, key or value. `declared_field`: a field with the type as the statement declares it.

    Raises UnknownColumn, and PlanError for a struct, an array or a map: a statement changes their fields one by one.
    """
    changed_schema = _change_type(schema, path[:-1], partial(_retype_child, path=path, declared_field=declared_field))
    assert isinstance(changed_schema, Struct)
    return changed_schema


def _retype_child(parent: DataType, path: Path, declared_field: Field) -> DataType:
    """Change the type of the child at the end of the path. A field of a struct also gets the declared length of a char or varchar."""
    column_name = ".".join(path)
    if not isinstance(parent, Struct):
        change = partial(_checked_type, new=declared_field.type, column_name=column_name)
        return _change_type(parent, path[-1:], change, path[:-1])
    field = find_field(parent, path[-1])
    _check_length(field, declared_field, column_name)
    new_field = replace(field, type=_checked_type(field.type, declared_field.type, column_name))
    return replace_field(parent, field, set_metadata(new_field, CHAR_VARCHAR, declared_field.metadata.get(CHAR_VARCHAR)))


def set_comment(schema: Struct, path: Path, comment: str | None) -> Struct:
    """Replace the comment on a column or field; None removes it. Raises UnknownColumn, PlanError."""
    return _change_field(schema, path, lambda struct, field: replace_field(struct, field, set_metadata(field, "comment", comment or None)))


def change_struct(schema: Struct, path: Path, change: Callable[[Struct], Struct]) -> Struct:
    """Change the struct at a path; the empty path means the schema itself. Raises UnknownColumn, PlanError."""
    changed_schema = _change_type(schema, path, partial(_change_if_struct, path=path, change=change))
    assert isinstance(changed_schema, Struct)
    return changed_schema


def _change_if_struct(type_: DataType, path: Path, change: Callable[[Struct], Struct]) -> Struct:
    if isinstance(type_, Struct):
        return change(type_)
    problem = f"`{'.'.join(path)}` is {sql_name(type_)}, which has no fields of its own."
    raise PlanError(f"{problem} {_NESTED_NAMES.get(type(type_), '')}".rstrip())


def _change_field(schema: Struct, path: Path, change: Callable[[Struct, Field], Struct]) -> Struct:
    """Change the struct that has the field at the end of a path."""
    return change_struct(schema, path[:-1], lambda struct: change(struct, find_field(struct, path[-1])))


def _change_type(type_: DataType, path: Path, change: Callable[[DataType], DataType], parent_path: Path = ()) -> DataType:
    """Change the type at a path inside `type_`, which is itself at the path `parent_path`. Raise UnknownColumn, PlanError."""
    if not path:
        return change(type_)
    name = path[0]
    nested_name = name.lower()
    change_nested = partial(_change_type, path=path[1:], change=change, parent_path=(*parent_path, name))
    match type_:
        case Struct():
            field = find_field(type_, name)
            return replace_field(type_, field, replace(field, type=change_nested(field.type)))
        case Array() if nested_name == "element":
            return replace(type_, element=change_nested(type_.element))
        case Map() if nested_name == "key":
            return replace(type_, key=change_nested(type_.key))
        case Map() if nested_name == "value":
            return replace(type_, value=change_nested(type_.value))
    advice = _NESTED_NAMES.get(type(type_), "It is no struct.")
    raise PlanError(f"`{'.'.join(parent_path)}` is {sql_name(type_)} and has no field `{name}`. {advice}")


def _checked_type(old: DataType, new: DataType, column_name: str) -> DataType:
    """Return the new type. Raise PlanError for a change from or to a struct, an array or a map."""
    if old != new and (isinstance(old, Struct | Array | Map) or isinstance(new, Struct | Array | Map)):
        problem = f"`{column_name}` is {sql_name(old)} and cannot become {sql_name(new)}. Change its fields one by one: ADD COLUMN,"
        advice = f"DROP COLUMN, ALTER COLUMN {column_name}.<field> TYPE, with element, key and value for what arrays and maps hold."
        raise PlanError(f"{problem} {advice}")
    return new


def _check_length(field: Field, new: Field, column_name: str) -> None:
    """Raise PlanError for a char or varchar that is shorter than before, or new: existing rows may not fit."""
    if field.type != Primitive("string") or new.type != Primitive("string") or CHAR_VARCHAR not in new.metadata:
        return
    old_length, new_length = _declared_length(field), _declared_length(new)
    becomes_char = str(new.metadata[CHAR_VARCHAR]).startswith("char") and field.sql_type != new.sql_type
    if old_length is None or new_length is None or new_length < old_length or becomes_char:
        problem = f"`{column_name}` is {field.sql_type} and cannot become {new.sql_type}: rows that are there may not fit."
        raise PlanError(f"{problem} Use a longer varchar, or string.")


def _declared_length(field: Field) -> int | None:
    """Return the length of a char or varchar, or None for another type."""
    match = re.fullmatch(r"(?:var)?char\((\d+)\)", field.sql_type)
    return int(match[1]) if match else None


def find_field(struct: Struct, name: str) -> Field:
    """Return the field of this name, regardless of case. Raises UnknownColumn."""
    field = struct.find(name)
    if field is None:
        raise UnknownColumn(name, struct.names)
    return field


def _without_field(struct: Struct, field: Field) -> Struct:
    return Struct(tuple(other for other in struct if other is not field))


def replace_field(struct: Struct, old: Field, new: Field) -> Struct:
    """Return the struct with one field replaced."""
    return Struct(tuple(new if field is old else field for field in struct))


def set_metadata(field: Field, key: str, value: object | None) -> Field:
    """Return the field with one entry of its metadata replaced, or removed if the value is None."""
    metadata = {other_key: entry for other_key, entry in field.metadata.items() if other_key != key}
    if value is not None:
        metadata[key] = value
    return replace(field, metadata=metadata)
