"""Dictionaries in data files: which columns have one, and files that are rewritten with the codes of the old ones."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from rowmerge.parquet.data_files import FileMessage, WriteSpec
from rowmerge.parquet.dictionaries import DEFAULT_BYTES, columns_without_dictionary, text_columns_with_dictionary
from rowmerge.parquet.file_writers import PartitionedWriter
from rowmerge.parquet.leaf_columns import ColumnOptions
from rowmerge.parquet.partitions import PartitionKey
from rowmerge.parquet.rewriting import FileBin, write_bins
from rowmerge.spark.writing.write_output import discard_paths

ROWS = 100_000


def spec(folder: Path, schema: pa.Schema) -> WriteSpec:
    return WriteSpec(folder.as_uri(), tuple(schema.names), schema, schema, False, (), False, frozenset(schema.names))


def write(spec: WriteSpec, rows: pa.Table) -> FileMessage:
    writer = PartitionedWriter(spec)
    writer.write(rows)
    (file,) = writer.close()
    return file


def rewrite(spec: WriteSpec, *files: FileMessage, deleted: BitMap64) -> FileMessage:
    """Rewrite files without the rows at these positions of the first file."""
    positions = {file.path: (deleted if file is files[0] else BitMap64()).serialize() for file in files}
    (file,) = write_bins(spec, [FileBin(positions, {}, 0)], discard_paths)
    return file


def path_of(file: FileMessage) -> str:
    return file.path.removeprefix("file://")


def columns_with_dictionary(file: FileMessage) -> set[str]:
    group = pq.read_metadata(path_of(file)).row_group(0)
    return {group.column(i).path_in_schema for i in range(group.num_columns) if group.column(i).has_dictionary_page}


def codes_in(file: FileMessage) -> list[str]:
    return text_columns_with_dictionary(pq.ParquetFile(path_of(file)))


def test_columns_with_few_distinct_values_have_a_dictionary(tmp_path: Path) -> None:
    numbers, random = np.arange(ROWS), np.random.default_rng(5)
    rows = pa.table(
        {
            "unique_number": numbers,
            "unique_text": [f"key {number}" for number in numbers],
            "random_double": random.random(ROWS),
            "mostly_null": pa.array([int(number) if number % 1000 == 0 else None for number in numbers]),
            "code": pa.array(numbers % 300),
            "text": [f"value {number}" for number in random.integers(5000, size=ROWS)],
            "null": pa.nulls(ROWS, pa.int64()),
        }
    )
    file = write(spec(tmp_path, rows.schema), rows)
    assert columns_with_dictionary(file) & {"unique_number", "unique_text", "random_double", "code", "text"} == {"code", "text"}
    assert pq.read_table(path_of(file)).equals(rows)
    assert (file.lower["unique_text"], file.upper["unique_number"]) == ("key 0", ROWS - 1)


@pytest.mark.parametrize(("distinct", "is_useful"), [(20_000, True), (60_000, False)])
def test_a_dictionary_must_not_exceed_its_size(distinct: int, is_useful: bool) -> None:
    """A text of 40 bytes takes 44 bytes in a dictionary, so 23,831 texts fit into one of 1 MiB."""
    values = np.random.default_rng(6).integers(distinct, size=10 * ROWS)
    rows = pa.table({"text": pa.array(values).cast(pa.string())})
    rows = pa.table({"text": pa.compute.utf8_lpad(rows["text"], 40, "0")})
    assert columns_without_dictionary(rows, DEFAULT_BYTES) == (frozenset() if is_useful else {"text"})
    assert columns_without_dictionary(rows, 10 * DEFAULT_BYTES) == frozenset()


def test_few_rows_keep_their_dictionaries() -> None:
    assert columns_without_dictionary(pa.table({"unique": np.arange(60_000)}), DEFAULT_BYTES) == frozenset()


def texts(count: int, distinct: int, prefix: str = "value") -> pa.Array:
    """Return texts, every seventh of which is NULL."""
    return pa.array([None if number % 7 == 0 else f"{prefix} {number % distinct:03}" for number in range(count)], pa.string())


@pytest.mark.parametrize("deleted", [[0, 1, 99], [99], [0], []], ids=str)
def test_rewritten_texts_keep_values_and_bounds(deleted: list[int], tmp_path: Path) -> None:
    """The dictionary of the old file contains values of deleted rows, which must not become bounds.

    With NULLs, Arrow does not notice that a dictionary has exactly one unused value.
    """
    rows = pa.table({"id": np.arange(ROWS), "text": texts(ROWS, 100)})
    table = spec(tmp_path, rows.schema)
    old = write(table, rows)
    assert codes_in(old) == ["text"]
    is_deleted = np.isin(np.arange(ROWS) % 100, deleted)
    new = rewrite(table, old, deleted=BitMap64(np.flatnonzero(is_deleted)))
    expected = rows.filter(pa.array(~is_deleted))
    assert pq.read_table(path_of(new)).equals(expected)
    values = sorted(set(range(100)) - set(deleted))
    assert (new.lower["text"], new.upper["text"]) == (f"value {values[0]:03}", f"value {values[-1]:03}")
    assert new.nulls["text"] == expected["text"].null_count


@pytest.mark.parametrize("first", ["codes", "texts"])
def test_files_with_and_without_dictionaries_become_one_file(tmp_path: Path, first: str) -> None:
    schema = pa.schema({"id": pa.int64(), "text": pa.string()})
    table = replace(spec(tmp_path, schema), row_group_size=500_000)  # each file has several row groups
    without_dictionary = replace(table, column_options=ColumnOptions(without_dictionary=frozenset({"text"})))
    codes = [pa.table({"id": np.arange(ROWS), "text": texts(ROWS, 90, prefix)}, schema) for prefix in ("a", "b")]
    unique_texts = pa.table({"id": np.arange(ROWS), "text": texts(ROWS, ROWS)}, schema)
    files = [write(table, codes[0]), write(table, codes[1]), write(without_dictionary, unique_texts)]
    assert [codes_in(file) for file in files] == [["text"], ["text"], []]
    ordered = [(file, rows) for file, rows in zip(files, [*codes, unique_texts], strict=True)]
    if first == "texts":
        ordered.reverse()
    new = rewrite(table, *(file for file, _ in ordered), deleted=BitMap64([3]))
    live_rows = [rows.filter(pa.array(np.arange(ROWS) != 3)) if index == 0 else rows for index, (_, rows) in enumerate(ordered)]
    assert pq.read_table(path_of(new)).equals(pa.concat_tables(live_rows))
    assert new.records == 3 * ROWS - 1


def test_row_groups_of_codes_have_the_size_of_texts(tmp_path: Path) -> None:
    """The dictionary of each batch of codes counts as the texts for which the codes stand."""
    rows = pa.table({"id": np.arange(ROWS), "text": [f"{number % 30:0200}" for number in range(ROWS)]})
    table = replace(spec(tmp_path, rows.schema), row_group_size=2_000_000)
    old = write(table, rows)
    assert codes_in(old) == ["text"]
    new = rewrite(table, old, deleted=BitMap64([3]))
    assert pq.read_table(path_of(new)).equals(rows.filter(pa.array(np.arange(ROWS) != 3)))
    assert pq.read_metadata(path_of(new)).num_row_groups == pq.read_metadata(path_of(old)).num_row_groups > 5


def test_uuids_count_as_the_bytes_in_the_file(tmp_path: Path) -> None:
    """Spark represents UUIDs as texts, which are longer. 50,000 UUIDs fit into a dictionary of 1 MiB, but not as texts."""
    values = [str(uuid.UUID(int=number % 50_000)) for number in range(4 * ROWS)]
    rows = pa.table({"key": values})
    table = replace(spec(tmp_path, rows.schema), file_schema=pa.schema({"key": pa.uuid() if hasattr(pa, "uuid") else pa.binary(16)}))
    assert columns_with_dictionary(write(table, rows)) == {"key"}
    assert columns_without_dictionary(rows, DEFAULT_BYTES) == {"key"}


def test_few_values_among_nulls_keep_their_dictionary() -> None:
    numbers = np.arange(10 * ROWS)
    rows = pa.table({f"rare_{offset}": pa.array(numbers % 5, mask=numbers % 5_000 != offset) for offset in range(20)})
    assert columns_without_dictionary(rows, DEFAULT_BYTES) == frozenset()


def test_partition_values_come_from_texts(tmp_path: Path) -> None:
    """Iceberg's writer computes the partition of each row, for which it needs the texts instead of codes."""
    rows = pa.table({"id": np.arange(ROWS), "text": texts(ROWS, 20), "other": texts(ROWS, 30)})
    old = write(spec(tmp_path, rows.schema), rows)
    key = PartitionKey("text", "text", ("text",), pa.string(), "truncate[7]")
    table = replace(spec(tmp_path, rows.schema), partition=(key,), partition_values_in_files=True)
    new_files = write_bins(table, [FileBin({old.path: BitMap64([1]).serialize()}, {}, 0)], discard_paths)
    assert {file.partition["text"] for file in new_files} == {None, "value 0"}
    new_rows = pa.concat_tables(pq.read_table(path_of(file), partitioning=None) for file in new_files).sort_by("id")
    assert new_rows.equals(rows.filter(pa.array(np.arange(ROWS) != 1)))


@pytest.mark.parametrize("codes", [pa.int8(), pa.int32(), pa.uint32()], ids=str)
@pytest.mark.parametrize("is_ordered", [False, True])
def test_categories_of_other_writers_become_texts(tmp_path: Path, codes: pa.DataType, is_ordered: bool) -> None:
    """pandas and polars store categories, which Arrow reads as codes of other types, and even where the file has none."""
    rows = pa.table({"text": texts(1000, 10)})
    encoded = rows["text"].combine_chunks().dictionary_encode()
    categories = pa.DictionaryArray.from_arrays(encoded.indices.cast(codes), encoded.dictionary, ordered=is_ordered)
    paths = [tmp_path / "other.parquet", tmp_path / "texts.parquet"]
    pq.write_table(pa.table({"text": categories}), paths[0], use_dictionary=False)
    pq.write_table(rows, paths[1])
    table, is_live = spec(tmp_path, rows.schema), pa.array(np.arange(1000) % 10 != 3)
    deleted = BitMap64(np.flatnonzero(np.arange(1000) % 10 == 3)).serialize()  # all rows of one value
    (new,) = write_bins(table, [FileBin({paths[0].as_uri(): deleted}, {}, 0)], discard_paths)
    assert pq.read_table(path_of(new)).equals(rows.filter(is_live))
    for first, second in (paths, paths[::-1]):
        (new,) = write_bins(table, [FileBin({first.as_uri(): deleted, second.as_uri(): BitMap64().serialize()}, {}, 0)], discard_paths)
        assert pq.read_table(path_of(new)).equals(pa.concat_tables([rows.filter(is_live), rows]))
