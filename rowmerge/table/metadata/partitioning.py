"""How a table's rows are divided into partitions and ordered in files: functions of a row's values, as users write them.

`TableShape.partitioning` lists the fields of a table. `partition_values_in_files` says whether the columns stay in data files (Iceberg) or
not (Delta). Spark groups the rows of a partition by expressions that may group more rows together. The writer computes the committed values
with `rowmerge.parquet.transforms`, and so does planning: it hashes keys to exclude files of other buckets.

A new transform needs its name in `Transform`, its values in `rowmerge.parquet.transforms`, its SQL in
`rowmerge.sql.statements.partitioning`, an expression in `rowmerge.spark.writing.distribution`, and the type of its values in
`rowmerge.iceberg.metadata.partition_values`.
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
    """A partition transform (Iceberg spec, Partition Transforms). `name`: identity, bucket, truncate, year, month, day, hour or void;
    `parameter`: the number of buckets, or the width."""

    name: str = IDENTITY
    parameter: int | None = None

    @classmethod
    def parse(cls, text: str) -> Transform:
        """From the spec's text (`identity`, `bucket[16]`). Raises ValueError."""
        match = re.fullmatch(r"(\w+)(?:\[(\d+)\])?", text.strip().lower())
        if match and (match[1] in _WITH_PARAMETER) == (match[2] is not None) and match[1] in (*_WITH_PARAMETER, *_TIMES, IDENTITY, VOID):
            return cls(match[1], int(match[2]) if match[2] else None)
        raise ValueError(f"unknown partition transform {text!r}")

    def __str__(self) -> str:
        return self.name if self.parameter is None else f"{self.name}[{self.parameter}]"

    def sql(self, column: str) -> str:
        """As Spark SQL writes it in PARTITIONED BY (`bucket(16, id)`, `days(ts)`), over a column in SQL."""
        if self.name in _TIMES:
            return f"{self.name}s({column})"
        if self.parameter is not None:
            return f"{self.name}({self.parameter}, {column})"
        return column if self.name == IDENTITY else f"{self.name}({column})"


class Distribution(Enum):
    """How rows come together in tasks before they are written: as they come, those of one partition, or those that are near in the order
    of the table."""

    NONE = "none"
    HASH = "hash"
    RANGE = "range"


@dataclass(frozen=True)
class PartitionField:
    """One part of a table's partitioning. `column`: the source column, names from the top; `name`: what the value is called; `called`: what
    the field itself is called, where that is another name than its value's, which is the column's."""

    column: tuple[str, ...]
    transform: Transform = Transform()
    name: str = ""
    called: str = ""

    @property
    def own_name(self) -> str:
        return self.called or self.name

    @property
    def text(self) -> str:
        """As it stands in PARTITIONED BY."""
        return self.transform.sql(".".join(quote(part) for part in self.column))

    @property
    def identity(self) -> bool:
        """Whether the value is that of a top-level column as it is."""
        return self.transform.name == IDENTITY and len(self.column) == 1


@dataclass(frozen=True)
class SortField:
    """One part of a table's sort order, as WRITE ORDERED BY gives it."""

    column: tuple[str, ...]
    transform: Transform = Transform()
    ascending: bool = True
    nulls_first: bool = True

    @property
    def text(self) -> str:
        value = self.transform.sql(".".join(quote(part) for part in self.column))
        return f"{value} {'ASC' if self.ascending else 'DESC'} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


def partition_by(fields: tuple[PartitionField, ...]) -> list[str]:
    """As the history tells it: the names of columns, and what other fields are made of."""
    return [field.name if field.identity else field.text for field in fields]


def identity_columns(fields: tuple[PartitionField, ...]) -> tuple[str, ...]:
    """The columns by whose values the table is partitioned, as they are."""
    return tuple(field.column[0] for field in fields if field.identity)


def identities(columns: tuple[str, ...]) -> tuple[PartitionField, ...]:
    """The partitioning by the values of top-level columns."""
    return tuple(PartitionField((column,), Transform(), column) for column in columns)
