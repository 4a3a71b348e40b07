"""The differences between the columns of a model and of its table, at any depth of nesting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dbt_common.exceptions import CompilationError

from dbt.adapters.rowmerge.relations.names import quote

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

# Each type can represent all values of the types to its left. A table column does not change if its type is wider than the model's type.
_WIDENING_ORDERS = (("tinyint", "smallint", "int", "bigint"), ("float", "double"), ("date", "timestamp_ntz"))

COLUMN_MAPPING = "delta.columnMapping.mode"
TYPE_WIDENING = "delta.enableTypeWidening"


@dataclass(frozen=True)
class SchemaChanges:
    """The changes to a table's columns. Columns and nested fields are identified by quoted paths, and types are in SQL.

    Attributes:
        added: Pairs of the path and the type of each new column or field.
        retyped: Pairs of the path and the new type of each column or field whose type changes.
        dropped: The paths of the columns and fields to drop.
        properties: Pairs of the name and the value of each table property to set before the other changes.
    """

    added: tuple[tuple[str, str], ...] = ()
    retyped: tuple[tuple[str, str], ...] = ()
    dropped: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.retyped or self.dropped)

    def __str__(self) -> str:
        differences = {
            "only the model has": [f"{path} {type_}" for path, type_ in self.added],
            "only the table has": self.dropped,
            "of another type in the model:": [f"{path} {type_}" for path, type_ in self.retyped],
        }
        return "; ".join(f"{headline} {', '.join(columns)}" for headline, columns in differences.items() if columns)

    def __add__(self, other: SchemaChanges) -> SchemaChanges:
        return SchemaChanges(self.added + other.added, self.retyped + other.retyped, self.dropped + other.dropped)


def schema_of_query(session: Any, query: str) -> StructType:
    """Return the columns of a query without running it. `session`: the engine's session."""
    schema: StructType = session.sql(query).schema
    return schema


def compare_columns(model: StructType, table: StructType) -> SchemaChanges:
    """Return the changes that give a table the columns of a model.

    Differences in case or order do not require a change. Nor does a table type that can represent all values of the model's type.

    Args:
        model: The schema of the model's rows.
        table: The schema of the table.
    """
    return sum(_struct_changes(model, table, ()), start=SchemaChanges())


def changes_before_write(changes: SchemaChanges, on_schema_change: str, statement_adds_columns: bool) -> SchemaChanges:
    """Return the changes to a table's columns that must run before a statement writes the model's rows.

    Args:
        changes: The differences between the columns of the model and of the table.
        on_schema_change: The value of dbt's config: `fail`, `append_new_columns` or `sync_all_columns`.
        statement_adds_columns: Whether the statement adds new columns itself.
    """
    new_columns = () if statement_adds_columns else changes.added
    # For `fail`, the caller has already raised an error for differences. `append_new_columns` neither drops columns nor changes types.
    if on_schema_change == "fail":
        return SchemaChanges()
    if on_schema_change == "sync_all_columns":
        return replace(changes, added=new_columns)
    return SchemaChanges(added=new_columns)


def needed_properties(changes: SchemaChanges, properties: Mapping[str, str], tblproperties: Mapping[str, Any]) -> dict[str, str]:
    """Return the table properties that column changes require and that a Delta table does not have yet.

    Dropping a column requires column mapping, and changing a type requires type widening (see these sections of the Delta protocol).

    Args:
        changes: The changes to the columns.
        properties: The existing properties of the table.
        tblproperties: The config `tblproperties` of the model.

    Raises:
        CompilationError: `tblproperties` disables a required property.
    """
    new_properties = {}
    if changes.dropped and properties.get(COLUMN_MAPPING, "none") == "none":
        new_properties[COLUMN_MAPPING] = "name"
    if changes.retyped and properties.get(TYPE_WIDENING, "false").lower() != "true":
        new_properties[TYPE_WIDENING] = "true"
    _check_not_disabled(new_properties, tblproperties, changes)
    return new_properties


def _check_not_disabled(property_names: Iterable[str], tblproperties: Mapping[str, Any], changes: SchemaChanges) -> None:
    """Raise CompilationError if the config `tblproperties` disables a property that the changes require."""
    configured_values = {name: str(tblproperties[name]).lower() for name in property_names if tblproperties.get(name) is not None}
    disabled_names = [name for name, value in configured_values.items() if value in ("none", "false")]
    if disabled_names:
        raise CompilationError(
            f"The columns of the table differ from those of the model: {changes}. To change them in place, the table needs "
            f"{' and '.join(disabled_names)}, but the tblproperties of the model disable it. Remove it from tblproperties, run the model "
            f"with --full-refresh, or set on_schema_change to append_new_columns."
        )


def sql_type(type_: DataType) -> str:
    """Return the SQL of a type, with quoted field names."""
    if type_.typeName() == "struct":
        return f"struct<{', '.join(f'{quote(field.name)}: {sql_type(field.dataType)}' for field in type_.fields)}>"
    if type_.typeName() == "array":
        return f"array<{sql_type(type_.elementType)}>"
    if type_.typeName() == "map":
        return f"map<{sql_type(type_.keyType)}, {sql_type(type_.valueType)}>"
    return type_.simpleString()


def _struct_changes(model_type: StructType, table_type: StructType, path: tuple[str, ...]) -> Iterator[SchemaChanges]:
    """Yield the changes to the fields of a struct. `path`: the quoted names from the column to the struct."""
    table_fields = {field.name.lower(): field for field in table_type.fields}
    model_names = {field.name.lower() for field in model_type.fields}
    for model_field in model_type.fields:
        table_field = table_fields.get(model_field.name.lower())
        if table_field is None:
            added_path = _join_path(path, quote(model_field.name))
            yield SchemaChanges(added=((added_path, sql_type(model_field.dataType)),))
        else:
            yield from _type_changes(model_field.dataType, table_field.dataType, (*path, quote(table_field.name)))
    dropped_names = [field.name for field in table_type.fields if field.name.lower() not in model_names]
    yield SchemaChanges(dropped=tuple(_join_path(path, quote(name)) for name in dropped_names))


def _type_changes(model: DataType, table: DataType, path: tuple[str, ...]) -> Iterator[SchemaChanges]:
    """Yield the changes to the column or nested field at a path. It may have any type."""
    if model.typeName() == "struct" and table.typeName() == "struct":
        yield from _struct_changes(model, table, path)
    elif model.typeName() == "array" and table.typeName() == "array":
        yield from _type_changes(model.elementType, table.elementType, (*path, "element"))
    elif model.typeName() == "map" and table.typeName() == "map":
        yield from _type_changes(model.keyType, table.keyType, (*path, "key"))
        yield from _type_changes(model.valueType, table.valueType, (*path, "value"))
    elif not _can_hold(table, model):
        yield SchemaChanges(retyped=((_join_path(path), sql_type(model)),))


def _can_hold(table: DataType, model: DataType) -> bool:
    """Return whether the table's type can represent every value of the model's type."""
    if table.typeName() == "decimal" and model.typeName() == "decimal":
        return table.scale >= model.scale and table.precision - table.scale >= model.precision - model.scale
    # Spark stores varchar and char as string. Their type names include a length, such as `varchar(10)`.
    table_name, model_name = table.simpleString(), model.simpleString()
    if all(name.split("(")[0] in ("string", "varchar", "char") for name in (table_name, model_name)):
        return True
    orders = [order for order in _WIDENING_ORDERS if table_name in order and model_name in order]
    return table_name == model_name or any(order.index(table_name) > order.index(model_name) for order in orders)


def _join_path(path: tuple[str, ...], *more: str) -> str:
    return ".".join((*path, *more))
