"""The partition fields and sort fields of a table: transforms of column values, as in PARTITIONED BY and WRITE ORDERED BY.

`TableShape.partitioning` contains the partition fields of a table. `partition_values_in_files` is true if data files also store the
partition columns, as in Iceberg, and false for Delta. Spark groups rows with expressions that may combine several partitions. The writer
computes the committed values with `rowmerge.parquet.transforms`. File pruning uses the same functions to hash keys and to exclude the files
of other buckets.

To add a transform, add its name to `Transform`, its values to `rowmerge.parquet.transforms` and its SQL to
`rowmerge.sql.statements.partitioning`. Also add an expression to `rowmerge.spark.writing.distribution`, and the type of the values to
`rowmerge.iceberg.metadata.partition_values`. If it preserves the order, add its inverse to `rowmerge.plan.bounds.source_ranges`.
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

    `name`: identity, bucket, truncate, year, month, day, hour or void. `parameter`: the number of buckets or the width of truncate. It is
    None for other transforms.
    """

    name: str = IDENTITY
    parameter: int | None = None

    @classmethod
    def parse(cls, text: str) -> Transform:
        """Parse a transform in the form of Iceberg metadata, such as `identity` or `bucket[16]`.

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
        """Return the transform of a SQL column in the syntax of PARTITIONED BY, such as `bucket(16, id)` or `days(ts)`."""
        if self.name in _TIMES:
            return f"{self.name}s({column})"
        if self.parameter is not None:
            return f"{self.name}({self.parameter}, {column})"
        return column if self.name == IDENTITY else f"{self.name}({column})"


class Distribution(Enum):
    """The ways to distribute rows to tasks before they are written (Iceberg's `write.distribution-mode`).

    NONE: rows are not redistributed. HASH: by partition. RANGE: by ranges of the table's sort order.
    """

    NONE = "none"
    HASH = "hash"
    RANGE = "range"


@dataclass(frozen=True)
class PartitionField:
    """A partition field of a table: a source column with a transform.

    `column`: the path of the source column. `name`: the name of the partition value in listings and folders. `field_name`: the name of the
    field in Iceberg metadata, empty if it equals `name`.
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
        """The field in the syntax of PARTITIONED BY."""
        return self.transform.sql(".".join(quote(name) for name in self.column))

    @property
    def identity(self) -> bool:
        """Whether the partition value is the value of a top-level column, without a transform."""
        return self.transform.name == IDENTITY and len(self.column) == 1


@dataclass(frozen=True)
class SortField:
    """One field of a table's sort order, as in WRITE ORDERED BY."""

    column: tuple[str, ...]
    transform: Transform = Transform()
    ascending: bool = True
    nulls_first: bool = True

    @property
    def text(self) -> str:
        value = self.transform.sql(".".join(quote(name) for name in self.column))
        return f"{value} {'ASC' if self.ascending else 'DESC'} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


def partition_by(fields: tuple[PartitionField, ...]) -> list[str]:
    """Return the partitioning for the table's history: column names, and SQL for fields with a transform."""
    return [field.name if field.identity else field.text for field in fields]


def identity_columns(fields: tuple[PartitionField, ...]) -> tuple[str, ...]:
    """Return the top-level columns that are partition fields without a transform."""
    return tuple(field.column[0] for field in fields if field.identity)


def identities(columns: tuple[str, ...]) -> tuple[PartitionField, ...]:
    """Return one partition field without a transform for each of these top-level columns."""
    return tuple(PartitionField((column,), Transform(), column) for column in columns)
