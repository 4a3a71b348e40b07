"""Write DataFrames and Arrow tables to the tables of models and seeds. These functions run in the process that runs Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class TableToWrite:
    """The table that a model or a seed replaces, with what the macro `rowmerge_table_definition` returns.

    Attributes:
        name: The name of the table in SQL.
        format: The table format; None for the default.
        partition_by: The partition columns and transforms.
        properties: The table properties.
        comment: The comment of the table; None for none.
        column_comments: The comments of columns, by their names in lower case.
    """

    name: str
    format: str | None = None
    partition_by: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    column_comments: Mapping[str, str] = field(default_factory=dict)


def write_table(session: Any, rows: Any, column_names: Iterable[str], table: TableToWrite) -> Any:
    """Create or replace a table in one commit, and return the StatementResult.

    Args:
        session: The engine's session.
        rows: An Arrow table or a Spark DataFrame.
        column_names: The columns of the rows.
        table: The table.
    """
    return session.write(
        rows,
        table.name,
        mode="replace",
        format=table.format,
        partitioned_by=list(table.partition_by),
        comment=table.comment,
        properties=dict(table.properties),
        column_comments={name: table.column_comments[name.lower()] for name in column_names if name.lower() in table.column_comments},
    )
