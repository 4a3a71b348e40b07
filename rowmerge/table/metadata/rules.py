"""What a table asks of every row that is written: conditions to meet, values to give where a statement gives none.

The planner fills in defaults. `rowmerge.spark.values.rules` computes generated columns and checks every row in the job that writes it. An
expression fails the job. Spark's message holds the violated rule as hexadecimal digits, from which `rowmerge.spark.failures` makes the
error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rowmerge.table.metadata.schema import Struct, backquote

GENERATED = "GENERATION_EXPRESSION"
DEFAULT = "CURRENT_DEFAULT"
"""Where Spark keeps the expression of a generated column and of a default in a column's metadata; a format may keep it elsewhere."""
INITIAL = "EXISTS_DEFAULT"
"""Where Spark's Parquet reader finds, as SQL text, what a column of `stored_schema` holds in rows of files that do not have it."""


@dataclass(frozen=True)
class Check:
    """A condition over a row's columns: a row passes when it is true, not when it is false or NULL.

    `expression` is SQL over the table's own columns; `text` says which rule it is (`positive CHECK (id > 0)`); `name` is that of a CHECK
    constraint, empty for other rules.
    """

    text: str
    expression: str
    name: str = ""


@dataclass(frozen=True)
class Rules:
    """The rules of one version of a table.

    `generated` and `defaults` are SQL text by exact column name: a generated column is a function of the row's other columns, a default
    a constant. `append_only`: no row may leave. `empty_is_null`: string columns whose empty text the format stores as NULL.
    """

    checks: tuple[Check, ...] = ()
    generated: Mapping[str, str] = field(default_factory=dict, hash=False)
    defaults: Mapping[str, str] = field(default_factory=dict, hash=False)
    append_only: bool = False
    empty_is_null: frozenset[str] = frozenset()


def not_null_checks(schema: Struct) -> tuple[Check, ...]:
    """NOT NULL of columns and of fields of structs. A field that is NOT NULL wants the structs around it too, as in Delta on Spark.

    What arrays and maps hold is not looked at, as in Delta.
    """
    return tuple(
        Check(f"NOT NULL of column `{'.'.join(path)}`", f"{'.'.join(map(backquote, path))} is not null") for path in _not_null(schema, ())
    )


def _not_null(schema: Struct, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for column in schema:
        path = (*above, column.name)
        if not column.nullable:
            yield path
        if isinstance(column.type, Struct):
            yield from _not_null(column.type, path)
