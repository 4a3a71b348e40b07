"""Name resolution: from a name in a statement to a table or view of the catalog, and to the branch or tag in the name.

The functions return a feature that some table formats lack, or raise an error that says what to do instead.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import NoReturn

from rowmerge.catalog import Catalog, Catalogs, without_paths
from rowmerge.catalog.names import format_of_path
from rowmerge.commands.names import CATALOGS, TableName
from rowmerge.errors import ChangesNotRecorded, ConfigurationError, PlanError, SchemaNotFound, TableError, TableNotFound
from rowmerge.session.names.spark_names import TemporaryViews
from rowmerge.table.metadata.schema import quote
from rowmerge.table.relations import Relation
from rowmerge.table.snapshots.change_feed import ChangeFeed
from rowmerge.table.table import Branches, Table


@dataclass(frozen=True)
class Target:
    """The table to which a statement writes, resolved once per statement.

    `table`: the table, which commits to `branch`. `name`: the schema and the name of the table, without the branch. `branch`: the name of
    the branch, or None for the main branch.
    """

    table: Table
    name: TableName
    branch: str | None = None


@dataclass(frozen=True)
class QualifiedName:
    """The name of a table or view that a statement creates, replaces or drops. `relation`: the existing table or view, or None."""

    schema: str
    name: str
    relation: Relation | None

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class ResolvedName:
    """A table or view that a statement reads.

    `branch_or_tag`: in its name, such as `audit` in `orders.branch_audit`, or None. `table`: the table if the lookup has opened it.
    """

    relation: Relation
    branch_or_tag: str | None = None
    table: Table | None = None


class NameResolver:
    """The resolver of names in the catalogs of a session. It opens tables, but does not read their snapshots.

    `schema`: the session's current schema, in which unqualified names are looked up. USE assigns it. `catalog_name`: a name that may
    qualify a schema, in addition to `rowmerge` and `spark_catalog`. None adds no name. The current catalog is that of the current schema.
    """

    def __init__(self, catalog: Catalog, temporary_views: TemporaryViews, schema: str, catalog_name: str | None = None) -> None:
        """Create a resolver of names in a catalog, with `schema` as the current schema."""
        self.temporary_views, self.schema = temporary_views, schema
        self._catalog = catalog
        self._catalog_names = CATALOGS if catalog_name is None else (catalog_name.lower(), *CATALOGS)
        several = without_paths(catalog)
        self._several = several if isinstance(several, Catalogs) else None
        """The catalogs, if there are further catalogs."""

    @property
    def catalogs(self) -> tuple[str, ...]:
        """The names of all catalogs, or an empty tuple if there are no further catalogs."""
        return () if self._several is None else (*self._catalog_names, *self._several.further)

    @property
    def catalog_names(self) -> tuple[str, ...]:
        """The names of the catalogs as SHOW CATALOGS lists them, which are without the other names of the default catalog."""
        return (self._catalog_names[0], *(() if self._several is None else self._several.further))

    def catalog_with_name(self, name: str) -> Catalog:
        """Return the catalog of this name, in any capitalization.

        Raises:
            ConfigurationError: There is no such catalog.
        """
        if name.lower() not in (*self._catalog_names, *self.catalogs):
            raise ConfigurationError(f"There is no catalog {name!r}. The catalogs are {', '.join(self.catalog_names)}.")
        _, catalog, _ = self.catalog_of(f"{name}.default" if self.catalogs else "default")
        return catalog

    def catalog_of(self, schema: str) -> tuple[str, Catalog, str]:
        """Return the name of the catalog that contains a schema, the catalog, and the name of the schema in it.

        Args:
            schema: A schema that `locate` has returned.
        """
        if self._several is None:
            return self._catalog_names[0], self._catalog, schema
        name = self._several.name_of(schema) or self._catalog_names[0]
        return name, self._several.catalog_of(schema), self._several.schema_in_catalog(schema)

    def in_catalog(self, relation: Relation) -> Relation:
        """Return a relation whose schema has no name of a catalog. DESCRIBE and SHOW print the catalog apart from the schema."""
        _, _, schema = self.catalog_of(relation.schema)
        return replace(relation, schema=schema)

    def default_format(self, schema: str) -> str | None:
        """Return the format of new tables in a further catalog, or None for the format of the session."""
        name = None if self._several is None else self._several.name_of(schema)
        return None if self._several is None or name is None else self._several.further[name].default_format

    def within(self, catalog: str) -> NameResolver:
        """Return a resolver whose current catalog is `catalog`. Its current schema is `default`, unless it already is in the catalog."""
        resolver = copy(self)
        current, _, _ = self.catalog_of(self.schema)
        is_current = catalog == current or {catalog, current} <= {*self._catalog_names}
        resolver.schema = self.schema if is_current else self.schema_of(f"{catalog}.default")
        return resolver

    def without_catalog(self, name: TableName) -> TableName:
        """Return the name without the name of the default catalog, or with one part for another catalog and the schema (`lake.raw`).

        The name does not change unless it begins with the name of a catalog, and two or more parts follow.
        """
        first, *others = name.parts
        if len(others) < 2 or first.lower() not in (self.catalogs or self._catalog_names):
            return name
        return TableName((f"{first.lower()}.{others[0]}", *others[1:]) if self.catalogs else tuple(others))

    def full_name(self, name: TableName) -> TableName:
        """Return a name that stays the same after USE: the schema and the name, after the catalog where there are several.

        Raises:
            TableNotFound: The name has too many parts.
        """
        schema, relation = self.locate(name)
        catalog, dot, schema_in_catalog = schema.partition(".")
        return TableName((catalog, schema_in_catalog, relation) if dot and catalog in self.catalogs else (schema, relation))

    def schema_of(self, schema: str, current_schema: str | None = None) -> str:
        """Return the name of a schema with its catalog, if there are several catalogs and the default catalog is not the current one.

        Args:
            schema: The name of a schema in the current catalog, or after the name of another catalog and a dot.
            current_schema: A schema in the current catalog. None means the current schema of the session.
        """
        if self._several is None or self._several.name_of(schema) is not None:
            return schema
        name = self._several.schema_in_catalog(schema)
        catalog = None if name != schema else self._several.name_of(current_schema or self.schema)
        if catalog is not None:
            return f"{catalog}.{name}"
        return name if self._several.name_of(self.schema) is None else f"{self._catalog_names[0]}.{name}"

    def locate(self, name: TableName, default_schema: str | None = None) -> tuple[str, str]:
        """Return the schema and the name of a relation, which need not exist.

        Args:
            name: The name in the statement.
            default_schema: The schema of an unqualified name. None means the current schema of the session.

        Raises:
            TableNotFound: The name has more than two parts after the catalog's name.
            PlanError: There are several catalogs, and none has the name before the schema.
        """
        match self.without_catalog(name).parts:
            case (relation,):
                return self.schema_of(default_schema or self.schema, default_schema), relation
            case (schema, relation):
                is_path = format_of_path(schema, relation) is not None
                return schema if is_path else self.schema_of(schema, default_schema), relation
        if self.catalogs and len(name.parts) == 3:
            raise PlanError(f"There is no catalog {quote(name.parts[0])} for {name}. The catalogs are {', '.join(self.catalog_names)}.")
        raise TableNotFound(str(name))

    def qualify(self, name: TableName) -> QualifiedName:
        """Return the qualified name, and the table or view that has it. Raises TableNotFound if the name has too many parts."""
        schema, relation = self.locate(name)
        return QualifiedName(schema, relation, self._catalog.relation(schema, relation))

    def existing_relation(self, name: TableName) -> Relation:
        """Return the table or view of this name.

        Raises:
            TableNotFound: No table or view has this name. The error lists similar names.
            SchemaNotFound: The catalog has no such schema.
        """
        relation = self.qualify(name).relation
        if relation is None:
            self._raise_not_found(name)
        return relation

    def _raise_not_found(self, name: TableName) -> NoReturn:
        """Raise SchemaNotFound, or TableNotFound with similar names. Opening the missing table raises these errors."""
        self.table(name)
        # Another session has created the table since the lookup. The statement still fails, as it would have without that session.
        raise TableNotFound(str(name))

    def resolve(self, name: TableName, default_schema: str) -> ResolvedName | None:
        """Return the table or view that a query reads, or None for a name that Spark resolves.

        Args:
            name: The name in the query, which may end with a branch or tag.
            default_schema: The schema of an unqualified name.

        Raises:
            TableNotFound: The name has a branch or tag, and too many other parts.
        """
        table_name, branch_or_tag = self._split_branch_or_tag(name, default_schema)
        if branch_or_tag is None and len(table_name.parts) > 2:
            return None
        relation, table = self._catalog.look_up(*self.locate(table_name, default_schema)) or (None, None)
        if relation is None or (branch_or_tag is not None and relation.kind == "view"):
            return None
        return ResolvedName(relation, branch_or_tag, table)

    def table(self, name: TableName) -> Table:
        """Open an existing table. Raises TableNotFound or SchemaNotFound if it does not exist, and TableError if it is a view."""
        schema, table = self.locate(name)
        try:
            return self._catalog.open(schema, table)
        except TableNotFound:
            if format_of_path(schema, table) is None:  # only then, because a schema with a table exists
                self.check_schema(schema)
            raise

    def check_schema(self, schema: str) -> None:
        """Check that a schema exists.

        Raises:
            SchemaNotFound: The catalog has no such schema.
        """
        if not self._catalog.schema_exists(schema):
            name, catalog, schema_in_catalog = self.catalog_of(schema)
            prefix = f"{quote(name)}." if self.catalogs else ""
            raise SchemaNotFound(f"{prefix}{quote(schema_in_catalog)}", [f"{prefix}{existing}" for existing in catalog.schemas()])

    def refuse_path(self, name: TableName, statement: str) -> None:
        """Check that a statement that changes the name of a table does not get a path.

        Args:
            name: The name in the statement.
            statement: The keywords of the statement, for the message.

        Raises:
            TableError: The name is a path.
        """
        if len(name.parts) == 2 and format_of_path(*name.parts) is not None:
            raise TableError(f"{name} is a folder, whose name {statement} cannot change. Write the name of a table in the catalog.")

    def is_temporary_view(self, name: TableName) -> bool:
        """Return whether a name has no schema and refers to a temporary view, which SQL or the DataFrame API created."""
        return len(name.parts) == 1 and self.temporary_views.exists(name.parts[0])

    def target(self, name: TableName) -> Target:
        """Return the table to which a statement writes, on the branch in its name if there is one.

        Raises:
            TableError: The name refers to a view.
            TableNotFound: No table has this name.
            SchemaNotFound: The catalog has no such schema.
            VersionNotFound: The table has no such branch.
            PlanError: The name has a tag, or a branch of a table without branches.
        """
        if self.is_temporary_view(name):
            raise TableError(f"{name} is a temporary view, which has no rows to change. Name the table that the view reads.")
        table_name, branch = self._split_branch_or_tag(name)
        table = self.table(table_name)
        return Target(table if branch is None else branch_of(table, branch), self.full_name(table_name), branch)

    def _split_branch_or_tag(self, name: TableName, default_schema: str | None = None) -> tuple[TableName, str | None]:
        """Return the name without the catalog's name and without its branch or tag, and the branch or tag: (`db.orders`, `audit`).

        A table or view whose name looks like a branch takes precedence.
        """
        name = self.without_catalog(name)
        if name.reference is None or (len(name.parts) == 2 and self._catalog.relation(*self.locate(name, default_schema)) is not None):
            return name, None
        return name.reference


def branch_of(table: Table, branch: str) -> Table:
    """Return a table on one of its branches.

    Args:
        table: The table on its main branch.
        branch: The name of the branch.

    Raises:
        PlanError: The table has no branches, or `branch` is a tag.
        VersionNotFound: The table has no such branch.
    """
    if table.branches is None:
        problem = f"{table.name} is not an Iceberg table, so it has no branch {branch}."
        raise PlanError(f"{problem} Name the table without a branch, or convert it to an Iceberg table.")
    return table.branches.table(branch)


def branches_of(table: Table, name: str | TableName) -> Branches:
    """Return the branches and tags of a table.

    Args:
        table: The table.
        name: The name of the table in the statement, for the error message.

    Raises:
        PlanError: The format of the table has no branches or tags.
    """
    if table.branches is None:
        raise PlanError(f"{name} is not an Iceberg table, so it has no branches or tags. Use VERSION AS OF with a version number.")
    return table.branches


def change_feed_of(table: Table) -> ChangeFeed:
    """Return the change feed of a table.

    Raises:
        ChangesNotRecorded: The format of the table has no change feed.
    """
    if table.change_feed is None:
        advice = "Iceberg tables have no change feed. Compare two snapshots in a query with VERSION AS OF."
        raise ChangesNotRecorded(table.name, 0, advice)
    return table.change_feed
