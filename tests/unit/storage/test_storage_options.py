"""Credentials only in `storage_options` are used for metadata and data files, on the driver and on executors."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from rowmerge.delta import DeltaTable
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.parquet.file_writers import PartitionedWriter
from rowmerge.parquet.filesystems import open_data_file
from rowmerge.parquet.outcomes import OutcomeColumns
from rowmerge.parquet.rewriting import FileBin, write_bins
from rowmerge.spark.executors import bind_for_executors
from rowmerge.spark.matching import key_lookup
from rowmerge.spark.matching.driver_lookup import read_rows_with_keys
from rowmerge.spark.writing.sink import outcome_sink
from rowmerge.spark.writing.specs import write_spec
from rowmerge.spark.writing.write_output import discard, discard_attempt, discard_paths
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest, Committed
from rowmerge.table.maintenance import VacuumOptions
from rowmerge.table.metadata.schema import Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import AddedFile, FileChanges, Positions
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table
from tests.support.delta_tables import ID_NAME
from tests.support.faulty_s3 import FaultyS3, needs_moto
from tests.unit.spark.test_key_lookup import keys_of

pytestmark = needs_moto

FORMATS = pytest.mark.parametrize("format_", ["delta", "iceberg"])
ACCESS_KEY, SECRET_KEY = "AKIAONLYOPTIONS", "only-the-options-have-this-secret"
NO_SPARK: Any = None


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_") and name != "AWS_CA_BUNDLE"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def signed_s3(s3: FaultyS3) -> Iterator[FaultyS3]:
    """Yield a store, then verify that every request is signed with the key of the options."""
    yield s3
    assert s3.requests
    unsigned = [f"{request.method} {request.path}" for request in s3.requests if ACCESS_KEY not in request.headers.get("authorization", "")]
    assert unsigned == []


def table_at(s3: FaultyS3, format_: str) -> Table:
    options = {
        "aws_access_key_id": ACCESS_KEY,
        "aws_secret_access_key": SECRET_KEY,
        "aws_region": "us-east-1",
        "aws_endpoint_url": s3.address,
        "allow_http": "true",
    }
    storage = Storage(f"{s3.location}/{uuid.uuid4()}", options)
    return DeltaTable(storage, "s.t") if format_ == "delta" else IcebergTable(DirectoryOperations(storage, "s.t"), "s.t")


def data_files(snapshot: Snapshot, ids: Sequence[int]) -> tuple[AddedFile, ...]:
    writer = PartitionedWriter(write_spec(snapshot.shape))
    writer.write(pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array([f"n{i}" for i in ids])}))
    return tuple(AddedFile(**vars(file)) for file in writer.close())


def commit(table: Table, files: FileChanges) -> None:
    assert isinstance(table.commit(table.snapshot(), CommitRequest("WRITE", files=files)), Committed)


def create_table(s3: FaultyS3, format_: str) -> Table:
    """Create a table of two files with the ids 0 to 4 and 5 to 9."""
    table = table_at(s3, format_)
    assert isinstance(table.create(TableDefinition(ID_NAME, (), {}), CommitRequest("CREATE TABLE")), Committed)
    for ids in (range(5), range(5, 10)):
        commit(table, FileChanges(data_files(table.snapshot(), ids)))
    return table


def ids(snapshot: Snapshot) -> list[int]:
    file_ids: list[int] = []
    for path in snapshot.files().paths:
        with open_data_file(path, snapshot.shape.filesystem_options, by_field_id=False) as file:
            file_ids += file.read(["id"])["id"].to_pylist()
    return sorted(file_ids)


def objects(table: Table) -> list[str]:
    storage: Storage = table._storage if isinstance(table, DeltaTable) else table._operations.storage  # type: ignore[attr-defined]
    return [object_.path for object_ in storage.list() if object_.path.endswith(".parquet") and "checkpoint" not in object_.path]


@FORMATS
def test_all_operations_of_a_table_use_the_credentials(signed_s3: FaultyS3, format_: str) -> None:
    table = create_table(signed_s3, format_)
    snapshot = table.snapshot()
    assert ids(snapshot) == list(range(10))
    keys = keys_of(pa.table({"id": pa.array([3, 7, 70], pa.int64())}), {"id": ID_NAME.find("id").type}, {"id": "="})
    files = key_lookup._describe_files(NO_SPARK, snapshot, snapshot.files(), Struct(tuple(snapshot.schema)), lineage=None)
    assert files is not None and keys is not None
    columns = pa.schema([("id", pa.int64()), ("name", pa.string())])
    assert sorted(read_rows_with_keys("s.t", files, columns, keys)["name"].to_pylist()) == ["n3", "n7"]

    first, second = snapshot.files().paths
    deleted = dict.fromkeys((first, second), Positions([0]).serialize())
    (rewritten_file,) = write_bins(write_spec(snapshot.shape), [FileBin(deleted, {}, 0)], discard_paths)
    commit(table, FileChanges((AddedFile(**vars(rewritten_file)),), (first, second)))
    assert len(ids(table.snapshot())) == 8 and len(objects(table)) == 3
    table.vacuum(VacuumOptions(retain_hours=0, check_retention=False))
    assert len(objects(table)) == 1 and len(ids(table.snapshot())) == 8


@FORMATS
def test_files_of_failed_statements_and_jobs_are_deleted(signed_s3: FaultyS3, format_: str) -> None:
    table = create_table(signed_s3, format_)
    snapshot = table.snapshot()
    discard(data_files(snapshot, [1]), snapshot.shape.filesystem_options)
    spec = replace(write_spec(snapshot.shape), attempt="job")
    writer = PartitionedWriter(spec)
    writer.write(pa.table({"id": pa.array([1], pa.int64()), "name": pa.array(["a"])}))
    writer.close()
    assert len(objects(table)) == 3
    discard_attempt(spec)
    assert len(objects(table)) == 2


EXECUTOR = """
import pickle, sys
import pyarrow as pa
sys.modules["rowmerge"] = None
run = pickle.load(open(sys.argv[1], "rb"))
rows = pa.record_batch({"action": pa.array([3], pa.int8()), "id": pa.array([77], pa.int64()), "name": pa.array(["a"])})
(answer,) = run(iter([rows]))
open(sys.argv[2], "wb").write(answer["message"][0].as_py())
"""


def test_an_executor_without_environment_credentials_writes_to_the_store(signed_s3: FaultyS3, tmp_path: Any) -> None:
    table = create_table(signed_s3, "delta")
    spec = write_spec(table.snapshot().shape)
    assert SECRET_KEY not in repr(spec)
    function, message = tmp_path / "function", tmp_path / "message"
    function.write_bytes(
        cloudpickle.dumps(bind_for_executors(outcome_sink, spec, OutcomeColumns("action", new_columns=("id", "name")), None))
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_") or "METADATA" in name}
    subprocess.run([sys.executable, "-c", EXECUTOR, str(function), str(message)], check=True, env=environment)
    commit(table, FileChanges(tuple(AddedFile(**file) for file in pickle.loads(message.read_bytes())["message"]["files"])))
    assert ids(table.snapshot()) == [*range(10), 77]
