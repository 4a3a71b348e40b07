"""The shape of a table in both formats: before its creation, of its versions, with another schema, and errors of unsupported features."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowmerge.catalog import DirectoryCatalog
from rowmerge.errors import ChangesNotRecorded, PlanError, RowmergeError
from rowmerge.session.names.resolver import branch_of, branches_of, change_feed_of
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest, Committed
from rowmerge.table.metadata.partitioning import identities
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table

COLUMNS = Struct((Field("id", Primitive("long"), nullable=False), Field("day", Primitive("date"))))
WIDER = Struct((*COLUMNS.fields, Field("note", Primitive("string"))))


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    catalog = DirectoryCatalog(Storage(str(tmp_path)))
    catalog.create_schema("s", if_not_exists=True)
    return catalog.new_table("s", "t", request.param)


def definition(schema: Struct = COLUMNS) -> TableDefinition:
    return TableDefinition(schema, identities(("day",)), {"rowmerge.write.mode": "merge-on-read"}, "days")


def create(table: Table) -> Snapshot:
    assert isinstance(table.create(definition(), CommitRequest("CREATE TABLE")), Committed)
    return table.snapshot()


def test_a_created_table_has_the_shape_of_its_definition(table: Table) -> None:
    announced = table.resolve_shape(definition())
    shape = create(table).shape
    assert announced == shape
    assert (announced.rules, announced.ordering) == (shape.rules, shape.ordering)
    assert [check.expression for check in shape.rules.checks] == ["`id` is not null"]
    assert shape.settings == table.snapshot().settings


def test_a_committed_schema_has_the_shape_of_evolved(table: Table) -> None:
    base = create(table)
    columns = Struct((*base.schema.fields, WIDER.fields[-1]))
    evolved = base.evolved(columns)
    outcome = table.commit(base, CommitRequest("ADD COLUMNS", definition=TableDefinition(schema=columns)))
    assert isinstance(outcome, Committed)
    assert evolved == table.snapshot().shape
    assert evolved.schema.names == ("id", "day", "note")
    assert base.shape.schema.names == ("id", "day")


def test_a_replaced_table_has_the_shape_of_its_definition(table: Table) -> None:
    base = create(table)
    announced = table.resolve_shape(definition(WIDER), base, replace=True)
    change = CommitRequest("CREATE OR REPLACE TABLE AS SELECT", definition=definition(announced.schema), replace=True)
    assert isinstance(table.commit(base, change), Committed)
    assert announced == table.snapshot().shape


def test_a_snapshot_of_another_format_is_rejected(table: Table, tmp_path: Path) -> None:
    base = create(table)
    other_format = "iceberg" if table.branches is None else "delta"
    other = create(DirectoryCatalog(Storage(str(tmp_path))).new_table("s", "other", other_format))
    for use in (
        lambda: table.commit(other, CommitRequest("WRITE")),
        lambda: table.resolve_shape(definition(), other),
        lambda: base.difference(other),
    ):
        with pytest.raises(TypeError, match="is (no|not a) snapshot of an? "):
            use()


def test_an_error_names_the_feature_that_a_format_lacks(table: Table) -> None:
    create(table)
    lacking: list[tuple[object, type[RowmergeError], str]] = []
    if table.branches is None:
        assert table.maintenance is None
        lacking.append((lambda: branch_of(table, "audit"), PlanError, "t is not an Iceberg table, so it has no branch audit"))
        lacking.append((lambda: branches_of(table, "s.t"), PlanError, "s.t is not an Iceberg table, so it has no branches or tags"))
    if table.change_feed is None:
        lacking.append((lambda: change_feed_of(table), ChangesNotRecorded, "Iceberg tables have no change feed"))
    assert len(lacking) == (2 if table.branches is None else 1)
    for use, error, text in lacking:
        with pytest.raises(error, match=text):
            use()  # type: ignore[operator]
