"""Read, replace and drop views, whose versions are metadata files in a folder (Iceberg View Spec, format version 1)."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from rowmerge.catalog import errors
from rowmerge.catalog.catalog import View
from rowmerge.catalog.layout import FolderContent, ViewFolder, finish_drops, inspect_folder, metadata_file, version_of_file
from rowmerge.catalog.names import quoted_name
from rowmerge.errors import AlreadyExists, CommitStateUnknown, CorruptLog, StorageError, TableError
from rowmerge.iceberg import CatalogClient
from rowmerge.iceberg.commits.drop import put_drop
from rowmerge.iceberg.metadata.view_schema import columns_of, iceberg_schema
from rowmerge.storage.deletion import PathOrigin, try_delete_files
from rowmerge.storage.store import Put, Storage
from rowmerge.table.commits.commit import put_once
from rowmerge.table.commits.drop_markers import after_drop, versions_of_drop_markers
from rowmerge.table.commits.request import Unknown
from rowmerge.table.metadata.json_objects import decode_json
from rowmerge.table.metadata.schema import Struct, schema_from_json, to_json
from rowmerge.table.relations import Relation

KEPT_VERSIONS = 10
"""The number of versions that a view keeps in its metadata and as files (`version.history.num-entries` in the Iceberg View Spec)."""

_MAX_ATTEMPTS = 20
"""The maximum number of attempts to replace a view, each of which fails only if another process replaces the view first."""
_SPARK_COLUMNS_PROPERTY = "rowmerge.columns"
"""The property that contains the columns as Spark's JSON, because Iceberg has no types for tinyint, smallint, char and varchar."""
_INVALID_METADATA_ERRORS = (ArithmeticError, KeyError, TypeError, ValueError, AttributeError)
"""The built-in errors that invalid metadata causes. For example, JSON allows the number 1e999, and `int` then raises OverflowError."""


def last_dropped_version(folder: Storage) -> int:
    """Return the last version at which an Iceberg table or a view in the folder was dropped, or 0 if none was dropped."""
    return max(versions_of_drop_markers(folder, "iceberg"), default=0)


def delete_old_versions(folder: Storage, newest_to_delete: int) -> None:
    """Delete the metadata files of a view's old versions, oldest first.

    Files up to the last drop in the folder belong to earlier relations of this name. The next drop or creation deletes them.

    Args:
        folder: The folder of the view.
        newest_to_delete: The newest version to delete. If it is zero or negative, nothing is deleted.
    """
    if newest_to_delete <= 0:
        return
    dropped_version = last_dropped_version(folder)
    versions = [version for file in folder.list("metadata") if (version := version_of_file(file.path)) is not None]
    old_versions = [version for version in sorted(versions) if dropped_version < version <= newest_to_delete]
    try_delete_files(folder, [[f"{folder.location}/{metadata_file(version)}" for version in old_versions]], PathOrigin.LISTING)


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
    versions = [*previous["versions"], _new_version(version, schema["schema-id"], view, now)][-KEPT_VERSIONS:]
    version_log = [*previous["version-log"], {"timestamp-ms": now, "version-id": version}]
    return {
        "view-uuid": previous["view-uuid"],
        "format-version": 1,
        "location": previous["location"],
        "schemas": _used_schemas(schemas, versions),
        "current-version-id": version,
        "versions": versions,
        "version-log": version_log[-KEPT_VERSIONS:],
        "properties": _view_properties(view),
    }


def _used_schemas(schemas: Sequence[dict[str, Any]], versions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the schemas to which at least one of these versions refers."""
    used_ids = {version["schema-id"] for version in versions}
    return [schema for schema in schemas if schema["schema-id"] in used_ids]


def _view_properties(view: View) -> dict[str, str]:
    """Return the properties of a view's metadata. The Iceberg View Spec has no other place for a comment and for Spark's types."""
    spark_columns = json.dumps(to_json(view.columns), separators=(",", ":"))
    comment_property = {} if view.comment is None else {"comment": view.comment}
    return {**view.properties, _SPARK_COLUMNS_PROPERTY: spark_columns, **comment_property}


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
        **({} if view.default_catalog is None else {"default-catalog": view.default_catalog}),
        "default-namespace": [view.default_schema],
    }


def parse_view(relation: Relation, metadata: Mapping[str, Any], file_version: int, path: str) -> View:
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
            raise CorruptLog(path, f"the format version of the view is {metadata['format-version']}, and only 1 is supported")
        return _parse_current_version(relation, metadata, file_version)
    except _INVALID_METADATA_ERRORS as error:
        raise CorruptLog(path, f"it is not valid view metadata ({type(error).__name__}: {error})") from error


def _parse_current_version(relation: Relation, metadata: Mapping[str, Any], file_version: int) -> View:
    """Parse the current definition of a view from its metadata.

    Raises built-in errors, such as KeyError, for invalid metadata, and TableError like `parse_view`.
    """
    version = _find_by_id(metadata["versions"], "version-id", metadata["current-version-id"])
    schema = _find_by_id(metadata["schemas"], "schema-id", version["schema-id"])
    properties = {str(name): str(value) for name, value in metadata.get("properties", {}).items()}
    # Two of the properties are part of the definition (see `_view_properties`).
    comment = properties.pop("comment", None)
    spark_columns = properties.pop(_SPARK_COLUMNS_PROPERTY, None)
    return View(
        relation=relation,
        sql=_spark_sql(relation, version["representations"]),
        default_schema=".".join(version["default-namespace"]),
        columns=_columns(schema, spark_columns),
        comment=comment,
        properties=properties,
        version=file_version,
        modified=int(version["timestamp-ms"]),
        default_catalog=version.get("default-catalog"),
    )


def _find_by_id(entries: Sequence[Mapping[str, Any]], id_key: str, id_: Any) -> Mapping[str, Any]:
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
    raise TableError(f"The view {relation} has no SQL for Spark (dialects: {dialects}). Replace it with CREATE OR REPLACE VIEW.")


def put_view(folder: Storage, view: View, *, or_replace: bool) -> View:
    """Create a view, or put its next version, and return the stored view.

    Args:
        folder: The folder of the view.
        view: The definition of the view. Its version and modification time are ignored.
        or_replace: Whether to replace an existing view.

    Raises:
        AlreadyExists: The folder contains a table, or a view while `or_replace` is false.
        CommitStateUnknown: It is not known whether the version was written.
    """
    schema, name = view.relation.schema, view.relation.name
    for _ in range(_MAX_ATTEMPTS):
        content = inspect_folder(folder)
        may_put = content is None or (or_replace and isinstance(content, ViewFolder))
        if not may_put:
            raise errors.already_exists(schema, name)
        stored_view = _try_put_next_version(folder, content, view, or_replace=or_replace)
        if stored_view is not None:
            return stored_view
    label = quoted_name(schema, name)
    raise AlreadyExists(f"Concurrent writers replaced the view {label} {_MAX_ATTEMPTS} times. Run the statement again.")


def _try_put_next_version(folder: Storage, content: FolderContent | None, view: View, *, or_replace: bool) -> View | None:
    """Put the next version of a view, and return the stored view. Return None if the folder must be inspected again.

    `content`: the view to replace, or None for a new view. Another process may change the folder after its inspection, in two ways:

    - It puts a file of this version first. Then the put fails. Raises AlreadyExists if `or_replace` is false.
    - It creates or drops a table in the same folder. Then the put may succeed, although the catalog does not find the view (the view is
      hidden). So the version is deleted again.
    """
    schema, name = view.relation.schema, view.relation.name
    version, metadata = _next_version(folder, content, view)
    label = quoted_name(schema, name)
    data = json.dumps(metadata, ensure_ascii=False, indent=2).encode()
    if not put_once(folder, metadata_file(version), data, f"the view {label}"):
        if or_replace:
            return None
        raise errors.already_exists(schema, name)
    if withdraw_if_hidden(folder, version, label):
        return None
    delete_old_versions(folder, version - KEPT_VERSIONS)
    return parse_view(Relation.of_view(schema, name), metadata, version, f"{folder.location}/{metadata_file(version)}")


def _next_version(folder: Storage, content: FolderContent | None, view: View) -> tuple[int, dict[str, Any]]:
    """Return the number and the metadata of a view's next version. The number of a new view follows the last drop in its folder."""
    now = time.time_ns() // 1_000_000
    if isinstance(content, ViewFolder):
        version = content.version + 1
        return version, next_metadata(content.metadata, version, view, now)
    return last_dropped_version(folder) + 1, first_metadata(folder.location, view, now)


def drop_view(folder: Storage, name: str, view: ViewFolder) -> None:
    """Drop a view: put a new version that is marked as dropped, and delete the older versions.

    If another process puts the next version first, the drop is retried as long as the folder contains the view with the same UUID. If the
    folder no longer contains this view, only the files of earlier drops are deleted. A later relation in the folder continues the version
    numbers, so no concurrent statement on the old view can write to the later relation.

    Args:
        folder: The folder of the view.
        name: The name of the view, for messages.
        view: The content of the folder, with the newest version of the view.

    Raises:
        CommitStateUnknown: It is not known whether the version that drops the view was written.
        StorageError: The view was certainly not dropped, or it was dropped but its files cannot be deleted.
    """
    view_uuid = view.metadata.get("view-uuid")
    content: FolderContent | None = view
    while isinstance(content, ViewFolder) and content.metadata.get("view-uuid") == view_uuid:
        outcome = put_drop(folder, content.version + 1)
        if isinstance(outcome, Unknown):
            advice = "Check whether it still exists, and drop it again if it does."
            raise CommitStateUnknown(f"It is not known whether {name} was dropped: {outcome.reason}. {advice}")
        if outcome is Put.CREATED:
            break
        content = inspect_folder(folder)  # another process has put this version: retry with the next one
    with after_drop(name):
        finish_drops(folder, name)


def drop_if_exists(folder: Storage, name: str) -> None:
    """Drop the view in a folder, or do nothing if there is none.

    Args:
        folder: The folder of the view.
        name: The name of the view, for messages.

    Raises:
        CommitStateUnknown: It is not known whether the view was dropped.
        StorageError: The folder cannot be read, or the view's files cannot be deleted.
    """
    content = inspect_folder(folder)
    if isinstance(content, ViewFolder):
        drop_view(folder, name, content)


def withdraw_if_hidden(folder: Storage, version: int, view: str) -> bool:
    """Delete the version of a view that was just put if the view is hidden, and return whether it was deleted.

    A view is hidden if the catalog finds something else in its folder. Another process causes this if it creates or drops a table between
    the inspection of the folder and the put:

    - A Delta table hides a view, because the catalog looks for a Delta log first.
    - A view and an Iceberg table have the same file names, `v<N>.metadata.json`, and the newest file counts. The other process may create
      an Iceberg table as version 3, drop it in version 4, and delete version 3. A view put as version 3 is then older than the drop.

    Args:
        folder: The folder of the view.
        version: The number of the version that was put.
        view: The name of the view, for messages.

    Raises:
        CommitStateUnknown: The folder cannot be inspected.
    """
    try:
        is_hidden = not isinstance(inspect_folder(folder), ViewFolder)
    except StorageError as error:
        raise CommitStateUnknown(f"It is not known whether {view} was created: {error.message} Check whether it exists.") from error
    if is_hidden:
        try_delete_files(folder, [[f"{folder.location}/{metadata_file(version)}"]], PathOrigin.THIS_PROCESS)
    return is_hidden


def check_has_views(client: CatalogClient, view: str) -> None:
    """Check that a catalog supports views. `view`: the name of the view to create, for the message.

    Raises:
        TableError: The catalog does not support views.
    """
    rejection = client.view_store.rejection
    if rejection is not None:
        problem = f"The view {view} cannot be created: the catalog {client.name} ({client.kind}) does not support views"
        raise TableError(f"{problem}. {rejection}")


def commit_view(client: CatalogClient, namespace: str, view: View, location: str) -> bool:
    """Store a view in a catalog. Return False if another process creates, replaces or drops the view at the same time.

    Args:
        client: The client of the catalog.
        namespace: The namespace of the view, as the catalog spells it.
        view: The new definition of the view.
        location: The folder that a table of this name would get, or an empty string if the catalog chooses the location of the view.
    """
    name, now = view.relation.name, time.time_ns() // 1_000_000
    for _ in range(_MAX_ATTEMPTS):
        old = client.load_view(namespace, name)
        if old is None:
            # No table can get this folder: the catalog may give the name of a renamed view to a table, whose VACUUM deletes other files.
            return client.create_view(namespace, name, first_metadata(location and f"{location}.view-{uuid4()}", view, now))
        version = max(int(version["version-id"]) for version in old["versions"]) + 1
        was_replaced = client.replace_view(namespace, name, old, next_metadata(old, version, view, now))
        if was_replaced:
            return True
        if was_replaced is None:
            # The server cannot replace a view. A concurrent reader may find no view between the drop and the creation.
            client.drop_view(namespace, name)
            return client.create_view(namespace, name, first_metadata("", view, now))
    return False
