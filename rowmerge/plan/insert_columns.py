"""The columns that an INSERT writes: those of its query, of its column list, and of PARTITION."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from rowmerge.errors import PlanError
from rowmerge.plan.clauses import column_of
from rowmerge.table.metadata.partitioning import identity_columns
from rowmerge.table.metadata.schema import Struct, sql_name
from rowmerge.table.metadata.shape import TableShape

_EVOLVE_INSERT = "To add columns, use INSERT WITH SCHEMA EVOLUTION INTO, session.write(schema_evolution=True) or ALTER TABLE ADD COLUMNS."


def insert_columns(
    schema: Struct,
    query_columns: Sequence[str],
    columns: Sequence[str] | None,
    partition: Collection[str],
    *,
    by_name: bool,
    table: str,
    case_sensitive: bool = False,
) -> list[str]:
    """Return the name of the table column that stores each column of an INSERT's query.

    Args:
        schema: The table's columns after the statement.
        query_columns: The names of the query's columns.
        columns: The column list after the table's name, or None if the statement has none.
        partition: The columns of PARTITION (column = value), which the query does not return.
        by_name: Whether the statement has BY NAME.
        table: The table's name, which error messages show.
        case_sensitive: Whether names that differ only in case are different, as with spark.sql.caseSensitive.

    Raises:
        UnknownColumn: The table does not have a column of the list or, with BY NAME, of the query.
        PlanError: A column occurs twice, or the query has too many or too few columns.
    """
    if by_name:
        clause = f"{table}, the target of INSERT … BY NAME"
        target_names = [column_of(schema, name, case_sensitive, clause, _EVOLVE_INSERT).name for name in query_columns]
    elif columns is not None:
        target_names = [column_of(schema, name, case_sensitive, "the INSERT list").name for name in columns]
    else:
        target_names = [name for name in schema.names if name not in partition]
    for name, count in Counter(target_names).items():
        if name in partition or count > 1:
            raise PlanError(f"The column `{name}` occurs twice. Name it once.")
    if len(target_names) != len(query_columns):
        advice = f" {_EVOLVE_INSERT}" if columns is None and len(query_columns) > len(target_names) else ""
        raise _column_count_error(table, query_columns, target_names, advice)
    return target_names


def _column_count_error(table: str, query_columns: Sequence[str], targets: Sequence[str], advice: str) -> PlanError:
    """Return the error for a query whose number of columns differs from the number of table columns in `targets`."""
    return PlanError(
        f"INSERT INTO {table}: the query has {len(query_columns)} column(s) ({', '.join(query_columns)}), but {len(targets)} are required "
        f"({', '.join(targets)}). Select exactly these columns, list columns after the table's name, or use INSERT INTO … BY NAME.{advice}"
    )


def static_partition(table: TableShape, partition: Sequence[tuple[str, str | None]], *, case_sensitive: bool = False) -> dict[str, str]:
    """Return the SQL text of the values in PARTITION (p = value, q), each cast to the column's type, by exact column name.

    Args:
        table: The schema and the partitioning of the table.
        partition: Each column in PARTITION with the SQL text of its value, or None for a dynamic partition column (`q`).
        case_sensitive: Whether names that differ only in case are different, as with spark.sql.caseSensitive.

    Raises:
        UnknownColumn: The table has no such column.
        PlanError: The table is not partitioned by the column, or the column occurs twice.
    """
    partition_columns = identity_columns(table.partitioning)
    casts: dict[str, str | None] = {}
    for name, text in partition:
        field = column_of(table.schema, name, case_sensitive, "PARTITION")
        if field.name not in partition_columns:
            quoted_columns = ", ".join(f"`{column}`" for column in partition_columns)
            advice = f"It is partitioned by {quoted_columns}." if partition_columns else "Leave PARTITION out."
            raise PlanError(f"PARTITION ({name}): {table.name} is not partitioned by `{field.name}`. {advice}")
        if field.name in casts:
            raise PlanError(f"PARTITION names `{field.name}` twice. Name it once.")
        casts[field.name] = None if text is None else f"cast({text} as {sql_name(field.type)})"
    return {name: cast for name, cast in casts.items() if cast is not None}
