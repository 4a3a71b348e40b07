"""Entries of manifests and manifest lists: data files, delete files, and the snapshots that added or deleted them (Iceberg spec)."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, ClassVar

UNASSIGNED = -1
"""The sequence number of new files before the commit. The sequence number of the snapshot replaces it."""

_NONE: Mapping[int, Any] = {}


class Content(IntEnum):
    """The kind of content of a file: rows, or deletes by position or by equality."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class ManifestContent(IntEnum):
    """The kind of content of the files in a manifest: rows, or deletes of either kind."""

    DATA = 0
    DELETES = 1


class Status(IntEnum):
    """The `status` of a manifest entry, relative to the snapshot that wrote the manifest."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, slots=True)
class ContentFile:
    """A data file or a delete file (the struct `data_file` of the Iceberg spec).

    Attributes:
        path, referenced_data_file: Paths as the manifest spells them. `plain_path` in `iceberg/metadata/locations.py` makes them
            comparable.
        records: The number of rows in a data file, or the number of deleted rows in a delete file.
        size: The size of the file in bytes.
        format: The file format in upper case: `PARQUET`, `PUFFIN`.
        partition: The values in the order of the partition spec's fields, None for null. `to_stored_value` in `manifests/bounds.py` shows
            their Python types. Years, months, days and hours are counted from 1970.
        column_sizes, value_counts, null_counts, nan_counts, lower, upper: Maps by field id, empty if the manifest has none. Bounds are
            single values (Iceberg spec, Appendix D).
    """

    content: Content
    path: str
    records: int
    size: int
    spec_id: int = 0
    partition: tuple[Any, ...] = ()
    format: str = "PARQUET"
    column_sizes: Mapping[int, int] = field(default_factory=lambda: _NONE)
    value_counts: Mapping[int, int] = field(default_factory=lambda: _NONE)
    null_counts: Mapping[int, int] = field(default_factory=lambda: _NONE)
    nan_counts: Mapping[int, int] = field(default_factory=lambda: _NONE)
    lower: Mapping[int, bytes] = field(default_factory=lambda: _NONE)
    upper: Mapping[int, bytes] = field(default_factory=lambda: _NONE)
    split_offsets: tuple[int, ...] = ()
    equality_ids: tuple[int, ...] = ()
    sort_order_id: int | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size: int | None = None
    first_row_id: int | None = None
    key_metadata: bytes | None = None

    @property
    def partition_key(self) -> tuple[Any, ...]:
        """Return the key of the file's partition: the spec and its values, with floats as bits (Iceberg spec, Scan Planning, note 3)."""
        return (self.spec_id, *(_bits(value) if isinstance(value, float) else value for value in self.partition))


def _bits(value: float) -> bytes:
    return struct.pack(">d", math.nan if math.isnan(value) else value)


@dataclass(frozen=True, slots=True)
class Entry:
    """One file in a manifest, with inherited values.

    `snapshot_id` is the id of the snapshot that added the file, or that deleted it if this is the entry's status. `sequence_number` is the
    age of its content, which decides which deletes apply. `file_sequence_number` is the age of the file. Both are UNASSIGNED before the
    commit.
    """

    status: Status
    snapshot_id: int
    sequence_number: int
    file_sequence_number: int
    file: ContentFile

    @classmethod
    def added(cls, file: ContentFile, snapshot_id: int, sequence_number: int = UNASSIGNED) -> Entry:
        """Return the entry of a file that a snapshot adds.

        Args:
            file: The data file or delete file.
            snapshot_id: The id of the snapshot.
            sequence_number: The sequence number of rows that are older than the snapshot; UNASSIGNED for new rows.
        """
        return cls(Status.ADDED, snapshot_id, sequence_number, UNASSIGNED, file)

    @property
    def live(self) -> bool:
        return self.status is not Status.DELETED

    def existing(self) -> Entry:
        """Return the entry of the same file in a later manifest."""
        return replace(self, status=Status.EXISTING)

    def deleted(self, snapshot_id: int) -> Entry:
        """Return the entry of the same file in the snapshot that deletes it."""
        return replace(self, status=Status.DELETED, snapshot_id=snapshot_id)


@dataclass(frozen=True, slots=True)
class PartitionSummary:
    """The summary of one partition field over the files of a manifest (Iceberg spec, Manifest Lists).

    Bounds are encoded according to Appendix D. They are None if all values are null or NaN.
    """

    contains_null: bool
    contains_nan: bool | None = None
    lower: bytes | None = None
    upper: bytes | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """An entry of a manifest list. It counts files and their rows by status. A count is None if an old writer omitted it.

    Sequence numbers are UNASSIGNED before the commit, and 0 in lists of format version 1. `min_sequence_number` is the minimum over live
    files.
    """

    COUNTS: ClassVar = ("added_files", "existing_files", "deleted_files", "added_rows", "existing_rows", "deleted_rows")
    """The attributes that are counts. Their names in the specification end in `_count`."""

    path: str
    length: int
    spec_id: int
    content: ManifestContent
    sequence_number: int
    min_sequence_number: int
    added_snapshot_id: int
    added_files: int | None = None
    existing_files: int | None = None
    deleted_files: int | None = None
    added_rows: int | None = None
    existing_rows: int | None = None
    deleted_rows: int | None = None
    partitions: tuple[PartitionSummary, ...] = ()
    key_metadata: bytes | None = None
    first_row_id: int | None = None

    @property
    def live_files(self) -> int | None:
        """The number of live files, or None if it is unknown."""
        return None if self.added_files is None or self.existing_files is None else self.added_files + self.existing_files

    @property
    def may_have_live_files(self) -> bool:
        return self.added_files != 0 or self.existing_files != 0
