"""Properties that name or shape files have their effect on S3, where delta-rs and pyiceberg read the tables."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import uuid
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable

from rowmerge.catalog import DirectoryCatalog
from rowmerge.delta import DeltaTable
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.iceberg.catalogs.catalog_operations import CatalogOperations
from rowmerge.iceberg.catalogs.clients import CatalogClient
from rowmerge.parquet.file_writers import PartitionedWriter
from rowmerge.spark.writing.specs import write_spec
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.maintenance import VacuumOptions
from rowmerge.table.metadata.partitioning import identities
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import AddedFile, FileChanges
from rowmerge.table.table import Table
from tests.support.delta_tables import committed
from tests.support.faulty_s3 import FaultyS3, needs_moto

pytestmark = needs_moto

SCHEMA = Struct((Field("id", Primitive("long")), Field("p", Primitive("string"))))
NOW = VacuumOptions(retain_hours=0, check_retention=False)


def create(table: Table, properties: dict[str, str]) -> None:
    committed(table.create(TableDefinition(SCHEMA, identities(("p",)), properties, None), CommitRequest("CREATE TABLE")))


def append(table: Table, *ids: int, partition: str = "a b/c") -> None:
    snapshot = table.snapshot()
    writer = PartitionedWriter(write_spec(snapshot.shape))
    writer.write(pa.table({"id": pa.array(ids, pa.int64()), "p": [partition] * len(ids)}))
    files = FileChanges(tuple(AddedFile(**vars(file)) for file in writer.close()))
    committed(table.commit(snapshot, CommitRequest("WRITE", parameters={"mode": "Append"}, files=files)))


DELTA_RS = """
import json, sys, deltalake, pyarrow
table = deltalake.DeltaTable(sys.argv[1], storage_options=json.loads(sys.argv[2]))
print(sorted(pyarrow.table(deltalake.QueryBuilder().register("t", table).execute("select id from t").read_all())["id"].to_pylist()))
"""


def read_with_delta_rs(s3: FaultyS3, storage: Storage) -> list[int]:
    """Read in another process, because delta-rs holds the interpreter's lock, which the server in this process needs."""
    config = s3.options()["config"]
    options = {f"aws_{name}": str(value) for name, value in config.items() if isinstance(value, str)} | {"aws_allow_http": "true"}
    command = [sys.executable, "-c", DELTA_RS, storage.location, json.dumps(options)]
    ids: list[int] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return ids


def pyiceberg_options(s3: FaultyS3) -> dict[str, str]:
    return {"s3.endpoint": s3.address, "s3.access-key-id": "testing", "s3.secret-access-key": "testing", "s3.region": "us-east-1"}


def read_with_pyiceberg(s3: FaultyS3, metadata_path: str) -> list[int]:
    table = StaticTable.from_metadata(metadata_path, pyiceberg_options(s3))
    ids: list[int] = table.scan().to_arrow()["id"].to_pylist()
    return sorted(ids)


def create_bucket(s3: FaultyS3, name: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", s3.store)
    scope = "Credential=testing/20260101/us-east-1/s3/aws4_request"
    connection.request("PUT", f"/{name}", headers={"Authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=none"})
    assert connection.getresponse().status == 200
    connection.close()


def paths(storage: Storage, prefix: str = "") -> list[str]:
    return [listed.path for listed in storage.list(prefix)]


def manifest_lines(storage: Storage) -> Sequence[str]:
    return [line for path in paths(storage) if path.endswith("/manifest") for line in storage.get(path).decode().splitlines()]


def test_delta_tables_have_sidecars_random_folders_and_manifests(s3: FaultyS3) -> None:
    storage = Storage(f"{s3.location}/{uuid.uuid4()}", s3.options())
    table = DeltaTable(storage, "s.t")
    properties = {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2", "delta.randomizeFilePrefixes": "true"}
    create(table, {**properties, "delta.compatibility.symlinkFormatManifest.enabled": "true"})
    for id_ in range(4):
        append(table, id_, partition="a b/c" if id_ else "new")
    live_paths = sorted(table.snapshot().files().paths)
    assert all(len(path.removeprefix(f"{storage.location}/").split("/")) == 2 for path in live_paths), "a random folder, not p=…"
    assert sorted(manifest_lines(storage)) == live_paths
    assert len([path for path in paths(storage) if path.endswith("/manifest")]) == 2
    storage.delete([path for path in paths(storage) if path.endswith("/manifest")])
    assert table.symlink_manifests is not None
    assert table.symlink_manifests.generate() == 4
    assert sorted(manifest_lines(storage)) == live_paths
    assert len(paths(storage, "_delta_log/_sidecars")) == 2
    storage.delete([f"_delta_log/{version:020d}.json" for version in range(4)])
    table.vacuum(NOW)
    assert sorted(DeltaTable(storage, "s.t").snapshot().files().paths) == live_paths
    assert read_with_delta_rs(s3, storage) == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["write.data.path", "write.folder-storage.path", "write.object-storage.path"])
@pytest.mark.parametrize("bucket", ["lake", "second"])
def test_data_files_of_iceberg_tables_are_in_another_prefix_or_bucket(s3: FaultyS3, name: str, bucket: str) -> None:
    create_bucket(s3, "second")
    root = uuid.uuid4()
    catalog, elsewhere = (Storage(f"s3://{place}", s3.options()) for place in (f"lake/{root}/w", f"{bucket}/{root}/data"))
    elsewhere.put("precious", b"1")
    warehouse = DirectoryCatalog(catalog)
    table = warehouse.new_table("default", "t", "iceberg")
    create(table, {name: elsewhere.location, "write.object-storage.enabled": "true"})
    for id_ in (1, 2):
        append(table, id_)
    data_paths = table.snapshot().files().paths
    assert all(path.startswith(f"{elsewhere.location}/") and "/p=a+b%2Fc/" in path for path in data_paths)
    assert not [path for path in paths(catalog) if path.endswith(".parquet")]
    (metadata_path,) = [path for path in paths(catalog, "default/t/metadata") if path.endswith("v3.metadata.json")]
    assert read_with_pyiceberg(s3, f"{catalog.location}/{metadata_path}") == [1, 2]
    table.vacuum(NOW)
    assert len(paths(elsewhere)) == 3
    warehouse.drop_table("default", "t")
    assert paths(elsewhere) == ["precious"]


def test_staged_snapshots_are_published(s3: FaultyS3) -> None:
    storage = Storage(f"{s3.location}/{uuid.uuid4()}", s3.options())
    table = IcebergTable(DirectoryOperations(storage, "s.t"), "s.t")
    create(table, {"write.object-storage.enabled": "true"})
    append(table, 1)
    branches = table.branches
    append(branches.staging_table("audit"), 2)
    append(table, 3)
    branch = branches.table("later", create=True)
    append(branch, 4)
    branches.publish(branches.staged_snapshot_id("audit"))
    assert sorted(table.snapshot().files().paths) != sorted(branch.snapshot().files().paths)
    assert read_with_pyiceberg(s3, f"{storage.location}/{newest_metadata(storage)}") == [1, 2, 3]
    table.vacuum(NOW)
    assert read_with_pyiceberg(s3, f"{storage.location}/{newest_metadata(storage)}") == [1, 2, 3]
    assert len(branches.snapshot("later").files()) == 3


def newest_metadata(storage: Storage) -> str:
    return max(
        (path for path in paths(storage) if path.endswith(".metadata.json")), key=lambda path: int(path.split("/v")[-1].split(".")[0])
    )


def test_metadata_of_a_catalog_is_compressed(s3: FaultyS3, tmp_path: Path) -> None:
    location = f"{s3.location}/{uuid.uuid4()}"
    configuration = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": location, **pyiceberg_options(s3)}
    client = CatalogClient(configuration, partial(Storage, options=s3.options()))
    client.create_namespace("s", {})
    table = IcebergTable(CatalogOperations(client, "s", "t", f"{location}/s/t"), "s.t")
    create(table, {"write.metadata.compression-codec": "gzip", "write.metadata.previous-versions-max": "1"})
    for id_ in (1, 2, 3):
        append(table, id_)
    table.vacuum(NOW)
    loaded_table = load_catalog("default", **configuration).load_table("s.t")
    assert loaded_table.metadata_location.endswith(".gz.metadata.json")
    assert sorted(loaded_table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    metadata_paths = [path for path in paths(Storage(location, s3.options())) if path.endswith(".metadata.json")]
    assert len(metadata_paths) == 2 and all(path.endswith(".gz.metadata.json") for path in metadata_paths)
