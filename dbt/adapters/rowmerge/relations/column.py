"""The columns of relations, and the properties of their types that dbt and its packages use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dbt.adapters.base import BaseRelation
from dbt.adapters.base.column import Column
from dbt.adapters.spark import SparkColumn

from dbt.adapters.rowmerge.relations.names import quote

_INTEGERS = ("tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long")
_FLOATS = ("float", "real", "double")
_ALIASES = {
    "text": "string",
    "varchar": "string",
    "character varying": "string",
    "int2": "smallint",
    "int4": "int",
    "int8": "bigint",
    "float4": "float",
    "float8": "double",
    "double precision": "double",
    "bool": "boolean",
    "datetime": "timestamp",
    "timestamptz": "timestamp",
    "timestamp with time zone": "timestamp",
    "timestamp without time zone": "timestamp_ntz",
}
"""The Spark SQL types for type names of other warehouses, which contracts and seeds may use."""


@dataclass
class RowmergeColumn(SparkColumn):
    """A column of a relation. `dtype` is its type in Spark SQL, such as `decimal(10,2)` or `array<string>`."""

    @classmethod
    def translate_type(cls, dtype: str) -> str:
        """Return the Spark SQL type for a type name of another warehouse. Return other names unchanged."""
        return _ALIASES.get(dtype.strip().lower(), dtype)

    @property
    def quoted(self) -> str:
        return quote(self.column)

    def is_string(self) -> bool:
        return self._base_type() in ("string", "varchar", "char")

    def is_integer(self) -> bool:
        return self._base_type() in _INTEGERS

    def is_float(self) -> bool:
        return self._base_type() in _FLOATS

    def is_numeric(self) -> bool:
        return self._base_type() in ("decimal", "dec", "numeric")

    def string_size(self) -> int:
        """Return the maximum length of the column's strings in characters. For a type without a limit, it is 256, as in dbt."""
        _, bracket, size = self.dtype.partition("(")
        return int(size.rstrip(")")) if bracket and self.is_string() else super().string_size()

    def can_expand_to(self, other_column: Column) -> bool:
        """Return whether both columns are strings, because schema changes ignore the length of strings."""
        return self.is_string() and other_column.is_string()

    def __repr__(self) -> str:
        return f"<RowmergeColumn {self.name} ({self.data_type})>"

    def _base_type(self) -> str:
        return self.dtype.lower().partition("(")[0].strip()


def columns_of(relation: BaseRelation, types: Iterable[tuple[str, str]]) -> list[RowmergeColumn]:
    """Return the columns of a relation from their names and SQL types.

    Args:
        relation: The relation with the columns.
        types: The name and the SQL type of each column, in the order of the relation.
    """
    table = {"table_schema": relation.schema, "table_name": relation.identifier, "table_type": relation.type}
    return [RowmergeColumn(column=name, dtype=dtype, column_index=index, **table) for index, (name, dtype) in enumerate(types)]
