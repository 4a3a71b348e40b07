"""The rules for every row that is written: conditions that it must satisfy, and the values of columns that a statement does not set.

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
"""Keys in Spark's metadata of a column, for the expressions of a generated column and of a default. A format may store them elsewhere."""
INITIAL = "EXISTS_DEFAULT"
"""Key in Spark's metadata of a column, for the SQL literal that Spark's Parquet reader returns for rows of files without the column."""


@dataclass(frozen=True)
class Check:
    """A condition over a row's columns. A row satisfies it if it is true, not if it is false or NULL.

    `text`: the rule in errors, such as `positive CHECK (id > 0)`. `expression`: SQL over the columns of the table. `name`: the name of a
    CHECK constraint, empty for other rules.
    """

    text: str
    expression: str
    name: str = ""


@dataclass(frozen=True)
class Rules:
    """The rules of one version of a table.

    `generated`, `defaults`: SQL text by exact column name. A generated column is a function of the row's other columns, a default is a
    constant. `append_only`: no row may be deleted or updated. `empty_is_null`: string columns whose empty text the format stores as NULL.
    """

    checks: tuple[Check, ...] = ()
    generated: Mapping[str, str] = field(default_factory=dict, hash=False)
    defaults: Mapping[str, str] = field(default_factory=dict, hash=False)
    append_only: bool = False
    empty_is_null: frozenset[str] = frozenset()


def not_null_checks(schema: Struct) -> tuple[Check, ...]:
    """Return the checks of NOT NULL columns and fields. A NOT NULL field also requires the structs around it, as in Delta on Spark.

    Elements of arrays and values of maps have no checks, as in Delta.
    """
    paths = _not_null_paths(schema, ())
    return tuple(Check(f"NOT NULL of column `{'.'.join(path)}`", f"{'.'.join(map(backquote, path))} is not null") for path in paths)


def _not_null_paths(schema: Struct, parent: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the NOT NULL columns, and of the NOT NULL fields of structs. `parent`: the path of the struct `schema`."""
    for column in schema:
        path = (*parent, column.name)
        if not column.nullable:
            yield path
        if isinstance(column.type, Struct):
            yield from _not_null_paths(column.type, path)
