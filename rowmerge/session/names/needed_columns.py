"""The columns of each table that a statement can use, and the metadata columns, which no star contains.

Only reads of small files need the former: Spark's own reader finds out itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from rowmerge.spark.reading.small_files import small_files_mask
from rowmerge.sql import (
    column_names,
    hidden_columns_in,
    parse_query,
    same_name,
    tables_below_result,
    tables_with_own_names,
    without_hidden_columns,
)
from rowmerge.table.metadata.schema import Field, Primitive, Struct, backquote, sql_name
from rowmerge.table.snapshots.files import FileListing
from rowmerge.table.snapshots.metadata_columns import METADATA_COLUMNS
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Uses = Mapping[str, frozenset[str]]
"""The metadata columns that a text uses, by the name of the table."""
HAS_METADATA_COLUMN = re.compile(rf"\b(?:{'|'.join(METADATA_COLUMNS)})\b", re.IGNORECASE)
"""Matches each text that can use a metadata column, and a few others: the names can also be in strings and comments."""
_NARROW_TYPES = ("boolean", "byte", "short", "integer", "date", "float", "long", "timestamp", "timestamp_ntz", "double")


class NeededColumns:
    """The columns that the texts of one statement can use: those whose names are in a text. If a text has a star, these are all columns.

    The user of a DataFrame can also filter or sort it by columns of its tables that the text does not name.
    """

    def __init__(self, spark: SparkSession, texts: Sequence[str], *, is_frame: bool = False) -> None:
        """Store the texts, which are analysed when a table has small files.

        Args:
            spark: The session that reads the tables.
            texts: The bound text of the statement, and the bound queries of the views that it reads.
            is_frame: Whether the user gets the rows of the first text as a DataFrame.
        """
        self._spark, self._texts, self._is_frame = spark, texts, is_frame

    def of_table(self, placeholder: str, snapshot: Snapshot, files: FileListing | None) -> tuple[str, ...] | None:
        """Return the names of the columns that Arrow must read of a table, at least one. Return None if the table has no small files.

        Args:
            placeholder: The name that stands for the table in one of the texts.
            snapshot: The snapshot of the table.
            files: The files to read, or None for all files.
        """
        if not small_files_mask(self._spark, snapshot.files() if files is None else files).any():
            return None
        names = self.names_of_table(placeholder)
        if names is None:
            return tuple(snapshot.schema.names)
        columns = tuple(name for name in snapshot.schema.names if same_name(name) in names)
        # Batches without columns would have no number of rows.
        return columns or (_narrowest(snapshot.schema).name,)

    def names_of_table(self, placeholder: str) -> frozenset[str] | None:
        """Return names in the form of `same_name`, among them those of all columns that the texts can use of a table. None for all columns.

        Args:
            placeholder: The name that stands for the table in one of the texts.
        """
        if placeholder not in self._tables_with_own_names or placeholder in self._tables_below_result:
            return None
        return self._names

    @cached_property
    def _names(self) -> frozenset[str] | None:
        """All names in the texts, or None if a text can use columns without their names."""
        names: set[str] = set()
        for text in self._texts:
            names_of_text = column_names(text)
            if names_of_text is None:
                return None
            names |= names_of_text
        return frozenset(names)

    @cached_property
    def _tables_below_result(self) -> frozenset[str]:
        return frozenset(tables_below_result(parse_query(self._texts[0])) if self._is_frame else ())

    @cached_property
    def _tables_with_own_names(self) -> frozenset[str]:
        return frozenset(name for text in self._texts for name in tables_with_own_names(parse_query(text)))


def _narrowest(schema: Struct) -> Field:
    """Return the column whose values have the fewest bytes."""

    def width(field: Field) -> int:
        name = field.type.name if isinstance(field.type, Primitive) else ""
        return _NARROW_TYPES.index(name) if name in _NARROW_TYPES else len(_NARROW_TYPES)

    return min(schema, key=width)


def used_metadata_columns(
    spark: SparkSession, text: str, snapshots: Mapping[str, Snapshot], empty_text: Callable[[str, Uses], str], *, is_expression: bool
) -> Uses:
    """Return the metadata columns that a text uses. Where a name can be that of another column, the other column takes precedence.

    Spark analyses the query over empty relations: a metadata column is used if the query has no meaning without it.

    Args:
        spark: The session.
        text: A bound query, or a bound expression, whose names are not compared with other columns.
        snapshots: The tables that the text reads, by the names that stand for them.
        empty_text: The function that replaces the names in a query by empty relations, which have these metadata columns.
        is_expression: Whether the text is an expression.
    """
    hidden = {name: snapshot.metadata_columns.hidden_by(snapshot.schema).names for name, snapshot in snapshots.items()}
    uses = hidden_columns_in(text, hidden, is_expression=is_expression)
    if not uses or is_expression:
        return uses
    if _has_meaning(spark, empty_text(text, {})):
        return {}
    names = sorted(frozenset().union(*uses.values()))
    for name in names if len(names) > 1 else ():
        others = {table: columns - {name} for table, columns in uses.items() if columns - {name}}
        if _has_meaning(spark, empty_text(without_hidden_columns(text, others), others)):
            uses = others
    return uses


def _has_meaning(spark: SparkSession, query: str) -> bool:
    """Return whether Spark can analyse a query. EXPLAIN returns an error as text, so no error is logged."""
    plan = str(spark.sql(f"explain {query}").collect()[0][0])
    return plan.startswith("==")


def empty_relation(schema: Struct) -> str:
    """Return SQL for a relation with these columns but NULL values, over which Spark determines the names and types of a result."""
    return f"(select {', '.join(f'cast(null as {sql_name(field.type)}) as {backquote(field.name)}' for field in schema)})"
