"""Checks of the configuration of further catalogs, without access to a catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rowmerge.commands.names import CATALOGS, FILE_FORMATS, TABLE_FORMATS
from rowmerge.errors import ConfigurationError

FILE_FORMAT = "file_format"
_FOLDER_KEYS = ("name", "warehouse", FILE_FORMAT)
_RESERVED = (*CATALOGS, *TABLE_FORMATS, *FILE_FORMATS, "path", "system", "information_schema")
"""Names that have another meaning before a dot: those of the default catalog, the formats of paths, and schemas of the engine."""


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
    if str(configuration.get(FILE_FORMAT, formats[0])).lower() not in formats:
        raise ConfigurationError(f"{FILE_FORMAT} of the further catalog {name!r} is not one of {', '.join(formats)}. Change or remove it.")


def is_warehouse_folder(configuration: Mapping[str, Any]) -> bool:
    """Return whether a further catalog is a warehouse folder, and not a catalog of pyiceberg."""
    return not {"type", "uri", "py-catalog-impl"} & {*configuration}


def default_format_of(configuration: Mapping[str, Any]) -> str:
    """Return the format of new tables in a further catalog: its `file_format`, or Delta in a folder and Iceberg in other catalogs."""
    return str(configuration.get(FILE_FORMAT) or ("delta" if is_warehouse_folder(configuration) else "iceberg")).lower()
