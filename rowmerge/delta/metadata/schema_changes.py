"""From one schema of a table to the next: what may be added, renamed, dropped, moved and widened, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from rowmerge.delta.files.statistics import Leaf
from rowmerge.delta.metadata.actions import Metadata
from rowmerge.delta.metadata.column_mapping import ID, MODE, PHYSICAL_NAME
from rowmerge.delta.metadata.widening import ENABLED, TYPE_CHANGES, is_wider, type_change, widens
from rowmerge.errors import PlanError, UnknownColumn, UnsupportedTableFeature
from rowmerge.table.metadata.schema import Array, DataType, Decimal, Field, Map, Primitive, Struct, arrow_type, sql_name

# Characters that Delta does not allow in the names of columns without column mapping.
_FORBIDDEN = " ,;{}()\n\t="


def check_schema(table: str, schema: Struct, partition: tuple[str, ...], *, mapped: bool, old: Struct | None = None) -> None:
    """Raises PlanError, UnknownColumn, UnsupportedTableFeature for a schema that a Delta table cannot have.

    `mapped`: with column mapping, any name is a column's. Names that are in `old` are accepted anyway.
    """
    _check_names(table, schema, mapped, frozenset(_names(old)) if old is not None else frozenset())
    if not len(schema):
        raise PlanError(f"{table} needs at least one column. List its columns.")
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
    for column in schema:
        _check_type(table, column.name, column.type)


def _check_type(table: str, column: str, type_: DataType, *, collected: bool = False) -> None:
    """`collected`: the type is that of what an array or a map holds."""
    match type_:
        case Struct(fields):
            for inner in fields:
                if collected and not inner.nullable:
                    raise PlanError(
                        f"The field {inner.name} inside an array or a map in the column {column} of {table} is NOT NULL, and nothing "
                        f"would hold the rows to it. Leave NOT NULL out there, or write a CHECK with forall()."
                    )
                _check_type(table, column, inner.type, collected=collected)
        case Array(element, _):
            _check_type(table, column, element, collected=True)
        case Map(key, value, _):
            _check_type(table, column, key, collected=True)
            _check_type(table, column, value, collected=True)
        case _:
            try:
                arrow_type(type_)
            except ValueError:
                advice = f"Cast the column {column} to a type that Delta tables can hold, for example to string."
                raise UnsupportedTableFeature(table, sql_name(type_), action="create", advice=advice) from None


def _check_names(table: str, schema: Struct, mapped: bool, kept: frozenset[str]) -> None:
    """Names differ in more than case at each level; `kept` are names that the table has anyway."""
    seen: set[str] = set()
    for column in schema:
        if column.name.lower() in seen:
            raise PlanError(f"{table} would have two columns named {column.name}. Rename one of them.")
        seen.add(column.name.lower())
        if not mapped and column.name not in kept and any(character in column.name for character in _FORBIDDEN):
            raise PlanError(
                f"A Delta table without column mapping cannot have the column name {column.name!r} in {table}: "
                f"spaces and , ; {{ }} ( ) = are not allowed. Rename the column, or set the table property '{MODE}' = 'name'."
            )
        for inner in _structs(column.type):
            _check_names(table, inner, mapped, kept)


def _names(schema: Struct) -> Iterator[str]:
    for column in schema:
        yield column.name
        for inner in _structs(column.type):
            yield from _names(inner)


def _structs(type_: DataType) -> Iterator[Struct]:
    """The structs of a type that are not inside another struct of it."""
    match type_:
        case Struct():
            yield type_
        case Array(element, _):
            yield from _structs(element)
        case Map(key, value, _):
            yield from _structs(key)
            yield from _structs(value)


@dataclass(frozen=True)
class SchemaChange:
    """The way from the schema of `metadata` to the next one. `clustering`: the clustering columns, as they are stored."""

    table: str
    metadata: Metadata
    clustering: tuple[Leaf, ...] = ()

    @property
    def mapped(self) -> bool:
        return self.metadata.mapping_mode != "none"

    def checked(self, new: Struct) -> Struct:
        """The new schema, with the changes of types recorded. Columns are the same by their ids with column mapping, else by name.

        Raises PlanError for what cannot be done in place.
        """
        old = self.metadata.schema
        if self.mapped:
            self._check_dropped(old, new)
        return self._struct(old, new, "")

    def partition_columns(self, new: Struct) -> tuple[str, ...]:
        """The names that the partition columns have in the new schema."""
        if not self.mapped:
            return self.metadata.partition_columns
        names = {column.metadata.get(PHYSICAL_NAME): column.name for column in new}
        return tuple(names[stored] for stored in self.metadata.stored_partition_columns)

    def _check_dropped(self, old: Struct, new: Struct) -> None:
        stays = {column.metadata.get(PHYSICAL_NAME) for column in new}
        for column in old:
            stored = column.metadata[PHYSICAL_NAME]
            if stored in stays:
                continue
            if column.name in self.metadata.partition_columns:
                raise PlanError(
                    f"{self.table} is partitioned by the column {column.name}, so it cannot be dropped. "
                    f"Write the table anew with CREATE OR REPLACE TABLE … AS SELECT."
                )
            if any(leaf[0] == stored for leaf in self.clustering):
                raise PlanError(
                    f"{self.table} is clustered by the column {column.name}, so it cannot be dropped. Cluster by others first, "
                    f"in the engine that clustered it."
                )

    def _struct(self, old: Struct, new: Struct, above: str) -> Struct:
        before = {self._identity(column): column for column in old}
        if missing := [column for key, column in before.items() if key not in {self._identity(column) for column in new}]:
            self._check_may_leave(f"{above}{missing[0].name}")
        return Struct(tuple(self._field(before.get(self._identity(column)), column, above) for column in new))

    def _identity(self, column: Field) -> object:
        return column.metadata.get(ID, column.name) if self.mapped else column.name

    def _check_may_leave(self, name: str) -> None:
        if not self.mapped:
            raise PlanError(
                f"The column {name} of {self.table} cannot be dropped or renamed without column mapping. Switch it on first: "
                f"ALTER TABLE {self.table} SET TBLPROPERTIES ('{MODE}' = 'name')."
            )

    def _field(self, old: Field | None, new: Field, above: str) -> Field:
        name = f"{above}{new.name}"
        if old is None:
            if not new.nullable:
                raise PlanError(f"The new column {name} of {self.table} cannot be NOT NULL: older rows have no value. Leave NOT NULL out.")
            return new
        changes: list[dict[str, Any]] = []
        type_ = self._type(old.type, new.type, name, (), changes)
        known = [*old.metadata.get(TYPE_CHANGES, ()), *changes]
        return replace(new, type=type_, metadata={**new.metadata, TYPE_CHANGES: known} if known else new.metadata)

    def _type(self, old: DataType, new: DataType, name: str, path: tuple[str, ...], changes: list[dict[str, Any]]) -> DataType:
        match old, new:
            case Struct(), Struct():
                return self._struct(old, new, f"{name}.")
            case Array(), Array():
                return replace(new, element=self._type(old.element, new.element, f"{name}.element", (*path, "element"), changes))
            case Map(), Map():
                key = self._type(old.key, new.key, f"{name}.key", (*path, "key"), changes)
                return replace(new, key=key, value=self._type(old.value, new.value, f"{name}.value", (*path, "value"), changes))
            case _ if old != new:
                self._check_widening(old, new, name)
                changes.append(type_change(old, new, path))
        return new

    def _check_widening(self, old: DataType, new: DataType, name: str) -> None:
        told = f"The column {name} of {self.table} is a {sql_name(old)} and cannot become a {sql_name(new)} in place"
        if not is_wider(new, old):
            raise PlanError(f"{told}. Use CREATE OR REPLACE TABLE … AS SELECT with a cast.")
        if not widens(self.metadata):
            raise PlanError(f"{told} without type widening. Switch it on first: ALTER TABLE … SET TBLPROPERTIES ('{ENABLED}' = 'true').")


def renamed_leaf(leaf: Leaf, old: Struct, new: Struct) -> Leaf | None:
    """The names that a column or a field of structs has in a later schema of a table with column mapping; None when it was dropped."""
    before = old.find(leaf[0])
    if before is None:
        return leaf
    after = next((column for column in new if column.metadata.get(ID) == before.metadata.get(ID)), None)
    if after is None:
        return None
    if len(leaf) == 1 or not isinstance(before.type, Struct) or not isinstance(after.type, Struct):
        return (after.name, *leaf[1:])
    inner = renamed_leaf(leaf[1:], before.type, after.type)
    return None if inner is None else (after.name, *inner)
