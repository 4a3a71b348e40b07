"""What becomes of a table's columns and properties when a statement defines or changes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rowmerge.commands.definitions import AddColumns, SetProperties, UnsetProperties
from rowmerge.errors import PlanError, TableError, UnknownColumn, UnsupportedStatement
from rowmerge.session.definitions.column_changes import in_struct
from rowmerge.spark.types import check_storable, schema_of
from rowmerge.table.metadata.rules import DEFAULT, GENERATED
from rowmerge.table.metadata.schema import DataType, Field, Struct, nullable
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def query_columns(frame: DataFrame) -> Struct:
    """A query's columns as a table's: all may be NULL, also inside; comments of the query's own stay behind.

    Raises PlanError for a name that comes twice, TypeMismatch for a type that no table holds.
    """
    columns = view_columns(frame)
    check_storable(schema_of(frame))
    return columns


def view_columns(frame: DataFrame) -> Struct:
    """A query's columns as a view's, which may be of types that no table holds: void, of a NULL without a type.

    Raises PlanError for a name that comes twice, TypeMismatch for a type that has no name.
    """
    schema = schema_of(frame)
    times = Counter(field.name.lower() for field in schema)
    for field in schema:
        if times[field.name.lower()] > 1:
            raise PlanError(f"The query has the column `{field.name}` twice. Give one of them another name with AS.")
    return Struct(tuple(Field(field.name, nullable(field.type)) for field in schema))


def with_columns(snapshot: Snapshot, added: Struct, command: AddColumns) -> Struct:
    """The schema after ALTER TABLE … ADD COLUMNS, in the places that it gives. Raises PlanError, UnknownColumn."""
    schema: DataType = snapshot.schema
    for new, column in zip(added, command.columns, strict=True):
        field = _without_null_default(new)
        _check_addable(field, supports_initial_defaults=snapshot.shape.supports_initial_defaults)
        schema = in_struct(schema, column.within, partial(_with_column, field=field, path=column.path, command=command))
    assert isinstance(schema, Struct)
    return schema


def _without_null_default(field: Field) -> Field:
    """DEFAULT NULL is what a column without a default has."""
    metadata = {key: value for key, value in field.metadata.items() if key != DEFAULT or str(value).strip().lower() != "null"}
    return replace(field, metadata=metadata)


def _check_addable(field: Field, *, supports_initial_defaults: bool) -> None:
    if GENERATED in field.metadata or (DEFAULT in field.metadata and not supports_initial_defaults):
        what = "is GENERATED" if GENERATED in field.metadata else "has a DEFAULT"
        advice = "Create the table anew with it" if GENERATED in field.metadata else "Add it without, then ALTER COLUMN … SET DEFAULT"
        raise UnsupportedStatement(
            f"The new column `{field.name}` {what}, and the rows that are there would not have its value. {advice}", text=field.name
        )
    if not field.nullable:
        raise PlanError(
            f"The new column `{field.name}` cannot be NOT NULL: the rows that are there have no value for it. Leave NOT NULL out."
        )


def _with_column(struct: Struct, field: Field, path: str, command: AddColumns) -> Struct:
    if struct.find(field.name):
        raise PlanError(f"{command.name} has the column `{path}` already. Choose another name.")
    fields = list(struct)
    after = command.positions.get(path)
    if path not in command.positions:
        fields.append(field)
    elif after is None:
        fields.insert(0, field)
    else:
        place = struct.find(after)
        if place is None:
            raise UnknownColumn(after, struct.names, where="AFTER")
        fields.insert(fields.index(place) + 1, field)
    return Struct(tuple(fields))


def new_properties(command: SetProperties | UnsetProperties, properties: Mapping[str, str]) -> dict[str, str]:
    """All properties after SET or UNSET TBLPROPERTIES. Raises TableError for one that is unset and not there."""
    if isinstance(command, SetProperties):
        return {**properties, **command.properties}
    missing = [key for key in command.keys if key not in properties]
    if missing and not command.if_exists:
        raise TableError(f"{command.name} has no property {missing[0]!r}. Add IF EXISTS, or look at SHOW TBLPROPERTIES {command.name}.")
    return {key: value for key, value in properties.items() if key not in command.keys}


def renamed(columns: Struct, names: tuple[tuple[str, str | None], ...]) -> Struct:
    """A view's columns under the names and comments that it gives them. Raises PlanError when their number differs."""
    if len(columns) != len(names):
        raise PlanError(f"The view names {len(names)} column(s), but its query has {len(columns)}. Name each of them once.")
    return Struct(
        tuple(
            replace(f, name=name, metadata={"comment": comment} if comment else {})
            for f, (name, comment) in zip(columns, names, strict=True)
        )
    )
