"""ALTER TABLE … REPLACE COLUMNS, with the meaning that it has for each format on Spark."""

from __future__ import annotations

from dataclasses import replace

from rowmerge.errors import PlanError
from rowmerge.session.definitions.columns import Path
from rowmerge.table.metadata.schema import Array, DataType, Field, Map, Struct, sql_name


def merge_columns(old: Struct, declared: Struct) -> Struct:
    """Return the columns of a Delta table after REPLACE COLUMNS.

    A column or field with the name of an old one keeps its values and its metadata, except for a new comment. Columns can be NULL
    afterwards.

    Args:
        old: The columns before the statement.
        declared: The columns in the statement.

    Raises:
        PlanError: A column gets another type.
    """
    return Struct(tuple(_merged_field(old.find(field.name), field, (field.name,)) for field in declared))


def dropped_paths(old: Struct, declared: Struct) -> list[Path]:
    """Return the paths of the columns that REPLACE COLUMNS drops. `old`: before the statement. `declared`: in the statement."""
    return [(field.name,) for field in old if declared.find(field.name) is None]


def _merged_field(old: Field | None, declared: Field, path: Path) -> Field:
    if old is None:
        return declared
    type_ = _merged_type(old.type, declared.type, path)
    if old.sql_type != declared.sql_type and type_ == old.type:
        raise _type_change(path, old.sql_type, declared.sql_type)  # the length of a char or varchar
    return replace(old, type=type_, nullable=True, metadata={**old.metadata, **declared.metadata})


def _merged_type(old: DataType, declared: DataType, path: Path) -> DataType:
    """Return the type of a column, in which the fields of structs can be new or in another order."""
    match old, declared:
        case Struct(), Struct():
            return Struct(tuple(_merged_field(old.find(field.name), field, (*path, field.name)) for field in declared))
        case Array(), Array():
            return replace(old, element=_merged_type(old.element, declared.element, (*path, "element")))
        case Map(), Map():
            key = _merged_type(old.key, declared.key, (*path, "key"))
            return replace(old, key=key, value=_merged_type(old.value, declared.value, (*path, "value")))
    if old != declared:
        raise _type_change(path, sql_name(old), sql_name(declared))
    return old


def _type_change(path: Path, old: str, new: str) -> PlanError:
    advice = "Use ALTER COLUMN … TYPE, or DROP COLUMN and ADD COLUMN."
    return PlanError(f"REPLACE COLUMNS cannot change the type of `{'.'.join(path)}` from {old} to {new}. {advice}")
