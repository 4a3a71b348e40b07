"""Schema evolution: check schemas and schema changes, and whether older rows can be read with a newer schema.

The type of an existing column can change only by type widening (PROTOCOL.md, Type Widening).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from rowmerge.delta.files.statistics import ColumnPath, parse_columns
from rowmerge.delta.metadata.actions import Metadata
from rowmerge.delta.metadata.column_mapping import ID, MAPPING_MODE, PHYSICAL_NAME, named_fields
from rowmerge.delta.metadata.properties import TYPE_WIDENING, is_true
from rowmerge.errors import PlanError, UnknownColumn, UnsupportedTableFeature
from rowmerge.table.metadata.schema import (
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Primitive,
    Struct,
    arrow_type,
    backquote,
    parts,
    sql_name,
    to_json,
)

TYPE_CHANGES = "delta.typeChanges"
_INTEGERS = ("byte", "short", "integer", "long")
_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}
"""The number of digits of the decimals to which Parquet readers convert integers, by integer type."""
_FORBIDDEN_CHARACTERS = frozenset(" ,;{}()\n\t=")
"""The characters that column names cannot contain without column mapping."""


def check_schema(
    table: str, schema: Struct, partition_columns: tuple[str, ...], *, has_column_mapping: bool, old_schema: Struct | None = None
) -> None:
    """Check that a schema and its partition columns are valid for a Delta table.

    Args:
        table: The name of the table, for errors.
        schema: The new schema.
        partition_columns: The names of the partition columns.
        has_column_mapping: Whether the table has column mapping, which allows any characters in column names.
        old_schema: The schema before the change, or None for a new table. Its column names are always accepted.

    Raises:
        PlanError: The schema has no columns, or an invalid name, type or partition column.
        UnknownColumn: A partition column is missing.
        UnsupportedTableFeature: A column has a type that Delta tables cannot have.
    """
    old_names = frozenset(field.name for field in named_fields(old_schema or Struct()))
    _check_names(table, schema, old_names, has_column_mapping=has_column_mapping)
    if not len(schema):
        raise PlanError(f"{table} needs at least one column. List its columns.")
    _check_partition(table, schema, partition_columns)
    for column in schema:
        _check_type(table, column.name, column.type)


def _check_partition(table: str, schema: Struct, partition: tuple[str, ...]) -> None:
    """Raise UnknownColumn or PlanError for partition columns that a Delta table cannot have."""
    for name in partition:
        column = schema.find(name, case_sensitive=True)
        if column is None:
            raise UnknownColumn(name, schema.names, where="PARTITIONED BY")
        if not isinstance(column.type, Primitive | Decimal):
            raise PlanError(f"{table} cannot be partitioned by {name}, a {sql_name(column.type)}. Partition by a column of a simple type.")
    if len(set(partition)) < len(partition):
        raise PlanError(f"PARTITIONED BY of {table} names a column twice. Name each once.")
    if partition and len(partition) == len(schema):
        raise PlanError(f"{table} cannot be partitioned by all of its columns. Leave at least one out of PARTITIONED BY.")


def _check_type(table: str, column: str, type_: DataType, *, in_collection: bool = False) -> None:
    """Raise an error for a type that Delta tables cannot have.

    `column`: the name of the top-level column. `in_collection`: whether the type is inside an array or a map.
    """
    for field in parts(type_):
        if in_collection and not field.nullable:
            raise PlanError(
                f"The field {field.name} inside an array or a map in the column {column} of {table} is NOT NULL, and nothing "
                f"would hold the rows to it. Leave NOT NULL out there, or write a CHECK with forall()."
            )
        _check_type(table, column, field.type, in_collection=in_collection or isinstance(type_, Array | Map))
    if not isinstance(type_, Struct | Array | Map):
        _check_leaf_type(table, column, type_)


def _check_leaf_type(table: str, column: str, type_: DataType) -> None:
    """Raise UnsupportedTableFeature for a primitive type that Delta tables cannot have."""
    try:
        arrow_type(type_)
    except ValueError:
        advice = f"Cast the column {column} to a type that Delta tables can hold, for example to string."
        raise UnsupportedTableFeature(table, sql_name(type_), action="create", advice=advice) from None


def _check_names(table: str, data_type: DataType, old_names: frozenset[str], *, has_column_mapping: bool) -> None:
    """Raise PlanError for fields of one struct whose names differ only in case, and for new names that need column mapping.

    Fields at all levels are checked. `old_names`: the existing names. `has_column_mapping`: whether the table has column mapping, which
    stores each column under a physical name, so that its logical name can contain any characters.
    """
    lowercase_names: set[str] = set()
    for field in parts(data_type):
        if field.name.lower() in lowercase_names:
            raise PlanError(f"{table} would have two columns named {field.name}. Rename one of them.")
        lowercase_names.add(field.name.lower())
        if not has_column_mapping and field.name not in old_names:
            _check_characters(table, field.name)
        _check_names(table, field.type, old_names, has_column_mapping=has_column_mapping)


def _check_characters(table: str, name: str) -> None:
    """Raise PlanError for a name with characters that need column mapping."""
    if not _FORBIDDEN_CHARACTERS.isdisjoint(name):
        raise PlanError(
            f"A Delta table without column mapping cannot have the column name {name!r} in {table}: "
            f"spaces and , ; {{ }} ( ) = are not allowed. Rename the column, or set the table property '{MAPPING_MODE}' = 'name'."
        )


@dataclass(frozen=True)
class SchemaChange:
    """A change of a table's schema.

    `table`: the name of the table, for errors. `metadata`: the metadata before the change. `clustering`: the physical paths of the
    clustering columns.
    """

    table: str
    metadata: Metadata
    clustering: tuple[ColumnPath, ...] = ()

    @property
    def mapped(self) -> bool:
        """Whether the table has column mapping."""
        return self.metadata.mapping_mode != "none"

    def apply(self, new: Struct) -> Struct:
        """Return the new schema, with type changes recorded in the metadata of the fields. Raises PlanError for an invalid change."""
        old = self.metadata.schema
        if self.mapped:
            self._check_dropped(old, new)
        return self._changed_struct(old, new, "")

    def partition_columns(self, new: Struct) -> tuple[str, ...]:
        """Return the names that the partition columns have in the new schema. They differ from the old names after a rename."""
        if not self.mapped:
            return self.metadata.partition_columns
        names = {column.metadata.get(PHYSICAL_NAME): column.name for column in new}
        return tuple(names[physical_name] for physical_name in self.metadata.stored_partition_columns)

    def _check_dropped(self, old: Struct, new: Struct) -> None:
        """Raise PlanError if the new schema drops a partition column or a clustering column."""
        remaining_names = {column.metadata.get(PHYSICAL_NAME) for column in new}
        for column in old:
            physical_name = column.metadata[PHYSICAL_NAME]
            if physical_name in remaining_names:
                continue
            if column.name in self.metadata.partition_columns:
                raise PlanError(
                    f"{self.table} is partitioned by the column {column.name}, so it cannot be dropped. "
                    f"Write the table anew with CREATE OR REPLACE TABLE … AS SELECT."
                )
            if any(name == physical_name for name, *_ in self.clustering):
                raise PlanError(
                    f"{self.table} is clustered by the column {column.name}, so it cannot be dropped. Cluster by others first, "
                    f"in the engine that clustered it."
                )

    def _changed_struct(self, old: Struct, new: Struct, prefix: str) -> Struct:
        """Return the new struct, whose fields record their type changes in `delta.typeChanges`.

        `prefix`: the path of the struct with a trailing dot, for errors.
        """
        old_fields = {self._identity(field): field for field in old}
        missing_names = [] if self.mapped else [name for name in old.names if new.find(name, case_sensitive=True) is None]
        if missing_names:
            raise PlanError(
                f"The column {prefix}{missing_names[0]} of {self.table} cannot be dropped or renamed without column mapping. Switch it on "
                f"first: ALTER TABLE {self.table} SET TBLPROPERTIES ('{MAPPING_MODE}' = 'name')."
            )
        return Struct(tuple(self._changed_field(old_fields.get(self._identity(field)), field, f"{prefix}{field.name}") for field in new))

    def _identity(self, field: Field) -> object:
        """Return the id of a field, or its name if the table has no column mapping. It identifies the field in both schemas."""
        return field.metadata.get(ID, field.name) if self.mapped else field.name

    def _changed_field(self, old: Field | None, new: Field, path: str) -> Field:
        """Return the new field, with its type changes recorded in `delta.typeChanges`.

        `old`: the field before the change. None for an added field, which must be nullable. `path`: the names from the column
        to the field, for errors.
        """
        if old is None:
            if not new.nullable:
                raise PlanError(f"The new column {path} of {self.table} cannot be NOT NULL: older rows have no value. Leave NOT NULL out.")
            return new
        type_ = self._changed_type(old.type, new.type, path)
        changes = [*old.metadata.get(TYPE_CHANGES, ()), *type_changes(old.type, new.type)]
        return replace(new, type=type_, metadata={**new.metadata, TYPE_CHANGES: changes} if changes else new.metadata)

    def _changed_type(self, old: DataType, new: DataType, path: str) -> DataType:
        """Return the new type of a field. Raises PlanError if a primitive type changes other than by type widening.

        The fields of nested structs record their type changes in `delta.typeChanges`. An array or a map has no metadata of its own: the
        field that contains it records the changes of its element, key and value.
        """
        match old, new:
            case Struct(), Struct():
                return self._changed_struct(old, new, f"{path}.")
            case Array(), Array():
                return replace(new, element=self._changed_type(old.element, new.element, f"{path}.element"))
            case Map(), Map():
                key = self._changed_type(old.key, new.key, f"{path}.key")
                return replace(new, key=key, value=self._changed_type(old.value, new.value, f"{path}.value"))
            case _ if old != new:
                self._check_widening(old, new, path)
        return new

    def _check_widening(self, old: DataType, new: DataType, path: str) -> None:
        """Raise PlanError if a type change is not a type widening, or if type widening is not enabled for the table."""
        problem = f"The column {path} of {self.table} is a {sql_name(old)} and cannot become a {sql_name(new)} in place"
        if not is_wider(new, old):
            raise PlanError(f"{problem}. Use CREATE OR REPLACE TABLE … AS SELECT with a cast.")
        if not is_true(self.metadata.configuration, TYPE_WIDENING):
            advice = f"Switch it on first: ALTER TABLE … SET TBLPROPERTIES ('{TYPE_WIDENING}' = 'true')."
            raise PlanError(f"{problem} without type widening. {advice}")


def rename_indexed_columns(text: str, old: Struct, new: Struct) -> str:
    """Return `delta.dataSkippingStatsColumns` with the column names of the new schema, and without dropped columns.

    Args:
        text: The value of the property before the change.
        old: The old schema.
        new: The new schema. The table must have column mapping.
    """
    leaves = [_renamed_leaf(leaf, old, new) for leaf in parse_columns(text)]
    return ",".join(".".join(map(backquote, leaf)) for leaf in leaves if leaf is not None)


def _renamed_leaf(leaf: ColumnPath, old: Struct, new: Struct) -> ColumnPath | None:
    """Return the path of a column or a nested field in the new schema, or None if it was dropped.

    A path that is not in the old schema is returned unchanged.
    """
    name, *nested_names = leaf
    old_field = old.find(name)
    if old_field is None:
        return leaf
    new_field = next((field for field in new if field.metadata.get(ID) == old_field.metadata.get(ID)), None)
    if new_field is None:
        return None
    if nested_names and isinstance(old_field.type, Struct) and isinstance(new_field.type, Struct):
        nested_leaf = _renamed_leaf(tuple(nested_names), old_field.type, new_field.type)
        return None if nested_leaf is None else (new_field.name, *nested_leaf)
    # Only fields of structs can be renamed: `element`, `key` and `value` are fixed names.
    return (new_field.name, *nested_names)


def is_wider(new: DataType, old: DataType) -> bool:
    """Return whether a change from `old` to `new` is a type widening (PROTOCOL.md, Type Widening).

    Args:
        new: The new type.
        old: The old type. If it equals `new`, the result is False.
    """
    match old, new:
        case Decimal(), Decimal():
            return old != new and new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
        case Primitive(old_name), Decimal(precision, scale):
            return old_name in _DIGITS and precision - scale >= _DIGITS[old_name]
        case Primitive(old_name), Primitive(new_name) if old_name in _INTEGERS and new_name in _INTEGERS:
            return _INTEGERS.index(old_name) < _INTEGERS.index(new_name)
        case Primitive(old_name), Primitive("double"):
            return old_name in ("float", "byte", "short", "integer")
        case Primitive("date"), Primitive("timestamp_ntz"):
            return True
    return False


def type_changes(old: DataType, new: DataType, path: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
    """Yield the entries of `delta.typeChanges` for the type change of one field (PROTOCOL.md, Type Change Metadata).

    Args:
        old: The old type of the field, or of its element, key or value.
        new: The new type.
        path: The path from the field to its element, key or value, which becomes `fieldPath`. It is empty for the field itself.
    """
    match old, new:
        case Struct(), Struct():
            return
        case Array(), Array():
            yield from type_changes(old.element, new.element, (*path, "element"))
        case Map(), Map():
            yield from type_changes(old.key, new.key, (*path, "key"))
            yield from type_changes(old.value, new.value, (*path, "value"))
        case _ if old != new:
            change = {"fromType": to_json(old), "toType": to_json(new)}
            yield {**change, "fieldPath": ".".join(path)} if path else change


def why_schema_not_readable(old: Struct, new: Struct, prefix: str = "") -> str:
    """Return the reason why rows of an old schema cannot be read with a new schema, by the rules of delta-spark's `isReadCompatible`.

    The change data feed reads the rows of several versions with the schema of one version, so these schemas must be compatible.

    Args:
        old: The schema of the rows.
        new: The schema of the reader.
        prefix: The path of the struct whose fields are compared, with a trailing dot. It appears in the reason.

    Returns:
        A clause for an error message, or an empty string if the rows can be read.
    """
    for old_field in old:
        name = f"{prefix}{old_field.name}"
        new_field = new.find(old_field.name)
        if new_field is None:
            return f"it has a column {name}, which was dropped or renamed"
        if _stored_name(old_field) != _stored_name(new_field):
            return f"its column {name} was dropped or renamed, and the newer one of that name is another"
        if old_field.nullable and not new_field.nullable:
            return f"its column {name} may hold NULL, which the newer one may not"
        reason = _why_type_not_readable(old_field.type, new_field.type, name)
        if reason:
            return reason
    return ""


def _stored_name(field: Field) -> str:
    return str(field.metadata.get(PHYSICAL_NAME, field.name)).lower()


def _why_type_not_readable(old: DataType, new: DataType, name: str) -> str:
    """Return the reason why values of an old type cannot be read as a new type, or an empty string if they can.

    `name`: the path of the column, for the reason.
    """
    match old, new:
        case Struct(), Struct():
            return why_schema_not_readable(old, new, f"{name}.")
        case Array(), Array():
            return _why_type_not_readable(old.element, new.element, f"{name}.element")
        case Map(), Map():
            return _why_type_not_readable(old.key, new.key, f"{name}.key") or _why_type_not_readable(old.value, new.value, f"{name}.value")
    return "" if old == new or is_wider(new, old) else f"its column {name} is {sql_name(old)}, and the newer one {sql_name(new)}"
