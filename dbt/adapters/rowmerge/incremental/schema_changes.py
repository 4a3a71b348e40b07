"""How the columns of a model differ from those of its table, at any depth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dbt_common.exceptions import CompilationError
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructType

from dbt.adapters.rowmerge.relations.names import quote

# What each type can hold besides itself, narrower first: a table whose column is wider than the model's stays as it is.
_CHAINS = (("tinyint", "smallint", "int", "bigint"), ("float", "double"), ("date", "timestamp_ntz"))

MAPPING = "delta.columnMapping.mode"
WIDENING = "delta.enableTypeWidening"


@dataclass(frozen=True)
class SchemaChanges:
    """List changes of a table's columns. Columns and fields have quoted paths, and types are SQL.

    Attributes:
        added: New columns and fields with their types.
        retyped: Columns and fields with their new types.
        dropped: Columns and fields that the table loses.
        properties: Table properties that must be set before the other changes, with their values.
    """

    added: tuple[tuple[str, str], ...] = ()
    retyped: tuple[tuple[str, str], ...] = ()
    dropped: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.retyped or self.dropped)

    def __str__(self) -> str:
        parts = [
            ("only the model has", [f"{path} {type_}" for path, type_ in self.added]),
            ("only the table has", list(self.dropped)),
            ("of another type in the model:", [f"{path} {type_}" for path, type_ in self.retyped]),
        ]
        return "; ".join(f"{what} {', '.join(names)}" for what, names in parts if names)


def schema_changes(model: StructType, table: StructType) -> SchemaChanges:
    """Compare without regard to case, as Spark does, and to order. Types that the table's can hold are no difference."""
    changes = SchemaChanges()
    for change in _struct(model, table, ()):
        changes = replace(
            changes,
            added=changes.added + change.added,
            retyped=changes.retyped + change.retyped,
            dropped=changes.dropped + change.dropped,
        )
    return changes


def changes_before_rows(changes: SchemaChanges, on_schema_change: str, rows_bring_columns: bool) -> SchemaChanges:
    """Return the changes that need statements of their own before the model's rows are written.

    `rows_bring_columns` states whether the statement that writes the rows adds new columns and fields in the same commit.
    """
    if on_schema_change == "fail":
        return SchemaChanges()
    added = () if rows_bring_columns else changes.added
    return replace(changes, added=added) if on_schema_change == "sync_all_columns" else SchemaChanges(added=added)


def needed_properties(changes: SchemaChanges, present: Mapping[str, str], said: Mapping[str, Any]) -> dict[str, str]:
    """The properties that a Delta table needs before its columns are changed so. `present` are its own, `said` those of the model.

    Raises CompilationError where the model says that the table is not to have them.
    """
    needed = {}
    if changes.dropped and present.get(MAPPING, "none") == "none":
        needed[MAPPING] = "name"
    if changes.retyped and present.get(WIDENING, "false").lower() != "true":
        needed[WIDENING] = "true"
    refused = [name for name in needed if str(said.get(name)).lower() in ("none", "false") and said.get(name) is not None]
    if refused:
        raise CompilationError(
            f"The columns of the table differ from the model's: {changes}. To change them in place, the table needs "
            f"{' and '.join(refused)}, and the tblproperties of the model say otherwise. Leave them out, run the model with "
            f"--full-refresh, or set on_schema_change to append_new_columns."
        )
    return needed


def sql_type(type_: DataType) -> str:
    """A type as SQL writes it, names of fields quoted."""
    if isinstance(type_, StructType):
        return f"struct<{', '.join(f'{quote(field.name)}: {sql_type(field.dataType)}' for field in type_.fields)}>"
    if isinstance(type_, ArrayType):
        return f"array<{sql_type(type_.elementType)}>"
    if isinstance(type_, MapType):
        return f"map<{sql_type(type_.keyType)}, {sql_type(type_.valueType)}>"
    return type_.simpleString()


def _struct(model: StructType, table: StructType, path: tuple[str, ...]) -> Iterator[SchemaChanges]:
    known = {field.name.lower(): field for field in table.fields}
    wanted = {field.name.lower() for field in model.fields}
    for field in model.fields:
        old = known.get(field.name.lower())
        if old is None:
            yield SchemaChanges(added=((_path(path, quote(field.name)), sql_type(field.dataType)),))
        else:
            yield from _type(field.dataType, old.dataType, (*path, quote(old.name)))
    for field in table.fields:
        if field.name.lower() not in wanted:
            yield SchemaChanges(dropped=(_path(path, quote(field.name)),))


def _type(model: DataType, table: DataType, path: tuple[str, ...]) -> Iterator[SchemaChanges]:
    if isinstance(model, StructType) and isinstance(table, StructType):
        yield from _struct(model, table, path)
    elif isinstance(model, ArrayType) and isinstance(table, ArrayType):
        yield from _type(model.elementType, table.elementType, (*path, "element"))
    elif isinstance(model, MapType) and isinstance(table, MapType):
        yield from _type(model.keyType, table.keyType, (*path, "key"))
        yield from _type(model.valueType, table.valueType, (*path, "value"))
    elif not _holds(table, model):
        yield SchemaChanges(retyped=((_path(path), sql_type(model)),))


def _holds(table: DataType, model: DataType) -> bool:
    """Whether every value of the model's type is one of the table's."""
    if isinstance(table, DecimalType) and isinstance(model, DecimalType):
        return table.scale >= model.scale and table.precision - table.scale >= model.precision - model.scale
    names = table.simpleString(), model.simpleString()
    if all(name.split("(")[0] in ("string", "varchar", "char") for name in names):
        return True
    return names[0] == names[1] or any(
        names[0] in chain and names[1] in chain and chain.index(names[0]) > chain.index(names[1]) for chain in _CHAINS
    )


def _path(path: tuple[str, ...], *more: str) -> str:
    return ".".join((*path, *more))
