"""Table operations without Spark: real Parquet files, written by the writer of every command, and real commits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rowmerge.delta import DeltaTable
from rowmerge.delta.snapshots import deletion_vectors
from rowmerge.execution import compaction
from rowmerge.execution.commit import Attempt, commit_with_retry
from rowmerge.execution.restore_and_clone import restore
from rowmerge.execution.result import Timings
from rowmerge.execution.row_counts import RowCounts
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.iceberg.deletes import position_deletes
from rowmerge.iceberg.manifests import manifest_files as manifests
from rowmerge.parquet.data_files import FileMessage
from rowmerge.parquet.file_writers import PartitionedWriter
from rowmerge.parquet.rewriting import FileBin, write_bins
from rowmerge.spark.writing.specs import write_spec
from rowmerge.spark.writing.write_output import discard_paths
from rowmerge.storage.cache import Cache
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest, Committed, Reads
from rowmerge.table.maintenance import VacuumOptions
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition, TableShape
from rowmerge.table.snapshots.files import AddedFile, FileChanges, Positions
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table
from tests.support.delta_tables import ID_NAME, live_rows
from tests.support.faulty_storage import Fault, FaultyStorage, serve

NO_SPARK: Any = None
"""For what small files do not need."""
NOW = VacuumOptions(retain_hours=0, check_retention=False)


def opened(folder: str, fault: Fault | None = None) -> DeltaTable:
    """Return a Delta table."""
    return DeltaTable(_storage(folder, fault), "s.t")


def opened_iceberg(folder: str, fault: Fault | None = None) -> IcebergTable:
    storage = _storage(folder, fault)
    return IcebergTable(DirectoryOperations(storage, "s.t"), "s.t")


def opened_any(folder: str, fault: Fault | None = None) -> Table:
    """Return the table of either format in a folder."""
    return opened_iceberg(folder, fault) if Path(folder, "metadata").is_dir() else opened(folder, fault)


def _storage(folder: str, fault: Fault | None) -> Storage:
    return Storage(folder) if fault is None else FaultyStorage(folder, fault)


def rows(table: Table) -> list[tuple[object, ...]]:
    """Return the rows of a table, read from its Parquet files."""
    return sorted(tuple(row.values()) for row in live_rows(table.snapshot()).to_pylist())


def built(folder: str, format_: str = "delta") -> None:
    """Create a table of twenty rows in two files, with one deleted row, a removed file, an old deletion vector and an unreferenced file."""
    table: Table = opened(folder) if format_ == "delta" else opened_iceberg(folder)
    definition = TableDefinition(ID_NAME, (), {"delta.enableDeletionVectors": "true"} if format_ == "delta" else {}, None)
    assert isinstance(table.create(definition, CommitRequest("CREATE TABLE")), Committed)
    for ids in (range(10), range(10, 20), range(20, 25)):
        _committed(table, lambda snapshot, ids=ids: CommitRequest("WRITE", files=FileChanges(write_rows(snapshot, ids))))  # type: ignore[misc]
    marked, _, removed_path = sorted(_paths(table.snapshot()), key=lambda path: _ids(path)[0])
    for positions in (Positions([0]), Positions([0, 1])):
        files = FileChanges(removed=(removed_path,) if len(positions) == 1 else (), deleted={marked: positions})
        _committed(table, lambda snapshot, files=files: CommitRequest("DELETE", files=files, reads=Reads(frozenset({marked}))))  # type: ignore[misc]
    Path(folder, "part-of-nobody.parquet").write_bytes(b"PAR1")


def write_rows(snapshot: Snapshot, ids: Sequence[int], name: str = "n") -> tuple[AddedFile, ...]:
    """Write data files with a row for each id, and return their entries."""
    return write_rows_for(snapshot.shape, ids, name)


def write_rows_for(shape: TableShape, ids: Sequence[int], name: str = "n") -> tuple[AddedFile, ...]:
    """Write data files with a row for each id, for a table that need not exist, and return their entries."""
    writer = PartitionedWriter(write_spec(shape))
    columns = {"id": pa.array(ids, pa.int64()), "name": pa.array([f"{name}{i}" for i in ids], pa.string())}
    writer.write(pa.table(columns | {other: pa.nulls(len(ids), pa.string()) for other in shape.schema.names[2:]}))
    return tuple(_added(file) for file in writer.close())


# ------------------------------------------------------------------ operations


def merge_on_read(table: Table) -> None:
    """Update rows 5 and 15 and insert row 100: two deletion vectors and one data file."""

    def change(snapshot: Snapshot) -> CommitRequest:
        paths = _paths(snapshot, records=10)
        old_positions = snapshot.deleted_positions(paths)
        deleted = {path: Positions([*old_positions.get(path, ()), 5]) for path in paths}
        return CommitRequest(
            "MERGE", files=FileChanges(write_rows(snapshot, (5, 15, 100), "new"), (), deleted), reads=Reads(frozenset(paths))
        )

    _committed(table, change)


def copy_on_write(table: Table) -> None:
    """Make the same changes by rewriting both files."""

    def change(snapshot: Snapshot) -> CommitRequest:
        paths = _paths(snapshot, records=10)
        old_positions = snapshot.deleted_positions(paths)
        spec = write_spec(snapshot.shape)
        deleted = {path: Positions([*old_positions.get(path, ()), 5]).serialize() for path in paths}
        again = [write_bins(spec, [FileBin({path: bitmap}, {}, 0)], discard_paths) for path, bitmap in deleted.items()]
        added = (*write_rows(snapshot, (5, 15, 100), "new"), *(_added(file) for files in again for file in files))
        return CommitRequest("MERGE", files=FileChanges(added, tuple(paths)), reads=Reads(frozenset(paths)))

    _committed(table, change)


def overwrite(table: Table) -> None:
    _committed(
        table,
        lambda snapshot: CommitRequest(
            "WRITE", files=FileChanges(write_rows(snapshot, range(50, 55)), tuple(_paths(snapshot))), reads=Reads()
        ),
    )


def replace(table: Table) -> None:
    """Run CREATE OR REPLACE TABLE … AS with one more column."""
    definition = TableDefinition(Struct((*ID_NAME.fields, Field("more", Primitive("string")))), (), {}, None)

    def change(snapshot: Snapshot) -> CommitRequest:
        files = FileChanges(write_rows(snapshot, (1, 2)), tuple(_paths(snapshot)))
        return CommitRequest("CREATE OR REPLACE TABLE AS SELECT", files=files, definition=definition, replace=True)

    _committed(table, change)


def add_column(table: Table) -> None:
    def change(snapshot: Snapshot) -> CommitRequest:
        schema = Struct((*snapshot.schema.fields, Field("more", Primitive("string"))))
        return CommitRequest("ADD COLUMNS", definition=TableDefinition(schema=schema))

    _committed(table, change)


def append_with_checkpoint(table: Table) -> None:
    """Append rows in a commit after which a checkpoint is due, or manifests are merged."""
    delta = isinstance(table, DeltaTable)
    properties = {"delta.checkpointInterval": "1"} if delta else {"commit.manifest.min-count-to-merge": "2"}
    _committed(table, lambda snapshot: CommitRequest("SET TBLPROPERTIES", definition=TableDefinition(properties=properties)))
    _committed(table, lambda snapshot: CommitRequest("WRITE", files=FileChanges(write_rows(snapshot, (200, 201)))))


def append(table: Table) -> None:
    _committed(table, lambda snapshot: CommitRequest("WRITE", files=FileChanges(write_rows(snapshot, (200, 201)))))


def optimize(table: Table) -> None:
    compaction.optimize(NO_SPARK, table, None)


def restore_rows(table: Table) -> None:
    """Restore the version before the first deletion."""
    version = 3 if isinstance(table, DeltaTable) else table.history()[2].version
    restore(table, {"version": version}, version=version, timestamp=None)


def vacuum(table: Table) -> None:
    table.vacuum(NOW)


def rewrite_manifests(table: Table) -> None:
    """Rewrite the manifests of an Iceberg table."""
    assert table.maintenance is not None
    table.maintenance.rewrite_manifests()


def publish(table: Table) -> None:
    """Stage appended rows, and publish them after another snapshot of the same rows has become current."""
    assert table.branches is not None and table.maintenance is not None
    staging_table = table.branches.staging_table("audit")
    parameters = {"mode": "Append"}
    _committed(staging_table, lambda snapshot: CommitRequest("WRITE", parameters, files=FileChanges(write_rows(snapshot, (200, 201)))))
    table.maintenance.rewrite_manifests()
    table.branches.publish(table.branches.staged_snapshot_id("audit"))


def append_with_sidecars(table: Table) -> None:
    """Append rows in a commit after which a V2 checkpoint is due."""
    properties = {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "1", **table.snapshot().settings.properties}
    _committed(table, lambda snapshot: CommitRequest("SET TBLPROPERTIES", definition=TableDefinition(properties=properties)))
    _committed(table, lambda snapshot: CommitRequest("WRITE", files=FileChanges(write_rows(snapshot, (200, 201)))))


OPERATIONS: dict[str, Callable[[Table], None]] = {
    operation.__name__: operation
    for operation in (
        merge_on_read,
        copy_on_write,
        overwrite,
        replace,
        add_column,
        append,
        append_with_checkpoint,
        optimize,
        restore_rows,
        vacuum,
    )
}


FORMAT_OF: dict[str, str] = {rewrite_manifests.__name__: "iceberg", publish.__name__: "iceberg", append_with_sidecars.__name__: "delta"}
"""The format of the operations that only one format has."""
_OF_ONE_FORMAT: dict[str, Callable[[Table], None]] = {
    operation.__name__: operation for operation in (rewrite_manifests, publish, append_with_sidecars)
}


def run(operation: str, folder: str, fault: Fault) -> None:
    """Run one operation on the table in a folder, with a newly opened table."""
    manifests._cache, manifests._own_files, position_deletes._cache = Cache(1_000_000), Cache(1_000_000), Cache(1_000_000)
    deletion_vectors._cache = Cache(1_000_000)
    (OPERATIONS | _OF_ONE_FORMAT)[operation](opened_any(folder, fault))


# ------------------------------------------------------------------ inside


def _committed(table: Table, change_for: Callable[[Snapshot], CommitRequest]) -> None:
    def attempt() -> Attempt:
        snapshot = table.snapshot()
        change = change_for(snapshot)
        return Attempt(snapshot, change, RowCounts(), change.files.added)

    commit_with_retry(table, attempt, Timings())


def _paths(snapshot: Snapshot, *, records: int = 0) -> list[str]:
    """Return the paths of the files with at least this number of rows."""
    return [file.path for file in snapshot.files().files() if (file.records or 0) >= records]


def _ids(path: str) -> list[int]:
    ids: list[int] = pq.read_table(path.removeprefix("file://"))["id"].to_pylist()
    return ids


def _added(file: FileMessage) -> AddedFile:
    return AddedFile(file.path, file.size, file.records, file.partition, file.lower, file.upper, file.nulls)


if __name__ == "__main__":
    serve(run)
