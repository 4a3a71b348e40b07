"""Registration of a table under a name, by the path of its newest metadata file."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rowmerge.catalog import errors
from rowmerge.catalog.catalog import Catalog
from rowmerge.catalog.iceberg import IcebergCatalog
from rowmerge.catalog.layout import LOG, METADATA, version_of_file
from rowmerge.catalog.paths import without_paths
from rowmerge.errors import FilesNotFound, PlanError
from rowmerge.storage.store import Storage, absolute_location

_DELTA_COMMIT = re.compile(r"(?P<folder>.+)/_delta_log/0*(?P<version>\d+)\.json")
_ICEBERG_METADATA = re.compile(r"(?P<folder>.+)/metadata/[^/]+\.metadata\.json")


@dataclass(frozen=True)
class _MetadataFile:
    """A metadata file. `version`: the number of the version in its name, or None for an Iceberg file whose name has none."""

    folder: str
    format: str
    version: int | None


def register_metadata(catalog: Catalog, storage: Storage, schema: str, name: str, path: str) -> None:
    """Register the table of a metadata file: `metadata/….metadata.json` of Iceberg, or `_delta_log/….json` of Delta.

    Args:
        catalog: The catalog of the new name.
        storage: A storage with the options of the session.
        schema: The name of the schema.
        name: The new name of the table.
        path: The path of the table's newest metadata file.

    Raises:
        AlreadyExists: The catalog has a table or view of this name.
        FilesNotFound: The file does not exist.
        PlanError: The file is not the newest one, or only another catalog can find the newest one.
        CorruptLog: The file is not a metadata file.
    """
    path = absolute_location(path)
    if catalog.relation(schema, name) is not None:
        raise errors.already_exists(schema, name)
    file = _parse(path)
    folder = storage.at(file.folder)
    if not folder.exists(path.removeprefix(f"{folder.location}/")):
        raise FilesNotFound(path, "metadata file", "Check the path.")
    catalog = without_paths(catalog)
    if isinstance(catalog, IcebergCatalog):
        if file.format != "iceberg":
            raise PlanError(f"{path} belongs to a Delta table, which an Iceberg catalog cannot contain. Use a warehouse folder.")
        catalog.register_metadata(schema, name, path)
        return
    _check_newest(folder, file, path)
    catalog.new_table(schema, name, file.format, file.folder).snapshot()  # raises an error if the table cannot be read
    catalog.register(schema, name, file.format, file.folder)


def _parse(path: str) -> _MetadataFile:
    """Return what the path of a metadata file tells. Raise PlanError for a path that is not that of a metadata file."""
    if match := _DELTA_COMMIT.fullmatch(path):
        return _MetadataFile(match["folder"], "delta", int(match["version"]))
    if match := _ICEBERG_METADATA.fullmatch(path):
        return _MetadataFile(match["folder"], "iceberg", version_of_file(path))
    raise PlanError(f"{path} is not a metadata file. Specify metadata/….metadata.json of an Iceberg table, or _delta_log/….json of Delta.")


def _check_newest(folder: Storage, file: _MetadataFile, path: str) -> None:
    """Raise PlanError unless readers of a warehouse folder find the file as the newest version of its table."""
    if file.version is None:
        problem = f"{path} has no version in its name, so only the catalog that wrote it can find the newest metadata."
        raise PlanError(f"{problem} Connect to a catalog of Iceberg tables, and register the table there.")
    if file.format == "delta":
        versions = [int(match["version"]) for match in map(_DELTA_COMMIT.fullmatch, _paths(folder, LOG)) if match]
    else:
        versions = [version for version in map(version_of_file, _paths(folder, METADATA)) if version is not None]
    if file.version < max(versions, default=0):
        problem = f"{path} is version {file.version} of its table, whose newest version is {max(versions)}."
        raise PlanError(f"{problem} Specify the newest one, or RESTORE the table afterwards.")


def _paths(folder: Storage, subfolder: str) -> list[str]:
    return [f"{folder.location}/{file.path}" for file in folder.list(subfolder)]
