"""A MERGE of few keys reads only the pages that can contain them. The tests make the other pages unreadable."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rowmerge.errors import UnreadableDataFile

ROWS = 100_000


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_pages_without_a_key_are_not_read(bare_session, table_format):
    """The last rows of the table are unreadable, so other readers cannot verify it."""
    table = f"pages_{table_format}"
    mode = "'rowmerge.write.mode' = 'merge-on-read'"
    bare_session.sql(
        f"create table {table} using {table_format} tblproperties ({mode}) as "
        f"select /*+ coalesce(1) */ id, sha2(string(id), 256) as v from range(0, {ROWS}, 1, 1)"
    )
    (path,) = bare_session.spark.read.parquet(bare_session.table(table).inputFiles()[0]).inputFiles()
    _spoil_last_pages(Path(path.removeprefix("file://")), "v")

    merge = f"merge into {table} t using (values {{keys}}) as s(id) on t.id = s.id when matched then update set v = concat(v, '!')"
    counts = bare_session.sql(merge.format(keys="(7L), (8L), (30000L)")).collect()[0]
    assert counts["num_updated_rows"] == 3
    few = bare_session.sql(f"select count(*), max(v like '%!') from {table} where id in (7, 8, 30000)").collect()[0]
    assert tuple(few) == (3, True)
    with pytest.raises(UnreadableDataFile):
        bare_session.sql(merge.format(keys=f"({ROWS - 1}L)")).collect()


def _spoil_last_pages(path: Path, column: str) -> None:
    """Overwrite the second half of a column."""
    group = pq.ParquetFile(path).metadata.row_group(0)
    (chunk,) = (group.column(i) for i in range(group.num_columns) if group.column(i).path_in_schema == column)
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    data = bytearray(path.read_bytes())
    half = chunk.total_compressed_size // 2
    data[begin + half : begin + chunk.total_compressed_size] = b"\xff" * (chunk.total_compressed_size - half)
    path.write_bytes(data)
