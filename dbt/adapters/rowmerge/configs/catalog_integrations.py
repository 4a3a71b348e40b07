"""Catalog integrations: the settings in `catalogs.yml`, which apply to the models that name a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, List, Optional

from dbt.adapters.catalogs import CatalogIntegration, InvalidCatalogIntegrationConfigError
from dbt.adapters.contracts.relation import RelationConfig

from dbt.adapters.rowmerge.configs.table_format import FORMAT_CHOICES
from rowmerge import TABLE_FORMATS

_PROPERTIES = ("location_root",)


@dataclass(frozen=True)
class CatalogTable:
    """The settings of a catalog for the table of a model. If a setting has no value, the profile's value applies."""

    catalog_name: Optional[str]
    table_format: Optional[str]
    external_volume: Optional[str]
    file_format: Optional[str]


class WarehouseCatalog(CatalogIntegration):
    """A catalog integration that sets the format and the folder of tables. `external_volume` and `location_root` both name the folder."""

    catalog_type = "warehouse"
    allows_writes = True

    def __init__(self, config: Any) -> None:
        """Read the settings of the catalog. Raises InvalidCatalogIntegrationConfigError with all errors in these settings."""
        super().__init__(config)
        self.table_format = _configured_format(self.table_format)
        properties = dict(getattr(config, "adapter_properties", None) or {})
        if problems := self._config_problems(properties, getattr(config, "catalog_database", None)):
            raise InvalidCatalogIntegrationConfigError(self.name, " ".join(problems))
        self.external_volume = self.external_volume or properties.get("location_root")

    def _config_problems(self, properties: Mapping[str, Any], catalog_database: Optional[str]) -> List[str]:
        """Return an error message for each invalid setting. `properties`: the `adapter_properties` of the catalog."""
        unknown_names = [name for name in properties if name not in _PROPERTIES]
        problems = [f"There is no property {name}. Remove it, or set location_root." for name in unknown_names]
        if self.table_format not in (None, *TABLE_FORMATS):
            problems.append(f"table_format is {self.table_format!r}. Set it to {FORMAT_CHOICES}.")
        if str(self.file_format or "parquet").lower() != "parquet":
            problems.append(f"file_format is {self.file_format!r}. All data files are Parquet files. Set table_format to {FORMAT_CHOICES}.")
        if catalog_database:
            problems.append("catalog_database is set. Remove it, and set the config database of models to a catalog of the profile.")
        if properties.get("location_root") and self.external_volume:
            problems.append("external_volume and location_root have the same meaning. Keep one of them.")
        return problems

    def build_relation(self, config: RelationConfig) -> CatalogTable:
        """Return the catalog's settings for a model. The configs `file_format` and `location_root` of a model take precedence."""
        return CatalogTable(self.name, self.table_format, self.external_volume, "parquet")


def _configured_format(table_format: Optional[str]) -> Optional[str]:
    """Return the table format in lower case, or None if it is not set or `default`. Then the format of the profile applies."""
    name = str(table_format or "default").lower()
    return None if name == "default" else name
