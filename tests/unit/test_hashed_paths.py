"""Paths of data files for object stores, compared with the examples of Iceberg's own tests and with pyiceberg."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from pyiceberg.table.locations import load_location_provider

from rowmerge.parquet.partitions import HashedPaths


@dataclass(frozen=True)
class Folder:
    """The partition of a file, as pyiceberg's location providers take it."""

    path: str

    def to_path(self) -> str:
        return self.path


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a", "0101/0110/1001/10110010/a"),
        ("b", "1110/0111/1110/00000011/b"),
        ("c", "0010/1101/0110/01011111/c"),
        ("d", "1001/0001/0100/01110011/d"),
    ],
)
def test_hashes_are_those_of_iceberg(name: str, path: str) -> None:
    assert HashedPaths("", with_partitions=True).path("", name) == path


def test_a_path_without_partitions_joins_the_name_to_the_hash() -> None:
    assert HashedPaths("", with_partitions=False).path("day=1", "test.parquet") == "0110/1010/0011/11101000-test.parquet"


@pytest.mark.parametrize("with_partitions", [True, False])
@pytest.mark.parametrize("folder", ["", "day=2024-02-01/place=a+b"])
def test_paths_are_those_of_pyiceberg(with_partitions: bool, folder: str) -> None:
    properties = {"write.object-storage.enabled": "true", "write.object-storage.partitioned-paths": str(with_partitions).lower()}
    provider = load_location_provider("s3://bucket/db/t", properties)
    name = "part-00000-ä b.parquet"
    expected = provider.new_data_location(name, Folder(folder) if folder else None)  # type: ignore[arg-type]
    assert f"s3://bucket/db/t/data/{HashedPaths('', with_partitions).path(folder, name)}" == expected


@pytest.mark.parametrize("with_partitions", [True, False])
def test_a_path_outside_the_table_names_the_table_below_the_hash(with_partitions: bool) -> None:
    path = HashedPaths("db/t", with_partitions).path("day=1", "a")
    assert path[23:] == ("/db/t/day=1/a" if with_partitions else "/db/t/a")
