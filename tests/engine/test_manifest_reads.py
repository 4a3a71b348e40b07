"""Queries of Iceberg tables read only the manifests whose partition summaries allow the conditions, and apply all deletes."""

from __future__ import annotations

from pathlib import Path

import pytest

import rowmerge
from rowmerge.iceberg.manifests import manifest_files
from rowmerge.storage.cache import Cache

DAY = "ts >= timestamp '2024-01-0{day} 00:00:00Z' and ts < timestamp '2024-01-0{day} 23:59:59Z'"


@pytest.fixture
def manifests_parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Disable the cache of manifests, and return a list that receives the path of each manifest that is parsed."""
    parsed: list[str] = []
    parse = manifest_files._parse_entries

    def record(manifest, data):
        parsed.append(manifest.path)
        return parse(manifest, data)

    monkeypatch.setattr(manifest_files, "_cache", Cache(0))
    monkeypatch.setattr(manifest_files, "_parse_entries", record)
    return parsed


@pytest.mark.parametrize(("version", "transform"), [(2, "days(ts)"), (3, "hours(ts)"), (2, "ts")])
def test_a_query_of_one_day_reads_its_manifests_and_applies_their_deletes(
    session: rowmerge.Session, manifests_parsed: list[str], version: int, transform: str, tmp_path: Path
) -> None:
    properties = f"'format-version' = '{version}', 'rowmerge.write.mode' = 'merge-on-read'"
    session.sql(f"create table t (id int, ts timestamp) using iceberg partitioned by ({transform}) tblproperties ({properties})")
    for day in range(1, 6):
        session.sql(f"insert into t select id + {day}0, timestamp '2024-01-0{day} 12:00:00Z' from range(4)")
    session.sql("alter table t drop partition field " + transform)
    session.sql("insert into t values (100, timestamp '2024-01-03 13:00:00Z')")
    for day in (2, 3):
        session.sql(f"delete from t where id = {day}1")
    reader = rowmerge.connect(str(tmp_path / "warehouse"), spark=session.spark)
    manifests_parsed.clear()
    rows = reader.sql("select id from t where " + DAY.format(day=3)).collect()
    assert sorted(row.id for row in rows) == [30, 32, 33, 100]
    assert len(set(manifests_parsed)) == 3, "of day 3, of its deletes, and of the file without a partition"
    rows = reader.sql("select id from t where " + DAY.format(day=2)).collect()
    assert sorted(row.id for row in rows) == [20, 22, 23]
    assert reader.sql("select count(*) from t").collect() == [(19,)]
