"""INSERT … VALUES (…, DEFAULT): Spark gets the query with the default of the column instead of DEFAULT."""

from __future__ import annotations

from dataclasses import dataclass

from rowmerge.commands.rows import Insert
from rowmerge.errors import PlanError
from rowmerge.sql import Defaults, find_defaults
from rowmerge.table.metadata.schema import Field, sql_name
from rowmerge.table.snapshots.snapshot import Snapshot


@dataclass(frozen=True)
class InsertQuery:
    """The query of an INSERT without DEFAULT, and the column list of its rows (None: the table's columns in order).

    `generated_positions`: the positions of generated columns in the query's rows, which are not in `columns` and must be dropped.
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
    static_columns = {name.lower() for name, value in command.partition if value is not None}
    columns = command.columns or tuple(name for name in snapshot.schema.names if name.lower() not in static_columns)
    generated = _generated_positions(defaults, columns, snapshot)
    text = defaults.filled(text, lambda position: _default_value(_column_at(position, columns, snapshot), snapshot))
    if not generated:
        return InsertQuery(text, command.columns)
    return InsertQuery(text, tuple(name for position, name in enumerate(columns) if position not in generated), generated)


def _generated_positions(defaults: Defaults, columns: tuple[str, ...], snapshot: Snapshot) -> frozenset[int]:
    """Return the positions of DEFAULT that belong to generated columns. Raise PlanError if only some rows have it."""
    generated = set()
    for position, _, _ in defaults.places:
        column = _column_at(position, columns, snapshot)
        if column is None or column.name not in snapshot.shape.rules.generated:
            continue
        if not defaults.everywhere(position):
            raise PlanError(
                f"The column `{column.name}` of {snapshot.name} is GENERATED, and only some of the rows say DEFAULT for it. "
                f"Say it in all of them, or leave the column out."
            )
        generated.add(position)
    return frozenset(generated)


def _column_at(position: int, columns: tuple[str, ...], snapshot: Snapshot) -> Field | None:
    return snapshot.schema.find(columns[position]) if position < len(columns) else None


def _default_value(column: Field | None, snapshot: Snapshot) -> str:
    """Return the SQL that replaces a DEFAULT of this column. A generated column gets NULL: its value is dropped later."""
    rules = snapshot.shape.rules
    if column is None or column.name in rules.generated or column.name not in rules.defaults:
        return "NULL"
    # The cast states the column's type, because Spark looks for one type that fits all rows of VALUES.
    return f"cast(({rules.defaults[column.name]}) as {sql_name(column.type)})"
