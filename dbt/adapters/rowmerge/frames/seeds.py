"""Write the rows of a seed, which dbt reads from a CSV file, to its table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone, tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa
from dbt_common.clients.agate_helper import from_csv
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.rowmerge.frames.tables import TableToWrite, write_table
from dbt.adapters.rowmerge.relations.names import quote

if TYPE_CHECKING:
    import agate

SeedColumn = tuple[str, str, Sequence[Any]]
"""The name of a seed's column, its SQL type as dbt infers it, and its values."""
_ARROW_TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


def rows_of_file(rows: agate.Table, text_columns: Iterable[str], delimiter: str) -> agate.Table:
    """Return the rows from which dbt infers the column types of a seed. For `dbt seed --empty`, read them from the file.

    Args:
        rows: The rows of the seed; none with `dbt seed --empty`.
        text_columns: The names of columns whose values remain text.
        delimiter: The delimiter of the CSV file.
    """
    path = getattr(rows, "original_abspath", None)
    return rows if len(rows.rows) or path is None else from_csv(path, text_columns=text_columns, delimiter=delimiter)


def write_seed(session: Any, columns: Sequence[SeedColumn], types: Mapping[str, str], table: TableToWrite) -> Any:
    """Create or replace the table of a seed in one commit, and return the StatementResult.

    Args:
        session: The engine's session.
        columns: The columns of the seed.
        types: The SQL types to which Spark casts columns, by column names in lower case.
        table: The table.

    Raises:
        DbtRuntimeError: A column has a value that does not fit its type.
    """
    seed = arrow_table(columns, ZoneInfo(session.spark.conf.get("spark.sql.session.timeZone")))
    return write_table(session, cast_columns(seed, types, session.spark), seed.column_names, table)


def arrow_table(columns: Sequence[SeedColumn], zone: tzinfo) -> pa.Table:
    """Return the rows of a seed as an Arrow table.

    Args:
        columns: The columns of the seed.
        zone: The time zone of timestamps that do not specify one.

    Raises:
        DbtRuntimeError: A column has a value that does not fit its type.
    """
    names = [name for name, _, _ in columns]
    return pa.table([_arrow_column(name, sql_type, values, zone) for name, sql_type, values in columns], names=names)


def cast_columns(table: pa.Table, types: Mapping[str, str], spark: Any) -> Any:
    """Return a seed as a Spark DataFrame with the columns in `types` cast, or the Arrow table itself if there is nothing to cast.

    Args:
        table: The rows of the seed.
        types: The new SQL types by lower-case column name. Other columns keep their types.
        spark: The Spark session.
    """
    columns = [(quote(name), types.get(name.lower())) for name in table.column_names]
    if all(type_ is None for _, type_ in columns):
        return table
    expressions = [column if type_ is None else f"cast({column} as {type_}) as {column}" for column, type_ in columns]
    return spark.createDataFrame(table).selectExpr(*expressions)


def _arrow_column(name: str, sql_type: str, values: Iterable[Any], zone: tzinfo) -> pa.Array:
    """Return a column of a seed as an Arrow array. Raises DbtRuntimeError for a value that does not fit the type."""
    converters = {"bigint": int, "double": float, "string": str, "timestamp": lambda value: _in_utc(value, zone)}
    convert: Callable[[Any], Any] = converters.get(sql_type, lambda value: value)
    try:
        return pa.array([None if value is None else convert(value) for value in values], type=_ARROW_TYPES[sql_type])
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        advice = "Set another type in the config `column_types` of the seed."
        raise DbtRuntimeError(f"The column {name!r} of the seed does not fit the type {sql_type}: {error}. {advice}") from error


def _in_utc(value: datetime, zone: tzinfo) -> datetime:
    """Return a timestamp in UTC. A timestamp without a time zone is interpreted in `zone`."""
    return (value if value.tzinfo else value.replace(tzinfo=zone)).astimezone(timezone.utc)
