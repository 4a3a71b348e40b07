"""The requests of the Iceberg REST specification that change views, which pyiceberg 0.12 lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.schema import Schema, assign_fresh_schema_ids


def replacement_request(namespace: str, view: str, old_metadata: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the CommitViewRequest of the REST specification that replaces a view.

    The version id -1 in a request stands for the version that the request adds.

    Args:
        namespace: The namespace of the view.
        view: The name of the view.
        old_metadata: The current metadata of the view in the JSON form of the Iceberg view spec.
        metadata: The new metadata in the same form.
    """
    version, schema = current_version(metadata)
    schema_id, schema_updates = _add_schema(old_metadata["schemas"], assign_fresh_schema_ids(Schema.model_validate(schema)))
    version_id = max(old_version["version-id"] for old_version in old_metadata["versions"]) + 1
    new_version = {**version, "version-id": version_id, "schema-id": schema_id}
    updates = [
        *schema_updates,
        {"action": "add-view-version", "view-version": new_version},
        {"action": "set-current-view-version", "view-version-id": -1},
        {"action": "set-properties", "updates": metadata["properties"]},
    ]
    removed_properties = sorted(set(old_metadata.get("properties", {})) - set(metadata["properties"]))
    if removed_properties:
        updates.append({"action": "remove-properties", "removals": removed_properties})
    requirements = [{"type": "assert-view-uuid", "uuid": old_metadata["view-uuid"]}]
    return {"identifier": {"namespace": [namespace], "name": view}, "requirements": requirements, "updates": updates}


def _add_schema(old_schemas: Sequence[Mapping[str, Any]], schema: Schema) -> tuple[int, list[dict[str, Any]]]:
    """Return the id of a schema in a view, and the update that adds the schema. If the view has an equal schema, return no update."""
    schemas = [Schema.model_validate(old_schema) for old_schema in old_schemas]
    for old_schema in schemas:
        if old_schema.as_struct() == schema.as_struct():
            return old_schema.schema_id, []
    schema_id = max((old_schema.schema_id for old_schema in schemas), default=-1) + 1
    return schema_id, [{"action": "add-schema", "schema": {**schema.model_dump(mode="json", by_alias=True), "schema-id": schema_id}}]


def current_version(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the current version of a view, and its schema."""
    versions = {version["version-id"]: version for version in metadata["versions"]}
    schemas = {schema["schema-id"]: schema for schema in metadata["schemas"]}
    current_version = versions[metadata["current-version-id"]]
    return current_version, schemas[current_version["schema-id"]]
