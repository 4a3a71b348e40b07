"""The interface of a snapshot: one version of a table, with its definition and its files."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rowmerge.table.metadata.schema import Struct
from rowmerge.table.metadata.settings import TableSettings
from rowmerge.table.metadata.shape import TableShape
from rowmerge.table.snapshots.files import EqualityDeletes, FileLayout, FileListing, FileMask, MatchingFiles, Positions
from rowmerge.table.snapshots.metadata_columns import MetadataColumns


@dataclass(frozen=True)
class FileDifference:
    """The sizes in bytes of the files that only one of two versions contains.

    `own_sizes`: of the files only in this version. `other_sizes`: of the files only in the other version.
    """

    own_sizes: tuple[int, ...]
    other_sizes: tuple[int, ...]


@dataclass(frozen=True)
class TableDetails:
    """What DESCRIBE shows of a table beside its definition.

    `id`: the unique id of the table. `created`: the time of its creation in milliseconds since the epoch, or None if the metadata lack it.
    `min_reader_version`, `min_writer_version`, `features`: the protocol of a Delta table; None and empty for other formats.
    `properties`: the properties of CREATE TABLE that the metadata contain elsewhere, such as `format-version`.
    """

    id: str
    created: int | None = None
    min_reader_version: int | None = None
    min_writer_version: int | None = None
    features: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


class RowFiles(Protocol):
    """The rows in the files of a table that a query can read: those of a snapshot, or its changes. The members are as in `Snapshot`."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    @property
    def schema(self) -> Struct: ...

    @property
    def partition_columns(self) -> tuple[str, ...]: ...

    def files(self, columns: Collection[str] = ()) -> FileListing: ...

    def files_matching(self, mask: FileMask, columns: Collection[str] = ()) -> MatchingFiles: ...


@dataclass(frozen=True)
class ColumnHistory:
    """The ids and the former names and types of columns that data files identify by id.

    `highest_id`: the highest id of all columns, also of dropped ones. `renamed`: whether a column had another name or place, or its name
    belonged to another column. `promoted`: whether a column had another type.
    """

    highest_id: int
    renamed: bool
    promoted: bool


class Snapshot(Protocol):
    """One version of a table. A snapshot is immutable and reads the metadata of files on first use."""

    @property
    def name(self) -> str:
        """The name of the table in messages: its name in the catalog, or its location."""

    @property
    def version(self) -> int:
        """The version number of a Delta table, or the snapshot id of an Iceberg table."""

    @property
    def timestamp(self) -> int:
        """The time at which this version was committed, in milliseconds since the epoch."""

    @property
    def identity(self) -> str:
        """A key that identifies this state of the table. It also changes if a new definition creates no new version."""

    @property
    def table_id(self) -> str:
        """The unique id of the table, which differs from that of an earlier table with the same name."""

    @property
    def history_key(self) -> str:
        """A key that identifies this version history: the table's location with the branch or tag."""

    @property
    def schema(self) -> Struct:
        """The columns of the table, as in `shape`."""

    @property
    def column_history(self) -> ColumnHistory | None:
        """The history of the columns of an Iceberg table, or None for a Delta table."""

    @property
    def shape(self) -> TableShape:
        """The columns, partitioning and data files of this version. Raises UnsupportedTableFeature if the engine cannot read them."""

    @property
    def settings(self) -> TableSettings:
        """The typed values of the table's properties."""

    @property
    def description(self) -> str | None:
        """The table's comment, or None if it has no comment."""

    @property
    def details(self) -> TableDetails:
        """The id of the table, the time of its creation, and its protocol."""

    @property
    def distinct_counts(self) -> Mapping[str, int]:
        """The estimated number of distinct values of top-level columns, by name, if statistics of exactly this version contain it."""

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns for which the listing of files contains the partition value of every file.

        These are the identity partition columns. The result is empty if a live file has an older partitioning.
        """

    @property
    def clustering_columns(self) -> tuple[str, ...]:
        """The columns by which another engine clusters the table. They are empty for most tables."""

    def files(self, columns: Collection[str] = ()) -> FileListing:
        """Return a listing of the live files (`listing_schema`), with the known bounds of these top-level columns.

        Raises CorruptLog, StorageError.
        """

    def files_matching(self, mask: FileMask, columns: Collection[str] = ()) -> MatchingFiles:
        """Return the live files that a mask selects. Files that the mask excludes by partition need not be read from the metadata.

        Args:
            mask: A mask that compares only bounds and partition values (`plan.pruning.file_pruning`). It is also evaluated on groups of
                files, with the partition values of each group as a range.
            columns: The top-level columns whose bounds the mask compares. The listing contains them.

        Raises:
            CorruptLog: The metadata of the files is damaged.
            StorageError: The store fails.
        """

    def exact_files(self, columns: Collection[str] = ()) -> FileListing:
        """Return the listing of `files`, in the same order, with only those statistics that are exact for the live rows.

        `records` and `deleted` are null if they are unknown. `nulls` are the null counts of the live rows. A file has bounds only if both
        are values of its live rows. Raises CorruptLog, StorageError.
        """

    def difference(self, other: Snapshot) -> FileDifference:
        """Return the sizes of the files that only one of two versions contains. Files with different deleted rows count as different."""

    def layouts(self, paths: Sequence[str]) -> tuple[FileLayout, ...]:
        """Return how these data files store the columns. Each result describes all files that store them in the same way.

        Raises UnsupportedTableFeature, MissingDataFile.
        """

    def deleted_positions(self, paths: Sequence[str]) -> dict[str, Positions]:
        """Return the positions of deleted rows, by the path of the file. Files without deleted rows are omitted."""

    def deletes_by_file(self) -> dict[str, Hashable]:
        """Return what identifies the deletion vector or delete files of each live data file, by path. Equal ones delete the same rows."""

    def equality_deletes(self, paths: Sequence[str]) -> tuple[EqualityDeletes, ...]:
        """Return the equality deletes that apply to these data files."""

    @property
    def metadata_columns(self) -> MetadataColumns:
        """The hidden columns of queries, and the properties of data files from which their values follow."""

    @property
    def copied_files(self) -> frozenset[str]:
        """The keys of the files that COPY INTO has loaded (`CommitRequest.copied_files`)."""

    def has_transaction(self, application: str, version: int) -> bool:
        """Return whether an application has committed a transaction (`CommitRequest.transaction`).

        Args:
            application: The id of the application.
            version: The version of the transaction. A committed transaction with a later version also counts.
        """

    def check_writable(self) -> None:
        """Raise UnsupportedTableFeature if a commit to the table needs a feature that the engine does not implement."""

    def evolved(self, schema: Struct) -> TableShape:
        """Return the shape of the table after a change of its schema. A commit with the new schema writes its files in this shape.

        Raises PlanError or UnsupportedTableFeature if the table cannot have the new schema.
        """
