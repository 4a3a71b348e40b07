"""Tables that Delta's JVM implementation wrote have their expected rows, and accept changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

import rowmerge

GOLDEN = Path(__file__).parents[3] / "shared" / "golden" / "delta"
TABLES = sorted(folder.name for folder in GOLDEN.iterdir() if folder.is_dir()) if GOLDEN.is_dir() else []
EMPTY = {"log-replay-special-characters-a"}
KEYS = {
    "data-reader-array-complex-objects": "i",
    "data-reader-date-types-utc": "timestamp",
    "data-reader-map": "i",
    "data-reader-nested-struct": "b",
    "data-skipping-basic-stats-all-types": "as_int",
    "decimal-various-scale-precision": "decimal_4_0",
    "dv-with-columnmapping": "col1",
    "parquet-all-types": "IntegerType",
    "snapshot-data3": "col2",
    "table-with-columnmapping-mode-id": "IntegerType",
}
"""A column whose values tell rows apart, where it is not `id`."""
WRITTEN = [(name, mode) for name in TABLES for mode in ("copy-on-write", "merge-on-read") if name not in EMPTY]

pytestmark = pytest.mark.skipif(not TABLES, reason="the golden tables beside the repository are not here")


def comparable(rows: DataFrame) -> list[str]:
    """Return the rows as JSON with columns by name."""
    quoted = [f"to_json(struct(`{column}`)) as `{column}`" for column in sorted(rows.columns)]
    return sorted(map(repr, rows.selectExpr(*quoted).collect()))


@pytest.mark.parametrize("name", TABLES)
def test_a_golden_table_has_its_expected_rows(bare_session: rowmerge.Session, name: str) -> None:
    bare_session.sql(f"create table golden using delta location '{GOLDEN / name / 'delta'}'")
    table_rows = bare_session.table("golden")
    expected = bare_session.spark.read.parquet(str(GOLDEN / name / "expected"))
    assert sorted(table_rows.columns) == sorted(expected.columns)
    assert comparable(table_rows) == comparable(expected)


@pytest.mark.one_of("name", "mode", keep=3)
@pytest.mark.parametrize(("name", "mode"), WRITTEN)
def test_a_golden_table_accepts_an_update_a_delete_and_a_merge(session: rowmerge.Session, tmp_path: Path, name: str, mode: str) -> None:
    """Update one row and delete another; a MERGE from the previous version restores both."""
    shutil.copytree(GOLDEN / name / "delta", tmp_path / "copy", symlinks=True)
    session.sql(f"create table golden using delta location '{tmp_path / 'copy'}'")
    old_rows = comparable(session.table("golden"))
    version = session.describe("default", "golden").version
    session.sql(f"alter table golden set tblproperties ('rowmerge.write.mode' = '{mode}')")
    key = KEYS.get(name, "id")
    once = session.sql(
        f"select cast(`{key}` as string) from golden where `{key}` is not null group by `{key}` having count(*) = 1 order by 1"
    )
    values = [row[0] for row in once.collect()]
    first, last = (f"cast(`{key}` as string) = '{value}'" for value in (values[0], values[-1]))
    other = next((column for column in session.table("golden").columns if column != key), None)
    assert session.execute(f"update golden set {f'`{other}` = null' if other else f'`{key}` = `{key}`'} where {first}").changes.updated == 1
    assert session.execute(f"delete from golden where {last}").changes.deleted == 1
    assert comparable(session.table("golden")) != old_rows
    session.sql(
        f"merge into golden t using (select * from golden version as of {version} where {first} or {last}) s on t.`{key}` = s.`{key}` "
        "when matched then update set * when not matched then insert *"
    )
    assert comparable(session.table("golden")) == old_rows
