"""The columns of each table that a statement can use, for reads of small files and of metadata tables: Spark's reader finds out itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from rowmerge.spark.reading.small_files import small_files_mask
from rowmerge.sql import column_names, parse_query, same_name, tables_below_result, tables_with_own_names
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.snapshots.files import FileListing
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
