"""Small Delta tables for tests: Parquet files as an engine would write them, and the live rows of a snapshot."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowmerge.delta import DeltaTable
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot
from rowmerge.parquet.fitting import to_table_rows
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest, Committed, Outcome, Reads
from rowmerge.table.metadata.partitioning import identities
from rowmerge.table.metadata.schema import FIELD_ID, Field, Primitive, Struct, arrow_schema, bare
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import AddedFile, FileChanges, Positions
from rowmerge.table.snapshots.snapshot import Snapshot

ID_NAME = Struct((Field("id", Primitive("long")), Field("name", Primitive("string"))))


class Lake:
    """A folder for Delta tables, with methods that write data files as another engine does."""

    def __init__(self, folder: Path | str, schema: Struct = ID_NAME, partition: tuple[str, ...] = ()) -> None:
        self.folder, self.schema, self.partition = Path(folder), schema, partition
        self.table = DeltaTable(Storage(str(folder)), "s.t")

    def create(self, *files: AddedFile, properties: Mapping[str, str] | None = None) -> Outcome:
        definition = TableDefinition(self.schema, identities(self.partition), properties or {}, None)
        return self.table.create(definition, CommitRequest("CREATE TABLE AS SELECT", files=FileChanges(added=files)))

    def file(self, ids: Sequence[int], folder: str = "", partition: Mapping[str, Any] | None = None) -> AddedFile:
        """Write a data file with columns `id` and `name`, and return its entry."""
        rows = pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array([f"n{i}" for i in ids], pa.string())})
        return self.write(rows, folder, partition)

    def write(self, rows: pa.Table, folder: str = "", partition: Mapping[str, Any] | None = None) -> AddedFile:
        """Write a data file with bounds of all columns that have a minimum, and return its entry."""
        path = self.folder / folder / f"{uuid.uuid4()}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, path)
        lower, upper = bounds(rows)
        nulls = {name: rows[name].null_count for name in rows.column_names if not pa.types.is_struct(rows[name].type)}
        return AddedFile(f"file://{path}", os.path.getsize(path), rows.num_rows, partition or {}, lower, upper, nulls)

    def append(self, ids: Sequence[int], *, base: DeltaSnapshot | None = None) -> Outcome:
        return self.commit("WRITE", added=(self.file(ids),), base=base)

    def commit(
        self,
        operation: str,
        *,
        added: tuple[AddedFile, ...] = (),
        removed: tuple[str, ...] = (),
        deleted: Mapping[str, Positions] | None = None,
        reads: Reads | None = None,
        base: DeltaSnapshot | None = None,
        **more: Any,
    ) -> Outcome:
        change = CommitRequest(operation, files=FileChanges(added, removed, deleted or {}), reads=reads or Reads(), **more)
        return self.table.commit(base or self.table.snapshot(), change)

    def ids(self) -> list[int]:
        return sorted(live_rows(self.table.snapshot())["id"].to_pylist())

    @property
    def log(self) -> Path:
        return self.folder / "_delta_log"


def delete_checksums(folder: Path | str) -> None:
    """Delete the checksums of a table whose log the test edits."""
    for path in Path(folder, "_delta_log").glob("*.crc"):
        path.unlink()


def committed(outcome: Outcome) -> int:
    """Return the version of an outcome, which must be a success."""
    assert isinstance(outcome, Committed), outcome
    return outcome.version


def bounds(rows: pa.Table) -> tuple[dict[str, Any], dict[str, Any]]:
    lower: dict[str, Any] = {}
    upper: dict[str, Any] = {}
    for name in rows.column_names:
        if not pa.types.is_nested(rows[name].type) and rows[name].null_count < rows.num_rows:
            extremes = pc.min_max(rows[name]).as_py()
            lower[name], upper[name] = extremes["min"], extremes["max"]
    return lower, upper


def live_rows(snapshot: Snapshot) -> pa.Table:
    """Return the live rows of a snapshot, read with pyarrow: without deleted positions, and with partition values."""
    schema = arrow_schema(snapshot.schema)
    files = snapshot.files()
    deleted = snapshot.deleted_positions(files.paths)
    parts = [schema.empty_table()]
    for file in files.files():
        rows = file_rows(snapshot, file.path, schema, {} if snapshot.shape.partition_values_in_files else file.partition or {})
        keep = np.ones(rows.num_rows, dtype=bool)
        keep[list(deleted.get(file.path, ()))] = False
        parts.append(rows.filter(pa.array(keep)))
    return pa.concat_tables(parts)


def file_rows(snapshot: Snapshot, path: str, schema: pa.Schema, partition: Mapping[str, Any]) -> pa.Table:
    """Return all rows of a data file, with the column names of the table."""
    rows = pq.ParquetFile(path[len("file://") :], coerce_int96_timestamp_unit="us").read()
    table_schema, file_schema = (arrow_schema(bare(s, metadata_keys=(FIELD_ID,))) for s in (snapshot.schema, snapshot.shape.stored_schema))
    return conformed(to_table_rows(rows, table_schema, file_schema, by_field_id=snapshot.shape.by_field_id), schema, partition)


def conformed(rows: pa.Table, schema: pa.Schema, partition: Mapping[str, Any]) -> pa.Table:
    """Return the rows in a schema: missing columns are NULL, partition columns get their values, and timestamps without a zone are UTC."""
    columns = []
    for field in schema:
        if field.name in partition:
            columns.append(pa.repeat(pa.scalar(partition[field.name], field.type), rows.num_rows))
        elif field.name in rows.column_names:
            columns.append(rows[field.name].cast(field.type))
        else:
            columns.append(pa.nulls(rows.num_rows, field.type))
    return pa.Table.from_arrays(columns, schema=pa.schema([field.with_nullable(True) for field in schema])).cast(schema)
