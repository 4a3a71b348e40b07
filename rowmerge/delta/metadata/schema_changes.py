"""Schema evolution: check schemas and schema changes, and whether older rows can be read with a newer schema.

The type of an existing column can change only by type widening (PROTOCOL.md, Type Widening).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from rowmerge.delta.files.statistics import ColumnPath
from rowmerge.delta.metadata.actions import Metadata
from rowmerge.delta.metadata.column_mapping import ID, MAPPING_MODE, PHYSICAL_NAME, named_fields
from rowmerge.delta.metadata.properties import TYPE_WIDENING, is_true
from rowmerge.errors import PlanError, UnknownColumn, UnsupportedTableFeature
from rowmerge.table.metadata.schema import Array, DataType, Decimal, Field, Map, Primitive, Struct, arrow_type, parts, sql_name, to_json

TYPE_CHANGES = "delta.typeChanges"
_INTEGERS = ("byte", "short", "integer", "long")
_MAX_DIGITS_OF_INTEGERS = {"byte": 10, "short": 10, "integer": 10, "long": 20}
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
    _check_partition_columns(table, schema, partition_columns)
    for column in schema:
        _check_type(table, column.name, column.type)


def _check_partition_columns(table: str, schema: Struct, partition_columns: tuple[str, ...]) -> None:
    """Raise UnknownColumn or PlanError for partition columns that a Delta table cannot have."""
    for name in partition_columns:
        # Other engines look up partition columns by their exact name.
        column = schema.find(name, case_sensitive=True)
        if column is None:
            raise UnknownColumn(name, schema.names, where="PARTITIONED BY")
        if not isinstance(column.type, Primitive | Decimal):
            raise PlanError(f"{table} cannot be partitioned by {name}, a {sql_name(column.type)}. Use a column of a primitive type.")
    if len(set(partition_columns)) < len(partition_columns):
        raise PlanError(f"PARTITIONED BY of {table} contains a column twice. Name each column once.")
    if partition_columns and len(partition_columns) == len(schema):
        raise PlanError(f"{table} cannot be partitioned by all its columns. Remove at least one column from PARTITIONED BY.")


def _check_type(table: str, column: str, type_: DataType, *, in_collection: bool = False) -> None:
    """Raise an error for a type that Delta tables cannot have.

    `column`: the name of the top-level column. `in_collection`: whether the type is inside an array or a map.
    """
    for child in parts(type_):  # the fields of a struct, the element of an array, or the key and value of a map
        if in_collection and not child.nullable:
            problem = f"Delta tables do not enforce NOT NULL inside arrays and maps (field {child.name} of the column {column} of {table})"
            raise PlanError(f"{problem}. Remove NOT NULL, or add a CHECK constraint with forall().")
        _check_type(table, column, child.type, in_collection=in_collection or isinstance(type_, Array | Map))
    if not isinstance(type_, Struct | Array | Map):
        _check_leaf_type(table, column, type_)


def _check_leaf_type(table: str, column: str, type_: DataType) -> None:
    """Raise UnsupportedTableFeature for a primitive type that Delta tables cannot have."""
    try:
        arrow_type(type_)
    except ValueError:
        advice = f"Cast the column {column} to a type that Delta tables support, for example to string."
        raise UnsupportedTableFeature(table, sql_name(type_), action="create", advice=advice) from None


def _check_names(table: str, data_type: DataType, old_names: frozenset[str], *, has_column_mapping: bool) -> None:
    """Raise PlanError for fields of one struct whose names differ only in case, and for new names that need column mapping.

    Fields at all levels are checked. `old_names`: the existing field names at all levels. `has_column_mapping`: whether the table has
    column mapping, which stores each column under a physical name, so that its logical name can contain any characters.
    """
    lowercase_names: set[str] = set()
    for field in parts(data_type):  # the fields of a struct, the element of an array, or the key and value of a map
        if field.name.lower() in lowercase_names:
            raise PlanError(f"{table} would have two columns named {field.name}. Rename one of them.")
        lowercase_names.add(field.name.lower())
        if not has_column_mapping and field.name not in old_names:
            _check_characters(table, field.name)
        _check_names(table, field.type, old_names, has_column_mapping=has_column_mapping)


def _check_characters(table: str, name: str) -> None:
    """Raise PlanError for a name with characters that need column mapping."""
    if not _FORBIDDEN_CHARACTERS.isdisjoint(name):
        problem = f"The column name {name!r} of {table} has a space or one of the characters , ; {{ }} ( ) =, which require column mapping"
        raise PlanError(f"{problem}. Rename the column, or set the table property '{MAPPING_MODE}' = 'name'.")


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
    def has_column_mapping(self) -> bool:
        """Whether the table has column mapping."""
        return self.metadata.mapping_mode != "none"

    def apply(self, new: Struct) -> Struct:
        """Return the new schema, with type changes recorded in the metadata of the fields. Raises PlanError for an invalid change."""
        old = self.metadata.schema
        if self.has_column_mapping:
            self._refuse_dropping_key_columns(old, new)
        return self._changed_struct(old, new, "")

    def partition_columns(self, new: Struct) -> tuple[str, ...]:
        """Return the names that the partition columns have in the new schema. They differ from the old names after a rename."""
        if not self.has_column_mapping:
            return self.metadata.partition_columns
        names = {column.metadata.get(PHYSICAL_NAME): column.name for column in new}
        return tuple(names[physical_name] for physical_name in self.metadata.stored_partition_columns)

    def _refuse_dropping_key_columns(self, old: Struct, new: Struct) -> None:
        """Raise PlanError if the new schema drops a partition column or a clustering column."""
        remaining_physical_names = {column.metadata.get(PHYSICAL_NAME) for column in new}
        for column in old:
            physical_name = column.metadata[PHYSICAL_NAME]
            if physical_name in remaining_physical_names:
                continue
            if column.name in self.metadata.partition_columns:
                problem = f"{self.table} is partitioned by the column {column.name}, so it cannot be dropped"
                raise PlanError(f"{problem}. Replace the table with CREATE OR REPLACE TABLE … AS SELECT.")
            if any(name == physical_name for name, *_ in self.clustering):
                problem = f"{self.table} is clustered by the column {column.name}, so it cannot be dropped"
                raise PlanError(f"{problem}. First cluster the table by other columns, in the engine that clustered it.")

    def _changed_struct(self, old: Struct, new: Struct, prefix: str) -> Struct:
        """Return the new struct, whose fields record their type changes in `delta.typeChanges`.

        `prefix`: the path of the struct with a trailing dot, for errors.
        """
        if not self.has_column_mapping:
            self._refuse_missing_fields(old, new, prefix)
        old_fields = {self._identity(field): field for field in old}
        return Struct(tuple(self._changed_field(old_fields.get(self._identity(field)), field, f"{prefix}{field.name}") for field in new))

    def _refuse_missing_fields(self, old: Struct, new: Struct, prefix: str) -> None:
        """Raise PlanError if a field is not in the new struct. Only column mapping allows that a field is dropped or renamed."""
        for name in old.names:
            if new.find(name, case_sensitive=True) is None:
                advice = f"Enable it first: ALTER TABLE {self.table} SET TBLPROPERTIES ('{MAPPING_MODE}' = 'name')."
                raise PlanError(f"The column {prefix}{name} of {self.table} cannot be dropped or renamed without column mapping. {advice}")

    def _identity(self, field: Field) -> object:
        """Return the id of a field, or its name if the table has no column mapping. It identifies the field in both schemas."""
        return field.metadata.get(ID, field.name) if self.has_column_mapping else field.name

    def _changed_field(self, old: Field | None, new: Field, path: str) -> Field:
        """Return the new field, with its type changes recorded in `delta.typeChanges`. Nested fields record their own changes.

        `old`: the field before the change. None for an added field, which must be nullable. `path`: the names from the column
        to the field, for errors.
        """
        if old is None:
            if not new.nullable:
                raise PlanError(f"The new column {path} of {self.table} cannot be NOT NULL: older rows have no value. Remove NOT NULL.")
            return new
        checked_type = self._checked_type(old.type, new.type, path)
        changes = [*old.metadata.get(TYPE_CHANGES, ()), *type_changes(old.type, new.type)]
        metadata = {**new.metadata, TYPE_CHANGES: changes} if changes else new.metadata
        return replace(new, type=checked_type, metadata=metadata)

    def _checked_type(self, old: DataType, new: DataType, path: str) -> DataType:
        """Return the new type of a field. Raises PlanError if a primitive type changes other than by type widening.

        For a struct, `_changed_struct` records the type changes of its fields in their metadata. An array or a map has no metadata of its
        own: the field that contains it records the changes of its element, key and value.
        """
        match old, new:
            case Struct(), Struct():
                return self._changed_struct(old, new, f"{path}.")
            case Array(), Array():
                return replace(new, element=self._checked_type(old.element, new.element, f"{path}.element"))
            case Map(), Map():
                key = self._checked_type(old.key, new.key, f"{path}.key")
                return replace(new, key=key, value=self._checked_type(old.value, new.value, f"{path}.value"))
        if old != new:
            self._check_widening(old, new, path)
        return new

    def _check_widening(self, old: DataType, new: DataType, path: str) -> None:
        """Raise PlanError if a type change is not a type widening, or if type widening is not enabled for the table."""
        problem = f"The column {path} of {self.table} is {sql_name(old)} and cannot become {sql_name(new)}"
        if not is_wider(new, old):
            raise PlanError(f"{problem}. Use CREATE OR REPLACE TABLE … AS SELECT with a cast.")
        if not is_true(self.metadata.configuration, TYPE_WIDENING):
            advice = f"Enable it first: ALTER TABLE … SET TBLPROPERTIES ('{TYPE_WIDENING}' = 'true')."
            raise PlanError(f"{problem} without type widening. {advice}")


def can_widen(metadata: Metadata, old: DataType, new: DataType) -> bool:
    """Return whether a table allows the change of a column's type by type widening.

    Args:
        metadata: The metadata of the table.
        old: The old type of the column.
        new: The new type.
    """
    return is_true(metadata.configuration, TYPE_WIDENING) and is_wider(new, old)


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
            return old_name in _MAX_DIGITS_OF_INTEGERS and precision - scale >= _MAX_DIGITS_OF_INTEGERS[old_name]
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
            return  # the fields of the struct have their own entries, in their own metadata
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
            return f"it has a column {name}, which was dropped or renamed later"
        if _stored_name(old_field) != _stored_name(new_field):
            return f"its column {name} was dropped or renamed later, and the newer column of this name is another column"
        if old_field.nullable and not new_field.nullable:
            return f"its column {name} may contain NULL, but the newer column must not"
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
    is_readable = old == new or is_wider(new, old)
    return "" if is_readable else f"its column {name} has the type {sql_name(old)}, and later {sql_name(new)}"
