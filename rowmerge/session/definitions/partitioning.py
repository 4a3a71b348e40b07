"""The partition fields and the write order that a statement gives a table."""

from __future__ import annotations

from dataclasses import replace

from rowmerge.commands.definitions import ChangePartitioning, SetWriteOrder
from rowmerge.errors import PlanError, UnknownColumn
from rowmerge.sql import parse_partition_field
from rowmerge.table.metadata.partitioning import IDENTITY, VOID, Distribution, PartitionField
from rowmerge.table.metadata.schema import Struct, quote
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.snapshot import Snapshot

_NAME_SUFFIXES = {IDENTITY: "", "truncate": "_trunc", "void": "_null"}


def resolve_partitioning(columns: Struct, fields: tuple[PartitionField, ...]) -> tuple[PartitionField, ...]:
    """Return the fields of PARTITIONED BY with exact column names, and with the field names that Iceberg's Java gives in a new table.

    Raises UnknownColumn, and PlanError if two fields divide the rows by the same values.
    """
    partition_fields: list[PartitionField] = []
    for field in fields:
        resolved = _resolve_column(columns, field)
        for other in partition_fields:
            if resolved.column == other.column and _transform_kind(resolved) == _transform_kind(other):
                conflict = f"PARTITIONED BY {other.told} and {resolved.told}"
                raise PlanError(f"{conflict}: one of them divides the rows already. Keep the finer one.")
        partition_fields.append(replace(resolved, name=default_name(resolved)))
    return tuple(partition_fields)


def partition_field(columns: Struct, text: str) -> PartitionField:
    """Return the column of exactly this name as a partition field, or else parse the text. Raises Unparsable, UnsupportedStatement."""
    return PartitionField((text,)) if columns.find(text, case_sensitive=True) else parse_partition_field(text)


def partitioning_operation(command: ChangePartitioning) -> str:
    """Return the command's name in the table's history."""
    if command.dropped is None:
        return "ADD PARTITION FIELD"
    return "DROP PARTITION FIELD" if command.added is None else "REPLACE PARTITION FIELD"


def change_partitioning(command: ChangePartitioning, snapshot: Snapshot) -> TableDefinition:
    """Return the partitioning after ALTER TABLE … PARTITION FIELD. Raises UnknownColumn, PlanError for a missing or duplicate field."""
    old_fields = snapshot.shape.partitioning
    dropped = None if command.dropped is None else _existing_field(snapshot, command.dropped)
    fields = [field for field in old_fields if field is not dropped]
    if command.added is not None:
        added = _resolve_column(snapshot.schema, command.added)
        added = replace(added, name=command.added.name or default_name(added, with_parameter=True))
        _check_new(snapshot, fields, added)
        # A REPLACE that only renames a field leaves it in its position.
        is_rename = dropped is not None and (dropped.column, dropped.transform) == (added.column, added.transform)
        position = old_fields.index(dropped) if is_rename else len(fields)
        fields.insert(position, added)
    return TableDefinition(partitioning=tuple(fields))


def write_order_operation(command: SetWriteOrder) -> str:
    """Return the command's name in the table's history."""
    if command.ordering:
        return "WRITE ORDERED BY"
    return "WRITE UNORDERED" if command.distribution is Distribution.NONE else "WRITE DISTRIBUTED BY PARTITION"


def change_write_order(command: SetWriteOrder, snapshot: Snapshot) -> TableDefinition:
    """Return the sort order and distribution after ALTER TABLE … WRITE …. Raises UnknownColumn."""
    where = "WRITE ORDERED BY"
    ordering = tuple(replace(field, column=_exact_path(snapshot.schema, field.column, where)) for field in command.ordering)
    return TableDefinition(ordering=ordering, distribution=command.distribution)


def default_name(field: PartitionField, *, with_parameter: bool = False) -> str:
    """Return the name that Iceberg's Java gives a partition field. A field added to an existing table has the parameter in its name."""
    suffix = _NAME_SUFFIXES.get(field.transform.name, f"_{field.transform.name}")
    parameter = f"_{field.transform.parameter}" if with_parameter and field.transform.parameter is not None else ""
    return f"{'.'.join(field.column)}{suffix}{parameter}"


def _transform_kind(field: PartitionField) -> str:
    """Return a key that two fields of one column must not share. Transforms of time share one: a finer one divides like the coarser."""
    transform = field.transform
    return "time" if transform.name in ("year", "month", "day", "hour") else transform.name


def _resolve_column(columns: Struct, field: PartitionField) -> PartitionField:
    return replace(field, column=_exact_path(columns, field.column, "PARTITIONED BY"))


def _exact_path(columns: Struct, path: tuple[str, ...], where: str) -> tuple[str, ...]:
    """Return the path of a column or field in the case that the table has. Raises UnknownColumn."""
    exact_names: tuple[str, ...] = ()
    struct = columns
    for name in path:
        field = struct.find(name)
        if field is None:
            raise UnknownColumn(".".join((*exact_names, name)), struct.names, where=where)
        exact_names += (field.name,)
        struct = field.type if isinstance(field.type, Struct) else Struct()
    return exact_names


def _existing_field(snapshot: Snapshot, requested: PartitionField) -> PartitionField:
    """Return the partition field with the requested column and transform, or else with the requested name. Raises PlanError."""
    path = [name.lower() for name in requested.column]
    for field in snapshot.shape.partitioning:
        if [name.lower() for name in field.column] == path and field.transform == requested.transform:
            return field
    # A table of Iceberg's format version 1 keeps a dropped field with the transform void.
    fields = [field for field in snapshot.shape.partitioning if field.transform.name != VOID]
    for field in fields:
        if requested.transform.name == IDENTITY and field.own_name.lower() == ".".join(path):
            return field
    names = ", ".join(f"{quote(field.own_name)} ({field.told})" for field in fields)
    advice = f"There are: {names}. Name one of these." if names else "It is not partitioned."
    raise PlanError(f"{snapshot.name} has no partition field {requested.told}. {advice}")


def _check_new(snapshot: Snapshot, fields: list[PartitionField], new_field: PartitionField) -> None:
    """Raise PlanError if one of the fields has the new field's column and transform, or its name."""
    for field in fields:
        if field.transform.name == VOID:
            continue
        if (field.column, field.transform) == (new_field.column, new_field.transform):
            raise PlanError(f"{snapshot.name} is partitioned by {new_field.told} already, as {quote(field.own_name)}. Leave it as it is.")
        if field.own_name.lower() == new_field.name.lower():
            problem = f"{snapshot.name} has a partition field {quote(field.own_name)} already ({field.told})"
            raise PlanError(f"{problem}. Give the new one a name with AS.")
