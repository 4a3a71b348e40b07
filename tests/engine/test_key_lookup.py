"""Spark does not read the table of a MERGE whose keys can be looked up, and the rows are those that it would have found."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame

import rowmerge
from rowmerge.changes import row_change

COLUMNS = (
    "id, 'k' || id as name, cast(id % 7 as int) as part, date_add(date'2026-01-01', int(id)) as day, "
    "cast(id / 4 as decimal(12, 2)) as amount"
)
TABLES = {
    "delta": "using delta",
    "delta by parts": "using delta partitioned by (part)",
    "delta, columns mapped": "using delta tblproperties ('delta.columnMapping.mode' = 'name')",
    "iceberg": "using iceberg",
    "iceberg by buckets": "using iceberg partitioned by (bucket(3, id))",
    "iceberg 3": "using iceberg tblproperties ('format-version' = '3')",
}


@pytest.fixture
def no_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A MERGE that has Spark read its table fails."""

    def stopped(*_: object, **__: object) -> DataFrame:
        raise AssertionError("Spark reads the table")

    monkeypatch.setattr(row_change, "read_snapshot", stopped)


@pytest.mark.parametrize("kind", TABLES)
def test_rows_are_found_by_several_keys_without_a_scan_whatever_happened_to_them(
    session: rowmerge.Session, request: pytest.FixtureRequest, kind: str
) -> None:
    """Rows that were deleted, or updated to other files, before; and columns that are kept, for which more than the keys is read."""
    session.sql(f"create table kept {TABLES[kind]} as select {COLUMNS} from range(1000)")
    session.sql("delete from kept where id % 10 = 3")
    session.sql("update kept set name = 'moved ' || name where id % 10 = 4")
    request.getfixturevalue("no_scan")
    on = "t.id = s.id and t.name = s.name and t.day = s.day and t.amount <=> s.amount"
    source = f"(select {COLUMNS} from range(0, 1200, 2) union all select {COLUMNS} from range(3, 1003, 10))"
    counts = session.sql(
        f"merge into kept t using {source} s on {on} when matched and t.part = 1 then delete "
        "when matched then update set part = s.part + 100 when not matched and s.id % 10 <> 4 then insert *"
    ).collect()[0]
    matched = [n for n in range(0, 1000, 2) if n % 10 != 4]
    gone = [n for n in matched if n % 7 == 1]
    new = [n for n in range(1000, 1200, 2) if n % 10 != 4] + list(range(3, 1003, 10))
    assert (counts["num_deleted_rows"], counts["num_updated_rows"], counts["num_inserted_rows"]) == (
        len(gone), len(matched) - len(gone), len(new),
    )  # fmt: skip
    rows = session.sql("select id, name, part from kept").collect()
    parts = {row["id"]: row["part"] for row in rows}
    assert len(rows) == len(parts) == 900 - len(gone) + len(new)
    assert all(parts[n] == n % 7 + 100 for n in matched if n not in set(gone))
    assert all(parts[n] == n % 7 for n in new)
    assert sum(row["name"].startswith("moved") for row in rows) == 100


def test_a_key_that_stands_twice_in_the_source_is_an_error_that_names_it(session: rowmerge.Session) -> None:
    session.sql("create table twice as select id, 0 as v from range(100)")
    merge = (
        "merge into twice t using (select id, 1 as v from range(50) union all select 7L, 2) s on t.id = s.id when matched then update set *"
    )
    with pytest.raises(rowmerge.errors.MultipleSourceRowsMatch, match="id = 7"):
        session.sql(merge)
    assert session.sql("select sum(v) from twice").collect()[0][0] == 0
