"""The formats and places of tables: which ones a model's table has, and which of its configs mean nothing there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, List, Optional

from dbt.adapters.base import BaseRelation, available
from dbt.adapters.base.meta import AdapterMeta
from dbt.adapters.catalogs import CATALOG_INTEGRATION_MODEL_CONFIG_NAME, CatalogIntegration
from dbt_common.exceptions import CompilationError

from dbt.adapters.rowmerge.configs.model_config import value_of
from dbt.adapters.rowmerge.relations.relation import location_of

FORMATS = ("delta", "iceberg")
CHOICES = " or ".join(f"`{name}`" for name in FORMATS)


class TableFormats(metaclass=AdapterMeta):
    """A part of the adapter: it uses the session, the connections and the catalogs of the whole."""

    config: Any
    session: Any
    connections: Any
    get_catalog_integration: Any

    @available
    def table_format(self, config: Any) -> str:
        """`delta` or `iceberg`: what a model's table is to be. Raises CompilationError for what is none, and for configs of the other."""
        catalog = self._catalog_of(config)
        return table_format(config, (catalog and catalog.table_format) or self.config.credentials.file_format)

    @available.parse_none
    def location_root(self, config: Any) -> Optional[str]:
        """Return the `location_root` of a model, below which its table gets a folder; None for a table inside the warehouse."""
        catalog = self._catalog_of(config)
        return config.get("location_root") or (catalog and catalog.external_volume)

    def _catalog_of(self, config: Any) -> Optional[CatalogIntegration]:
        """Return the catalog of `catalogs.yml` that a model names. Raises DbtConfigError for a name that is not there."""
        name = config.get(CATALOG_INTEGRATION_MODEL_CONFIG_NAME)
        return self.get_catalog_integration(name) if name else None

    @available.parse_none
    def format_of(self, relation: BaseRelation) -> Optional[str]:
        """The format of a table, None of a view and of what is gone; dbt's cache does not know it of a table that this run has made."""
        with self.connections.exception_handler(f"look at {relation}"):
            found = self.session.relation(relation.schema, relation.identifier)
        return None if found is None else found.format

    @available.parse(lambda *a, **k: True)
    def can_clone(self, relation: Optional[BaseRelation]) -> bool:
        """Whether `dbt clone` can make a table of this one's files. Not in catalogs of Iceberg tables, which give ids of their own."""
        return relation is not None and not (self.config.credentials.catalog and self.format_of(relation) == "iceberg")

    @available.parse_none
    def check_place(self, relation: BaseRelation, location_root: Optional[str]) -> None:
        """Raise CompilationError when a table that is to change its format would be made where its files stay: a drop leaves them there."""
        if not location_root:
            return
        with self.connections.exception_handler(f"describe {relation}"):
            location = self.session.describe(relation.schema, relation.identifier).location
        if location == location_of(f"{location_root}/{relation.identifier}"):
            raise CompilationError(
                f"{relation} cannot change its format at {location}: files of a table with a location_root stay when it is dropped. "
                f"Set another location_root, or drop the table and delete its files first."
            )


def table_format(config: Any, default: str) -> str:
    """The format that a model's table has: its `file_format`, or else the profile's; an empty one is none. `config` has dict's `get`.

    Raises CompilationError that lists everything wrong with the configs that depend on it.
    """
    asked = value_of(config, ("file_format",))
    chosen = default if asked is None else str(asked).lower()
    problems = [f"file_format is {asked!r}. Set it to {CHOICES}."] if chosen not in FORMATS else _foreign_properties(config, chosen)
    if str(config.get("table_format") or "default").lower() != "default":
        problems.append("table_format is a config of other adapters. Say it with file_format.")
    if isinstance(config.get("partition_by"), Mapping):
        problems.append("partition_by is a mapping, as BigQuery has it. Write a column's name, or a list of columns and transforms.")
    if problems:
        raise CompilationError("The table cannot be built:\n" + "\n".join(f"- {problem}" for problem in problems))
    return chosen


def _foreign_properties(config: Any, chosen: str) -> List[str]:
    names = sorted(str(name) for name in config.get("tblproperties") or {} if str(name).startswith("delta."))
    if chosen == "delta" or not names:
        return []
    return [f"tblproperties: {', '.join(names)} belong to Delta tables, and this one is to be Iceberg. Leave them out."]
