"""Columns of queries and views, and the columns and properties after ALTER TABLE or ALTER VIEW."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rowmerge.commands.definitions import AddColumns, ColumnPlace, PropertyCommand, SetProperties
from rowmerge.errors import PlanError, TableError, UnsupportedStatement
from rowmerge.session.definitions.column_changes import change_struct, insert_field, set_metadata
from rowmerge.spark.types import check_storable, schema_of
from rowmerge.table.metadata.rules import DEFAULT, GENERATED
from rowmerge.table.metadata.schema import Field, Struct, nullable
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
        field = _without_null_default(column)
        _check_addable(field, supports_initial_defaults=snapshot.shape.supports_initial_defaults)
        schema = change_struct(schema, definition.within, partial(_add_field, field=field, path=definition.path, command=command))
    return schema


def _without_null_default(field: Field) -> Field:
    """Remove DEFAULT NULL, which means the same as no default."""
    return set_metadata(field, DEFAULT, None) if str(field.metadata.get(DEFAULT)).strip().lower() == "null" else field


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
