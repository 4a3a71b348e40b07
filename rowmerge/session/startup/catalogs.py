"""Opening of the catalogs of a session from their configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rowmerge.catalog import Catalog, Catalogs, DirectoryCatalog, FurtherCatalog, IcebergCatalog
from rowmerge.commands.names import CATALOGS, FILE_FORMATS, TABLE_FORMATS
from rowmerge.errors import ConfigurationError
from rowmerge.storage.store import Storage

_FORMAT = "file_format"
_FOLDER_KEYS = ("name", "warehouse", _FORMAT)
_RESERVED = (*CATALOGS, *TABLE_FORMATS, *FILE_FORMATS, "path", "system", "information_schema")
"""Names that have another meaning before a dot: those of the default catalog, the formats of paths, and schemas of the engine."""


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


def check_further_catalogs(further: Sequence[Mapping[str, Any]], default_names: Sequence[str]) -> None:
    """Check the names and the keys of further catalogs. Messages contain no values of other keys, which can be secrets.

    Args:
        further: The configurations of the catalogs.
        default_names: The names of the default catalog in lower case.

    Raises:
        ConfigurationError: A name is missing, invalid or used twice, or a configuration is neither a folder nor a catalog of pyiceberg.
    """
    used = [*default_names]
    for each in further:
        name = str(each.get("name") or "").lower()
        if not name or "." in name:
            raise ConfigurationError("An entry of catalogs needs a name without a dot. Set name to the first part of its tables' names.")
        if name in used or name in _RESERVED:
            reason = "another catalog has it" if name in used else f"these are reserved: {', '.join(_RESERVED)}"
            raise ConfigurationError(f"The further catalog {name!r} cannot have this name: {reason}. Choose another name.")
        used.append(name)
        _check_keys(name, each)


def _check_keys(name: str, configuration: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for an entry without a location, with an unknown key of a folder, or with a wrong format."""
    if is_warehouse_folder(configuration):
        unknown = [key for key in configuration if key not in _FOLDER_KEYS]
        if unknown or not configuration.get("warehouse"):
            problem = f"has the key {unknown[0]!r}" if unknown else "has neither a warehouse nor a type"
            advice = f"A folder has the keys {', '.join(_FOLDER_KEYS)}. A catalog of pyiceberg has a type, such as sql or rest."
            raise ConfigurationError(f"The further catalog {name!r} {problem}. {advice}")
    formats = TABLE_FORMATS if is_warehouse_folder(configuration) else ("iceberg",)
    if str(configuration.get(_FORMAT, formats[0])).lower() not in formats:
        raise ConfigurationError(f"{_FORMAT} of the further catalog {name!r} is not one of {', '.join(formats)}. Change or remove it.")


def is_warehouse_folder(configuration: Mapping[str, Any]) -> bool:
    """Return whether a further catalog is a warehouse folder, and not a catalog of pyiceberg."""
    return not {"type", "uri", "py-catalog-impl"} & {*configuration}


def default_format_of(configuration: Mapping[str, Any]) -> str:
    """Return the format of new tables in a further catalog: its `file_format`, or Delta in a folder and Iceberg in other catalogs."""
    return str(configuration.get(_FORMAT) or ("delta" if is_warehouse_folder(configuration) else "iceberg")).lower()


def _open_further(configuration: Mapping[str, Any], open_storage: Callable[[str], Storage]) -> FurtherCatalog:
    """Open a further catalog whose configuration has been checked."""
    format_, prefix = default_format_of(configuration), f"{str(configuration['name']).lower()}."
    if is_warehouse_folder(configuration):
        return FurtherCatalog(DirectoryCatalog(open_storage(str(configuration["warehouse"])), prefix), format_)
    settings = {key: value for key, value in configuration.items() if key != _FORMAT}
    return FurtherCatalog(IcebergCatalog(settings, None, open_storage, prefix), format_)
