"""One version of a table: its definition and its files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rowmerge.table.metadata.schema import Struct
from rowmerge.table.metadata.settings import TableSettings
from rowmerge.table.metadata.shape import TableShape
from rowmerge.table.snapshots.files import EqualityDeletes, FileLayout, FileListing, Positions, RowOrigin


@dataclass(frozen=True)
class FileDifference:
    """The sizes in bytes of the files that only this version has, and of those that only the other version has."""

    own_sizes: tuple[int, ...]
    other_sizes: tuple[int, ...]


class Snapshot(Protocol):
    """One version of a table, immutable. It reads the metadata of files on first use."""

    @property
    def name(self) -> str:
        """The name of the table in messages: the catalog's name, or the location."""

    @property
    def version(self) -> int:
        """The version of a Delta table, or the snapshot id of an Iceberg table."""

    @property
    def timestamp(self) -> int:
        """The time of the commit of this version, in milliseconds since the epoch."""

    @property
    def identity(self) -> str:
        """A key of this state of the table at its location. It also changes with a new definition that makes no new version."""

    @property
    def history_key(self) -> str:
        """A key of this version history: the table's location with the branch or tag."""

    @property
    def schema(self) -> Struct:
        """The columns, as in `shape`."""

    @property
    def shape(self) -> TableShape:
        """The columns, the partitioning and the layout of data files. Raises UnsupportedTableFeature."""

    @property
    def settings(self) -> TableSettings:
        """The typed values of the table's properties."""

    @property
    def description(self) -> str | None:
        """The table's comment."""

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns whose values are in `partition` of every file in `files`.

        These are the identity partition columns, unless a live file has an older partitioning.
        """

    @property
    def clustering_columns(self) -> tuple[str, ...]:
        """The columns by which another engine clusters the rows of files, empty for most tables."""

    def files(self, columns: Collection[str] = ()) -> FileListing:
        """Return the live files in the schema of `listing_schema`, with the known bounds of these top-level columns.

        Raises CorruptLog, StorageError.
        """

    def difference(self, other: Snapshot) -> FileDifference:
        """Return the sizes of the files that only one of two versions has. A file with other deleted rows counts as another file."""

    def layouts(self, paths: Sequence[str]) -> tuple[FileLayout, ...]:
        """Return how these data files store the columns, grouped by equal layouts. Raises UnsupportedTableFeature, MissingDataFile."""

    def deleted_positions(self, paths: Sequence[str]) -> dict[str, Positions]:
        """Return the positions of deleted rows by the path of the file, without files that have none."""

    def equality_deletes(self, paths: Sequence[str]) -> tuple[EqualityDeletes, ...]:
        """Return the equality deletes that apply to these files."""

    def row_origins(self, paths: Sequence[str]) -> Mapping[str, RowOrigin]:
        """Return the row ids and versions of the rows in these data files, for a table with `shape.row_lineage`."""

    def has_transaction(self, application: str, version: int) -> bool:
        """Return whether a transaction of an application is committed (`CommitRequest.transaction`).

        Args:
            application: The id of the application.
            version: The version of the transaction. A committed transaction with a later version counts, too.
        """

    def check_writable(self) -> None:
        """Raise UnsupportedTableFeature if a commit to the table would need a feature that the engine does not implement."""

    def evolved(self, schema: Struct) -> TableShape:
        """Return the shape of the table after a change of its schema. A commit with the new schema writes its files for this shape.

        Raises PlanError, UnsupportedTableFeature for a schema that the table cannot have.
        """
