"""Files on S3 in the folders that properties name: metadata in `write.metadata.path`, and no files in the folder of another table."""

from __future__ import annotations

import time
import uuid
from functools import partial
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from rowmerge.catalog import DirectoryCatalog, IcebergCatalog, TablesByPath
from rowmerge.errors import ConfigurationError
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest, Reads
from rowmerge.table.maintenance import ExpiryOptions
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges
from tests.support.delta_tables import ID_NAME, committed
from tests.support.faulty_s3 import FaultyS3, needs_moto
from tests.support.table_operations import write_rows


@needs_moto
@pytest.mark.parametrize("ending", ["", "/"])
def test_metadata_on_s3_is_in_the_folder(s3: FaultyS3, tmp_path: Path, ending: str) -> None:
    root = f"{s3.location}/{uuid.uuid4()}"
    access = {"s3.endpoint": s3.address, "s3.access-key-id": "testing", "s3.secret-access-key": "testing", "s3.region": "us-east-1"}
    configuration = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"{root}/w", **access}
    catalog = IcebergCatalog(configuration, None, partial(Storage, options=s3.options()))
    catalog.create_schema("raw")
    table, meta = catalog.new_table("raw", "t", "iceberg"), Storage(f"{root}/meta data", s3.options())
    meta.put("snap-of-another-table.avro", b"x")
    definition = TableDefinition(ID_NAME, (), {"write.metadata.path": f"{root}/meta data{ending}"}, None)
    committed(table.create(definition, CommitRequest("CREATE TABLE")))
    for ids in ([1, 2], [3]):
        snapshot = table.snapshot()
        files = FileChanges(write_rows(snapshot, ids), tuple(snapshot.files().paths))
        committed(table.commit(snapshot, CommitRequest("WRITE", files=files, reads=Reads())))
    names = [object_.path for object_ in meta.list()]
    assert len([name for name in names if name.endswith(".avro")]) == 6 and len([name for name in names if name.endswith(".json")]) == 3
    assert not Storage(f"{root}/w", s3.options()).list("raw/t/metadata")
    assert load_catalog("default", **configuration).load_table("raw.t").scan().to_arrow()["id"].to_pylist() == [3]
    time.sleep(0.005)
    expired = table.maintenance.expire(ExpiryOptions(older_than=time.time_ns() // 1_000_000, retain_last=1))
    assert (expired.data_files, expired.manifests, expired.manifest_lists) == (1, 1, 1)
    assert load_catalog("default", **configuration).load_table("raw.t").scan().to_arrow()["id"].to_pylist() == [3]
    catalog.drop_table("raw", "t")
    assert [object_.path for object_ in meta.list()] == ["snap-of-another-table.avro"]


@needs_moto
def test_a_folder_in_another_table_on_s3_is_rejected(s3: FaultyS3) -> None:
    root = f"{s3.location}/{uuid.uuid4()}"
    warehouse = DirectoryCatalog(Storage(root, s3.options()))
    other = warehouse.new_table("default", "other", "iceberg")
    committed(other.create(TableDefinition(ID_NAME, (), {}, None), CommitRequest("CREATE TABLE")))
    tables = TablesByPath(partial(Storage, options=s3.options()))
    for path in (other.location, f"{other.location}/data/x", f"{other.location}/".replace("s3:", "s3a:")):
        with pytest.raises(ConfigurationError, match=f"in the folder of another table, {other.location}"):
            tables.check_file_locations(warehouse, "default.t", f"{root}/default/t", {"write.data.path": path})
        tables.check_file_locations(warehouse, "default.other", other.location, {"write.data.path": path})
    s3.fail("GET", "", 403, times=1000)  # Without permission to list the folders, the check finds no table.
    tables.check_file_locations(warehouse, "default.t", f"{root}/default/t", {"write.data.path": f"{root}/elsewhere"})
