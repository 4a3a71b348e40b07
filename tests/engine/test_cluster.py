"""A standalone cluster: workers whose Python lacks rowmerge, folders that they do not share, lost executors, and errors."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.readers import read_with_delta_rs, read_with_pyiceberg
from tests.support.standalone import DRIVER_SETTINGS, Driver, StandaloneCluster, worker_python

pytestmark = pytest.mark.one_of("format_")
FORMATS = pytest.mark.parametrize("format_", ["delta", "iceberg"])
FULL_SUITE = pytest.mark.full_suite("The start of a cluster takes long. The gate runs statements on one.")
IS_ROOT = os.geteuid() == 0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    cluster = StandaloneCluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.close()


@pytest.fixture
def connect(cluster: StandaloneCluster, tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    """Yield a function that starts a driver, whose warehouse is `tmp_path / "warehouse"`. Its arguments are settings."""
    drivers: list[Driver] = []

    def start(**settings: str) -> Driver:
        names = {name.replace("_", "."): value for name, value in settings.items()}
        defaults = {**DRIVER_SETTINGS, "spark.master": cluster.master, "spark.pyspark.python": worker_python()}
        drivers.append(Driver(str(tmp_path / "warehouse"), {**defaults, **names}))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.close()


def files_of(folder: Path, pattern: str) -> list[Path]:
    return [path for path in folder.rglob(pattern) if path.is_file()]


def read(warehouse: Path, format_: str, name: str) -> list[dict[str, Any]]:
    location = (warehouse / "default" / name).as_uri()
    rows: list[dict[str, Any]] = (read_with_delta_rs if format_ == "delta" else read_with_pyiceberg)(location).to_pylist()
    return sorted(rows, key=json.dumps)


@FORMATS
def test_workers_without_rowmerge_run_statements_from_a_profile_alone(connect: Callable[..., Driver], tmp_path: Path, format_: str) -> None:
    driver = connect()
    properties = (
        "tblproperties ('delta.enableChangeDataFeed' = 'true', 'rowmerge.writeMode' = 'merge-on-read')" if format_ == "delta" else ""
    )
    driver.sql(f"create table t using {format_} {properties} as select id, id as v from range(0, 30000, 1, 3)")
    driver.sql("insert into t select id, id from range(30000, 40000, 1, 2)")
    source = "select id, -1L as v from range(35000, 45000, 1, 2)"
    driver.sql(
        f"merge into t using ({source}) s on t.id = s.id when matched then update set v = s.v + t.v - t.v when not matched then insert *"
    )
    driver.sql("delete from t where id % 3 = 0 and v >= 0")
    driver.sql("optimize t" if format_ == "delta" else "call rewrite_data_files(table => 't')")
    expected = [{"id": n, "v": -1 if n >= 35_000 else n} for n in range(45_000) if n % 3 or n >= 35_000]
    assert read(tmp_path / "warehouse", format_, "t") == sorted(expected, key=json.dumps)
    assert not files_of(tmp_path, "*.marker")
