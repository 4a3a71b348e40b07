"""The rules for every written row: conditions that the row must satisfy, and values for columns that a statement does not set.

The planner fills in defaults. `rowmerge.spark.values.rules` computes generated columns and checks every row in the job that writes it. A
violated rule fails the job. Spark's error message contains the rule in hexadecimal digits, which `rowmerge.spark.failures` converts to the
error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rowmerge.table.metadata.schema import Struct, backquote

GENERATED = "GENERATION_EXPRESSION"
DEFAULT = "CURRENT_DEFAULT"
"""The keys in a column's Spark metadata for the expressions of a generated column and of a default. Formats may store them elsewhere."""
INITIAL = "EXISTS_DEFAULT"
"""The key in a column's Spark metadata for the SQL literal that Spark's Parquet reader returns if a file lacks the column."""


@dataclass(frozen=True)
class Check:
    """A condition on the columns of a row. A row satisfies the check only if the condition is true, not if it is false or NULL.

    `text`: the description of the rule in errors, such as `positive CHECK (id > 0)`. `expression`: the condition in SQL. `name`: the name
    of a CHECK constraint, empty for other rules.
    """

    text: str
    expression: str
    name: str = ""


@dataclass(frozen=True)
class Rules:
    """The rules for written rows in one version of a table.

    `generated`: the SQL expressions of generated columns, by exact column name, over the other columns. `defaults`: the SQL constants of
    default values, by exact column name. `append_only`: whether rows must not be deleted or updated. `empty_is_null`: the string columns in
    which the format stores an empty string as NULL.
    """

    checks: tuple[Check, ...] = ()
    generated: Mapping[str, str] = field(default_factory=dict, hash=False)
    defaults: Mapping[str, str] = field(default_factory=dict, hash=False)
    append_only: bool = False
    empty_is_null: frozenset[str] = frozenset()


def not_null_checks(schema: Struct) -> tuple[Check, ...]:
    """Return the checks of NOT NULL columns and fields. As in Delta on Spark, the structs around a NOT NULL field must not be NULL, either.

    As in Delta, elements of arrays and values of maps have no checks.
    """
    paths = not_null_paths(schema)
    return tuple(Check(f"NOT NULL of column `{'.'.join(path)}`", f"{'.'.join(map(backquote, path))} is not null") for path in paths)


def not_null_paths(schema: Struct, parent: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the NOT NULL columns and of NOT NULL fields of structs.

    Args:
        schema: The columns, or the fields of a struct.
        parent: The path of the struct.
    """
    for column in schema:
        path = (*parent, column.name)
        if not column.nullable:
            yield path
        if isinstance(column.type, Struct):
            yield from not_null_paths(column.type, path)
