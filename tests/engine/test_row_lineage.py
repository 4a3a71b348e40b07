"""Rows of Iceberg tables of version 3 keep their ids and the sequence number of their last change. DuckDB verifies that."""

from __future__ import annotations

from pathlib import Path

import pytest

import rowmerge
from tests.golden.iceberg.tables import copied
from tests.support.readers import read_lineage_with_duckdb

pytestmark = pytest.mark.one_of("mode")

MODES = ("copy-on-write", "merge-on-read")


def lineage(session: rowmerge.Session, name: str, key: str = "id") -> dict[object, tuple[int | None, int | None]]:
    """Return the row id and the sequence number of the last change by key."""
    location = session.describe("default", name).location
    return {row[key]: (row["_row_id"], row["_last_updated_sequence_number"]) for row in read_lineage_with_duckdb(location).to_pylist()}


@pytest.mark.parametrize("mode", MODES)
def test_rows_keep_their_ids_through_every_statement(session: rowmerge.Session, mode: str) -> None:
    properties = f"'format-version' = '3', 'rowmerge.write.mode' = '{mode}'"
    session.sql(f"create table t (id bigint, p string, v string) using iceberg partitioned by (p) tblproperties ({properties})")
    session.sql("insert into t select /*+ repartition(1) */ id, 'a', concat('v', id) from range(6)")
    first = lineage(session, "t")
    assert sorted(first.values()) == [(id_, 1) for id_ in range(6)]
    session.sql("delete from t where id = 1")
    session.sql("update t set v = 'u', p = 'b' where id = 2")
    session.sql(
        "merge into t using (select * from values (3, 'm'), (77, 'n') s (id, v)) s on t.id = s.id "
        "when matched then update set v = s.v when not matched then insert (id, p, v) values (s.id, 'b', s.v)"
    )
    then = lineage(session, "t")
    new = then.pop(77)
    assert new[0] is not None and new[0] > 5 and new[1] == 4
    changed_in = {2: 3, 3: 4}
    assert then == {id_: (first[id_][0], changed_in.get(id_, 1)) for id_ in (0, 2, 3, 4, 5)}
    session.sql("call system.rewrite_data_files(table => 't', options => map('rewrite-all', 'true'))")
    assert lineage(session, "t") == then | {77: new}
    session.sql("alter table t write ordered by v desc")
    session.sql("call system.rewrite_data_files(table => 't', options => map('rewrite-all', 'true'))")
    assert lineage(session, "t") == then | {77: new}
    session.sql("merge into t using (values (0)) s (id) on t.id = s.id when not matched by source and t.id > 4 then update set v = 'gone'")
    assert lineage(session, "t") == then | {77: (new[0], 7), 5: (then[5][0], 7)}
    session.sql("insert into t select * from t where id = 0")
    session.sql("insert into t replace using (id) select 3, 'a', 'again'")
    anew = lineage(session, "t")[3]
    assert anew[0] not in {id_ for id_, _ in then.values()} and anew[1] == 9


@pytest.mark.parametrize("mode", MODES)
def test_rows_of_an_upgraded_table_get_ids_with_the_next_snapshot(session: rowmerge.Session, mode: str) -> None:
    session.sql(
        f"create table t using iceberg tblproperties ('rowmerge.write.mode' = '{mode}') as select /*+ repartition(1) */ id from range(5)"
    )
    session.sql("delete from t where id = 1")
    session.sql("alter table t set tblproperties ('format-version' = '3')")
    session.sql("delete from t where id = 2")
    first_lineage = lineage(session, "t")
    assert (
        first_lineage.keys() == {0, 3, 4}
        and len({id_ for id_, _ in first_lineage.values()}) == 3
        and None not in {id_ for id_, _ in first_lineage.values()}
    )
    session.sql("update t set id = id + 10 where id = 3")
    session.sql("optimize t")
    assert lineage(session, "t") == {0: first_lineage[0], 13: (first_lineage[3][0], 4), 4: first_lineage[4]}


def test_rows_of_files_without_field_ids_keep_their_row_ids(session: rowmerge.Session, tmp_path: Path) -> None:
    copied("name_mapped", tmp_path / "warehouse" / "default" / "t")
    session.sql("alter table t set tblproperties ('format-version' = '3', 'rowmerge.write.mode' = 'merge-on-read')")
    session.sql("insert into t (id) values (100)")
    old_lineage = lineage(session, "t")
    session.sql("update t set more = 1 where id in (1, 4)")
    session.sql("call system.rewrite_data_files(table => 't', options => map('rewrite-all', 'true'))")
    new_lineage = lineage(session, "t")
    assert {key: id_ for key, (id_, _) in new_lineage.items()} == {key: id_ for key, (id_, _) in old_lineage.items()}
    assert {key for key, (_, changed_in) in new_lineage.items() if changed_in != old_lineage[key][1]} == {1, 4}
