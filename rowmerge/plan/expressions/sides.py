"""The inputs of a row-level statement, and the columns of these inputs to which dotted names resolve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rowmerge.table.metadata.schema import Field, Struct


@dataclass(frozen=True)
class Side:
    """One input of a row-level statement: the target or the source.

    `names`: the dotted names other than the alias that can qualify the input's columns. `columns`: the names of these columns.
    `qualified_only`: whether a name without qualifier is no column, but for example a variable of the session. `hidden`: the names of
    further columns, for which no star stands.
    """

    alias: str
    names: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...]
    qualified_only: bool = False
    hidden: tuple[str, ...] = ()

    def columns_named(self, name: str, *, case_sensitive: bool) -> list[str]:
        """Return the columns that have a name, also those in `hidden`. `case_sensitive`: whether the case of letters matters."""
        columns = self._columns_by_lower_name.get(name.lower(), [])
        return [column for column in columns if column == name] if case_sensitive else columns

    @cached_property
    def _columns_by_lower_name(self) -> dict[str, list[str]]:
        columns: dict[str, list[str]] = {}
        for column in (*self.columns, *self.hidden):
            columns.setdefault(column.lower(), []).append(column)
        return columns


@dataclass(frozen=True)
class Resolved:
    """The column to which a reference resolves: its side, its exact name, and the number of name parts before and after the column name.

    For the column `address` in `analytics.orders.address.city`, `qualifier_size` is 2 and `field_count` is 1.
    """

    side: Side
    column: str
    qualifier_size: int
    field_count: int


def resolve(parts: Sequence[str], sides: Sequence[Side], *, case_sensitive: bool = False) -> Resolved | None:
    """Return the column to which a dotted name resolves. As in Spark, the longest matching qualifier takes precedence.

    In `t.a`, `t` can be a table with the column `a`, or a column with the field `a`. The table takes precedence.

    Args:
        parts: The parts of the name: an optional qualifier, the column, and nested fields. `*` does not resolve to a column.
        sides: The inputs of the statement to which the name can refer.
        case_sensitive: Whether names that differ only in case are different, as with spark.sql.caseSensitive.

    Returns:
        The column, or None if no column or more than one column matches.
    """
    for qualifier_size in range(len(parts) - 1, -1, -1):
        qualifier, name = parts[:qualifier_size], parts[qualifier_size]
        qualified_sides = [side for side in sides if _qualifies(qualifier, side, case_sensitive)]
        matches: list[tuple[Side, str]] = []
        for side in qualified_sides:
            matches += [(side, column) for column in side.columns_named(name, case_sensitive=case_sensitive)]
        if len(matches) == 1:
            return Resolved(*matches[0], qualifier_size, field_count=len(parts) - qualifier_size - 1)
        if matches:
            return None  # ambiguous
    return None


def _qualifies(parts: Sequence[str], side: Side, case_sensitive: bool) -> bool:
    """Return whether a qualifier, which can be empty, refers to the columns of a side."""
    if not parts:
        return not side.qualified_only
    return any(is_same_name(name, parts, case_sensitive) for name in {(side.alias,), *side.names})


def is_same_name(name: Sequence[str], other: Sequence[str], case_sensitive: bool) -> bool:
    """Return whether two dotted names are the same.

    Args:
        name: The parts of a name.
        other: The parts of the other name.
        case_sensitive: Whether names that differ only in case are different.
    """
    if case_sensitive:
        return tuple(name) == tuple(other)
    return [part.lower() for part in name] == [part.lower() for part in other]


def fields_along(schema: Struct, column: str, names: Sequence[str], *, case_sensitive: bool) -> tuple[Field, ...] | None:
    """Return a column and the nested fields that names lead to. None if a name is not that of exactly one field of a struct.

    Args:
        schema: The columns.
        column: The exact name of the column.
        names: The names of the nested fields, from the outermost to the innermost.
        case_sensitive: Whether names that differ only in case are different.
    """
    field = schema.find(column, case_sensitive=True)
    fields = [field]
    for name in names:
        children = field.type.fields if field is not None and isinstance(field.type, Struct) else ()
        matches = [child for child in children if is_same_name((child.name,), (name,), case_sensitive)]
        field = matches[0] if len(matches) == 1 else None
        fields.append(field)
    return None if None in fields else tuple(field for field in fields if field is not None)
