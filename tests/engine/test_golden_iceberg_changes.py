"""Tables that Iceberg on Spark wrote accept changes in both write modes, and other readers read the result."""

from __future__ import annotations

from pathlib import Path

import pytest

import rowmerge
from tests.golden.iceberg.tables import NAMES, comparable, copied, expected
from tests.support.readers import read_with_duckdb_iceberg, read_with_pyiceberg

pytestmark = pytest.mark.one_of("name", "mode", keep=4)

READ_ONLY = {"name_mapped", "name_mapped_partitioned"}
"""Tables that other readers do not read."""
LIKE_OTHERS = {"empty", "truncated", "cow", "v1", "branches", "sorted", "mor_file", "equality_global", "odd_paths"}
"""Tables whose data files resemble those of another table, so the tests do not change them."""
WRITTEN = [name for name in NAMES if name not in READ_ONLY | LIKE_OTHERS]
BOTH = {"v3", "v3_defaults", "partition_evolution", "v1_upgraded", "equality_evolved", "equality_partitioned"}
"""Tables whose existing deletes matter differently in each write mode. The tests change all other tables in one mode."""
KEYS = {"odd_names": "a.b", "transforms": "v"}
"""A column whose values tell rows apart, where it is not `id`."""
EMPTY_FOR_NULL = {"schema_evolution"}
"""Tables with NULL lists or maps, which pyiceberg reads as empty."""


@pytest.mark.parametrize(
    ("name", "mode"),
    [(name, mode) for name in WRITTEN for mode in ("merge-on-read", "copy-on-write") if name in BOTH or mode == "merge-on-read"],
)
def test_a_golden_table_accepts_an_update_a_delete_and_a_merge(
    bare_session: rowmerge.Session, tmp_path: Path, name: str, mode: str
) -> None:
    """Update one row and delete another; a MERGE from the previous version restores both. Other readers read the result."""
    session, location = bare_session, tmp_path / "warehouse" / "default" / name
    copied(name, location)
    old_rows, key = expected(name)["rows"], f"`{KEYS.get(name, 'id')}`"
    version = session.describe("default", name).version
    modes = ", ".join(f"'write.{what}.mode' = '{mode}'" for what in ("delete", "update", "merge"))
    session.sql(f"alter table {name} set tblproperties ({modes})")
    counted = session.sql(f"select {key} from {name} where {key} is not null group by 1 having count(*) = 1 order by 1")
    once = [row[0] for row in counted.collect()]
    first, last = (f"{key} = {value}" for value in (once[0], once[-1]))
    other = next(column for column in session.table(name).columns if f"`{column}`" != key)
    assert session.execute(f"update {name} set `{other}` = null where {first}").changes.updated == 1
    assert session.execute(f"delete from {name} where {last}").changes.deleted == 1
    changed = comparable(session.table(name).toArrow())
    assert len(changed) == len(old_rows) - 1
    if "equality" not in name:  # pyiceberg rejects equality deletes, and DuckDB crashes
        assert comparable(read_with_duckdb_iceberg(str(location))) == changed
        assert name in EMPTY_FOR_NULL or comparable(read_with_pyiceberg(str(location))) == changed
    session.sql(
        f"merge into {name} t using (select * from {name} version as of {version} where {first} or {last}) s on t.{key} = s.{key} "
        "when matched then update set * when not matched then insert *"
    )
    assert comparable(session.table(name).toArrow()) == old_rows


@pytest.mark.parametrize("name", ["equality_global", "equality_partitioned", "equality_evolved"])
def test_a_changelog_with_equality_deletes_leads_to_the_rows_of_the_table(
    bare_session: rowmerge.Session, tmp_path: Path, name: str
) -> None:
    copied(name, tmp_path / "warehouse" / "default" / name)
    columns = ", ".join(f"`{column}`" for column in bare_session.table(name).columns)
    bare_session.sql(f"call system.create_changelog_view(table => '{name}', changelog_view => 'view_of_changes')")
    for changes in ("view_of_changes", f"{name}.changes"):
        changed = f"select {columns} from {changes} where _change_type = "
        remaining = bare_session.sql(f"{changed} 'INSERT' except all {changed} 'DELETE'")
        assert comparable(remaining.toArrow()) == expected(name)["rows"], changes
