"""Partition fields and sort fields of a table: transforms of column values, as in PARTITIONED BY and WRITE ORDERED BY.

`TableShape.partitioning` has the partition fields of a table. `partition_values_in_files` is true if data files store the partition
columns, as in Iceberg, and false in Delta. Spark groups the rows of a partition by expressions that may group more rows together. The
writer computes the committed values with `rowmerge.parquet.transforms`. File pruning uses the same functions: it hashes keys to exclude
files of other buckets.

A new transform needs its name in `Transform`, its values in `rowmerge.parquet.transforms` and its SQL in
`rowmerge.sql.statements.partitioning`. It also needs an expression in `rowmerge.spark.writing.distribution`, and the type of its values
in `rowmerge.iceberg.metadata.partition_values`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from rowmerge.table.metadata.schema import quote

IDENTITY, VOID, BUCKET = "identity", "void", "bucket"
_WITH_PARAMETER = (BUCKET, "truncate")
_TIMES = ("year", "month", "day", "hour")


@dataclass(frozen=True)
class Transform:
    """A partition transform (Iceberg spec, Partition Transforms).

    `name`: identity, bucket, truncate, year, month, day, hour or void. `parameter`: the number of buckets, or the width of truncate.
    """

    name: str = IDENTITY
    parameter: int | None = None

    @classmethod
    def parse(cls, text: str) -> Transform:
        """Parse the text of a transform in Iceberg metadata, such as `identity` or `bucket[16]`.

        Raises:
            ValueError: The transform is unknown.
        """
        match = re.fullmatch(r"(\w+)(?:\[(\d+)\])?", text.strip().lower())
        if match and (match[1] in _WITH_PARAMETER) == (match[2] is not None) and match[1] in (*_WITH_PARAMETER, *_TIMES, IDENTITY, VOID):
            return cls(match[1], int(match[2]) if match[2] else None)
        raise ValueError(f"unknown partition transform {text!r}")

    def __str__(self) -> str:
        return self.name if self.parameter is None else f"{self.name}[{self.parameter}]"

    def sql(self, column: str) -> str:
        """Return the transform of a SQL column as in PARTITIONED BY of Spark SQL, such as `bucket(16, id)` or `days(ts)`."""
        if self.name in _TIMES:
            return f"{self.name}s({column})"
        if self.parameter is not None:
            return f"{self.name}({self.parameter}, {column})"
        return column if self.name == IDENTITY else f"{self.name}({column})"


class Distribution(Enum):
    """How rows are distributed to tasks before they are written (Iceberg's `write.distribution-mode`).

    NONE: not at all. HASH: by partition. RANGE: by ranges of the table's sort order.
    """

    NONE = "none"
    HASH = "hash"
    RANGE = "range"


@dataclass(frozen=True)
class PartitionField:
    """A partition field. `column`: the path of the source column. `name`: the name of its value in listings and folders.

    `field_name`: the name of the field in Iceberg metadata, empty if it is `name`.
    """

    column: tuple[str, ...]
    transform: Transform = Transform()
    name: str = ""
    field_name: str = ""

    @property
    def own_name(self) -> str:
        return self.field_name or self.name

    @property
    def text(self) -> str:
        """The field as in PARTITIONED BY."""
        return self.transform.sql(".".join(quote(name) for name in self.column))

    @property
    def identity(self) -> bool:
        """Whether the value is that of a top-level column without a transform."""
        return self.transform.name == IDENTITY and len(self.column) == 1


@dataclass(frozen=True)
class SortField:
    """A field of a table's sort order, as in WRITE ORDERED BY."""

    column: tuple[str, ...]
    transform: Transform = Transform()
    ascending: bool = True
    nulls_first: bool = True

    @property
    def text(self) -> str:
        value = self.transform.sql(".".join(quote(name) for name in self.column))
        return f"{value} {'ASC' if self.ascending else 'DESC'} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


def partition_by(fields: tuple[PartitionField, ...]) -> list[str]:
    """Return the partitioning for the table's history: column names, and the SQL of fields with a transform."""
    return [field.name if field.identity else field.text for field in fields]


def identity_columns(fields: tuple[PartitionField, ...]) -> tuple[str, ...]:
    """Return the top-level columns that are partition fields without a transform."""
    return tuple(field.column[0] for field in fields if field.identity)


def identities(columns: tuple[str, ...]) -> tuple[PartitionField, ...]:
    """Return the partition fields for top-level columns without a transform."""
    return tuple(PartitionField((column,), Transform(), column) for column in columns)
