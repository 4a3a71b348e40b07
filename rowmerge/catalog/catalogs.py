"""Several catalogs in one session. The schema `raw` of the further catalog `lake` is the schema `lake.raw` of the session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from rowmerge.catalog.catalog import Catalog, View
from rowmerge.catalog.functions import Function, Functions
from rowmerge.commands.functions import FunctionDefinition
from rowmerge.errors import PlanError, RowmergeError
from rowmerge.table.relations import Relation
from rowmerge.table.table import Table

_METHODS_OF_ONE_SCHEMA = (
    *("schema_exists", "create_schema", "drop_schema", "open", "new_table"),
    *("location_of", "register", "drop_table", "drop_view"),
)
"""The methods of a catalog whose first argument is a schema, and whose result has no name of a schema."""


@dataclass(frozen=True)
class FurtherCatalog:
    """A catalog beside the default catalog of a session. `default_format`: the format of new tables in it."""

    catalog: Catalog
    default_format: str


class Catalogs:
    """The default catalog and further catalogs, as one `rowmerge.catalog.catalog.Catalog`.

    A schema of a further catalog has the name of the catalog before its own. In the default catalog, no schema whose name begins with the
    name of a catalog and a dot can be reached. An error of a further catalog names the catalog.
    """

    def __init__(self, default: Catalog, default_names: Sequence[str], further: Mapping[str, FurtherCatalog]) -> None:
        """Combine catalogs.

        Args:
            default: The catalog of names without a catalog.
            default_names: The names of the default catalog in lower case. Metadata of views contain the first one.
            further: The other catalogs, by their names in lower case.
        """
        self._default, self.default_names, self.further = default, tuple(default_names), dict(further)

    @property
    def members(self) -> tuple[Catalog, ...]:
        """The catalogs, beginning with the default catalog."""
        return (self._default, *(further.catalog for further in self.further.values()))

    @property
    def functions(self) -> Functions:
        """The functions of all schemas."""
        return cast("Functions", _FunctionsOfCatalogs(self))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _METHODS_OF_ONE_SCHEMA:
            raise AttributeError(name)
        return partial(self._call, name)

    def name_of(self, schema: str) -> str | None:
        """Return the name of the further catalog that contains a schema, or None for the default catalog."""
        name, dot, _ = schema.lower().partition(".")
        return name if dot and name in self.further else None

    def catalog_of(self, schema: str) -> Catalog:
        """Return the catalog that contains a schema."""
        name = self.name_of(schema)
        return self._default if name is None else self.further[name].catalog

    def schema_in_catalog(self, schema: str) -> str:
        """Return the name of a schema without the name of its catalog."""
        name, dot, schema_in_catalog = schema.partition(".")
        return schema_in_catalog if dot and name.lower() in (*self.default_names, *self.further) else schema

    def schemas(self) -> list[str]:
        """Return the names of the schemas of all catalogs, sorted."""
        names = self._default.schemas()
        for name, further in self.further.items():
            with _errors_of(name):
                names += [f"{name}.{schema}" for schema in further.catalog.schemas()]
        return sorted(names)

    def relations(self, schema: str) -> list[Relation]:
        """Return the tables and views of a schema, sorted by name."""
        return [self._outer(schema, relation) for relation in self._call("relations", schema)]

    def relation(self, schema: str, name: str) -> Relation | None:
        """Return the table or view with this name, or None if it does not exist."""
        relation = self._call("relation", schema, name)
        return None if relation is None else self._outer(schema, relation)

    def look_up(self, schema: str, name: str) -> tuple[Relation, Table | None] | None:
        """Return the table or view with this name, and the table if the lookup has opened it. Return None if it does not exist."""
        relation, table = self._call("look_up", schema, name) or (None, None)
        return None if relation is None else (self._outer(schema, relation), table)

    def is_managed(self, table: Relation, location: str) -> bool:
        """Return whether the location of a table is the one that its catalog chooses."""
        return bool(self._call("is_managed", table, location))

    def rename(self, relation: Relation, new_schema: str, new_name: str) -> None:
        """Give a table or a view another name in its catalog.

        Args:
            relation: The existing table or view.
            new_schema: The name of the new schema.
            new_name: The new name.

        Raises:
            PlanError: The new schema is in another catalog.
        """
        if self.name_of(relation.schema) != self.name_of(new_schema):
            problem = f"{relation} cannot be renamed to {new_schema}.{new_name}, which is in another catalog"
            raise PlanError(f"{problem}. Create it there with CREATE TABLE … AS SELECT or CREATE VIEW, and drop {relation}.")
        self._call("rename", relation, self.schema_in_catalog(new_schema), new_name)

    def set_location(self, relation: Relation, location: str) -> None:
        """Change the folder of a table."""
        self._call("set_location", relation, location)

    def view(self, schema: str, name: str) -> View:
        """Return the newest definition of a view."""
        return self._outer_view(schema, self._call("view", schema, name))

    def put_view(self, view: View, *, or_replace: bool = False) -> View:
        """Create or replace a view. Its metadata name the catalog of unqualified names if it is not the catalog of the view."""
        schema, catalog = view.relation.schema, self.name_of(view.default_schema)
        names_other_catalog = catalog != self.name_of(schema)
        inner = replace(
            view,
            relation=self._inner(view.relation),
            default_schema=self.schema_in_catalog(view.default_schema),
            default_catalog=(catalog or self.default_names[0]) if names_other_catalog else None,
        )
        with _errors_of(self.name_of(schema)):
            return self._outer_view(schema, self.catalog_of(schema).put_view(inner, or_replace=or_replace))

    def _call(self, method: str, place: str | Relation, *arguments: Any, **options: Any) -> Any:
        """Call a method of the catalog that contains a schema or a relation, and translate the schema for it."""
        schema = place if isinstance(place, str) else place.schema
        inner = self.schema_in_catalog(place) if isinstance(place, str) else self._inner(place)
        with _errors_of(self.name_of(schema)):
            return getattr(self.catalog_of(schema), method)(inner, *arguments, **options)

    def _inner(self, relation: Relation) -> Relation:
        return replace(relation, schema=self.schema_in_catalog(relation.schema))

    def _outer(self, schema: str, relation: Relation) -> Relation:
        """Return a relation of the catalog that contains `schema`, with the name of the catalog."""
        return replace(relation, schema=self.outer_schema(self.name_of(schema), relation.schema))

    def outer_schema(self, catalog: str | None, schema: str) -> str:
        """Return the name of a schema in the session. `catalog`: the name of its catalog, or None for the default catalog."""
        return f"{catalog}.{schema}" if catalog in self.further else schema

    def _outer_view(self, schema: str, view: View) -> View:
        """Return a view with the names of the session. `schema`: a schema in its catalog.

        The metadata of a view can name the catalog of its unqualified names as other sessions call it. Then it is the catalog of the view.
        """
        names_catalog = view.default_catalog in (*self.further, self.default_names[0])
        catalog = view.default_catalog if names_catalog else self.name_of(schema)
        return replace(view, relation=self._outer(schema, view.relation), default_schema=self.outer_schema(catalog, view.default_schema))


class _FunctionsOfCatalogs:
    """The functions of all catalogs."""

    def __init__(self, catalogs: Catalogs) -> None:
        self._catalogs = catalogs

    def names(self, schema: str) -> list[str]:
        """Return the names of the functions of a schema."""
        return self._functions(schema).names(self._catalogs.schema_in_catalog(schema))

    def get(self, schema: str, name: str) -> Function | None:
        """Return the function with this name, or None if it does not exist."""
        function = self._functions(schema).get(self._catalogs.schema_in_catalog(schema), name)
        if function is None:
            return None
        catalogs, catalog, default = self._catalogs, self._catalogs.name_of(schema), function.default_schema
        inner_default = catalogs.schema_in_catalog(default)
        is_absolute = inner_default != default  # the first part of the name is that of a catalog
        outer_default = catalogs.outer_schema(catalogs.name_of(default) if is_absolute else catalog, inner_default)
        return replace(function, schema=catalogs.outer_schema(catalog, function.schema), default_schema=outer_default)

    def put(self, schema: str, name: str, definition: FunctionDefinition, default_schema: str, *, or_replace: bool) -> None:
        """Create or replace a function. Its file names the catalog of `default_schema` if it is not the catalog of the function.

        Args:
            schema: The name of the schema.
            name: The name of the function.
            definition: The parameters, the result type and the body.
            default_schema: The schema of unqualified names in the body.
            or_replace: Whether to replace an existing function.
        """
        catalogs, catalog, default_catalog = self._catalogs, self._catalogs.name_of(schema), self._catalogs.name_of(default_schema)
        stored_default = catalogs.schema_in_catalog(default_schema)
        if catalog != default_catalog:
            stored_default = f"{default_catalog or catalogs.default_names[0]}.{stored_default}"
        functions = self._functions(schema)
        with _errors_of(catalog):
            functions.put(catalogs.schema_in_catalog(schema), name, definition, stored_default, or_replace=or_replace)

    def drop(self, schema: str, name: str) -> None:
        """Drop a function."""
        with _errors_of(self._catalogs.name_of(schema)):
            self._functions(schema).drop(self._catalogs.schema_in_catalog(schema), name)

    def _functions(self, schema: str) -> Functions:
        return self._catalogs.catalog_of(schema).functions


@contextmanager
def _errors_of(catalog: str | None) -> Iterator[None]:
    """Name a further catalog at the beginning of the errors of a `with` block. `catalog`: None for the default catalog."""
    try:
        yield
    except RowmergeError as error:
        if catalog is not None:
            error.message = f"In the catalog {catalog}: {error.message}"
            error.args = (error.message, *error.args[1:])
        raise
