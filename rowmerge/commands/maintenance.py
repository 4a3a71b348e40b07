"""Statements that maintain a table: VACUUM, OPTIMIZE, REORG, RESTORE, GENERATE, ANALYZE, and those for branches, tags and caches."""

from __future__ import annotations

from dataclasses import dataclass

from rowmerge.commands.caching import CacheCommand
from rowmerge.commands.definitions import CloneTable, ColumnDefinition
from rowmerge.commands.names import SqlText, TableName
from rowmerge.commands.procedures import Call
from rowmerge.commands.rows import CopyInto


@dataclass(frozen=True)
class Vacuum:
    """VACUUM table [FULL | LITE] [USING INVENTORY table | (query)] [RETAIN n HOURS] [DRY RUN].

    If `retain_hours` is None, a property of the table sets the retention period. `lite`: whether only files that the log names are
    deleted. `inventory`: the table or the query in parentheses that lists the files, or None.
    """

    target: TableName
    retain_hours: float | None = None
    dry_run: bool = False
    lite: bool = False
    inventory: SqlText | None = None


@dataclass(frozen=True)
class Optimize:
    """OPTIMIZE table [WHERE condition]. The condition can use only partition columns."""

    target: TableName
    condition: SqlText | None = None


@dataclass(frozen=True)
class Reorg:
    """REORG TABLE table [WHERE condition] APPLY (PURGE)."""

    target: TableName
    condition: SqlText | None = None


@dataclass(frozen=True)
class Restore:
    """RESTORE TABLE table TO VERSION AS OF a `version` or a `reference` (a branch or tag), or TO TIMESTAMP AS OF a `timestamp`."""

    target: TableName
    version: int | None = None
    timestamp: SqlText | None = None
    reference: str | None = None


@dataclass(frozen=True)
class GenerateManifests:
    """GENERATE symlink_format_manifest FOR TABLE table."""

    target: TableName


@dataclass(frozen=True)
class SetReference:
    """ALTER TABLE table CREATE [OR REPLACE] | REPLACE BRANCH | TAG name [AS OF VERSION id] [RETAIN n DAYS] …, as in Iceberg's extensions.

    `tag`: whether the reference is a tag rather than a branch. `create` and `replace`: whether the statement may create a new reference,
    and whether it may replace an existing one. `version`: the id of the snapshot, or None for the newest one. `max_age`, `min_snapshots`
    and `max_snapshot_age` correspond to max-ref-age-ms, min-snapshots-to-keep and max-snapshot-age-ms. Ages are in milliseconds.
    """

    target: TableName
    name: str
    tag: bool
    create: bool = True
    replace: bool = False
    if_not_exists: bool = False
    version: int | None = None
    max_age: int | None = None
    min_snapshots: int | None = None
    max_snapshot_age: int | None = None


@dataclass(frozen=True)
class DropReference:
    """ALTER TABLE table DROP BRANCH | TAG [IF EXISTS] name. `tag`: whether the reference is a tag rather than a branch."""

    target: TableName
    name: str
    tag: bool
    if_exists: bool = False


@dataclass(frozen=True)
class AnalyzeTable:
    """ANALYZE TABLE table [PARTITION (…)] COMPUTE STATISTICS [NOSCAN | FOR COLUMNS … | FOR ALL COLUMNS].

    `partition`: the partition fields with their values, None for a field without a value. `columns`: those after FOR COLUMNS.
    """

    target: TableName
    partition: tuple[tuple[str, SqlText | None], ...] = ()
    columns: tuple[str, ...] = ()
    all_columns: bool = False


@dataclass(frozen=True)
class AnalyzeTables:
    """ANALYZE TABLES [IN schema] COMPUTE STATISTICS. `schema` is None for the current schema."""

    schema: str | None = None


@dataclass(frozen=True)
class ComputeDeltaStatistics:
    """ANALYZE TABLE table COMPUTE DELTA STATISTICS."""

    target: TableName


@dataclass(frozen=True)
class ConvertToDelta:
    """CONVERT TO DELTA parquet.`path` [NO STATISTICS] [PARTITIONED BY (column type, …)], iceberg.`path`, or the name of a table.

    `source`: the format and the folder of the files, or the name of a table.
    """

    source: TableName
    partitioned_by: tuple[ColumnDefinition, ...] = ()
    has_statistics: bool = True


@dataclass(frozen=True)
class RepairTable:
    """FSCK REPAIR TABLE table [DRY RUN]."""

    target: TableName
    dry_run: bool = False


@dataclass(frozen=True)
class CloneFiles(CloneTable):
    """CREATE [OR REPLACE] TABLE … CLONE parquet.`path` or iceberg.`path`. `source` has the format and the folder."""


@dataclass(frozen=True)
class DropFeature:
    """ALTER TABLE table DROP FEATURE feature [TRUNCATE HISTORY]."""

    target: TableName
    feature: str
    truncates_history: bool = False


AnalyzeCommand = AnalyzeTable | AnalyzeTables | ComputeDeltaStatistics
TableMaintenance = Vacuum | Optimize | Reorg | Restore | GenerateManifests | Call | SetReference | DropReference
MaintenanceCommand = TableMaintenance | AnalyzeCommand | CacheCommand | CopyInto | ConvertToDelta | RepairTable | DropFeature | CloneFiles
