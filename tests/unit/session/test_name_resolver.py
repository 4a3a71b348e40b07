"""The resolution of table names, in a catalog that counts its lookups."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest

from rowmerge.catalog import Catalog, Relation
from rowmerge.commands.names import TableName
from rowmerge.errors import SchemaNotFound, TableError, TableNotFound
from rowmerge.session.names.resolver import NameResolver, ResolvedName, Target
from rowmerge.session.names.spark_names import TemporaryViews


class CountingCatalog:
    """A catalog whose tables are their names."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.calls: Counter[str] = Counter()

    def relation(self, schema: str, name: str) -> Relation | None:
        self.calls["relation"] += 1
        kind: Any = "view" if name.endswith("_view") else "table"
        return Relation(schema, name, kind, None) if f"{schema}.{name}" in self.names else None

    def look_up(self, schema: str, name: str) -> tuple[Relation, None] | None:
        relation = self.relation(schema, name)
        return None if relation is None else (relation, None)

    def schema_exists(self, name: str) -> bool:
        return any(each.startswith(f"{name}.") for each in self.names)

    def schemas(self) -> list[str]:
        return ["db"]

    def open(self, schema: str, name: str) -> Any:
        self.calls["open"] += 1
        if f"{schema}.{name}" not in self.names:
            raise TableNotFound(f"{schema}.{name}")
        return OpenedTable(f"{schema}.{name}")


class OpenedTable(str):
    """A table that is also its `Branches`."""

    @property
    def branches(self) -> OpenedTable:
        return self

    def table(self, branch: str) -> OpenedTable:
        return OpenedTable(f"{self}@{branch}")


class Session:
    """A session without Spark that has a temporary view named `recent`."""

    def exists(self, name: str) -> bool:
        return name == "recent"


def resolver(*names: str, catalog_name: str | None = None) -> tuple[NameResolver, CountingCatalog]:
    catalog = CountingCatalog(*names)
    return NameResolver(cast(Catalog, catalog), cast(TemporaryViews, Session()), "db", catalog_name), catalog


def name_of(text: str) -> TableName:
    return TableName(tuple(text.split(".")))


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("orders", ("db.orders", None)),
        ("db.orders", ("db.orders", None)),
        ("rowmerge.db.orders", ("db.orders", None)),
        ("LAKE.db.orders", ("db.orders", None)),
        ("db.orders.branch_audit", ("db.orders@audit", "audit")),
        ("orders.branch_audit", ("db.orders@audit", "audit")),
        ("lake.orders.branch_audit", ("db.orders@audit", "audit")),
        ("spark_catalog.db.orders.branch_audit", ("db.orders@audit", "audit")),
    ],
)
def test_a_target_has_a_table_a_qualified_name_and_a_branch(name: str, target: tuple[str, str | None]) -> None:
    names, catalog = resolver("db.orders", catalog_name="Lake")
    table, branch = target
    assert names.target(name_of(name)) == Target(cast(Any, table), name_of("db.orders"), branch)
    assert catalog.calls["open"] == 1


def test_a_table_named_as_a_branch_takes_precedence() -> None:
    names, _ = resolver("db.orders", "orders.branch_audit")
    assert names.target(name_of("orders.branch_audit")).branch is None
    assert names.resolve(name_of("orders.branch_audit"), "db") == ResolvedName(Relation("orders", "branch_audit", "table", None))


def test_a_target_without_a_branch_needs_one_catalog_lookup() -> None:
    names, catalog = resolver("db.orders")
    names.target(name_of("db.orders"))
    assert catalog.calls == Counter(open=1)


def test_temporary_views_and_unknown_schemas_are_not_targets() -> None:
    names, _ = resolver("db.orders")
    with pytest.raises(TableError, match="recent is a temporary view"):
        names.target(name_of("recent"))
    with pytest.raises(SchemaNotFound):
        names.target(name_of("other.orders"))


def test_a_read_name_is_resolved_in_the_schema_of_its_text() -> None:
    names, _ = resolver("db.orders", "other.orders", "db.daily_view")
    assert names.resolve(name_of("orders"), "other") == ResolvedName(Relation("other", "orders", "table", None))
    assert names.resolve(name_of("orders.tag_eod"), "db") == ResolvedName(Relation("db", "orders", "table", None), "eod")


def test_unknown_names_are_resolved_by_spark() -> None:
    names, _ = resolver("db.orders", "db.daily_view")
    assert names.resolve(name_of("unknown"), "db") is None
    assert names.resolve(name_of("a.b.c"), "db") is None
    assert names.resolve(name_of("db.daily_view.branch_audit"), "db") is None
    with pytest.raises(TableNotFound):
        names.resolve(name_of("a.b.c.branch_audit"), "db")


def test_use_changes_the_schema_of_unqualified_names() -> None:
    names, _ = resolver("db.orders", "other.orders")
    names.schema = "other"
    assert names.locate(name_of("orders")) == ("other", "orders")
    assert str(names.qualify(name_of("orders"))) == "other.orders"
