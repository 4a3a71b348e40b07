"""Statements that describe a partition or a column, list partitions, or print the statement that creates a table."""

from __future__ import annotations

from dataclasses import dataclass

from rowmerge.commands.names import SqlText, TableName

PartitionValues = tuple[tuple[str, SqlText], ...]
"""The fields of `PARTITION (field = value, …)` with their values."""


@dataclass(frozen=True)
class DescribePartition:
    """DESCRIBE [EXTENDED] table PARTITION (field = value, …)."""

    name: TableName
    partition: PartitionValues


@dataclass(frozen=True)
class DescribeColumn:
    """DESCRIBE [EXTENDED] table column. `extended`: whether the result also has the statistics of the column."""

    name: TableName
    column: str
    extended: bool = False


@dataclass(frozen=True)
class DescribeAsJson:
    """DESCRIBE EXTENDED table AS JSON."""

    name: TableName


@dataclass(frozen=True)
class ShowPartitions:
    """SHOW PARTITIONS table [PARTITION (field = value, …)]."""

    name: TableName
    partition: PartitionValues = ()


@dataclass(frozen=True)
class ShowTablePartition:
    """SHOW TABLE EXTENDED [IN schema] LIKE 'table' PARTITION (field = value, …)."""

    name: TableName
    partition: PartitionValues


@dataclass(frozen=True)
class ShowCreateTable:
    """SHOW CREATE TABLE name, of a table or a view."""

    name: TableName


TableListing = DescribePartition | DescribeColumn | DescribeAsJson | ShowPartitions | ShowTablePartition | ShowCreateTable
