"""What a table name in a statement means: a table or view of the catalog, and the branch or tag that the name adds.

The functions return a feature that not every table format has, or raise the error that names what to do instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from rowmerge.catalog import Catalog, Relation
from rowmerge.commands.names import CATALOGS, TableName
from rowmerge.errors import ChangesNotRecorded, PlanError, SchemaNotFound, TableError, TableNotFound
from rowmerge.session.names.spark_names import TemporaryViews
from rowmerge.table.metadata.schema import quote
from rowmerge.table.snapshots.change_feed import ChangeFeed
from rowmerge.table.table import Branches, Table


@dataclass(frozen=True)
class Target:
    """The table that a statement writes, resolved once per statement.

    `table` commits to `branch` (None: the main branch). `name`: schema and table, without the branch.
    """

    table: Table
    name: TableName
    branch: str | None = None


@dataclass(frozen=True)
class QualifiedName:
    """The name of a table or view that a statement creates, replaces or drops. `relation`: the one that has this name now, or None."""

    schema: str
    name: str
    relation: Relation | None

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class ResolvedName:
    """A table or view that a statement reads. `reference`: the branch or tag in the name, as in `orders.branch_audit`."""

    relation: Relation
    reference: str | None = None


class NameResolver:
    """Resolves names in one catalog. It opens tables and reads no snapshot of them.

    `schema` is the session's current schema, in which unqualified names are looked up; USE assigns it. `catalog_name` (None: none) may
    stand before a schema, as `rowmerge` and `spark_catalog` may.
    """

    def __init__(self, catalog: Catalog, temporary_views: TemporaryViews, schema: str, catalog_name: str | None = None) -> None:
        self.temporary_views, self.schema = temporary_views, schema
        self._catalog = catalog
        self._catalog_names = CATALOGS if catalog_name is None else (catalog_name.lower(), *CATALOGS)
        self.catalog_name = self._catalog_names[0]
        """The catalog's name as `information_schema` shows it."""

    def without_catalog(self, name: TableName) -> TableName:
        """Return the name without its first part if that is the catalog's name and two or more parts follow."""
        has_catalog = len(name.parts) > 2 and name.parts[0].lower() in self._catalog_names
        return TableName(name.parts[1:]) if has_catalog else name

    def locate(self, name: TableName, default_schema: str | None = None) -> tuple[str, str]:
        """Return the schema and the name of a relation, existing or not. Raises TableNotFound if the name has more parts."""
        match self.without_catalog(name).parts:
            case (relation,):
                return default_schema or self.schema, relation
            case (schema, relation):
                return schema, relation
        raise TableNotFound(str(name))

    def qualify(self, name: TableName) -> QualifiedName:
        """Return the name with its schema, and the relation of this name. Raises TableNotFound if the name has more parts than two."""
        schema, relation = self.locate(name)
        return QualifiedName(schema, relation, self._catalog.relation(schema, relation))

    def existing_relation(self, name: TableName) -> Relation:
        """Return the table or view of this name. Raises TableNotFound with similar names, SchemaNotFound."""
        relation = self.qualify(name).relation
        if relation is None:
            self.table(name)  # raises the error that lists similar names
            raise TableNotFound(str(name))
        return relation

    def resolve(self, name: TableName, default_schema: str) -> ResolvedName | None:
        """Return the table or view that a query reads, or None for a name that Spark resolves. Raises TableNotFound."""
        table_name, reference = self._split_reference(name)
        if reference is None and len(table_name.parts) > 2:
            return None
        relation = self._catalog.relation(*self.locate(table_name, default_schema))
        if relation is None or (reference is not None and relation.kind == "view"):
            return None
        return ResolvedName(relation, reference)

    def table(self, name: TableName) -> Table:
        """Open an existing table. Raises TableNotFound with similar names, SchemaNotFound, TableError for a view."""
        schema, table = self.locate(name)
        self.check_schema(schema)
        return self._catalog.open(schema, table)

    def check_schema(self, schema: str) -> None:
        """Raise SchemaNotFound if the catalog has no such schema."""
        if not self._catalog.schema_exists(schema):
            raise SchemaNotFound(quote(schema), self._catalog.schemas())

    def is_temporary_view(self, name: TableName) -> bool:
        """Return whether a name without a schema is that of a temporary view, whoever created it."""
        return len(name.parts) == 1 and self.temporary_views.exists(name.parts[0])

    def target(self, name: TableName) -> Target:
        """Return the table that a statement writes. Raises TableNotFound, SchemaNotFound, TableError, VersionNotFound, PlanError."""
        if self.is_temporary_view(name):
            raise TableError(f"{name} is a temporary view, which holds no rows to change. Name the table that it reads.")
        table_name, branch = self._split_reference(name)
        table = self.table(table_name)
        return Target(table if branch is None else branch_of(table, branch), TableName(self.locate(table_name)), branch)

    def _split_reference(self, name: TableName) -> tuple[TableName, str | None]:
        """Return the name without the catalog's, and without the branch or tag that it ends with: `db.orders` of `db.orders.branch_audit`.

        A table or view whose name looks like that of a branch comes first.
        """
        name = self.without_catalog(name)
        if name.reference is None or (len(name.parts) == 2 and self._catalog.relation(*name.parts) is not None):
            return name, None
        return name.reference


def branch_of(table: Table, branch: str) -> Table:
    """Return a table on one of its branches. Raises VersionNotFound, PlanError for a tag and for a table without branches."""
    if table.branches is None:
        problem = f"{table.name} is no Iceberg table: it has no branch {branch}."
        raise PlanError(f"{problem} Name the table alone, or make an Iceberg table of it.")
    return table.branches.table(branch)


def branches_of(table: Table, name: str | TableName) -> Branches:
    """Return the branches and tags of a table that a statement calls `name`. Raises PlanError for a table without branches."""
    if table.branches is None:
        raise PlanError(f"{name} is no Iceberg table: it has no branches and tags. Write VERSION AS OF and a number.")
    return table.branches


def change_feed_of(table: Table) -> ChangeFeed:
    """Return the change feed of a table. Raises ChangesNotRecorded for a table without one."""
    if table.change_feed is None:
        advice = "Iceberg tables keep no change rows. Compare two snapshots in a query: VERSION AS OF."
        raise ChangesNotRecorded(table.name, 0, advice)
    return table.change_feed
