"""Opening of the catalogs of a session from their configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rowmerge.catalog import Catalog, Catalogs, DirectoryCatalog, FurtherCatalog, IcebergCatalog
from rowmerge.commands.names import CATALOGS
from rowmerge.errors import ConfigurationError
from rowmerge.iceberg.catalogs.file_io import settings_of
from rowmerge.session.startup.catalog_keys import FILE_FORMAT, check_further_catalogs, default_format_of, is_warehouse_folder
from rowmerge.session.startup.connectors import ANY_S3, HADOOP_SCHEMES
from rowmerge.storage.configuration import StorageConfiguration
from rowmerge.storage.store import Storage


def open_catalogs(
    location: str | None,
    configuration: Mapping[str, Any] | None,
    further: Sequence[Mapping[str, Any]],
    default_format: str,
    open_storage: Callable[[str], Storage],
) -> Catalog:
    """Open the catalogs of a session.

    Args:
        location: The warehouse folder of the default catalog, or None for the folder that an Iceberg catalog chooses.
        configuration: The configuration of an Iceberg catalog for pyiceberg, or None for a warehouse folder.
        further: The configurations of the other catalogs: a `name`, and a `warehouse` folder or the settings of pyiceberg.
        default_format: The format of new tables in the default catalog.
        open_storage: A function that returns the storage of a location.

    Raises:
        ConfigurationError: The arguments contradict each other, or a configuration is invalid.
        CatalogFailed: A catalog cannot be reached.
        StorageError: A warehouse folder is a file, or is not writable.
    """
    if configuration is not None and default_format != "iceberg":
        raise ConfigurationError(f"The catalog does not support the default_format {default_format!r}. Omit it, or use 'iceberg'.")
    if configuration is None and location is None:
        raise ConfigurationError("Neither a location nor a catalog is specified. Specify the folder or URL of a warehouse, or a catalog.")
    default_names = (*([str(configuration["name"]).lower()] if configuration and configuration.get("name") else []), *CATALOGS)
    check_further_catalogs(further, default_names)
    default = (
        DirectoryCatalog(open_storage(str(location))) if configuration is None else IcebergCatalog(configuration, location, open_storage)
    )
    if not further:
        return default
    opened = {str(each["name"]).lower(): _open_further(each, open_storage) for each in further}
    return Catalogs(default, default_names, opened)


def served_locations(catalog: Catalog, configuration: StorageConfiguration) -> list[str]:
    """Return the locations in object stores at which the server of a catalog puts tables, as far as its configuration tells.

    A server may name a location, as Polaris does (`default-base-location`). Otherwise, settings of S3 (`s3.region`, or `aws_region` in the
    storage options) indicate that its tables are on S3. Then the result is `ANY_S3`.

    Args:
        catalog: The catalog of a session, which may contain several catalogs.
        configuration: The storage options.
    """
    members = catalog.members if isinstance(catalog, Catalogs) else (catalog,)
    locations: list[str] = []
    for properties in (each.served_properties for each in members if isinstance(each, IcebergCatalog)):
        if properties is not None:
            named_locations = [value for value in properties.values() if "://" in value and value.partition("://")[0] in HADOOP_SCHEMES]
            locations += named_locations or [ANY_S3] * ("s3" in settings_of(properties) or bool(configuration.settings.get("s3")))
    return locations


def _open_further(configuration: Mapping[str, Any], open_storage: Callable[[str], Storage]) -> FurtherCatalog:
    """Open a further catalog whose configuration has been checked."""
    format_, prefix = default_format_of(configuration), f"{str(configuration['name']).lower()}."
    if is_warehouse_folder(configuration):
        return FurtherCatalog(DirectoryCatalog(open_storage(str(configuration["warehouse"])), prefix), format_)
    settings = {key: value for key, value in configuration.items() if key != FILE_FORMAT}
    return FurtherCatalog(IcebergCatalog(settings, None, open_storage, prefix), format_)
