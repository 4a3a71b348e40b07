"""The partition fields and the write order of CREATE TABLE and ALTER TABLE."""

from __future__ import annotations

from dataclasses import replace

from rowmerge.commands.definitions import ChangePartitioning, SetWriteOrder
from rowmerge.errors import PlanError, UnknownColumn
from rowmerge.sql import parse_partition_field
from rowmerge.table.metadata.partitioning import IDENTITY, VOID, Distribution, PartitionField, SortField
from rowmerge.table.metadata.schema import Struct, quote
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.snapshot import Snapshot

_NAME_SUFFIXES = {IDENTITY: "", "truncate": "_trunc", "void": "_null"}


def resolve_partitioning(columns: Struct, fields: tuple[PartitionField, ...]) -> tuple[PartitionField, ...]:
    """Return the fields of PARTITIONED BY with exact column names, and with Iceberg's default names for fields without a name.

    Args:
        columns: The columns of the table.
        fields: The fields as written in the statement.

    Raises:
        UnknownColumn: The table has no such column.
        PlanError: Two fields divide the rows by the same values.
    """
    partition_fields: list[PartitionField] = []
    for field in fields:
        exact_field = replace(field, column=_exact_path(columns, field.column, "PARTITIONED BY"))
        _check_not_redundant(partition_fields, exact_field)
        partition_fields.append(replace(exact_field, name=field.name or default_name(exact_field)))
    return tuple(partition_fields)


def _check_not_redundant(fields: list[PartitionField], new_field: PartitionField) -> None:
    """Raise PlanError if one of the fields divides the rows by the same values as the new one, or by finer ones.

    A field with a name of its own is intended, so that only an equal one is an error.
    """
    for field in fields:
        is_same_kind = new_field.name == "" and _transform_kind(field) == _transform_kind(new_field)
        if field.column == new_field.column and (is_same_kind or field.transform == new_field.transform):
            conflict = f"PARTITIONED BY {field.text} and {new_field.text}"
            raise PlanError(f"{conflict}: one of them already divides the rows. Keep only the finer one.")


def partition_field(columns: Struct, text: str) -> PartitionField:
    """Return a partition field for the column with this exact name. If there is no such column, parse the text.

    Args:
        columns: The columns of the table.
        text: The name of a column, or a column or transform in SQL, such as `day(ordered_at)`.

    Raises:
        Unparsable: The text is not a partition field.
        UnsupportedStatement: The transform is unknown.
    """
    return PartitionField((text,)) if columns.find(text, case_sensitive=True) else parse_partition_field(text)


def partitioning_operation(command: ChangePartitioning) -> str:
    """Return the name of the command for the table's history."""
    if command.dropped is None:
        return "ADD PARTITION FIELD"
    return "DROP PARTITION FIELD" if command.added is None else "REPLACE PARTITION FIELD"


def change_partitioning(command: ChangePartitioning, snapshot: Snapshot) -> TableDefinition:
    """Return the partitioning after ALTER TABLE … PARTITION FIELD.

    Args:
        command: The parsed statement.
        snapshot: The version of the table to change.

    Raises:
        UnknownColumn: The table has no such column.
        PlanError: The dropped field does not exist, or the added field exists already.
    """
    old_fields = snapshot.shape.partitioning
    old_field = None if command.dropped is None else _find_partition_field(snapshot, command.dropped)
    fields = [field for field in old_fields if field is not old_field]
    if command.added is None:
        return TableDefinition(partitioning=tuple(fields))
    new_field = _resolve_new_field(snapshot.schema, command.added)
    _check_not_duplicate(snapshot, fields, new_field)
    # A REPLACE that only renames a field leaves it in its position.
    is_rename = old_field is not None and (old_field.column, old_field.transform) == (new_field.column, new_field.transform)
    fields.insert(old_fields.index(old_field) if is_rename else len(fields), new_field)
    return TableDefinition(partitioning=tuple(fields))


def _resolve_new_field(columns: Struct, field: PartitionField) -> PartitionField:
    """Return the field with its column's exact name, and a default name if it has none. Raise UnknownColumn for a missing column."""
    exact_field = replace(field, column=_exact_path(columns, field.column, "PARTITIONED BY"))
    return replace(exact_field, name=field.name or default_name(exact_field, with_parameter=True))


def write_order_operation(command: SetWriteOrder) -> str:
    """Return the name of the command for the table's history."""
    if command.ordering:
        return "WRITE ORDERED BY"
    return "WRITE UNORDERED" if command.distribution is Distribution.NONE else "WRITE DISTRIBUTED BY PARTITION"


def change_write_order(command: SetWriteOrder, snapshot: Snapshot) -> TableDefinition:
    """Return the sort order and distribution after ALTER TABLE … WRITE …. The caller commits this definition.

    Args:
        command: The parsed statement.
        snapshot: The version of the table to change.

    Raises:
        UnknownColumn: The table has no such column.
    """
    return TableDefinition(ordering=resolve_ordering(snapshot.schema, command.ordering), distribution=command.distribution)


def resolve_ordering(columns: Struct, fields: tuple[SortField, ...]) -> tuple[SortField, ...]:
    """Return the fields of a sort order with exact column names.

    Args:
        columns: The columns of the table.
        fields: The fields as written in the statement.

    Raises:
        UnknownColumn: The table has no such column. The error names the clause.
    """
    return tuple(replace(field, column=_exact_path(columns, field.column, "WRITE ORDERED BY")) for field in fields)


def default_name(field: PartitionField, *, with_parameter: bool = False) -> str:
    """Return the name that Iceberg's Java implementation gives to a partition field.

    Args:
        field: The field, with the exact names of its column.
        with_parameter: Whether the name ends with the parameter of the transform, as for a field that ALTER TABLE adds.
    """
    suffix = _NAME_SUFFIXES.get(field.transform.name, f"_{field.transform.name}")
    parameter = f"_{field.transform.parameter}" if with_parameter and field.transform.parameter is not None else ""
    return f"{'.'.join(field.column)}{suffix}{parameter}"


def _transform_kind(field: PartitionField) -> str:
    """Return the kind of a transform. All time transforms have the same kind. Two fields of one column must differ in kind."""
    transform = field.transform
    return "time" if transform.name in ("year", "month", "day", "hour") else transform.name


def _exact_path(columns: Struct, path: tuple[str, ...], where: str) -> tuple[str, ...]:
    """Return the path of a column or field with the exact names of the schema. Raise UnknownColumn if the path does not exist."""
    exact_names: tuple[str, ...] = ()
    struct = columns
    for name in path:
        field = struct.find(name)
        if field is None:
            raise UnknownColumn(".".join((*exact_names, name)), struct.names, where=where)
        exact_names += (field.name,)
        struct = field.type if isinstance(field.type, Struct) else Struct()
    return exact_names


def _find_partition_field(snapshot: Snapshot, requested: PartitionField) -> PartitionField:
    """Return the partition field with the requested column and transform or, without one, with the requested name.

    Raise PlanError if neither exists.
    """
    path = _lower_path(requested)
    for field in snapshot.shape.partitioning:
        if _lower_path(field) == path and field.transform == requested.transform:
            return field
    # A table of Iceberg's format version 1 keeps a dropped field with the transform void.
    remaining_fields = [field for field in snapshot.shape.partitioning if field.transform.name != VOID]
    may_be_name = requested.transform.name == IDENTITY
    for field in remaining_fields:
        if may_be_name and field.own_name.lower() == ".".join(path):
            return field
    raise _missing_field_error(snapshot.name, requested, remaining_fields)


def _lower_path(field: PartitionField) -> list[str]:
    return [name.lower() for name in field.column]


def _missing_field_error(table: str, requested: PartitionField, fields: list[PartitionField]) -> PlanError:
    names = ", ".join(f"{quote(field.own_name)} ({field.text})" for field in fields)
    advice = f"Its partition fields are: {names}." if names else "It is not partitioned."
    return PlanError(f"{table} has no partition field {requested.text}. {advice}")


def _check_not_duplicate(snapshot: Snapshot, fields: list[PartitionField], new_field: PartitionField) -> None:
    """Raise PlanError if one of the fields has the new field's column and transform, or its name."""
    for field in fields:
        if field.transform.name == VOID:
            continue
        if (field.column, field.transform) == (new_field.column, new_field.transform):
            raise PlanError(f"{snapshot.name} is already partitioned by {new_field.text}, as {quote(field.own_name)}. Omit the new field.")
        if field.own_name.lower() == new_field.name.lower():
            problem = f"{snapshot.name} already has a partition field {quote(field.own_name)} ({field.text})"
            raise PlanError(f"{problem}. Name the new field with AS.")
