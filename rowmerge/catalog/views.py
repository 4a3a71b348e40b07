"""Read and write the metadata files of views (Iceberg View Spec, format version 1)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from rowmerge.catalog.catalog import Relation, View
from rowmerge.errors import CorruptLog, TableError
from rowmerge.iceberg.metadata.view_schema import columns_of, iceberg_schema
from rowmerge.storage.deletion import PathOrigin, try_delete_files
from rowmerge.storage.store import Storage
from rowmerge.table.commits.drop_markers import marked_versions
from rowmerge.table.metadata.json_objects import decode_json
from rowmerge.table.metadata.schema import Struct, schema_from_json, to_json

KEPT_VERSIONS = 10
"""The number of versions that a view keeps in its metadata and as files (`version.history.num-entries` in the Iceberg View Spec)."""

_COLUMNS = "rowmerge.columns"
"""The property that contains the columns as Spark's JSON, because Iceberg has no types for tinyint, smallint, char and varchar."""


def file_of(version: int) -> str:
    """Return the path of a version's metadata file, relative to the view's folder."""
    return f"metadata/v{version}.metadata.json"


def version_of(path: str) -> int | None:
    """Return the version in the path of a view's metadata file, or None for any other file."""
    match = re.fullmatch(r"(?:.*/)?metadata/v([1-9][0-9]*)\.metadata\.json", path)
    return int(match[1]) if match else None


def last_drop(folder: Storage) -> int:
    """Return the last version at which an Iceberg table or a view in the folder was dropped, or 0 if none was dropped."""
    return max(marked_versions(folder, "iceberg"), default=0)


def forget_versions(folder: Storage, last: int) -> None:
    """Delete the metadata files of a view's old versions, oldest first. Files up to the last drop in the folder are kept.

    Args:
        folder: The folder of the view.
        last: The newest version to delete. If it is zero or negative, nothing is deleted.
    """
    if last > 0:
        dropped_version = last_drop(folder)
        versions = sorted(version for file in folder.list("metadata") if (version := version_of(file.path)) is not None)
        paths = [f"{folder.location}/{file_of(version)}" for version in versions if dropped_version < version <= last]
        try_delete_files(folder, [paths], PathOrigin.LISTING)


def first_metadata(location: str, view: View, now: int) -> dict[str, Any]:
    """Return the metadata of a new view.

    Args:
        location: The location of the view's folder.
        view: The definition of the view.
        now: The current time in milliseconds since the epoch.
    """
    empty = {"view-uuid": str(uuid4()), "location": location, "schemas": [], "versions": [], "version-log": []}
    return next_metadata(empty, 1, view, now)


def next_metadata(previous: Mapping[str, Any], version: int, view: View, now: int) -> dict[str, Any]:
    """Return the metadata of a replaced view: the previous metadata with a new version. It keeps the last KEPT_VERSIONS versions.

    Args:
        previous: The metadata before the replacement, as JSON.
        version: The number of the new version.
        view: The new definition of the view.
        now: The current time in milliseconds since the epoch.
    """
    old_schemas = previous["schemas"]
    schema = _schema_for(view.columns, old_schemas)
    schemas = old_schemas if schema in old_schemas else [*old_schemas, schema]
    versions = [*previous["versions"], _new_version(version, schema["schema-id"], view, now)]
    version_log = [*previous["version-log"], {"timestamp-ms": now, "version-id": version}]
    comment = {} if view.comment is None else {"comment": view.comment}
    spark_columns = json.dumps(to_json(view.columns), separators=(",", ":"))
    used_schema_ids = {kept_version["schema-id"] for kept_version in versions[-KEPT_VERSIONS:]}
    return {
        "view-uuid": previous["view-uuid"],
        "format-version": 1,
        "location": previous["location"],
        "schemas": [used_schema for used_schema in schemas if used_schema["schema-id"] in used_schema_ids],
        "current-version-id": version,
        "versions": versions[-KEPT_VERSIONS:],
        "version-log": version_log[-KEPT_VERSIONS:],
        "properties": {**view.properties, _COLUMNS: spark_columns, **comment},
    }


def _schema_for(columns: Struct, schemas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the Iceberg schema of a view's columns: the schema of an older version if it has the same fields, or else a new schema."""
    new_schema = iceberg_schema(columns, max((schema["schema-id"] for schema in schemas), default=-1) + 1)
    return next((schema for schema in schemas if schema["fields"] == new_schema["fields"]), new_schema)


def _new_version(version: int, schema_id: int, view: View, now: int) -> dict[str, Any]:
    """Return the JSON of a view's version ("Versions" in the Iceberg View Spec). `now`: the time in milliseconds since the epoch."""
    return {
        "version-id": version,
        "timestamp-ms": now,
        "schema-id": schema_id,
        "summary": {"engine-name": "rowmerge", "writer": str(uuid4())},
        "representations": [{"type": "sql", "sql": view.sql, "dialect": "spark"}],
        "default-namespace": [view.default_schema],
    }


def view_of(relation: Relation, metadata: Mapping[str, Any], file_version: int, path: str) -> View:
    """Return the current definition of a view from its metadata.

    Args:
        relation: The name of the view.
        metadata: The content of the metadata file, as JSON.
        file_version: The number of the metadata file.
        path: The path of the metadata file, for messages.

    Raises:
        CorruptLog: The metadata is invalid.
        TableError: The view has no SQL in Spark's dialect.
    """
    try:
        if metadata["format-version"] != 1:
            raise CorruptLog(path, f"view format version {metadata['format-version']} is not known, only 1")
        return _parse_current_version(relation, metadata, file_version)
    except (ArithmeticError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptLog(path, f"it is no view metadata ({type(error).__name__}: {error})") from error


def _parse_current_version(relation: Relation, metadata: Mapping[str, Any], file_version: int) -> View:
    """Parse the current definition of a view from its metadata.

    Raises built-in errors, such as KeyError, for invalid metadata, and TableError like `view_of`.
    """
    version = _entry(metadata["versions"], "version-id", metadata["current-version-id"])
    properties = {str(name): str(value) for name, value in metadata.get("properties", {}).items()}
    comment, spark_columns = properties.pop("comment", None), properties.pop(_COLUMNS, None)
    schema = _entry(metadata["schemas"], "schema-id", version["schema-id"])
    return View(
        relation=relation,
        sql=_spark_sql(relation, version["representations"]),
        default_schema=".".join(version["default-namespace"]),
        columns=_columns(schema, spark_columns),
        comment=comment,
        properties=properties,
        version=file_version,
        modified=int(version["timestamp-ms"]),
    )


def _entry(entries: Sequence[Mapping[str, Any]], id_key: str, id_: Any) -> Mapping[str, Any]:
    """Return the last entry with this id. Raises KeyError if there is no such entry. `id_key`: the key of the id in an entry."""
    return {entry[id_key]: entry for entry in entries}[id_]


def _columns(iceberg: Mapping[str, Any], spark_json: str | None) -> Struct:
    """Return the columns of a view from Spark's JSON, or from the Iceberg schema if their names differ.

    The names differ if another engine has replaced the view and kept the property with Spark's JSON.
    """
    columns = columns_of(iceberg)
    spark_columns = schema_from_json(decode_json(spark_json)) if spark_json else columns
    return spark_columns if spark_columns.names == columns.names else columns


def _spark_sql(relation: Relation, representations: Sequence[Mapping[str, Any]]) -> str:
    """Return a view's SQL in Spark's dialect. Raises TableError if the view has SQL only in other dialects."""
    for representation in representations:
        if representation["type"] == "sql" and representation["dialect"].lower() == "spark":
            return str(representation["sql"])
    dialects = ", ".join(sorted(str(representation.get("dialect")) for representation in representations)) or "none"
    raise TableError(f"The view {relation} has no SQL for Spark (dialects: {dialects}). Create it again with CREATE OR REPLACE VIEW.")
