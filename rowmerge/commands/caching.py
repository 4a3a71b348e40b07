"""Statements about cached rows: CACHE TABLE, UNCACHE TABLE, CLEAR CACHE and REFRESH TABLE."""

from __future__ import annotations

from dataclasses import dataclass

from rowmerge.commands.names import SqlText, TableName


@dataclass(frozen=True)
class CacheTable:
    """CACHE [LAZY] TABLE name [OPTIONS ('storageLevel' = '…')] [AS query].

    `query`: the query of a new temporary view, or None for an existing table or view. `lazy`: whether the first read caches the rows
    instead of the statement. `storage_level`: the name of Spark's storage level, or None for the default.
    """

    name: TableName
    query: SqlText | None = None
    lazy: bool = False
    storage_level: str | None = None


@dataclass(frozen=True)
class UncacheTable:
    """UNCACHE TABLE [IF EXISTS] name."""

    name: TableName
    if_exists: bool = False


@dataclass(frozen=True)
class ClearCache:
    """CLEAR CACHE."""


@dataclass(frozen=True)
class RefreshTable:
    """REFRESH [TABLE] name. `may_be_path`: whether TABLE is missing, so that the name can be a path of Spark."""

    name: TableName
    may_be_path: bool = False


CacheCommand = CacheTable | UncacheTable | ClearCache | RefreshTable
