"""A small server of the Iceberg REST catalog's endpoints over a SQL catalog of pyiceberg, with views in memory."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from pyiceberg.io import load_file_io
from pyiceberg.table import CommitTableRequest, StagedTable

from tests.support.rest_security import Answer, RestRequest, Security

STATUS = {
    NoSuchNamespaceError: 404,
    NoSuchTableError: 404,
    NoSuchViewError: 404,
    NamespaceAlreadyExistsError: 409,
    NamespaceNotEmptyError: 409,
    TableAlreadyExistsError: 409,
    ViewAlreadyExistsError: 409,
    CommitFailedException: 409,
}
ENDPOINTS = [
    "GET /v1/{prefix}/namespaces",
    "POST /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "DELETE /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/tables/rename",
    "POST /v1/{prefix}/views/rename",
    "GET /v1/{prefix}/namespaces/{namespace}/views",
    "POST /v1/{prefix}/namespaces/{namespace}/views",
    "GET /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "POST /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}",
]
Interference = Callable[[str, Callable[[], Answer]], Answer | None]
"""Returns the answer to a request such as `POST /v1/…`, with or without a call of its handler, or None to cut the connection."""


@contextmanager
def serving(sql: Mapping[str, str], interfering: Interference | None = None, security: Security | None = None) -> Iterator[str]:
    """Serve a SQL catalog with this configuration, and yield the address of the server."""
    security = security or Security()
    endpoints = Endpoints(SqlCatalog("served", **sql))
    interfere = interfering or (lambda request, answer: answer())

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one write for head and body: the second of two waits 40 ms for the first to be acknowledged

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            data = self.rfile.read(length)
            request = RestRequest(self.command, self.path, {name.lower(): value for name, value in self.headers.items()}, data)

            def call() -> Answer:
                return endpoints.call(request.method, request.path, json.loads(data) if data else {})

            answer = interfere(f"{request.method} {request.path}", lambda: security.answer(request, call))
            if answer is None:
                self.close_connection = True
                return
            status, content = answer
            response = b"" if content is None else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(response)))
            self.end_headers()
            self.wfile.write(response)

        do_GET = do_POST = do_DELETE = answer

        def log_message(self, format: str, *args: Any) -> None:
            """Print no log messages to the console of the tests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Endpoints:
    """The endpoints of the server: each returns a status and a JSON value for a method, a path and a body."""

    def __init__(self, catalog: SqlCatalog) -> None:
        self.catalog = catalog
        self.views: dict[tuple[str, str], dict[str, Any]] = {}
        here: dict[str, Callable[..., Answer]] = {
            "GET /v1/config": lambda body: (200, {"defaults": {}, "overrides": {}, "endpoints": ENDPOINTS}),
            "GET /v1/namespaces": lambda body: (200, {"namespaces": [list(each) for each in self.catalog.list_namespaces()]}),
            "POST /v1/namespaces": self.create_namespace,
            "GET /v1/namespaces/{}": lambda body, n: (
                200,
                {"namespace": [n], "properties": dict(self.catalog.load_namespace_properties((n,)))},
            ),
            "DELETE /v1/namespaces/{}": self.drop_namespace,
            "GET /v1/namespaces/{}/tables": lambda body, n: (
                200,
                {"identifiers": [_serialize_identifier(each) for each in self.catalog.list_tables((n,))]},
            ),
            "POST /v1/namespaces/{}/tables": self.create_table,
            "GET /v1/namespaces/{}/tables/{}": lambda body, n, t: (200, _loaded(self.catalog.load_table((n, t)))),
            "POST /v1/namespaces/{}/tables/{}": self.commit,
            "DELETE /v1/namespaces/{}/tables/{}": lambda body, n, t: (204, self.catalog.drop_table((n, t))),
            "POST /v1/tables/rename": self.rename_table,
            "POST /v1/views/rename": self.rename_view,
            "GET /v1/namespaces/{}/views": lambda body, n: (
                200,
                {"identifiers": [_serialize_identifier(each) for each in self.views if each[0] == n]},
            ),
            "POST /v1/namespaces/{}/views": self.create_view,
            "GET /v1/namespaces/{}/views/{}": lambda body, n, v: (200, self.view(n, v)),
            "POST /v1/namespaces/{}/views/{}": self.replace_view,
            "DELETE /v1/namespaces/{}/views/{}": self.drop_view,
        }
        self.routes = [(re.compile(route.replace("{}", "([^/]+)")), answer) for route, answer in here.items()]

    def call(self, method: str, path: str, body: dict[str, Any]) -> Answer:
        for route, answer in self.routes:
            if match := route.fullmatch(f"{method} {path}"):
                try:
                    return answer(body, *map(unquote, match.groups()))
                except tuple(STATUS) as error:
                    return _error(STATUS[type(error)], error)
                except Exception as error:  # noqa: BLE001 - a server tells its client
                    return _error(500, error)
        return _error(404, NoSuchTableError(f"no endpoint {method} {path}"))

    def create_namespace(self, body: dict[str, Any]) -> Answer:
        self.catalog.create_namespace(tuple(body["namespace"]), body.get("properties", {}))
        return 200, {"namespace": body["namespace"], "properties": body.get("properties", {})}

    def drop_namespace(self, body: dict[str, Any], namespace: str) -> Answer:
        if any(key[0] == namespace for key in self.views):
            raise NamespaceNotEmptyError(namespace)
        self.catalog.drop_namespace((namespace,))
        return 204, None

    def create_table(self, body: dict[str, Any], namespace: str) -> Answer:
        request = CreateTableRequest.model_validate({"location": None, **body})
        identifier = (namespace, request.name)
        if self.catalog.table_exists(identifier):
            raise TableAlreadyExistsError(".".join(identifier))
        definition = {"location": request.location, "properties": request.properties}
        if request.stage_create:
            staged = self.catalog.create_table_transaction(identifier, request.table_schema, **definition)
            return 200, {"metadata": json.loads(staged.table_metadata.model_dump_json()), "config": {}}
        return 200, _loaded(self.catalog.create_table(identifier, request.table_schema, **definition))

    def commit(self, body: dict[str, Any], namespace: str, table: str) -> Answer:
        request = CommitTableRequest.model_validate({"identifier": {"namespace": [namespace], "name": table}, **body})
        identifier = (namespace, table)
        creates = any(requirement.type == "assert-create" for requirement in request.requirements)
        if creates and (namespace,) not in self.catalog.list_namespaces():
            raise NoSuchNamespaceError(namespace)
        target = (
            StagedTable(identifier, None, "", load_file_io({}), self.catalog)  # type: ignore[arg-type]
            if creates
            else self.catalog.load_table(identifier)
        )
        response = self.catalog.commit_table(target, request.requirements, request.updates)
        return 200, {"metadata-location": response.metadata_location, "metadata": json.loads(response.metadata.model_dump_json())}

    def rename_table(self, body: dict[str, Any]) -> Answer:
        source, destination = ((*body[role]["namespace"], body[role]["name"]) for role in ("source", "destination"))
        if destination in self.views:
            raise TableAlreadyExistsError(".".join(destination))
        self.catalog.rename_table(source, destination)
        return 204, None

    def rename_view(self, body: dict[str, Any]) -> Answer:
        source, destination = ((*body[role]["namespace"], body[role]["name"]) for role in ("source", "destination"))
        if source not in self.views:
            raise NoSuchViewError(".".join(source))
        if destination in self.views or self.catalog.table_exists(destination):
            raise ViewAlreadyExistsError(".".join(destination))
        self.views[destination] = self.views.pop(source)
        return 204, None

    def create_view(self, body: dict[str, Any], namespace: str) -> Answer:
        key = (namespace, body["name"])
        if key in self.views or self.catalog.table_exists(key):
            raise ViewAlreadyExistsError(".".join(key))
        version = body["view-version"]
        self.views[key] = {
            "view-uuid": str(uuid4()),
            "format-version": 1,
            "location": body.get("location") or f"memory://views/{namespace}/{body['name']}",
            "schemas": [body["schema"]],
            "current-version-id": version["version-id"],
            "versions": [version],
            "version-log": [{"timestamp-ms": time.time_ns() // 1_000_000, "version-id": version["version-id"]}],
            "properties": body.get("properties", {}),
        }
        return 200, self.view(*key)

    def view(self, namespace: str, view: str) -> dict[str, Any]:
        if (namespace, view) not in self.views:
            raise NoSuchViewError(f"{namespace}.{view}")
        return {"metadata-location": "memory://views/metadata.json", "metadata": self.views[namespace, view]}

    def replace_view(self, body: dict[str, Any], namespace: str, view: str) -> Answer:
        content = self.view(namespace, view)["metadata"]
        if any(each != {"type": "assert-view-uuid", "uuid": content["view-uuid"]} for each in body["requirements"]):
            raise CommitFailedException("another view")
        for update in body["updates"]:
            match update["action"]:
                case "add-schema":
                    content["schemas"].append(update["schema"])
                case "add-view-version":
                    assert update["view-version"]["schema-id"] in [schema["schema-id"] for schema in content["schemas"]]
                    content["versions"].append(update["view-version"])
                case "set-current-view-version":
                    content["current-version-id"] = content["versions"][-1]["version-id"]
                case "set-properties":
                    content["properties"].update(update["updates"])
                case "remove-properties":
                    content["properties"] = {key: value for key, value in content["properties"].items() if key not in update["removals"]}
        return 200, self.view(namespace, view)

    def drop_view(self, body: dict[str, Any], namespace: str, view: str) -> Answer:
        if self.views.pop((namespace, view), None) is None:
            raise NoSuchViewError(f"{namespace}.{view}")
        return 204, None


def _serialize_identifier(identifier: tuple[str, ...]) -> dict[str, Any]:
    return {"namespace": list(identifier[:-1]), "name": identifier[-1]}


def _loaded(table: Any) -> dict[str, Any]:
    return {"metadata-location": table.metadata_location, "metadata": json.loads(table.metadata.model_dump_json()), "config": {}}


def _error(status: int, error: Exception) -> Answer:
    return status, {"error": {"message": str(error), "type": type(error).__name__, "code": status}}
