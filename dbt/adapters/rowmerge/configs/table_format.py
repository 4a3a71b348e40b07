"""The format and the location of a model's table, and the validation of the configs for both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, List, Optional

from dbt.adapters.base import BaseRelation, available
from dbt.adapters.base.meta import AdapterMeta
from dbt.adapters.catalogs import CATALOG_INTEGRATION_MODEL_CONFIG_NAME, CatalogIntegration
from dbt_common.exceptions import CompilationError

from dbt.adapters.rowmerge.configs.config_values import raise_problems, value_of
from dbt.adapters.rowmerge.relations.relation import location_of
from rowmerge import TABLE_FORMATS

FORMAT_CHOICES = " or ".join(f"`{name}`" for name in TABLE_FORMATS)


class TableFormats(metaclass=AdapterMeta):
    """The methods of the adapter for table formats, and for audits of Iceberg tables.

    This mixin uses the adapter's session, connections and catalog integrations.
    """

    config: Any
    session: Any
    connections: Any
    get_catalog_integration: Any

    @available
    def table_format(self, config: Any) -> str:
        """Return the format of a model's table. Raises CompilationError for an unknown format, and for configs of other formats."""
        catalog, database = self._catalog_of(config), config.get("database") or config.get("target_database")
        return table_format(config, (catalog and catalog.table_format) or self.config.credentials.file_format_in(database))

    def pre_model_hook(self, config: Mapping[str, Any]) -> None:
        """Apply the configs `wap_branch` and `wap_id` of a model or test to the statements of this thread.

        The connection has them, and not Spark's settings, because all threads share one Spark session.
        """
        configs = {name: config.get(name) for name in ("wap_branch", "wap_id")}
        self.connections.get_thread_connection().handle.audit = {name: str(value) for name, value in configs.items() if value}

    def post_model_hook(self, config: Mapping[str, Any], context: Any) -> None:
        """End the effect of `pre_model_hook`."""
        self.connections.get_thread_connection().handle.audit = {}

    @available.parse_none
    def location_root(self, config: Any) -> Optional[str]:
        """Return the parent folder of a model's table, or None for a table inside the warehouse."""
        catalog = self._catalog_of(config)
        return config.get("location_root") or (catalog and catalog.external_volume)

    def _catalog_of(self, config: Any) -> Optional[CatalogIntegration]:
        """Return the catalog integration of a model, or None if it does not name a catalog. Raises DbtConfigError for an unknown name."""
        name = config.get(CATALOG_INTEGRATION_MODEL_CONFIG_NAME)
        return self.get_catalog_integration(name) if name else None

    @available.parse_none
    def format_of(self, relation: BaseRelation) -> Optional[str]:
        """Return the format of a table, or None for a view or a relation that does not exist.

        Ask the engine, because dbt's cache does not contain the formats of tables that this run creates.
        """
        with self.connections.exception_handler(f"look at {relation}"):
            existing = self.session.relation(relation.engine_schema, relation.identifier)
        return None if existing is None else existing.format

    @available.parse(lambda *a, **k: True)
    def can_clone(self, relation: Optional[BaseRelation]) -> bool:
        """Return whether `dbt clone` can create a table that references the files of this relation."""
        # A catalog of Iceberg tables assigns new ids to schemas and specs, but the manifests of the source contain the old ids.
        credentials = self.config.credentials
        return relation is not None and not (credentials.is_service(relation.database) and self.format_of(relation) == "iceberg")

    @available.parse_none
    def check_format_change(self, relation: BaseRelation, location_root: Optional[str]) -> None:
        """Check that a table can be replaced by a table with another format.

        Args:
            relation: The existing table.
            location_root: The config `location_root` of the model; None for a table inside the warehouse.

        Raises:
            CompilationError: The new table would have the same location as the old table, whose files remain there.
        """
        if not location_root:
            return
        with self.connections.exception_handler(f"describe {relation}"):
            location = self.session.describe(relation.engine_schema, relation.identifier).location
        # The format changes, so the old table is dropped. If it has a location_root, DROP keeps its files in the folder of the new table.
        new_location = location_of(f"{location_root}/{relation.identifier}")
        if location == new_location:
            raise CompilationError(
                f"{relation} cannot change its format at {location}, because DROP keeps the files of a table with a location_root. "
                f"Set another location_root, or drop the table and delete its files first."
            )


def table_format(config: Any, default: str) -> str:
    """Check the configs for a model's table format, and return the format.

    Args:
        config: The configs of the model.
        default: The format of models that do not set `file_format`.

    Raises:
        CompilationError: The format is unknown, or a config applies only to another format or adapter. The message lists all errors.
    """
    configured_format = value_of(config, ("file_format",))
    file_format = default if configured_format is None else str(configured_format).lower()
    problems = _config_problems(config, file_format)
    if file_format not in TABLE_FORMATS:
        problems.insert(0, f"file_format is {configured_format!r}. Set it to {FORMAT_CHOICES}.")
    raise_problems(problems, "The table cannot be built:")
    return file_format


def _config_problems(config: Any, file_format: str) -> List[str]:
    """Return an error message for Delta properties of an Iceberg table, and for each config that only other adapters support."""
    problems = _delta_property_problems(config.get("tblproperties") or {}) if file_format == "iceberg" else []
    if str(config.get("table_format") or "default").lower() != "default":
        problems.append("table_format is a config of other adapters. Set file_format instead.")
    if str(config.get("table_type") or file_format).lower() != file_format:
        problems.append(f"table_type is a config of dbt-athena, and the table's format is {file_format}. Set file_format instead.")
    if isinstance(config.get("partition_by"), Mapping):
        problems.append("partition_by is a mapping, as in BigQuery. Set it to a column name, or to a list of columns and transforms.")
    return problems


def _delta_property_problems(properties: Iterable[Any]) -> List[str]:
    """Return a list with an error message if an Iceberg table has Delta properties, or an empty list otherwise."""
    names = sorted(str(name) for name in properties if str(name).startswith("delta."))
    problem = f"tblproperties: {', '.join(names)} apply only to Delta tables, but this is an Iceberg table. Remove them."
    return [problem] if names else []
