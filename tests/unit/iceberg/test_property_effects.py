"""Properties of manifests, expiry and delete files change the metadata and files, which pyiceberg reads."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable
from pyiceberg.table.update import SetPropertiesUpdate, SetSnapshotRefUpdate

from rowmerge.iceberg.maintenance.expiry import expiry_updates
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.maintenance import ExpiryOptions
from rowmerge.table.metadata.shape import TableDefinition
from tests.support.delta_tables import committed
from tests.support.iceberg_lake import DAY, Lake
from tests.support.parquet_pages import pages_of
from tests.support.readers import newest_metadata, read_with_duckdb_iceberg, read_with_pyiceberg

EXPIRY = "history.expire"


def lake_with(folder: Path, properties: Mapping[str, str], appends: int = 6) -> Lake:
    """Return a table with one snapshot and one data file for each append. File n begins with the id 100 * n."""
    lake = Lake(folder / "t")
    lake.create(properties)
    for number in range(appends):
        lake.append(range(100 * number, 100 * number + 100))
    return lake


def opened_by_pyiceberg(lake: Lake) -> StaticTable:
    return StaticTable.from_metadata(newest_metadata(str(lake.folder)))


def assert_readable(lake: Lake, count: int) -> None:
    assert read_with_pyiceberg(str(lake.folder)).num_rows == read_with_duckdb_iceberg(str(lake.folder)).num_rows == count


def test_the_comment_is_the_description_of_the_table(tmp_path: Path) -> None:
    lake = lake_with(tmp_path, {"comment": "Orders of a day"})
    assert lake.table.snapshot().description == "Orders of a day"
    committed(lake.table.commit(lake.table.snapshot(), CommitRequest("COMMENT ON", definition=TableDefinition(description="All orders"))))
    assert opened_by_pyiceberg(lake).properties["comment"] == "All orders"
    assert_readable(lake, 600)


@pytest.mark.parametrize(
    ("properties", "manifest_counts"),
    [
        ({"commit.manifest.min-count-to-merge": "3"}, [1, 2, 1, 2, 1, 2]),
        ({"commit.manifest.min-count-to-merge": "3", "commit.manifest-merge.enabled": "false"}, [1, 2, 3, 4, 5, 6]),
        ({"commit.manifest.min-count-to-merge": "3", "commit.manifest.target-size-bytes": "1"}, [1, 2, 3, 4, 5, 6]),
    ],
)
def test_properties_determine_which_manifests_a_commit_merges(
    tmp_path: Path, properties: dict[str, str], manifest_counts: list[int]
) -> None:
    lake = lake_with(tmp_path, properties, appends=0)
    counts = []
    for number in range(6):
        lake.append([number])
        counts.append(len(opened_by_pyiceberg(lake).inspect.manifests()))
    assert counts == manifest_counts
    assert_readable(lake, 6)


def test_the_target_size_limits_merged_manifests(tmp_path: Path) -> None:
    lake = lake_with(tmp_path, {"commit.manifest-merge.enabled": "false"})
    (size, *_) = opened_by_pyiceberg(lake).inspect.manifests()["length"].to_pylist()
    properties = {
        "commit.manifest-merge.enabled": "true",
        "commit.manifest.min-count-to-merge": "2",
        "commit.manifest.target-size-bytes": str(int(size * 3.5)),
    }
    lake.update(SetPropertiesUpdate(updates=properties))
    lake.append([1000])
    manifests = opened_by_pyiceberg(lake).inspect.manifests()
    file_counts = [row["added_data_files_count"] + row["existing_data_files_count"] for row in manifests.to_pylist()]
    assert sorted(file_counts) == [1, 3, 3]
    assert_readable(lake, 601)


@pytest.mark.parametrize(
    ("properties", "remaining"),
    [
        ({}, 1),
        ({f"{EXPIRY}.min-snapshots-to-keep": "4"}, 4),
        ({f"{EXPIRY}.max-snapshot-age-ms": str(7 * DAY * 1000)}, 6),
        ({f"{EXPIRY}.max-snapshot-age-ms": str(DAY * 1000), f"{EXPIRY}.min-snapshots-to-keep": "2"}, 2),
    ],
)
def test_properties_determine_which_snapshots_expire_after_six_days(tmp_path: Path, properties: dict[str, str], remaining: int) -> None:
    lake = lake_with(tmp_path, properties)
    expire_after(lake, days=6)
    assert len(opened_by_pyiceberg(lake).inspect.snapshots()) == remaining
    assert_readable(lake, 600)


@pytest.mark.parametrize(("max_age", "names"), [(None, {"main", "audit", "v1"}), (7, {"main", "audit", "v1"}), (5, {"main"})])
def test_branches_and_tags_expire_at_the_age_of_the_property(tmp_path: Path, max_age: int | None, names: set[str]) -> None:
    lake = lake_with(tmp_path, {} if max_age is None else {f"{EXPIRY}.max-ref-age-ms": str(max_age * DAY * 1000)}, appends=2)
    first, second = lake.snapshots
    for name, kind, snapshot_id in (("audit", "branch", second), ("v1", "tag", first)):
        lake.update(SetSnapshotRefUpdate(ref_name=name, type=kind, snapshot_id=snapshot_id))
    expire_after(lake, days=6)
    assert set(opened_by_pyiceberg(lake).metadata.refs) == names
    assert_readable(lake, 200)


def expire_after(lake: Lake, days: int) -> None:
    """Commit the updates of an expiry that runs after some days."""
    now = time.time_ns() // 1_000_000 + days * DAY * 1000
    lake.update(*expiry_updates("s.t", lake.current.metadata, ExpiryOptions(), now))


def delete_files(lake: Lake) -> Iterator[str]:
    for file in opened_by_pyiceberg(lake).inspect.delete_files().to_pylist():
        yield str(file["file_path"]).removeprefix("file://")


def position_delete_file(folder: Path, properties: Mapping[str, str]) -> str:
    """Return the path of the position-delete file of 6,000 rows of one data file. Other readers have read the table."""
    lake = Lake(folder / "t")
    lake.create({f"write.delete.parquet.{name}": value for name, value in properties.items()})
    lake.append(range(10_000))
    lake.delete(*(id_ for id_ in range(10_000) if id_ % 5 < 3))
    assert_readable(lake, 4_000)
    (path,) = delete_files(lake)
    return path


def test_position_deletes_have_pages_and_dictionaries_of_the_properties(tmp_path: Path) -> None:
    path = position_delete_file(tmp_path / "plain", {})
    assert [page.version for page in pages_of(path, "file_path")] == [0, 1] and len(pages_of(path, "pos")) == 1
    path = position_delete_file(tmp_path / "own", {"dict-size-bytes": "1", "page-size-bytes": "4000"})
    assert max(page.size for page in pages_of(path, "file_path")) > 100_000, "pages of whole paths follow the dictionary"
    sizes = [page.size for page in pages_of(path, "pos")]
    assert len(sizes) > 5 and max(sizes) < 12_000


def test_the_level_changes_the_size_of_position_deletes(tmp_path: Path) -> None:
    sizes = [
        pq.read_metadata(position_delete_file(tmp_path / level, {"compression-codec": "gzip", "compression-level": level}))
        .row_group(0)
        .column(1)
        .total_compressed_size
        for level in ("1", "9")
    ]
    assert sizes[0] > sizes[1]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, {"id": (0, 99), "name": ("n0", "n99")}),
        ({"write.metadata.metrics.max-inferred-column-defaults": "1"}, {"id": (0, 99), "name": (None, None)}),
        ({"write.metadata.metrics.default": "counts"}, {"id": (None, None), "name": (None, None)}),
        (
            {"write.metadata.metrics.default": "none", "write.metadata.metrics.column.name": "truncate(2)"},
            {"id": (None, None), "name": ("n0", "n:")},
        ),
    ],
)
def test_manifests_have_the_bounds_that_the_metrics_select(
    tmp_path: Path, properties: dict[str, str], expected: dict[str, tuple[Any, Any]]
) -> None:
    lake = lake_with(tmp_path, properties, appends=1)
    (file,) = opened_by_pyiceberg(lake).inspect.files().to_pylist()
    metrics = file["readable_metrics"]
    assert {name: (metrics[name]["lower_bound"], metrics[name]["upper_bound"]) for name in expected} == expected
    assert (metrics["id"]["value_count"] is None) == (properties.get("write.metadata.metrics.default") == "none")
    assert_readable(lake, 100)
