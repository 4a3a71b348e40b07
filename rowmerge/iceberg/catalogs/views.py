"""The views of a catalog: with the requests of the Iceberg REST specification, or not supported.

`sql_views.py` in this package has the views of a SQL catalog, and `metastore_views.py` those of Hive and Glue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol
from urllib.parse import quote

from pyiceberg import exceptions
from pyiceberg.catalog.rest import Endpoints, RestCatalog
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.view.metadata import ViewVersion
from requests import Response

_STATUSES_WITHOUT_REPLACEMENT = (404, 405, 406, 501)
"""The HTTP status codes if a REST server has no such view (404), or does not support the replacement of views."""
_UNAUTHORIZED = (401, 419)
"""The HTTP status codes for a token that has expired."""
_ALTERNATIVES = "Create a table, or use a catalog that stores views (REST, SQL, Hive, Glue), or a warehouse folder without a catalog."


class CatalogViews(Protocol):
    """The views of a catalog. Names are as the catalog spells them. Errors are those of pyiceberg, and may contain secrets."""

    @property
    def rejection(self) -> str | None:
        """The reason why the catalog cannot store views, with the alternatives, or None if it can."""

    @property
    def have_files(self) -> bool:
        """Whether this process writes the metadata of views to files, so that a new view needs a location."""

    def names(self, namespace: str) -> list[str]:
        """Return the names of the views in a namespace, in any order."""

    def load(self, namespace: str, view: str) -> dict[str, Any] | None:
        """Return the metadata of a view in the JSON form of the Iceberg view spec, or None if the view does not exist.

        Args:
            namespace: The namespace of the view.
            view: The name of the view.
        """

    def create(self, namespace: str, view: str, metadata: Mapping[str, Any]) -> bool:
        """Create a view. Return False if a table or view has the name.

        Args:
            namespace: The namespace of the view.
            view: The name of the view.
            metadata: The metadata of the view in the JSON form of the Iceberg view spec.
        """

    def replace(self, namespace: str, view: str, old_metadata: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool | None:
        """Replace a view.

        Args:
            namespace: The namespace of the view.
            view: The name of the view.
            old_metadata: The metadata of the view to replace.
            metadata: The new metadata, which continues the old one.

        Returns:
            True if the view was replaced, False if another process changed or dropped it first, None if the catalog cannot replace views.
        """

    def rename(self, source: tuple[str, str], target: tuple[str, str]) -> bool:
        """Give a view another name. Return False if a table or view has the new name.

        Args:
            source: The namespace and the name of the view.
            target: The new namespace and the new name.

        Raises:
            NoSuchViewError: The view does not exist.
        """

    def drop(self, namespace: str, view: str) -> None:
        """Drop a view if it exists.

        Args:
            namespace: The namespace of the view.
            view: The name of the view.
        """


class NoViews:
    """The views of a catalog that cannot store views. `CatalogViews` documents the methods."""

    have_files = False

    def __init__(self, rejection: str = _ALTERNATIVES) -> None:
        """Initialize the object. `rejection`: what to do instead, as sentences for a message."""
        self.rejection = rejection

    def names(self, namespace: str) -> list[str]:
        return []

    def load(self, namespace: str, view: str) -> dict[str, Any] | None:
        return None

    def create(self, namespace: str, view: str, metadata: Mapping[str, Any]) -> bool:
        """Create a view, as documented in `CatalogViews.create`.

        Args:
            namespace: The namespace of the view.
            view: The name of the view.
            metadata: The metadata of the view.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(self.rejection)

    def replace(self, namespace: str, view: str, old_metadata: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool | None:
        """Replace a view, as documented in `CatalogViews.replace`.

        Args:
            namespace: The namespace of the view.
            view: The name of the view.
            old_metadata: The metadata of the view to replace.
            metadata: The new metadata.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(self.rejection)

    def rename(self, source: tuple[str, str], target: tuple[str, str]) -> bool:
        """Raise an error, because the catalog has no views.

        Args:
            source: The namespace and the name of the view.
            target: The new namespace and the new name.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(self.rejection)

    def drop(self, namespace: str, view: str) -> None:
        """Return without an effect, because there is no view."""


class RestViews:
    """The views of a REST catalog, whose server stores their metadata. `CatalogViews` documents the methods."""

    have_files = False

    def __init__(self, catalog: RestCatalog) -> None:
        """Initialize the views of a catalog."""
        self._catalog = catalog
        self.rejection: str | None = None  # until the server answers that it has no views

    def names(self, namespace: str) -> list[str]:
        if self.rejection is not None:
            return []
        with suppress(exceptions.NoSuchNamespaceError):
            return [identifier[-1] for identifier in self._catalog.list_views((namespace,))]
        return []

    def load(self, namespace: str, view: str) -> dict[str, Any] | None:
        if self.rejection is not None:
            return None
        try:
            loaded_view = self._catalog.load_view((namespace, view))
        except (exceptions.NoSuchViewError, exceptions.NoSuchNamespaceError):
            return None
        except NotImplementedError:
            self.rejection = _ALTERNATIVES
            return None
        metadata: dict[str, Any] = loaded_view.metadata.model_dump(mode="json", by_alias=True, exclude_none=True)
        return metadata

    def create(self, namespace: str, view: str, metadata: Mapping[str, Any]) -> bool:
        """Create a view, as documented in `CatalogViews.create`.

        Args:
            namespace: The namespace of the view.
            view: The name of the view.
            metadata: The metadata of the view.
        """
        version, schema = current_version(metadata)
        with suppress(exceptions.ViewAlreadyExistsError):
            # A new view has one version and one schema. Their ids do not depend on those in `metadata`.
            new_schema = Schema.model_validate({**schema, "schema-id": 0})
            new_version = ViewVersion.model_validate({**version, "version-id": 1, "schema-id": 0})
            self._catalog.create_view((namespace, view), new_schema, new_version, properties=metadata["properties"])
            return True
        return False

    def replace(self, namespace: str, view: str, old_metadata: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool | None:
        """Replace a view by a request to the server (replaceView), as documented in `CatalogViews.replace`.

        Args:
            namespace: The namespace of the view.
            view: The name of the view.
            old_metadata: The metadata of the view to replace.
            metadata: The new metadata. The view gets the current version of this metadata.

        Raises:
            RESTError: The server has refused the request.
        """
        url = self._catalog.url(Endpoints.load_view, namespace=quote(namespace, safe=""), view=quote(view, safe=""))
        response = self._post(url, replacement_request(namespace, view, old_metadata, metadata))
        # In both cases, the caller can drop the view, if it exists, and create it again.
        if response.status_code in _STATUSES_WITHOUT_REPLACEMENT:
            return None
        if not response.ok:
            raise exceptions.RESTError(_error_text(response))
        return True

    def rename(self, source: tuple[str, str], target: tuple[str, str]) -> bool:
        """Give a view another name. Return False if a table or view has it.

        Args:
            source: The namespace and the name of the view.
            target: The new namespace and the new name.

        Raises:
            RESTError: The server has refused the request.
        """
        names = {"source": source, "destination": target}
        request = {role: {"namespace": [namespace], "name": name} for role, (namespace, name) in names.items()}
        response = self._post(self._catalog.url("views/rename"), request)
        if response.status_code != 409 and not response.ok:
            raise exceptions.RESTError(_error_text(response))
        return bool(response.ok)

    def drop(self, namespace: str, view: str) -> None:
        with suppress(exceptions.NoSuchViewError, exceptions.NoSuchNamespaceError, NotImplementedError):
            self._catalog.drop_view((namespace, view))

    def _post(self, url: str, request: Mapping[str, Any]) -> Response:
        """Send a request for which pyiceberg 0.12 has no method. Only its private session has the user's certificates and tokens."""
        response = self._catalog._session.post(url, json=request)
        if response.status_code in _UNAUTHORIZED:  # pyiceberg's own methods also repeat a request with a new token
            self._catalog._refresh_token()
            response = self._catalog._session.post(url, json=request)
        return response


def _error_text(response: Response) -> str:
    """Return the server's message about a failed request."""
    try:
        message: str = response.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = response.text
    return f"{response.status_code} {response.reason}: {message}"


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
