"""The two seams of a format: a Snapshot to read from, a Table to open and commit to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from rowmerge.errors import CommitConflict
from rowmerge.storage.configuration import FilesystemOptions
from rowmerge.table.codecs import ParquetSettings
from rowmerge.table.files import EqualityDeletes, FileChanges, FileLayout, Lineage, Positions, RowOrigin
from rowmerge.table.partitioning import Distribution, PartitionField, SortField
from rowmerge.table.retries import RetryPolicy
from rowmerge.table.rules import Rules
from rowmerge.table.schema import DataType, Struct

if TYPE_CHECKING:
    from rowmerge.table.change_feed import Bound, TableChanges
    from rowmerge.table.creation import CreationVersion
    from rowmerge.table.maintenance import SnapshotUpkeep

FileMask = Callable[[pa.Table], pa.Array | pa.ChunkedArray]
"""Given rows of a file listing, true for each file that may hold rows of interest."""


class WriteMode(Enum):
    """How deleted rows leave a file; the values of the table property `rowmerge.write.mode`."""

    COPY_ON_WRITE = "copy-on-write"
    MERGE_ON_READ = "merge-on-read"
    AUTO = "auto"


@dataclass(frozen=True)
class FileDifference:
    """Sizes in bytes of the files that only this version has, and that only the other has."""

    mine: tuple[int, ...]
    theirs: tuple[int, ...]


class Snapshot(Protocol):
    """One version of a table, immutable. Cheap to make; reads its files when asked."""

    @property
    def name(self) -> str:
        """For messages: the catalog's name, or the location."""

    @property
    def location(self) -> str:
        """Absolute, not percent-encoded, with its scheme and no slash at the end (`file:///w/analytics/orders`)."""

    @property
    def version(self) -> int:
        """Delta's version, Iceberg's snapshot id."""

    @property
    def timestamp(self) -> int:
        """Milliseconds since the epoch at which this version was committed."""

    @property
    def identity(self) -> str:
        """What no other state of the tables at this location has: a format's definition may change without a version."""

    @property
    def line(self) -> str:
        """What has versions one after the other: the table's location, with the branch when it is not the main one, or with the tag."""

    @property
    def schema(self) -> Struct: ...

    @property
    def stored_schema(self) -> Struct:
        """The same columns, in the same shape, as data files hold them: names may differ on every level, and fields may have a FIELD_ID."""

    @property
    def by_field_id(self) -> bool:
        """Whether columns are found in data files by their FIELD_ID alone, whatever their names there."""

    def can_widen(self, old: DataType, new: DataType) -> bool:
        """Whether a column or field of type `old` (a leaf) may become one of type `new` here, its files staying as they are."""

    @property
    def data_location(self) -> str:
        """The folder under which new data files are written, like `location`."""

    @property
    def filesystem_options(self) -> FilesystemOptions:
        """The arguments of Arrow's file systems that read and write the table's data files."""

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns whose values `files` tells in `partition`."""

    @property
    def partitioning(self) -> tuple[PartitionField, ...]:
        """What divides the rows of new data files."""

    @property
    def partition_values_in_files(self) -> bool:
        """Whether data files hold the columns that divide the rows, too. Else they are the `partition_columns`, as they are."""

    @property
    def ordering(self) -> tuple[SortField, ...]:
        """The order of rows in new data files; none for most tables."""

    @property
    def distribution(self) -> Distribution:
        """How new rows come together before they are written. Raises ConfigurationError."""

    def distribution_of(self, operation: str) -> Distribution | None:
        """The same for rows that an operation (`MERGE`, `UPDATE`, `DELETE`) writes; None where the table does not say."""

    @property
    def properties(self) -> Mapping[str, str]: ...

    @property
    def rules(self) -> Rules:
        """What every written row must satisfy. Raises UnsupportedTableFeature for a rule that is not understood."""

    @property
    def description(self) -> str | None: ...

    @property
    def can_mark_deleted(self) -> bool:
        """Whether a commit may leave rows in a file and mark them deleted (deletion vectors are on)."""

    def write_mode(self, operation: str) -> WriteMode:
        """How an operation (`MERGE`, `UPDATE`, `DELETE`, `WRITE`) takes rows out of files, from the table's properties.

        Raises ConfigurationError for a value that is none.
        """

    @property
    def rows_stay_for(self) -> str | None:
        """The feature for whose sake rows must stay in the files that hold them: a copy would lose its id. None: rows may be copied."""

    def isolation_level(self, operation: str) -> str:
        """Against what commits of others an operation is held: `Serializable`, `WriteSerializable`, … Raises ConfigurationError."""

    @property
    def retry_policy(self) -> RetryPolicy:
        """How often a lost race is run again. Raises ConfigurationError."""

    @property
    def change_rows_location(self) -> str | None:
        """Where commits write the rows that they change, before and after; None when the table does not keep them."""

    @property
    def evolves(self) -> bool:
        """Whether every MERGE and INSERT may add to the schema (`rowmerge.write.schema-evolution`, default false)."""

    def evolved(self, schema: Struct) -> Snapshot:
        """This version as it would be with another schema: what is written for the commit that brings the schema is written for this.

        Raises PlanError, UnsupportedTableFeature for a schema that the table cannot have.
        """

    @property
    def parquet(self) -> ParquetSettings:
        """How new data files are written. Raises ConfigurationError."""

    @property
    def target_file_size(self) -> int | None:
        """How many bytes a data file should have, None when the table does not say. Raises ConfigurationError."""

    @property
    def clustered_by(self) -> tuple[str, ...]:
        """The columns by which another engine keeps near rows in one file; none for most tables."""

    def files(self, columns: Collection[str] = ()) -> pa.Table:
        """The live files, as `rowmerge.table.files.file_listing` says, with bounds of these top-level columns where known.

        Raises CorruptLog, StorageError.
        """

    def difference(self, other: Snapshot) -> FileDifference:
        """How the files of this version differ from another's of the same table; a file with other deleted rows is another file."""

    def layouts(self, paths: Sequence[str]) -> tuple[FileLayout, ...]:
        """How these data files hold the columns, those that do it alike together. Raises UnsupportedTableFeature, MissingDataFile."""

    @property
    def gives_initial_values(self) -> bool:
        """Whether a column may be added with a default, which rows that are there then have."""

    @property
    def lineage(self) -> Lineage | None:
        """The hidden columns of what rows take along when they are written to another file; None: they take nothing along."""

    def row_origins(self, paths: Sequence[str]) -> Mapping[str, RowOrigin]:
        """What these data files give to their rows, where `lineage` is not None."""

    def deleted_positions(self, paths: Sequence[str]) -> dict[str, Positions]:
        """The rows of these files that are deleted by their positions, only of files that have any."""

    def equality_deletes(self, paths: Sequence[str]) -> tuple[EqualityDeletes, ...]:
        """What deletes rows of these files by their values."""

    def has_transaction(self, application: str, version: int) -> bool:
        """Whether an application has written this version of its own, or a later one (`Change.transaction`)."""

    def check_writable(self) -> None:
        """Raises UnsupportedTableFeature when a commit on this table would have to honour what we do not."""


@dataclass(frozen=True)
class TableDefinition:
    """What a table is apart from its rows. None = keep as it is."""

    schema: Struct | None = None
    partitioning: tuple[PartitionField, ...] | None = None
    properties: Mapping[str, str] | None = None
    description: str | None = None
    checks: Mapping[str, str] | None = None
    """CHECK constraints, SQL text by name: all that there are to be."""
    ordering: tuple[SortField, ...] | None = None
    distribution: Distribution | None = None


@dataclass(frozen=True)
class TableShape:
    """What the writer of data files must know of a table that a new definition is about to make."""

    name: str
    location: str
    data_location: str
    schema: Struct
    partition_columns: tuple[str, ...]
    partitioning: tuple[PartitionField, ...]
    partition_values_in_files: bool
    stored_schema: Struct
    by_field_id: bool
    rules: Rules
    ordering: tuple[SortField, ...] = ()
    distribution: Distribution = Distribution.HASH
    target_file_size: int | None = None
    parquet: ParquetSettings = field(default_factory=ParquetSettings)
    filesystem_options: FilesystemOptions = field(default_factory=FilesystemOptions)


@dataclass(frozen=True)
class Reads:
    """What a command looked at, so that a format can tell whether a concurrent commit would have changed its outcome."""

    paths: frozenset[str] = frozenset()
    """Files whose rows the command read."""
    may_match: FileMask | None = None
    """Which files that others add would have been read too; None: none (a blind append)."""
    columns: tuple[str, ...] = ()
    """Columns whose bounds `may_match` looks at."""
    rows: Mapping[str, Positions] | None = None
    """Of the files in `paths` that have any, the rows that decided what is done without being changed by it. None: every row did."""
    matching: FileMask | None = None
    """Of the files that `may_match`, those that do hold rows which the command would have read: it reads them. They have no deleted
    rows. None: it cannot be told."""


@dataclass(frozen=True)
class Change:
    """One commit: what was done, what was read to do it, and what the table becomes."""

    operation: str
    """`MERGE`, `UPDATE`, `DELETE`, `WRITE`, `CREATE TABLE`, `CREATE TABLE AS SELECT`, `CREATE OR REPLACE TABLE AS SELECT`, …"""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    files: FileChanges = field(default_factory=FileChanges)
    reads: Reads = field(default_factory=Reads)
    definition: TableDefinition | None = None
    replace: bool = False
    """The whole table is replaced: all live files leave, `definition` is complete."""
    restored: Snapshot | None = None
    """The version whose files, schema and properties come back, instead of `files` and `definition`."""
    cloned: Snapshot | None = None
    """A version of another table, whose files, schema and properties this one gets, the `definition`'s properties above them. `replace`:
    there is a table already."""
    data_change: bool = True
    transaction: tuple[str, int] | None = None
    """(application id, version) for exactly-once writers."""

    @property
    def changes_nothing(self) -> bool:
        """Whether the table would be the same after it."""
        return self.files.empty and self.definition is None and not self.replace and self.restored is None and self.cloned is None


@dataclass(frozen=True)
class Committed:
    """`rebases`: how many of the commits that came first changed files that this one marks too, deleting other rows in them."""

    version: int
    rebases: int = 0


@dataclass(frozen=True)
class Conflicted:
    conflict: CommitConflict


@dataclass(frozen=True)
class Unknown:
    """A put failed after it may have happened."""

    reason: str


Outcome = Committed | Conflicted | Unknown


@dataclass(frozen=True)
class HistoryEntry:
    """One commit as DESCRIBE HISTORY shows it."""

    version: int
    timestamp: int
    operation: str
    parameters: Mapping[str, str]
    metrics: Mapping[str, str]
    read_version: int | None = None
    isolation_level: str | None = None
    is_blind_append: bool | None = None
    engine: str | None = None


@dataclass(frozen=True)
class VacuumOptions:
    """`retain_hours`: None for the table's own retention, which a shorter one is checked against; `record`: tell it in the history."""

    retain_hours: float | None = None
    dry_run: bool = False
    check_retention: bool = True
    record: bool = True


@dataclass(frozen=True)
class Vacuumed:
    """The absolute paths of the files that were deleted, or would be, and the table's version afterwards."""

    paths: tuple[str, ...]
    version: int


class Table(Protocol):
    """A table at a location, opened by its format."""

    @property
    def location(self) -> str: ...

    def exists(self) -> bool: ...

    def snapshot(self) -> Snapshot:
        """The newest version. Raises TableNotFound, CorruptLog, UnsupportedTableFeature."""

    def branch(self, name: str) -> Table:
        """The table as a branch has it: its newest snapshot is the branch's, and what is committed moves the branch alone.

        Raises VersionNotFound with near names, PlanError for a tag and for a format without branches.
        """

    def at(self, reference: str) -> Snapshot:
        """The newest version of a branch, with the columns that the table has now, or a tag's version, with its own.

        Raises VersionNotFound, PlanError for a format without branches and tags.
        """

    def snapshot_at(self, *, version: int | None = None, timestamp: int | None = None) -> Snapshot:
        """A version by number, or the newest one committed at or before a time (ms since the epoch). Raises VersionNotFound."""

    def shape(self, definition: TableDefinition, base: Snapshot | None = None, *, replace: bool = False) -> TableShape:
        """The table as a definition will make it: a new one, or `base` changed, or with `replace` replaced.

        Its schema says how columns are held in files, so what is committed after files were written must be this one. Raises what
        `create` and `commit` raise of a definition.
        """

    def creation_version(self) -> CreationVersion | None:
        """Return what `create` compares, None if the table exists. Read it before you write data files.

        Raises AlreadyExists if the folder has a table of another format or a view, CorruptLog, StorageError."""

    def create(self, definition: TableDefinition, change: Change, version: CreationVersion | None = None) -> Outcome:
        """Commit the first version of a table that does not exist. Return Conflicted if others created the table first.

        `version`: what `creation_version` returned before the data files of `change` were written. If others have created and dropped a
        table since, their DROP may delete these files by their age. Then the outcome is Conflicted, too. None: there are no data files.
        """

    def commit(self, base: Snapshot, change: Change) -> Outcome:
        """Make `change`, planned on `base`, the table's next version, after others' commits where they do not conflict.

        Raises RowmergeError only when it is certain that nothing was committed: callers then delete the files of the change. `create` too.
        """

    def version_of_transaction(self, application: str, version: int) -> int | None:
        """The version of the table that an application's transaction made; None when the history does not reach back to it."""

    def changes(self, newest: Snapshot, first: Bound, last: Bound | None) -> TableChanges:
        """The change rows of a range of versions, both ends included, of which `newest` is taken for the last there is.

        A time stands for the first version at or after it as `first`, for the last at or before it as `last`. Raises ChangesNotRecorded,
        VersionNotFound, IncompatibleSchemaChange, PlanError for a range that ends before it begins, CorruptLog.
        """

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """Newest first."""

    @property
    def upkeep(self) -> SnapshotUpkeep | None:
        """What can be done to the list of snapshots; None for a format that has none, and does its upkeep in other ways."""

    def vacuum(self, options: VacuumOptions) -> Vacuumed:
        """Delete the files that no version within the retention needs. Raises PlanError for a retention that is not safe, StorageError."""
