"""Rows of small and large row groups: the same values in the same order, in tables of a limited number of rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rowmerge.parquet import filesystems
from rowmerge.parquet.filesystems import read_tables

ROWS = pa.table(
    {
        "id": list(range(1000)),
        "text": [None if number % 7 == 0 else f"text {number % 13}" for number in range(1000)],
        "tags": [[number, number + 1] if number % 3 else None for number in range(1000)],
        "point": [{"x": number, "y": None} for number in range(1000)],
    }
)


@pytest.mark.parametrize("is_small", [True, False])
@pytest.mark.parametrize("row_group_size", [1000, 300])
@pytest.mark.parametrize("batch_rows", [1000, 128])
@pytest.mark.parametrize("columns", [["id", "text", "tags", "point"], ["text"], []])
def test_tables_contain_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_small: bool, row_group_size: int, batch_rows: int, columns: list[str]
) -> None:
    monkeypatch.setattr(filesystems, "BYTES_WITHOUT_THREADS", 2**20 if is_small else 0)
    pq.write_table(ROWS, tmp_path / "file.parquet", row_group_size=row_group_size)
    source = pq.ParquetFile(tmp_path / "file.parquet")
    for group in range(source.num_row_groups):
        tables = list(read_tables(source, columns, [group], batch_rows=batch_rows))
        expected_rows = ROWS.slice(group * row_group_size, row_group_size).select(columns)
        assert not columns or pa.concat_tables(tables).equals(expected_rows)  # without columns, Arrow loses the number of rows
        assert max(table.num_rows for table in tables) <= batch_rows
        assert sum(table.num_rows for table in tables) == min(row_group_size, 1000 - group * row_group_size)
    all_tables = list(read_tables(source, columns, range(source.num_row_groups), batch_rows=batch_rows))
    assert sum(table.num_rows for table in all_tables) == 1000
    assert not columns or pa.concat_tables(all_tables).equals(ROWS.select(columns))


def test_codes_with_a_dictionary_stay_codes(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "file.parquet")
    source = pq.ParquetFile(tmp_path / "file.parquet", read_dictionary=["text"])
    (table,) = read_tables(source, ["text"], [0], batch_rows=1000)
    assert pa.types.is_dictionary(table.schema.field("text").type)
    assert table["text"].cast(pa.string()).equals(ROWS["text"])
