"""Iceberg table properties that set the location and the settings of data files."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

import rowmerge


def test_files_have_the_location_and_settings_of_the_table(session: rowmerge.Session, tmp_path: Path) -> None:
    elsewhere = tmp_path / "files of t"
    session.sql("create schema raw")
    session.sql(
        f"create table raw.t using iceberg tblproperties ('write.data.path' = '{elsewhere}', 'write.merge.mode' = 'merge-on-read', "
        "'write.parquet.compression-codec' = 'gzip', 'write.parquet.compression-level' = '9', "
        "'write.merge.distribution-mode' = 'none', 'write.parquet.row-group-size-bytes' = '20000') "
        "as select id, concat('value ', id) as v from range(0, 5000, 1, 1)"
    )
    session.sql("merge into raw.t using (select 3L as id) s on t.id = s.id when matched then update set v = 'merged'")
    session.sql("update raw.t set v = 'updated' where id = 4")
    data_files = sorted(elsewhere.rglob("*.parquet"))
    assert data_files and not list((tmp_path / "warehouse/raw/t").rglob("*c000*.parquet"))
    largest = pq.read_metadata(max(data_files, key=lambda path: path.stat().st_size))
    assert largest.num_row_groups > 2 and largest.row_group(0).column(0).compression == "GZIP"
    assert session.sql("select id, v from raw.t where id in (3, 4, 5) order by id").collect() == [
        (3, "merged"),
        (4, "updated"),
        (5, "value 5"),
    ]
