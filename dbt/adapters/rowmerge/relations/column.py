"""A column, with the questions that dbt and packages ask about its type."""

from __future__ import annotations

from dataclasses import dataclass

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
"""Types that Spark SQL does not know by these names, as contracts and seeds of other warehouses have them."""


@dataclass
class RowmergeColumn(SparkColumn):
    """`dtype` is the type as Spark SQL writes it: `decimal(10,2)`, `array<string>`."""

    @classmethod
    def translate_type(cls, dtype: str) -> str:
        """The type as Spark SQL names it; whatever is no other warehouse's name stays."""
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
        """The length of a varchar or char; 256, as dbt has it, for a string without one."""
        _, bracket, size = self.dtype.partition("(")
        return int(size.rstrip(")")) if bracket and self.is_string() else super().string_size()

    def can_expand_to(self, other_column: Column) -> bool:
        """Strings with and without a length hold one another as far as schema changes go."""
        return self.is_string() and other_column.is_string()

    def __repr__(self) -> str:
        return f"<RowmergeColumn {self.name} ({self.data_type})>"

    def _base_type(self) -> str:
        return self.dtype.lower().partition("(")[0].strip()
