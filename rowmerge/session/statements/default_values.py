"""INSERT … VALUES (…, DEFAULT): the word becomes the column's default before the query goes to Spark."""

from __future__ import annotations

from collections.abc import Mapping

from rowmerge.commands.rows import Insert
from rowmerge.errors import PlanError
from rowmerge.sql import find_defaults
from rowmerge.table.metadata.schema import sql_name
from rowmerge.table.snapshots.snapshot import Snapshot


def filled(command: Insert, snapshot: Snapshot, static: Mapping[str, str]) -> tuple[str, tuple[str, ...] | None, frozenset[int]]:
    """The query without DEFAULT, the INSERT's column list, and the positions of columns that are computed, which must leave both.

    Raises PlanError where DEFAULT has no one meaning.
    """
    text = command.query.text
    defaults = find_defaults(text)
    if not defaults.places:
        return text, command.columns, frozenset()
    if command.by_name:
        raise PlanError("INSERT … BY NAME takes no DEFAULT. Leave the column out of the query, and it gets its default.")
    given = {name.lower() for name in static}
    columns = command.columns or tuple(name for name in snapshot.schema.names if name.lower() not in given)
    rules, computed = snapshot.shape.rules, set()

    def value(position: int) -> str:
        field = snapshot.schema.find(columns[position]) if position < len(columns) else None
        if field is None:
            return "NULL"
        if field.name in rules.generated:
            if not defaults.everywhere(position):
                raise PlanError(
                    f"The column `{field.name}` of {snapshot.name} is GENERATED, and only some of the rows say DEFAULT for it. "
                    f"Say it in all of them, or leave the column out."
                )
            computed.add(position)
            return "NULL"
        # In its column's type: Spark looks for one type that fits all rows of VALUES.
        return f"cast(({rules.defaults[field.name]}) as {sql_name(field.type)})" if field.name in rules.defaults else "NULL"

    text = defaults.filled(text, value)
    kept = tuple(name for position, name in enumerate(columns) if position not in computed)
    return text, kept if computed else command.columns, frozenset(computed)
