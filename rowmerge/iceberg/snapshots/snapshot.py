"""One version of an Iceberg table, as the engine reads it.

A version is a snapshot, and its number is the id of the snapshot. These ids have no order: only parent ids order the versions. A new
definition (columns, partitioning, order, properties) does not require a new snapshot. So two states of a table may have the same `version`,
but they differ in `Snapshot.identity`.

Old files may have other partition transforms than new files. Data files contain the partition columns (`partition_values_in_files`), and
folder names have no meaning. Readers find columns by field id (`by_field_id`).

The engine identifies deleted rows by their positions. Position-delete files and deletion vectors contain positions. A Spark job looks up
the rows of equality deletes (`Snapshot.equality_deletes`). A commit writes one position-delete file for each data file, which replaces the
previous one. Since format version 3, a commit writes all its deletion vectors to one Puffin file instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import cached_property
from itertools import compress

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as t
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot as IcebergVersion

from rowmerge.errors import CorruptLog, MissingDataFile, UnsupportedTableFeature
from rowmerge.iceberg.catalogs.metadata_folder import CurrentMetadata
from rowmerge.iceberg.manifests.content import Entry, Manifest, ManifestContent
from rowmerge.iceberg.manifests.manifest_files import cache_key_of, is_cached, read_manifest_list
from rowmerge.iceberg.metadata.definition import evolve_schema
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.parsing import check_format_version
from rowmerge.iceberg.metadata.partition_values import partitioning_of, unpartitioned_spec_ids
from rowmerge.iceberg.metadata.properties import IcebergSettings, copied_files
from rowmerge.iceberg.metadata.refs import MAIN, transactions
from rowmerge.iceberg.metadata.registry import COMMENT, FORMAT_VERSION, NAME_MAPPING
from rowmerge.iceberg.metadata.shape import settings_of, table_shape
from rowmerge.iceberg.metadata.types import columns_of
from rowmerge.iceberg.snapshots.column_history import column_history
from rowmerge.iceberg.snapshots.equality_deletes import find_equality_deletes
from rowmerge.iceberg.snapshots.file_listing import exact_files, list_files
from rowmerge.iceberg.snapshots.live_files import (
    LiveFiles,
    ManifestFiles,
    ManifestKey,
    files_of_manifests,
    key_of_delete,
)
from rowmerge.iceberg.snapshots.metadata_columns import metadata_columns
from rowmerge.iceberg.snapshots.name_mapping import file_layouts
from rowmerge.iceberg.snapshots.partition_ranges import list_manifests, partition_ranges
from rowmerge.storage.store import Storage
from rowmerge.table.maintenance import IncompleteFile, missing_paths
from rowmerge.table.metadata.partitioning import identity_columns
from rowmerge.table.metadata.schema import Struct
from rowmerge.table.metadata.shape import TableShape
from rowmerge.table.snapshots.files import EqualityDeletes, FileLayout, FileListing, FileMask, MatchingFiles, Positions
from rowmerge.table.snapshots.metadata_columns import MetadataColumns
from rowmerge.table.snapshots.snapshot import ColumnHistory, FileDifference, Snapshot, TableDetails

_MAX_PARTIAL_READS = 16
"""The number of masks whose files a snapshot remembers, until it reads all manifests."""
THETA_SKETCH = "apache-datasketches-theta-v1"
"""The type of a blob with a sketch of the distinct values of a column ("Blob types" in the Puffin specification)."""
_FIRST_PYARROW_WITH_UUIDS = 21
"""The first release of pyarrow that writes Parquet's logical type UUID (apache/arrow, pull request 45866)."""


class IcebergSnapshot:
    """An Iceberg snapshot, which implements `rowmerge.table.snapshots.snapshot.Snapshot`. Its manifests are read when files are needed."""

    clustering_columns = ()

    def __init__(
        self,
        storage: Storage,
        name: str,
        current: CurrentMetadata,
        iceberg_version: IcebergVersion | None,
        schema: Schema,
        branch: str = MAIN,
        manifest_files: Mapping[ManifestKey, ManifestFiles] | None = None,
        write_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Initialize a snapshot without a request to the store.

        Args:
            storage: The store that contains the table.
            name: The name of the table in messages.
            current: The current metadata of the table, with the path of its file.
            iceberg_version: The snapshot's entry in the metadata; None for a table without snapshots.
            schema: The schema with which the snapshot is read.
            branch: The name of the branch, or `tag <name>`, that was opened.
            manifest_files: The live files of manifests that are not read again, because another snapshot has read them.
            write_properties: Properties that override those of the table in the statement that writes on this snapshot, or None.
        """
        self.storage = storage
        self.manifest_files: Mapping[ManifestKey, ManifestFiles] = manifest_files or {}
        """The live files of manifests that this snapshot or an earlier one has read, by `cache_key_of`."""
        self.name = name
        self.write_properties = write_properties or {}
        self.current = current
        self.metadata = current.metadata
        self.branch, self.iceberg_version, self.iceberg_schema = branch, iceberg_version, schema
        self.version = 0 if iceberg_version is None else iceberg_version.snapshot_id
        self.timestamp = current.metadata.last_updated_ms if iceberg_version is None else iceberg_version.timestamp_ms
        self.description = current.metadata.properties.get(COMMENT.name)
        # A table can change without a new snapshot, so the path of the metadata file is a part of the identity.
        self.identity = f"{self.metadata.table_uuid} {current.path} {self.version} {schema.schema_id}"
        self.table_id, self.history_key = str(self.metadata.table_uuid), _history_key(storage, branch)
        self._listings: dict[frozenset[str], FileListing] = {}
        self._partial_reads: deque[LiveFiles] = deque(maxlen=_MAX_PARTIAL_READS)
        """Files that masks selected, with all deletes that apply to them. Other data files of the snapshot are absent."""

    @cached_property
    def schema(self) -> Struct:
        return columns_of(self.iceberg_schema, self.name)

    @property
    def column_history(self) -> ColumnHistory:
        return column_history(self.metadata, self.iceberg_schema)

    @cached_property
    def shape(self) -> TableShape:
        return table_shape(self.name, self.storage, self.metadata, self.iceberg_schema, self.write_properties)

    @cached_property
    def settings(self) -> IcebergSettings:
        return settings_of(self.metadata, self.write_properties)

    @cached_property
    def partition_columns(self) -> tuple[str, ...]:
        """The identity partition columns; empty if a data manifest has a partition spec other than the current one."""
        columns = identity_columns(self.shape.partitioning)
        if not columns:
            return ()
        spec_ids = {manifest.spec_id for manifest in self.manifests if manifest.content is ManifestContent.DATA}
        return columns if spec_ids <= {self.metadata.default_spec_id} else ()

    @property
    def details(self) -> TableDetails:
        return TableDetails(str(self.metadata.table_uuid), properties={FORMAT_VERSION.name: str(self.metadata.format_version)})

    @cached_property
    def distinct_counts(self) -> Mapping[str, int]:
        """The number of distinct values of each column (`ndv`), which the statistics file of this snapshot has."""
        names = {column.field_id: column.name for column in self.iceberg_schema.fields}
        blobs = [blob for file in self.metadata.statistics if file.snapshot_id == self.version for blob in file.blob_metadata]
        sketches = [blob for blob in blobs if blob.type == THETA_SKETCH and len(blob.fields) == 1 and blob.fields[0] in names]
        counts = {names[blob.fields[0]]: (blob.properties or {}).get("ndv", "") for blob in sketches}
        return {name: int(count) for name, count in counts.items() if count.isdecimal()}

    def evolved(self, schema: Struct) -> TableShape:
        evolved_schema = evolve_schema(self.name, self.metadata, schema)
        return table_shape(self.name, self.storage, self.metadata, evolved_schema, self.write_properties)

    @cached_property
    def manifests(self) -> tuple[Manifest, ...]:
        """The manifests of the snapshot. The first access reads the manifest list. Raises CorruptLog, StorageError."""
        return () if self.iceberg_version is None else read_manifest_list(self.storage, self.iceberg_version.manifest_list)

    @cached_property
    def live(self) -> LiveFiles:
        """The live data files and delete files. The first access reads the manifests. Raises CorruptLog, StorageError."""
        live = self._read(self.manifests)
        self.manifest_files = live.files_by_key
        return live

    def _read(self, manifests: Sequence[Manifest]) -> LiveFiles:
        """Return the live files of some manifests. Raises CorruptLog, StorageError."""
        live = files_of_manifests(self.storage, manifests, unpartitioned_spec_ids(self.metadata), self.manifest_files)
        check_partitions(self.metadata, self.iceberg_version, live)
        return live

    def at(self, iceberg_version: IcebergVersion | None) -> IcebergSnapshot:
        """Return another version with the columns of this one."""
        return IcebergSnapshot(self.storage, self.name, self.current, iceberg_version, self.iceberg_schema, self.branch)

    def with_files(self, live: LiveFiles) -> IcebergSnapshot:
        """Return this snapshot with other files, such as those that one commit added. They need not be live any more."""
        snapshot = self.at(self.iceberg_version)
        snapshot.__dict__.update(live=live, manifests=live.manifests)
        return snapshot

    def files(self, columns: Collection[str] = ()) -> FileListing:
        bound_columns = frozenset(columns) & frozenset(self.schema.names)
        if bound_columns not in self._listings:
            check_formats(self.name, self.live)
            self._listings[bound_columns] = list_files(self.live, self.iceberg_schema, self.schema, self.metadata, bound_columns)
        return self._listings[bound_columns]

    def files_matching(self, mask: FileMask, columns: Collection[str] = ()) -> MatchingFiles:
        manifests = self._matching_manifests(mask)
        if len(manifests) == len(self.manifests):
            return MatchingFiles.of(self.files(columns), mask)
        live = self._read(manifests)
        self.manifest_files = {**self.manifest_files, **live.files_by_key}
        check_formats(self.name, live)
        listing = list_files(live, self.iceberg_schema, self.schema, self.metadata, frozenset(columns) & frozenset(self.schema.names))
        is_match = pc.fill_null(mask(listing), True)
        # Without the files that the mask excludes: their deletes may be in manifests that were not read.
        self._partial_reads.append(live.with_data(compress(live.data, is_match.to_pylist())))
        total_files = [manifest.live_files for manifest in self.manifests if manifest.content is ManifestContent.DATA]
        return MatchingFiles(listing.filter(is_match), None if None in total_files else sum(filter(None, total_files)), None)

    def _matching_manifests(self, mask: FileMask) -> Sequence[Manifest]:
        """Return the manifests that may have files that a mask selects, or all manifests if reading them costs nothing."""
        unread = [manifest for manifest in self.manifests if cache_key_of(manifest) not in self.manifest_files]
        if "live" in self.__dict__ or all(map(is_cached, unread)):
            return self.manifests
        ranges = partition_ranges(self.metadata.specs().values(), self.iceberg_schema, self.schema.names)
        is_match = pc.fill_null(mask(list_manifests(self.manifests, ranges)), True)
        return tuple(compress(self.manifests, is_match.to_pylist()))

    def _live_with(self, paths: Collection[str]) -> LiveFiles:
        """Return live files that include these data files and their deletes, from a partial read if possible."""
        if "live" not in self.__dict__:
            for partial_read in tuple(self._partial_reads):  # other threads append to the queue
                if partial_read.by_path(paths).keys() >= set(paths):
                    return partial_read
        return self.live

    def exact_files(self, columns: Collection[str] = ()) -> FileListing:
        return exact_files(self.live, self.iceberg_schema, self.files(columns))

    def difference(self, other: Snapshot) -> FileDifference:
        other_live = as_iceberg_snapshot(other).live
        paths, other_paths = set(self.live.paths), set(other_live.paths)
        own_entries, other_entries = self.live.by_path(paths - other_paths), other_live.by_path(other_paths - paths)
        sizes, other_sizes = (tuple(entry.file.size for entry in entries.values()) for entries in (own_entries, other_entries))
        return FileDifference(sizes, other_sizes)

    def layouts(self, paths: Sequence[str]) -> tuple[FileLayout, ...]:
        mapping = NAME_MAPPING.parse(self.metadata.properties)
        if mapping is None:
            return (FileLayout(tuple(paths), self.shape.stored_schema, True, ()),)
        entries, specs = self._live_with(paths).by_path(paths), self.metadata.partition_specs
        other_paths = [path for path in paths if path not in entries]
        columns = {spec.spec_id: identity_columns(partitioning_of(spec, self.iceberg_schema, self.name)) for spec in specs}
        return file_layouts(self.storage, self.shape, entries, other_paths, mapping, self.metadata.default_spec_id, columns)

    @cached_property
    def metadata_columns(self) -> MetadataColumns:
        return metadata_columns(self.metadata, self.shape.row_lineage, lambda paths: self._live_with(paths).by_path(paths))

    def deleted_positions(self, paths: Sequence[str]) -> dict[str, Positions]:
        live = self._live_with(paths)
        return live.deleted_positions(list(live.by_path(paths).values()))

    def deletes_by_file(self) -> dict[str, Hashable]:
        live = self.live
        deletes = ([*live.position_deletes_of(entry), *live.equality_deletes_of(entry)] for entry in live.data)
        return {path: frozenset(map(key_of_delete, each)) for path, each in zip(live.paths, deletes, strict=True)}

    def incomplete_files(self) -> list[IncompleteFile]:
        """Return the live data files that do not exist.

        Raises:
            MissingDataFile: A delete file does not exist.
            StorageError: The store failed.
        """
        delete_paths = {plain_path(entry.file.path) for entry in self.live.deletes}
        missing = missing_paths(self.storage, [*self.live.paths, *delete_paths])
        if lost_deletes := sorted(missing & delete_paths):
            raise MissingDataFile(self.name, lost_deletes[0])
        return [IncompleteFile(path, is_missing=True) for path in self.live.paths if path in missing]

    def equality_deletes(self, paths: Sequence[str]) -> tuple[EqualityDeletes, ...]:
        return find_equality_deletes(self.name, self._live_with(paths), paths, (self.iceberg_schema, *reversed(self.metadata.schemas)))

    @property
    def copied_files(self) -> frozenset[str]:
        return copied_files(self.metadata.properties)

    def has_transaction(self, application: str, version: int) -> bool:
        """Return whether an application has committed a transaction with this version or a higher one.

        Args:
            application: The name with which the application identifies its transactions.
            version: The number that the application assigned to the transaction.
        """
        return any(committed >= version for committed, _ in transactions(self.metadata, application))

    def check_features(self) -> None:
        """Raise UnsupportedTableFeature if pyarrow cannot write the UUID columns, or the catalog does not support the format version."""
        check_uuids(self.name, self.iceberg_schema)
        check_format_version(self.name, self.metadata.format_version, self.current.highest_format_version)

    def check_writable(self) -> None:
        self.check_features()
        self.current.check_write(self.name)


def _history_key(storage: Storage, branch: str) -> str:
    return storage.location if branch == MAIN else f"{storage.location}#{branch}"


def as_iceberg_snapshot(snapshot: Snapshot) -> IcebergSnapshot:
    """Return the same snapshot, typed as IcebergSnapshot. The engine's interfaces accept snapshots of any table format.

    Raises:
        TypeError: The snapshot belongs to another table format.
    """
    if not isinstance(snapshot, IcebergSnapshot):
        raise TypeError(f"{snapshot!r} is not a snapshot of an Iceberg table")
    return snapshot


def check_partitions(metadata: TableMetadata, snapshot: IcebergVersion | None, live: LiveFiles) -> None:
    """Check that the partition values of each manifest fit a partition spec of the table.

    Args:
        metadata: The metadata of the table.
        snapshot: The snapshot's entry in the metadata; None if `live` has no manifests.
        live: The live files of the snapshot.

    Raises:
        CorruptLog: A manifest has an unknown partition spec, or its files have more or fewer values than the spec has fields.
    """
    field_counts = {spec.spec_id: len(spec.fields) for spec in metadata.partition_specs}
    for manifest in live.manifests:
        if manifest.spec_id not in field_counts:
            assert snapshot is not None  # It has the manifest.
            reason = f"the manifest {manifest.path} has the partition spec id {manifest.spec_id}, which the table does not define"
            raise CorruptLog(plain_path(snapshot.manifest_list), reason)
        _check_value_count(manifest, live.entries_of(manifest), field_counts[manifest.spec_id])


def _check_value_count(manifest: Manifest, entries: Sequence[Entry], field_count: int) -> None:
    """Raise CorruptLog if files have more or fewer partition values than their spec has fields. Check only the first file."""
    value_count = len(entries[0].file.partition) if entries else field_count
    if value_count != field_count:
        reason = f"its files have {value_count} partition values, but its partition spec has {field_count} fields"
        raise CorruptLog(plain_path(manifest.path), reason)


def check_formats(table: str, live: LiveFiles) -> None:
    """Check that all data files are Parquet files.

    Args:
        table: The name of the table in messages.
        live: The live files of the snapshot.

    Raises:
        UnsupportedTableFeature: A data file has another format. The message contains its path.
    """
    for entry in live.data:
        if entry.file.format.upper() != "PARQUET":
            advice = "Rewrite its data files as Parquet files with the engine that wrote them."
            feature = f"format {entry.file.format.upper()} of the data file {entry.file.path}"
            raise UnsupportedTableFeature(table, feature, action="read", advice=advice)


def check_uuids(table: str, schema: Schema) -> None:
    """Check that the installed pyarrow can write the UUID columns of a schema.

    Older releases omit Parquet's logical type UUID, and other readers would see the column as `fixed[16]`.

    Args:
        table: The name of the table in messages.
        schema: The schema of the data files to write.

    Raises:
        UnsupportedTableFeature: The schema has a UUID column, and pyarrow cannot write it.
    """
    uuid_columns = [name for name in schema.column_names if isinstance(schema.find_type(name), t.UUIDType)]
    if uuid_columns and int(pa.__version__.split(".", 1)[0]) < _FIRST_PYARROW_WITH_UUIDS:
        feature = f"type uuid of the column {uuid_columns[0]} (pyarrow {pa.__version__})"
        advice = f"Install pyarrow {_FIRST_PYARROW_WITH_UUIDS} or newer, here and on Spark's executors."
        raise UnsupportedTableFeature(table, feature, action="write", advice=advice)
