"""What becomes of a table's partitioning and write order when a statement defines or changes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rowmerge.commands.definitions import ChangePartitioning, SetWriteOrder
from rowmerge.errors import PlanError, UnknownColumn
from rowmerge.sql import parse_partition_field
from rowmerge.table.metadata.partitioning import IDENTITY, VOID, Distribution, PartitionField
from rowmerge.table.metadata.schema import Struct, quote
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.snapshot import Snapshot

_SUFFIXES = {IDENTITY: "", "truncate": "_trunc", "void": "_null"}

Changed = tuple[str, Callable[[Snapshot], TableDefinition]]
"""The operation, and what it makes of a version's definition."""


def partitioning(columns: Struct, fields: tuple[PartitionField, ...]) -> tuple[PartitionField, ...]:
    """The fields of PARTITIONED BY with the exact names of their columns, named as Iceberg's Java names those of a new table.

    Raises UnknownColumn, PlanError when two fields divide the rows by the same.
    """
    partition_fields: list[PartitionField] = []
    for field in fields:
        resolved = _resolve_column(columns, field)
        for other in partition_fields:
            if resolved.column == other.column and _kind(resolved) == _kind(other):
                conflict = f"PARTITIONED BY {other.told} and {resolved.told}"
                raise PlanError(f"{conflict}: one of them divides the rows already. Keep the finer one.")
        partition_fields.append(replace(resolved, name=default_name(resolved)))
    return tuple(partition_fields)


def partition_field(columns: Struct, text: str) -> PartitionField:
    """A column of exactly this name, or what SQL means by the text. Raises Unparsable, UnsupportedStatement."""
    return PartitionField((text,)) if columns.find(text, case_sensitive=True) else parse_partition_field(text)


def change_of(command: ChangePartitioning) -> Changed:
    """ALTER TABLE … ADD, DROP or REPLACE PARTITION FIELD. Raises UnknownColumn, PlanError for a field that is not there, or is already."""

    def definition(snapshot: Snapshot) -> TableDefinition:
        fields = list(snapshot.shape.partitioning)
        place = len(fields)
        if command.dropped is not None:
            old = _existing_field(snapshot, command.dropped)
            place = fields.index(old)
            fields.remove(old)
        if command.added is not None:
            new = _resolve_column(snapshot.schema, command.added)
            new = replace(new, name=command.added.name or default_name(new, added=True))
            _check_new(snapshot, fields, new)
            renamed = command.dropped is not None and (old.column, old.transform) == (new.column, new.transform)
            fields.insert(place if renamed else len(fields), new)
        return TableDefinition(partitioning=tuple(fields))

    verb = "ADD" if command.dropped is None else "DROP" if command.added is None else "REPLACE"
    return f"{verb} PARTITION FIELD", definition


def write_order(command: SetWriteOrder) -> Changed:
    """ALTER TABLE … WRITE …. Raises UnknownColumn."""

    def definition(snapshot: Snapshot) -> TableDefinition:
        ordering = tuple(
            replace(field, column=_exact_path(snapshot.schema, field.column, "WRITE ORDERED BY")) for field in command.ordering
        )
        return TableDefinition(ordering=ordering, distribution=command.distribution)

    unordered = "WRITE UNORDERED" if command.distribution is Distribution.NONE else "WRITE DISTRIBUTED BY PARTITION"
    return "WRITE ORDERED BY" if command.ordering else unordered, definition


def default_name(field: PartitionField, *, added: bool = False) -> str:
    """A partition field's name as Iceberg's Java makes it; of one that is added later it tells the parameter too."""
    suffix = _SUFFIXES.get(field.transform.name, f"_{field.transform.name}")
    parameter = f"_{field.transform.parameter}" if added and field.transform.parameter is not None else ""
    return f"{'.'.join(field.column)}{suffix}{parameter}"


def _kind(field: PartitionField) -> str:
    """Return a key that two fields of one column must not share. Transforms of time share one: a finer one divides like the coarser."""
    transform = field.transform
    return "time" if transform.name in ("year", "month", "day", "hour") else transform.name


def _resolve_column(columns: Struct, field: PartitionField) -> PartitionField:
    return replace(field, column=_exact_path(columns, field.column, "PARTITIONED BY"))


def _exact_path(columns: Struct, path: tuple[str, ...], where: str) -> tuple[str, ...]:
    """Return the path of a column or field in the case that the table has. Raises UnknownColumn."""
    exact: tuple[str, ...] = ()
    inside = columns
    for name in path:
        column = inside.find(name)
        if column is None:
            raise UnknownColumn(".".join((*exact, name)), inside.names, where=where)
        exact += (column.name,)
        inside = column.type if isinstance(column.type, Struct) else Struct()
    return exact


def _existing_field(snapshot: Snapshot, wanted_field: PartitionField) -> PartitionField:
    """Return the partition field with this column and transform, or with this name. Raises PlanError."""
    path = [name.lower() for name in wanted_field.column]
    for field in snapshot.shape.partitioning:
        if [name.lower() for name in field.column] == path and field.transform == wanted_field.transform:
            return field
    for field in snapshot.shape.partitioning:
        if wanted_field.transform.name == IDENTITY and field.own_name.lower() == ".".join(path) and field.transform.name != VOID:
            return field
    existing = ", ".join(f"{quote(field.own_name)} ({field.told})" for field in snapshot.shape.partitioning if field.transform.name != VOID)
    advice = f"There are: {existing}. Name one of these." if existing else "It is not partitioned."
    raise PlanError(f"{snapshot.name} has no partition field {wanted_field.told}. {advice}")


def _check_new(snapshot: Snapshot, fields: list[PartitionField], new: PartitionField) -> None:
    for field in fields:
        if field.transform.name == VOID:
            continue
        if (field.column, field.transform) == (new.column, new.transform):
            raise PlanError(f"{snapshot.name} is partitioned by {new.told} already, as {quote(field.own_name)}. Leave it as it is.")
        if field.own_name.lower() == new.name.lower():
            problem = f"{snapshot.name} has a partition field {quote(field.own_name)} already ({field.told})"
            raise PlanError(f"{problem}. Give the new one a name with AS.")
