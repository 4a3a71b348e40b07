"""The properties `write.delete.*` of Iceberg change position-delete files. pyiceberg and DuckDB read the remaining rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rowmerge.errors import ConfigurationError
from rowmerge.iceberg.manifests.content import ContentFile
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.properties import DeleteFileSettings, IcebergSettings, check_properties
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Reads
from rowmerge.table.metadata.parquet_settings import PageSettings
from rowmerge.table.metadata.settings import ParquetSettings
from rowmerge.table.snapshots.files import FileChanges, Positions
from tests.support.iceberg_lake import Lake
from tests.support.parquet_pages import pages_of
from tests.support.readers import read_with_duckdb_iceberg, read_with_pyiceberg


def lake_with(tmp_path: Path, properties: Mapping[str, str]) -> Lake:
    """Return a table with three files of 1,000 rows, whose ids begin at 0, 1000 and 2000."""
    lake = Lake(tmp_path / "t")
    lake.create(properties)
    for start in (0, 1000, 2000):
        lake.append(range(start, start + 1000))
    return lake


def delete_files(lake: Lake) -> list[ContentFile]:
    return [entry.file for entry in lake.table.snapshot().live.deletes]


def local_path(file: ContentFile) -> str:
    return plain_path(file.path).removeprefix("file://")


def assert_deleted(lake: Lake, *ids: int) -> None:
    expected = sorted(set(range(3000)) - set(ids))
    assert read_with_pyiceberg(str(lake.folder), "id")["id"].to_pylist() == expected
    assert read_with_duckdb_iceberg(str(lake.folder), "id")["id"].to_pylist() == expected


def test_delete_files_have_their_own_compression_row_groups_and_pages(tmp_path: Path) -> None:
    own = {
        "compression-codec": "gzip",
        "compression-level": "9",
        "row-group-size-bytes": "800",
        "page-row-limit": "30",
        "page-version": "v2",
    }
    lake = lake_with(tmp_path, {f"write.delete.parquet.{name}": value for name, value in own.items()})
    lake.delete(*range(250))
    (file,) = delete_files(lake)
    footer = pq.read_metadata(local_path(file))
    assert [footer.row_group(index).num_rows for index in range(footer.num_row_groups)] == [100, 100, 50] and len(file.split_offsets) == 3
    assert footer.row_group(0).column(1).compression == "GZIP"
    pages = pages_of(local_path(file), "pos")
    assert {page.version for page in pages} == {2} and max(page.values for page in pages) == 30
    assert pq.read_metadata(lake.paths[0].removeprefix("file://")).row_group(0).column(0).compression == "ZSTD"
    assert_deleted(lake, *range(250))


def test_delete_files_have_the_settings_of_data_files_by_default(tmp_path: Path) -> None:
    data = {"compression-codec": "snappy", "row-group-size-bytes": "1600", "page-version": "v2", "dict-size-bytes": "1"}
    lake = lake_with(tmp_path, {f"write.parquet.{name}": value for name, value in data.items()})
    lake.delete(*range(250))
    (file,) = delete_files(lake)
    footer = pq.read_metadata(local_path(file))
    assert [footer.row_group(index).num_rows for index in range(footer.num_row_groups)] == [200, 50]
    assert footer.row_group(0).column(1).compression == "SNAPPY"
    assert {page.version for page in pages_of(local_path(file), "pos")} == {2}
    assert_deleted(lake, *range(250))


def test_one_delete_file_contains_the_rows_of_a_partition(tmp_path: Path) -> None:
    lake = lake_with(tmp_path, {"write.delete.granularity": "partition"})
    lake.delete(1, 1001, 2001, 2002)
    (file,) = delete_files(lake)
    assert file.records == 4 and file.referenced_data_file is None
    assert sorted(set(pq.read_table(local_path(file))["file_path"].to_pylist())) == sorted(lake.paths)
    assert_deleted(lake, 1, 1001, 2001, 2002)
    lake.delete(3, 1003)
    assert sorted(file.records for file in delete_files(lake)) == [2, 4], "an older shared file stays, and its rows are not repeated"
    lake.delete(5)
    assert sorted((file.records, file.referenced_data_file is not None) for file in delete_files(lake)) == [
        (1, True),
        (2, False),
        (4, False),
    ]
    lake.remove(0)
    assert_deleted(lake, *range(1000), 1001, 1003, 2001, 2002)
    assert lake.table.maintenance.rewrite_position_deletes().added == 2, "the procedure writes a file for each data file"
    assert_deleted(lake, *range(1000), 1001, 1003, 2001, 2002)


def test_a_rebased_commit_writes_the_rows_of_a_partition_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = lake_with(tmp_path, {"write.delete.granularity": "partition"})
    lake.delete(7)  # a file of one data file, which later deletions replace
    other, commit, calls = Lake(lake.folder), lake.operations.commit, iter([True])

    def commit_second(*arguments: object) -> object:
        if next(calls, False):
            other.delete(8)
        return commit(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(lake.operations, "commit", commit_second)
    lake.delete(9, 1009, 2009)
    assert_deleted(lake, 7, 8, 9, 1009, 2009)
    (file,) = delete_files(lake)
    assert file.records == 5, "it replaces the file of the first data file"
    assert len(list(lake.folder.rglob("*-deletes.parquet"))) == 3, "the file of the attempt that lost the race is gone"


def test_rows_of_a_shared_delete_file_conflict_with_deletions_of_the_same_rows(tmp_path: Path) -> None:
    lake = lake_with(tmp_path, {"write.delete.granularity": "partition"})
    base = lake.table.snapshot()
    other = Lake(lake.folder)
    other.delete(7, 1007)
    first_path = next(path for path in lake.paths if lake.ids_in(path)[0] == 0)

    def deletion_of(position: int) -> CommitRequest:
        files = FileChanges(deleted={first_path: Positions([position])})
        return CommitRequest("DELETE", files=files, reads=Reads())

    assert isinstance(lake.table.commit(base, deletion_of(7)), Conflicted)
    assert isinstance(lake.table.commit(base, deletion_of(9)), Committed)
    assert_deleted(lake, 7, 9, 1007)


def test_delete_files_above_the_target_size_are_divided(tmp_path: Path) -> None:
    lake = lake_with(tmp_path, {"write.delete.target-file-size-bytes": "2000", "write.delete.parquet.compression-codec": "uncompressed"})
    lake.delete(*range(900), 1001)
    by_path: dict[str | None, list[int]] = {}
    for file in delete_files(lake):
        by_path.setdefault(file.referenced_data_file, []).append(file.records)
    divided, single = sorted(by_path.values(), key=len, reverse=True)
    assert len(divided) >= 4 and sum(divided) == 900 and max(divided) - min(divided) < len(divided) and single == [1]
    assert_deleted(lake, *range(900), 1001)
    lake.delete(900)
    assert sum(file.records for file in delete_files(lake)) == 902, "the files of a data file are replaced together"
    assert_deleted(lake, *range(901), 1001)


def test_the_target_size_also_divides_the_rows_of_a_partition(tmp_path: Path) -> None:
    properties = {"write.delete.target-file-size-bytes": "2000", "write.delete.granularity": "partition"}
    lake = lake_with(tmp_path, {**properties, "write.delete.parquet.compression-codec": "uncompressed"})
    deleted_ids = [id_ for id_ in range(3000) if id_ % 7]
    lake.delete(*deleted_ids)
    files = delete_files(lake)
    assert len(files) >= 10 and sum(file.records for file in files) == len(deleted_ids)
    assert any(file.referenced_data_file is None for file in files) and any(file.referenced_data_file for file in files)
    assert_deleted(lake, *deleted_ids)


def test_deletion_vectors_have_no_settings(tmp_path: Path) -> None:
    properties = {"format-version": "3", "write.delete.granularity": "partition", "write.delete.parquet.compression-codec": "gzip"}
    lake = lake_with(tmp_path, {**properties, "write.delete.target-file-size-bytes": "1"})
    lake.delete(1, 1001)
    assert [(file.format.upper(), file.records) for file in delete_files(lake)] == [("PUFFIN", 1), ("PUFFIN", 1)]


def test_settings_of_delete_files_come_from_properties() -> None:
    assert IcebergSettings({}).delete_files == DeleteFileSettings()
    data = {
        "write.parquet.compression-level": "19",
        "write.parquet.page-size-bytes": "10",
        "write.parquet.bloom-filter-enabled.column.a": "true",
    }
    assert IcebergSettings(data).delete_files == DeleteFileSettings(ParquetSettings(level=19, pages=PageSettings(size=10)))
    other_codec = {**data, "write.delete.parquet.compression-codec": "gzip", "write.delete.parquet.page-size-bytes": "20"}
    assert IcebergSettings(other_codec).delete_files == DeleteFileSettings(ParquetSettings("gzip", pages=PageSettings(size=20)))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("write.delete.granularity", "row", "Set it to file or partition"),
        ("write.delete.target-file-size-bytes", "64mb", "Set it to a number of bytes"),
        ("write.delete.parquet.compression-codec", "brotli", "Set it to one of zstd"),
        ("write.delete.parquet.compression-level", "40", "Set it to a whole number from 1 to 22"),
        ("write.delete.parquet.row-group-size-bytes", "-1", "Set it to a number of bytes"),
        ("write.delete.parquet.page-version", "v3", "Set it to v1 or v2"),
        ("write.delete.parquet.page-row-limit", "0", "Set it to a whole number from 1"),
    ],
)
def test_invalid_settings_of_delete_files_are_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}.*{message}"):
        check_properties({name: value}, {})
