"""A view's metadata file after the Iceberg view spec (format version 1): its text, and what it says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from rowmerge.catalog.relation import Relation, View
from rowmerge.errors import CorruptLog, TableError
from rowmerge.iceberg.metadata.view_schema import columns_of, iceberg_schema
from rowmerge.storage.deletion import Origin, clean_up
from rowmerge.storage.store import Storage
from rowmerge.table.commits.drop_markers import marked_versions
from rowmerge.table.metadata.json_objects import decode_json
from rowmerge.table.metadata.schema import Struct, schema_from_json, to_json

KEPT_VERSIONS = 10
"""How many versions of a view stay, in its metadata and as files (the spec's `version.history.num-entries`)."""

_COLUMNS = "rowmerge.columns"
"""Property with the columns in Spark's own JSON: Iceberg's types cannot tell tinyint, smallint, char and varchar apart."""


@dataclass(frozen=True)
class ViewText:
    """What CREATE VIEW says of a view."""

    sql: str
    default_schema: str
    columns: Struct
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def file_of(version: int) -> str:
    """The path of a version's metadata below the view's folder."""
    return f"metadata/v{version}.metadata.json"


def version_of(path: str) -> int | None:
    """The version whose metadata file this is, or None."""
    match = re.fullmatch(r"(?:.*/)?metadata/v([1-9][0-9]*)\.metadata\.json", path)
    return int(match[1]) if match else None


def versions_of(folder: Storage) -> list[int]:
    """Return the versions of a view in ascending order. A version at which an Iceberg table was dropped is no view's."""
    last_drop = _last_drop(folder)
    return sorted(version for o in folder.list("metadata") if (version := version_of(o.path)) is not None and version > last_drop)


def version_after(folder: Storage, before: tuple[int, Mapping[str, Any]] | None, text: ViewText, now: int) -> tuple[int, dict[str, Any]]:
    """Return the next version of a view, and its metadata. `before`: those of the version before, None for a new view."""
    if before is not None:
        return before[0] + 1, next_metadata(before[1], before[0] + 1, text, now)
    return 1 + _last_drop(folder), first_metadata(folder.location, text, now)


def _last_drop(folder: Storage) -> int:
    """Return the version at which an Iceberg table or a view was dropped in the folder last, 0 if none was."""
    return max(marked_versions(folder, "iceberg"), default=0)


def forget_versions(folder: Storage, last: int) -> None:
    """Delete a view's metadata files up to and including a version."""
    if last > 0:
        clean_up(folder, [[f"{folder.location}/{file_of(version)}" for version in versions_of(folder) if version <= last]], Origin.LISTED)


def first_metadata(location: str, text: ViewText, now: int) -> dict[str, Any]:
    """The metadata of a new view; `now` in milliseconds since the epoch."""
    empty = {"view-uuid": str(uuid4()), "location": location, "schemas": [], "versions": [], "version-log": []}
    return next_metadata(empty, 1, text, now)


def next_metadata(old: Mapping[str, Any], version: int, text: ViewText, now: int) -> dict[str, Any]:
    """The metadata of a view that is replaced: `old` with one more version, the oldest ones left out."""
    schemas = list(old["schemas"])
    columns = iceberg_schema(text.columns, max((s["schema-id"] for s in schemas), default=-1) + 1)
    same = [s for s in schemas if s["fields"] == columns["fields"]]
    schema_id = same[0]["schema-id"] if same else columns["schema-id"]
    if not same:
        schemas.append(columns)
    added = {
        "version-id": version,
        "timestamp-ms": now,
        "schema-id": schema_id,
        "summary": {"engine-name": "rowmerge", "writer": str(uuid4())},
        "representations": [{"type": "sql", "sql": text.sql, "dialect": "spark"}],
        "default-namespace": [text.default_schema],
    }
    versions = [*old["versions"], added][-KEPT_VERSIONS:]
    log = [*old["version-log"], {"timestamp-ms": now, "version-id": version}][-KEPT_VERSIONS:]
    properties = {**text.properties, _COLUMNS: json.dumps(to_json(text.columns), separators=(",", ":"))}
    if text.comment is not None:
        properties["comment"] = text.comment
    used = {v["schema-id"] for v in versions}
    return {
        "view-uuid": old["view-uuid"],
        "format-version": 1,
        "location": old["location"],
        "schemas": [s for s in schemas if s["schema-id"] in used],
        "current-version-id": version,
        "versions": versions,
        "version-log": log,
        "properties": properties,
    }


def view_of(relation: Relation, content: Mapping[str, Any], file_version: int, path: str) -> View:
    """The newest definition in a view's metadata. Raises CorruptLog, and TableError when the view is in another SQL dialect."""
    try:
        if content["format-version"] != 1:
            raise CorruptLog(path, f"view format version {content['format-version']} is not known, only 1")
        current = {v["version-id"]: v for v in content["versions"]}[content["current-version-id"]]
        properties = {str(k): str(v) for k, v in content.get("properties", {}).items()}
        comment, spark_columns = properties.pop("comment", None), properties.pop(_COLUMNS, None)
        iceberg = {s["schema-id"]: s for s in content["schemas"]}[current["schema-id"]]
        return View(
            relation=relation,
            sql=_spark_sql(relation, current["representations"]),
            default_schema=".".join(current["default-namespace"]),
            columns=_columns(iceberg, spark_columns),
            comment=comment,
            properties=properties,
            version=file_version,
            modified=int(current["timestamp-ms"]),
        )
    except (ArithmeticError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptLog(path, f"it is no view metadata ({type(error).__name__}: {error})") from error


def _columns(iceberg: Mapping[str, Any], spark: str | None) -> Struct:
    """Spark's own form when it is about the same columns; another engine that replaced the view leaves it as it was."""
    columns = columns_of(iceberg)
    kept = schema_from_json(decode_json(spark)) if spark else columns
    return kept if kept.names == columns.names else columns


def _spark_sql(relation: Relation, representations: list[Mapping[str, Any]]) -> str:
    for representation in representations:
        if representation["type"] == "sql" and representation["dialect"].lower() == "spark":
            return str(representation["sql"])
    dialects = ", ".join(sorted(str(r.get("dialect")) for r in representations)) or "none"
    raise TableError(f"The view {relation} has no SQL for Spark (dialects: {dialects}). Create it again with CREATE OR REPLACE VIEW.")
