"""Tables that Iceberg on Spark wrote have their expected rows, and other readers read our changes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import rowmerge
from rowmerge.errors import UnreadableDataFile, UnsupportedTableFeature
from tests.golden.iceberg.tables import NAMES, comparable, copied, expected

pytestmark = pytest.mark.one_of("mode")

WITHOUT_IDS = {"name_mapped", "name_mapped_partitioned"}


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_table_has_its_expected_rows(bare_session: rowmerge.Session, tmp_path: Path, name: str) -> None:
    copied(name, tmp_path / "warehouse" / "default" / name)
    table_rows = bare_session.table(name)
    assert table_rows.columns == expected(name)["columns"]
    assert comparable(table_rows.toArrow()) == expected(name)["rows"]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("name", sorted(WITHOUT_IDS))
def test_rows_of_files_without_field_ids_are_changed_and_rewritten(session: rowmerge.Session, tmp_path: Path, name: str, mode: str) -> None:
    copied(name, tmp_path / "warehouse" / "default" / name)
    session.sql(f"alter table {name} set tblproperties ('rowmerge.write.mode' = '{mode}')")
    old_rows = {row["id"]: row for row in session.table(name).toArrow().to_pylist()}
    assert session.execute(f"update {name} set id = id + 100 where id = 4").changes.updated == 1  # type: ignore[union-attr]
    assert session.execute(f"delete from {name} where id = 1").changes.deleted == 1  # type: ignore[union-attr]
    session.sql(
        f"merge into {name} t using (values (3), (9)) s (id) on t.id = s.id when not matched and s.id > 5 then insert (id) values (id)"
    )
    session.sql(f"call system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))")
    new_rows = {row["id"]: row for row in session.table(name).toArrow().to_pylist()}
    assert new_rows.keys() == old_rows.keys() - {1, 4} | {104, 9}
    assert {**new_rows[104], "id": 4} == old_rows[4]
    assert {id_: row for id_, row in new_rows.items() if id_ in old_rows} == {id_: row for id_, row in old_rows.items() if id_ in new_rows}


def test_files_without_field_ids_require_a_name_mapping(bare_session: rowmerge.Session, tmp_path: Path) -> None:
    copied("name_mapped", tmp_path / "warehouse" / "default" / "t")
    bare_session.sql("alter table t unset tblproperties ('schema.name-mapping.default')")
    with pytest.raises(UnsupportedTableFeature, match="data files without field ids"):
        bare_session.sql("update t set id = id + 1 where id = 4")
    metadata = Path(bare_session.describe("default", "t").location.removeprefix("file://"), "metadata")
    versions = len(list(metadata.glob("v*.metadata.json")))
    with pytest.raises(UnreadableDataFile, match="no field ids"):
        bare_session.sql("optimize t")
    assert len(list(metadata.glob("v*.metadata.json"))) == versions


def test_files_without_their_partition_columns_are_not_read_after_a_change_of_the_partitioning(
    bare_session: rowmerge.Session, tmp_path: Path
) -> None:
    """Their partition values are in the manifests. Without them, readers would return NULL."""
    copied("name_mapped_partitioned", tmp_path / "warehouse" / "default" / "t")
    for column in ("p", "d"):
        bare_session.sql(f"alter table t drop partition field {column}")
    bare_session.sql("insert into t values (10, 'v10', 'z', date'2024-01-01')")
    assert bare_session.sql("select id from t where p = 'z'").collect() == [(10,)]
    with pytest.raises(UnsupportedTableFeature, match="do not contain the partition columns"):
        bare_session.sql("select p, d from t").collect()
