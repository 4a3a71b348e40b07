"""Properties that determine the form and the folder of new files: the Parquet version, and random prefixes of file paths."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rowmerge.delta.log.log_files import commit_path
from rowmerge.delta.metadata.properties import DeltaSettings
from rowmerge.errors import ConfigurationError
from rowmerge.parquet.file_writers import PartitionedWriter
from rowmerge.spark.writing.write import write_spec
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.files import AddedFile, Positions
from tests.support.delta_tables import Lake, committed
from tests.support.readers import read_with_delta_rs, read_with_duckdb, rows_of

ROWS = pa.table({"id": pa.array(range(100), pa.int64()), "name": pa.array([f"n{i % 7}" for i in range(100)])})
DATA_PAGE_V1, DATA_PAGE_V2 = 0, 3
"""The values of `PageType` in the Thrift definition of Parquet."""


def write(lake: Lake, rows: pa.Table = ROWS) -> Path:
    """Write a data file as a statement does, commit it, and return its path."""
    writer = PartitionedWriter(write_spec(lake.table.snapshot().shape))
    writer.write(rows)
    (message,) = writer.close()
    committed(lake.commit("WRITE", added=(AddedFile(**vars(message)),)))
    return Path(message.path.removeprefix("file://"))


def page_type(path: Path) -> int:
    """Return the type of the first data page of a file, which is the first field of its header in Thrift's compact protocol."""
    offset = pq.read_metadata(path).row_group(0).column(0).data_page_offset
    first_byte, value = path.read_bytes()[offset : offset + 2]
    assert first_byte == 0x15  # field 1, of type i32
    return value // 2  # zigzag encoding


@pytest.mark.parametrize(
    ("version", "format_version", "page"),
    [
        (None, "2.6", DATA_PAGE_V1),
        ("1.0.0", "1.0", DATA_PAGE_V1),
        ("2.11.9", "1.0", DATA_PAGE_V1),
        ("2.12.0", "2.6", DATA_PAGE_V2),
        ("3.0.0", "2.6", DATA_PAGE_V2),
    ],
)
def test_data_files_have_the_parquet_version_of_the_table(tmp_path: Path, version: str | None, format_version: str, page: int) -> None:
    lake = Lake(tmp_path)
    committed(lake.create(properties={} if version is None else {"delta.parquet.format.version": version}))
    path = write(lake)
    assert (pq.read_metadata(path).format_version, page_type(path)) == (format_version, page)
    expected = rows_of(ROWS)
    assert rows_of(read_with_delta_rs(str(tmp_path), "id")) == rows_of(read_with_duckdb(str(tmp_path), "id")) == expected


@pytest.mark.parametrize(
    ("properties", "columns"),
    [
        ({}, ["id", "name"]),
        ({"delta.dataSkippingNumIndexedCols": "1"}, ["id"]),
        ({"delta.dataSkippingNumIndexedCols": "0"}, []),
        ({"delta.dataSkippingStatsColumns": "name"}, ["name"]),
        ({"delta.dataSkippingNumIndexedCols": "1", "delta.dataSkippingStatsColumns": "name,id"}, ["id", "name"]),
    ],
)
def test_the_log_has_statistics_of_the_indexed_columns(tmp_path: Path, properties: dict[str, str], columns: list[str]) -> None:
    lake = Lake(tmp_path)
    committed(lake.create(properties=properties))
    write(lake)
    (add,) = [line["add"] for line in map(json.loads, (lake.folder / commit_path(1)).read_text().splitlines()) if "add" in line]
    statistics = json.loads(add["stats"])
    assert statistics["numRecords"] == 100
    assert all(sorted(statistics.get(key, {})) == columns for key in ("minValues", "maxValues", "nullCount"))
    assert rows_of(read_with_delta_rs(str(tmp_path), "id")) == rows_of(read_with_duckdb(str(tmp_path), "id")) == rows_of(ROWS)


@pytest.mark.parametrize("version", ["", "2", "2.12", "0.9.0", "v2.12.0", "2.12.0.1", "02.1.1"])
def test_an_invalid_parquet_version_is_rejected(tmp_path: Path, version: str) -> None:
    with pytest.raises(ConfigurationError, match=f"delta.parquet.format.version is '{re.escape(version)}'. Set it to 1.0.0 or 2.12.0"):
        Lake(tmp_path).create(properties={"delta.parquet.format.version": version})


@pytest.mark.parametrize("length", ["0", "-1", "", "two", "256", "1.5"])
def test_an_invalid_prefix_length_is_rejected(tmp_path: Path, length: str) -> None:
    with pytest.raises(ConfigurationError, match="delta.randomPrefixLength is .* Set it to a whole number from 1 to 255"):
        Lake(tmp_path).create(properties={"delta.randomPrefixLength": length})


@pytest.mark.parametrize(
    ("properties", "length"),
    [
        ({}, None),
        ({"delta.randomPrefixLength": "5"}, None),
        ({"delta.randomizeFilePrefixes": "false", "delta.randomPrefixLength": "5"}, None),
        ({"delta.randomizeFilePrefixes": "true"}, 2),
        ({"delta.randomizeFilePrefixes": " TRUE", "delta.randomPrefixLength": "5"}, 5),
    ],
    ids=str,
)
def test_random_prefixes_have_the_length_of_the_property(properties: dict[str, str], length: int | None) -> None:
    assert DeltaSettings(properties).random_prefix_length == length


def test_data_files_and_deletion_vectors_have_random_prefixes(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    prefixes = {"delta.randomizeFilePrefixes": "true", "delta.randomPrefixLength": "3"}
    committed(lake.create(properties={**prefixes, "delta.enableDeletionVectors": "true"}))
    paths = [write(lake) for _ in range(5)]
    assert all(re.fullmatch(r"[0-9A-Za-z]{3}", path.relative_to(tmp_path).parts[0]) for path in paths)
    assert len({path.parent for path in paths}) > 1
    committed(lake.commit("DELETE", deleted={f"file://{path}": Positions(range(99)) for path in paths}))
    (vector,) = tmp_path.rglob("deletion_vector_*.bin")
    assert re.fullmatch(r"[0-9A-Za-z]{3}", vector.relative_to(tmp_path).parts[0])
    files = lake.table.snapshot().state.files
    assert {row["pathOrInlineDv"][:-20] for row in files.column("deletionVector").to_pylist()} == {vector.parent.name}
    expected = [(99, "n1")] * 5
    assert rows_of(read_with_delta_rs(str(tmp_path))) == rows_of(read_with_duckdb(str(tmp_path))) == expected
    assert Lake(tmp_path).ids() == [99] * 5
    assert Storage(str(tmp_path)).exists(vector.relative_to(tmp_path).as_posix())
