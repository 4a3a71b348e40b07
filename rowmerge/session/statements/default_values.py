"""INSERT … VALUES (…, DEFAULT): Spark gets the query with the default of the column instead of DEFAULT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rowmerge.commands.rows import Insert
from rowmerge.errors import PlanError
from rowmerge.sql import Defaults, find_defaults
from rowmerge.table.metadata.schema import Field, sql_name
from rowmerge.table.snapshots.snapshot import Snapshot


@dataclass(frozen=True)
class InsertQuery:
    """The query of an INSERT without DEFAULT. `columns`: the column list of its rows, None for the columns of the table in order.

    `generated_positions`: where the query's rows have generated columns, which are not in `columns` and must be dropped.
    """

    text: str
    columns: tuple[str, ...] | None
    generated_positions: frozenset[int] = frozenset()


def replace_defaults(command: Insert, snapshot: Snapshot) -> InsertQuery:
    """Replace each DEFAULT in the query of an INSERT by the default of its column.

    Raises PlanError for DEFAULT in INSERT … BY NAME, and for a generated column whose DEFAULT is not in all rows.
    """
    text = command.query.text
    defaults = find_defaults(text)
    if not defaults.places:
        return InsertQuery(text, command.columns)
    if command.by_name:
        raise PlanError("INSERT … BY NAME takes no DEFAULT. Leave the column out of the query, and it gets its default.")
    columns = command.columns or _columns_without_value(command, snapshot)
    fields = {position: snapshot.schema.find(name) for position, name in enumerate(columns)}
    generated_positions = _generated_positions(defaults, fields, snapshot)
    query = defaults.filled(text, lambda position: _default_value(fields.get(position), snapshot))
    if not generated_positions:
        return InsertQuery(query, command.columns)
    other_columns = tuple(name for position, name in enumerate(columns) if position not in generated_positions)
    return InsertQuery(query, other_columns, generated_positions)


def _columns_without_value(command: Insert, snapshot: Snapshot) -> tuple[str, ...]:
    """Return the columns of the table in order, except those that have a value in PARTITION (p = value)."""
    static_columns = {name.lower() for name, value in command.partition if value is not None}
    return tuple(name for name in snapshot.schema.names if name.lower() not in static_columns)


def _generated_positions(defaults: Defaults, fields: Mapping[int, Field | None], snapshot: Snapshot) -> frozenset[int]:
    """Return the positions of DEFAULT that belong to generated columns. Raise PlanError if only some rows have it."""
    generated = set()
    for position, _, _ in defaults.places:
        field = fields.get(position)
        if field is None or field.name not in snapshot.shape.rules.generated:
            continue
        if not defaults.everywhere(position):
            problem = f"The column `{field.name}` of {snapshot.name} is GENERATED, and only some of the rows say DEFAULT for it."
            raise PlanError(f"{problem} Say it in all of them, or leave the column out.")
        generated.add(position)
    return frozenset(generated)


def _default_value(field: Field | None, snapshot: Snapshot) -> str:
    """Return the SQL that replaces DEFAULT. A generated column gets NULL, and the insert drops it."""
    rules = snapshot.shape.rules
    if field is None or field.name in rules.generated or field.name not in rules.defaults:
        return "NULL"
    # The cast states the column's type, because Spark looks for one type that fits all rows of VALUES.
    return f"cast(({rules.defaults[field.name]}) as {sql_name(field.type)})"
