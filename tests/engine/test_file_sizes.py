"""Data files have the target size within 10 %, except the last one of each task, for any width and compressibility of rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import rowmerge

pytestmark = pytest.mark.one_of("format_", "rows")
TARGET = 4 * 1024 * 1024
PROPERTIES = {"delta": "delta.targetFileSize", "iceberg": "write.target-file-size-bytes"}
ROWS = {
    "narrow": "select xxhash64(id) as v from range(0, 1300000, 1, 1)",
    "strings": "select id, sha2(cast(id as string), 256) as s, concat('name ', id % 1000) as name from range(0, 250000, 1, 1)",
    "wide": f"select {', '.join(f'xxhash64(id, {column}) as c{column}' for column in range(300))} from range(0, 5000, 1, 1)",
    "compressible": "select concat('one of five thousand values: ', pmod(xxhash64(id), 5000)) as v from range(0, 6000000, 1, 1)",
}


def _sizes_of_complete_files(session: rowmerge.Session) -> list[int]:
    """Return the sizes of all files of the only task but the last one. The names of files begin with their number in the task."""
    location = Path(session.sql("describe detail t").collect()[0]["location"].removeprefix("file://"))
    files = sorted(location.rglob("*.parquet"), key=lambda file: file.name)
    assert [int(file.name.split("-")[1]) for file in files] == list(range(len(files)))
    return [file.stat().st_size for file in files[:-1]]


@pytest.mark.parametrize("format_", PROPERTIES)
@pytest.mark.parametrize("rows", ROWS)
def test_files_have_the_target_size(bare_session: rowmerge.Session, format_: str, rows: str) -> None:
    bare_session.sql(f"create table t using {format_} tblproperties ('{PROPERTIES[format_]}' = '{TARGET}') as {ROWS[rows]}")
    sizes = _sizes_of_complete_files(bare_session)
    assert len(sizes) >= 2
    assert [size / TARGET for size in sizes if not 0.95 * TARGET <= size <= 1.1 * TARGET] == []
