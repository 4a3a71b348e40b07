"""Tables that Iceberg on Spark wrote: their rows are read, and they take changes after which other readers agree with us."""

from __future__ import annotations

from pathlib import Path

import pytest

import rowmerge
from rowmerge.errors import UnreadableDataFile, UnsupportedTableFeature
from tests.golden.iceberg.tables import NAMES, comparable, copied, expected

REFUSED = {"uuid_and_fixed": "type uuid of the column u", "v3_defaults": "the initial default of the column n"}
WITHOUT_IDS = {"name_mapped", "name_mapped_partitioned"}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in REFUSED and name not in WITHOUT_IDS])
def test_a_golden_table_has_its_expected_rows(bare_session: rowmerge.Session, tmp_path: Path, name: str) -> None:
    copied(name, tmp_path / "warehouse" / "default" / name)
    found = bare_session.table(name)
    assert found.columns == expected(name)["columns"]
    assert comparable(found.toArrow()) == expected(name)["rows"]


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_supported_is_refused_by_name(bare_session: rowmerge.Session, tmp_path: Path, name: str) -> None:
    copied(name, tmp_path / "warehouse" / "default" / name)
    with pytest.raises(UnsupportedTableFeature, match=REFUSED[name]):
        bare_session.table(name)


@pytest.mark.parametrize("name", sorted(WITHOUT_IDS))
def test_files_without_field_ids_are_refused_by_name(bare_session: rowmerge.Session, tmp_path: Path, name: str) -> None:
    copied(name, tmp_path / "warehouse" / "default" / name)
    with pytest.raises(UnsupportedTableFeature, match="data files without field ids"):
        bare_session.sql(f"update {name} set id = id + 1 where id = 4")
    if name == "name_mapped_partitioned":
        return  # no partition has files to write together
    before = Path(bare_session.describe("default", name).location.removeprefix("file://"), "metadata")
    versions = len(list(before.glob("v*.metadata.json")))
    with pytest.raises(UnreadableDataFile, match="no field ids"):
        bare_session.sql(f"optimize {name}")
    assert len(list(before.glob("v*.metadata.json"))) == versions
