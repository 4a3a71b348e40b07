"""Target and source of a statement as sides: which qualifiers mean them."""

from __future__ import annotations

from dataclasses import replace

from rowmerge.commands.names import CATALOGS
from rowmerge.errors import PlanError
from rowmerge.plan.expressions.conditions import Side
from rowmerge.table.metadata.schema import Struct

OWN_ALIAS = "__rowmerge_%s"
"""The alias of a side that has none of its own, where the last part of its name means the other side too."""


def side_of(parts: tuple[str, ...], alias: str | None, columns: tuple[str, ...]) -> Side:
    """A table as a side: an alias hides its name, as in Spark; without one, every ending of its name means it."""
    if alias is not None:
        return Side(alias, (), columns)
    names = [parts[start:] for start in range(len(parts) - 1)]
    if len(parts) == 2:
        names += [(catalog, *parts) for catalog in CATALOGS]
    return Side(parts[-1], tuple(names), columns)


def apart_from(side: Side, other: Side, role: str) -> Side:
    """The side under an alias that is not the other's: two tables of one name, in two schemas, are told apart by their schemas."""
    if side.alias.lower() != other.alias.lower():
        return side
    return replace(side, alias=OWN_ALIAS % role, names=((side.alias,), *side.names))


def check_apart(target: Side, source: Side) -> None:
    """Raises PlanError when one name means both sides: an alias given twice, or one table twice without an alias."""
    if target.alias.lower() == source.alias.lower():
        raise PlanError(f"Target and source of the MERGE are both called `{target.alias}`. Give one of them another alias.")


def without_qualifier(path: tuple[str, ...], target: Side, schema: Struct) -> tuple[str, ...]:
    """A column that is written to, without the names of the target before it."""
    for name in sorted({(target.alias,), *target.names}, key=len, reverse=True):
        rest = path[len(name) :]
        if rest and [part.lower() for part in path[: len(name)]] == [part.lower() for part in name] and schema.find(rest[0]) is not None:
            return rest
    return path
