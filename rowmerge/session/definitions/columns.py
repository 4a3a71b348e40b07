"""The columns of queries and views, and the changes that ALTER TABLE and ALTER VIEW make to columns and properties."""

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
from rowmerge.table.metadata.schema import CHAR_VARCHAR, Array, DataType, Field, Map, Primitive, Struct, as_nullable, sql_name
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Path = tuple[str, ...]
"""The names from a column down to a nested field: `element` inside an array, `key` and `value` inside a map."""

_NESTED_NAMES: dict[type, str] = {Array: "Its elements are named `element`.", Map: "Its parts are named `key` and `value`."}


def query_columns(frame: DataFrame) -> Struct:
    """Return the columns of a query as columns of a new table: nullable at every depth, and without comments.

    Raises PlanError if a column name occurs twice, and TypeMismatch if no table can store one of the types.
    """
    columns = view_columns(frame)
    check_storable(schema_of(frame))
    return columns


def view_columns(frame: DataFrame) -> Struct:
    """Return the columns of a query as columns of a view. A view may also have columns of type void, which no table can store.

    Raises:
        PlanError: Two columns have the same name.
        TypeMismatch: A type has no name in SQL.
    """
    schema = schema_of(frame)
    name_counts = Counter(field.name.lower() for field in schema)
    for field in schema:
        if name_counts[field.name.lower()] > 1:
            raise PlanError(f"The query has two columns `{field.name}`. Rename one of them with AS.")
    return Struct(tuple(Field(field.name, as_nullable(field.type)) for field in schema))


def add_columns(snapshot: Snapshot, columns: Struct, command: AddColumns) -> Struct:
    """Return the schema after ALTER TABLE … ADD COLUMNS.

    Args:
        snapshot: The version of the table to change.
        columns: The new columns, in the order of the command.
        command: The statement, with the positions of the new columns.

    Raises:
        PlanError: A column exists already or is NOT NULL.
        UnsupportedStatement: Existing rows cannot get the default of a new column.
        UnknownColumn: A struct, or the column that AFTER names, does not exist.
    """
    schema = snapshot.schema
    for column, definition in zip(columns, command.columns, strict=True):
        # DEFAULT NULL means the same as no default.
        is_default_null = str(column.metadata.get(DEFAULT)).strip().lower() == "null"
        field = set_metadata(column, DEFAULT, None) if is_default_null else column
        _check_addable(field, supports_initial_defaults=snapshot.shape.supports_initial_defaults)
        schema = change_struct(schema, definition.within, partial(_add_field, field=field, path=definition.path, command=command))
    return schema


def _check_addable(field: Field, *, supports_initial_defaults: bool) -> None:
    """Raise UnsupportedStatement or PlanError if existing rows cannot get a value for the new column."""
    if GENERATED in field.metadata:
        raise _unsupported_column(field, "is GENERATED", "Recreate the table with this column")
    if DEFAULT in field.metadata and not supports_initial_defaults:
        raise _unsupported_column(field, "has a DEFAULT", "Add the column without DEFAULT, then use ALTER COLUMN … SET DEFAULT")
    if not field.nullable:
        raise PlanError(f"The new column `{field.name}` cannot be NOT NULL: existing rows have no value for it. Omit NOT NULL.")


def _unsupported_column(field: Field, feature: str, advice: str) -> UnsupportedStatement:
    problem = f"The new column `{field.name}` {feature}, and existing rows would not have its value"
    return UnsupportedStatement(f"{problem}. {advice}", text=field.name)


def _add_field(struct: Struct, field: Field, path: str, command: AddColumns) -> Struct:
    """Add a field at the position that the command gives for its path, or as the last field. Raise PlanError for a duplicate name."""
    if struct.find(field.name):
        raise PlanError(f"{command.name} already has the column `{path}`. Choose another name.")
    if path not in command.positions:
        return Struct((*struct, field))
    return insert_field(struct, field, ColumnPlace(command.positions[path]))


def new_properties(command: PropertyCommand, properties: Mapping[str, str]) -> dict[str, str]:
    """Return all properties of a table or view after SET or UNSET TBLPROPERTIES. `properties`: the properties before it.

    Raises:
        TableError: UNSET without IF EXISTS names a property that does not exist.
    """
    if isinstance(command, SetProperties):
        return {**properties, **command.properties}
    missing_keys = [key for key in command.keys if key not in properties]
    if missing_keys and not command.if_exists:
        raise TableError(f"{command.name} has no property {missing_keys[0]!r}. Add IF EXISTS, or check SHOW TBLPROPERTIES {command.name}.")
    return {key: value for key, value in properties.items() if key not in command.keys}


def rename_view_columns(columns: Struct, aliases: tuple[tuple[str, str | None], ...]) -> Struct:
    """Return the columns of a view with the names and comments of its column list.

    `aliases`: the name and the comment of each column, in the order of the query. None as a comment means no comment.

    Raises:
        PlanError: The column list and the query have different numbers of columns.
    """
    if len(columns) != len(aliases):
        raise PlanError(f"The view lists {len(aliases)} column(s), but its query has {len(columns)}. List each column once.")
    fields = []
    for column, (name, comment) in zip(columns, aliases, strict=True):
        fields.append(replace(column, name=name, metadata={"comment": comment} if comment else {}))
    return Struct(tuple(fields))


def check_column_unused(snapshot: Snapshot, path: Path) -> None:
    """Check that no constraint or generated column uses a column that changes.

    Args:
        snapshot: The version of the table to change.
        path: The name of the column, followed by the names of nested fields.

    Raises:
        PlanError: A constraint or a generated column uses the column.
    """
    problem = f"The column `{'.'.join(path)}` of {snapshot.name} is used by"
    for check in snapshot.shape.rules.checks:
        belongs_to_column = check.text.startswith("NOT NULL")  # such a rule has no name, and changes with its column
        if not belongs_to_column and mentions(check.expression, path):
            raise PlanError(f"{problem} the constraint {check.text}. Drop the constraint first, and add it again afterwards.")
    for generated_column, expression in snapshot.shape.rules.generated.items():
        if mentions(expression, path):
            raise PlanError(f"{problem} the generated column `{generated_column}`: {expression}. Change that column first.")


def rename_column(schema: Struct, path: Path, new_name: str) -> Struct:
    """Return the schema with a column or field renamed.

    Args:
        schema: The schema to change.
        path: The path of the column or field.
        new_name: The new name of the last part of the path.

    Raises:
        UnknownColumn: The schema has no such column or field.
        PlanError: Another field of the same struct has the new name.
    """

    def rename(struct: Struct, field: Field) -> Struct:
        if any(other is not field and other.name.lower() == new_name.lower() for other in struct):
            raise PlanError(f"A column `{new_name}` already exists beside `{'.'.join(path)}`. Choose another name.")
        return replace_field(struct, field, replace(field, name=new_name))

    return _change_field(schema, path, rename)


def drop_columns(schema: Struct, paths: Sequence[Path], *, if_exists: bool) -> Struct:
    """Return the schema without some columns and fields.

    Args:
        schema: The schema to change.
        paths: The paths of the columns and fields.
        if_exists: Whether columns that do not exist are ignored.

    Raises:
        UnknownColumn: The schema has no such column or field.
        PlanError: A field is the only remaining field of its struct.
    """
    for path in paths:
        try:
            schema = _change_field(schema, path, _drop_field)
        except UnknownColumn:
            if not if_exists:
                raise
    return schema


def _drop_field(struct: Struct, field: Field) -> Struct:
    if len(struct) == 1:
        raise PlanError(f"`{field.name}` is the only field of its struct, so it cannot be dropped. Drop the whole column instead.")
    return _without_field(struct, field)


def move_column(schema: Struct, path: Path, place: ColumnPlace) -> Struct:
    """Return the schema with a column or field moved to another position.

    Args:
        schema: The schema to change.
        path: The path of the column or field.
        place: The new position, FIRST or AFTER another field of the same struct.

    Raises:
        UnknownColumn: The schema lacks the column, or the column that AFTER names.
    """
    return _change_field(schema, path, lambda struct, field: insert_field(_without_field(struct, field), field, place))


def insert_field(struct: Struct, field: Field, place: ColumnPlace) -> Struct:
    """Return the struct with a new field.

    Args:
        struct: The struct to change.
        field: The new field.
        place: The position of the field, FIRST or AFTER another field.

    Raises:
        UnknownColumn: The struct lacks the field that AFTER names.
    """
    if place.previous_column is None:
        return Struct((field, *struct))
    previous_field = struct.find(place.previous_column)
    if previous_field is None:
        raise UnknownColumn(place.previous_column, struct.names, where="AFTER")
    position = struct.fields.index(previous_field) + 1
    return Struct((*struct.fields[:position], field, *struct.fields[position:]))


def retype_column(schema: Struct, path: Path, declared_field: Field) -> Struct:
    """Return the schema with a new type for a column, a field, or an element, key or value of an array or map.

    Args:
        schema: The schema to change.
        path: The path of the column.
        declared_field: A field with the declared type, and with the declared length of a char or varchar.

    Raises:
        UnknownColumn: The schema has no such column.
        PlanError: The old or the new type is a struct, an array or a map. Their fields must be changed one by one.
    """
    changed_schema = _change_type(schema, path[:-1], partial(_retype_child, path=path, declared_field=declared_field))
    assert isinstance(changed_schema, Struct)
    return changed_schema


def _retype_child(parent: DataType, path: Path, declared_field: Field) -> DataType:
    """Return a struct, array or map with a new type for its child, whose name is the last part of `path`."""
    column_name = ".".join(path)
    if isinstance(parent, Struct):
        return _retype_field(parent, find_field(parent, path[-1]), declared_field, column_name)
    # An element, key or value has no metadata, so it has no declared length.
    change = partial(_checked_type, new=declared_field.type, column_name=column_name)
    return _change_type(parent, path[-1:], change, parent_path=path[:-1])


def _retype_field(struct: Struct, field: Field, declared_field: Field, column_name: str) -> Struct:
    """Return the struct with the declared type of a field, and with the declared length of a char or varchar."""
    _check_length(field, declared_field, column_name)
    new_field = replace(field, type=_checked_type(field.type, declared_field.type, column_name))
    return replace_field(struct, field, set_metadata(new_field, CHAR_VARCHAR, declared_field.metadata.get(CHAR_VARCHAR)))


def set_comment(schema: Struct, path: Path, comment: str | None) -> Struct:
    """Return the schema with a new comment on a column or field.

    Args:
        schema: The schema to change.
        path: The path of the column or field.
        comment: The new comment, or None for no comment.

    Raises:
        UnknownColumn: The schema has no such column or field.
    """
    return _change_field(schema, path, lambda struct, field: replace_field(struct, field, set_metadata(field, "comment", comment or None)))


def change_struct(schema: Struct, path: Path, change: Callable[[Struct], Struct]) -> Struct:
    """Return the schema with a change of one struct.

    Args:
        schema: The schema to change.
        path: The path of the struct, empty for the schema itself.
        change: The function that returns the changed struct.

    Raises:
        UnknownColumn: The schema has no such column.
        PlanError: The column at the path is not a struct.
    """
    changed_schema = _change_type(schema, path, partial(_change_if_struct, path=path, change=change))
    assert isinstance(changed_schema, Struct)
    return changed_schema


def _change_if_struct(type_: DataType, path: Path, change: Callable[[Struct], Struct]) -> Struct:
    if isinstance(type_, Struct):
        return change(type_)
    problem = f"`{'.'.join(path)}` is {sql_name(type_)}, which has no fields of its own."
    raise PlanError(f"{problem} {_NESTED_NAMES.get(type(type_), '')}".rstrip())


def _change_field(schema: Struct, path: Path, change: Callable[[Struct, Field], Struct]) -> Struct:
    """Return the schema with a changed struct, which contains the field at a path. `change`: receives the struct and the field."""
    return change_struct(schema, path[:-1], lambda struct: change(struct, find_field(struct, path[-1])))


def _change_type(type_: DataType, path: Path, change: Callable[[DataType], DataType], parent_path: Path = ()) -> DataType:
    """Return `type_` with a change of the type at a path inside it. Raise UnknownColumn or PlanError if the path does not exist.

    `parent_path`: the path of `type_` itself in the schema, for error messages.
    """
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
        problem = f"`{column_name}` is {sql_name(old)} and cannot become {sql_name(new)}. Change its fields individually with ADD COLUMN,"
        advice = f"DROP COLUMN, ALTER COLUMN {column_name}.<field> TYPE. Parts of arrays and maps are named element, key and value."
        raise PlanError(f"{problem} {advice}")
    return new


def _check_length(field: Field, new: Field, column_name: str) -> None:
    """Raise PlanError for a new or shorter length of a char or varchar, because existing values may be longer."""
    if field.type != Primitive("string") or new.type != Primitive("string") or CHAR_VARCHAR not in new.metadata:
        return
    old_length, new_length = _declared_length(field), _declared_length(new)
    becomes_char = str(new.metadata[CHAR_VARCHAR]).startswith("char") and field.sql_type != new.sql_type
    if old_length is None or new_length is None or new_length < old_length or becomes_char:
        problem = f"`{column_name}` is {field.sql_type} and cannot become {new.sql_type}: existing values may not fit."
        raise PlanError(f"{problem} Use a longer varchar, or string.")


def _declared_length(field: Field) -> int | None:
    """Return the length of a char or varchar, or None for any other type."""
    match = re.fullmatch(r"(?:var)?char\((\d+)\)", field.sql_type)
    return int(match[1]) if match else None


def find_field(struct: Struct, name: str) -> Field:
    """Return the field with this name, ignoring case.

    Raises:
        UnknownColumn: The struct has no such field.
    """
    field = struct.find(name)
    if field is None:
        raise UnknownColumn(name, struct.names)
    return field


def _without_field(struct: Struct, field: Field) -> Struct:
    return Struct(tuple(other for other in struct if other is not field))


def replace_field(struct: Struct, old: Field, new: Field) -> Struct:
    """Return the struct with one field replaced.

    Args:
        struct: The struct to change.
        old: The field to replace, the same object as in the struct.
        new: The new field.
    """
    return Struct(tuple(new if field is old else field for field in struct))


def set_metadata(field: Field, key: str, value: object | None) -> Field:
    """Return the field with one metadata entry set or removed.

    Args:
        field: The field to change.
        key: The key of the entry.
        value: The new value, or None to remove the entry.
    """
    metadata = {other_key: entry for other_key, entry in field.metadata.items() if other_key != key}
    if value is not None:
        metadata[key] = value
    return replace(field, metadata=metadata)
