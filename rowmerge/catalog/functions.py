"""The functions of a warehouse folder: a file for each, `<schema>/.functions/<name>.json`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol
from uuid import uuid4

from rowmerge.catalog.names import check_segment, fold, folder_of, has_folder, name_of
from rowmerge.commands.functions import FunctionDefinition, Parameter
from rowmerge.errors import AlreadyExists, FunctionNotFound, TableError
from rowmerge.storage.store import Storage
from rowmerge.table.commits.commit import put_once
from rowmerge.table.metadata.json_objects import decode_json
from rowmerge.table.metadata.schema import quote

_FOLDER = ".functions"
_SUFFIX = ".json"
_VERSION = 1


@dataclass(frozen=True)
class Function:
    """A function of a schema; names in lower case. `default_schema` is where unqualified names in its body are looked up; `modified` in
    milliseconds since the epoch."""

    schema: str
    name: str
    definition: FunctionDefinition
    default_schema: str
    modified: int = 0

    def __str__(self) -> str:
        return f"{quote(self.schema)}.{quote(self.name)}"


class Functions(Protocol):
    """The functions of a catalog. A function and a table may have the same name."""

    def names(self, schema: str) -> list[str]:
        """Return the names of a schema's functions, sorted; none if the schema does not exist."""

    def get(self, schema: str, name: str) -> Function | None:
        """Return the function of this name, or None. Raises TableError for a definition that cannot be read."""

    def put(self, schema: str, name: str, definition: FunctionDefinition, default_schema: str, *, or_replace: bool) -> None:
        """Create a function. Raises AlreadyExists without `or_replace`, SchemaNotFound, TableError in a catalog without functions."""

    def drop(self, schema: str, name: str) -> None:
        """Delete a function. Raises FunctionNotFound."""


class FunctionFiles:
    """Implements `Functions` with one file for each function, which is put as a whole. Every method raises StorageError."""

    def __init__(self, storage: Storage, check_schema_exists: Callable[[str], None]) -> None:
        """`check_schema_exists` raises SchemaNotFound."""
        self._storage, self._check_schema_exists = storage, check_schema_exists

    def names(self, schema: str) -> list[str]:
        if not has_folder(schema):
            return []
        paths = [o.path.rpartition("/")[2] for o in self._storage.list(f"{folder_of(schema)}/{_FOLDER}")]
        found = (name_of(path.removesuffix(_SUFFIX)) for path in paths if path.endswith(_SUFFIX))
        return sorted(name for name in found if name is not None)

    def get(self, schema: str, name: str) -> Function | None:
        if not (has_folder(schema) and has_folder(name)):
            return None
        try:
            data = self._storage.get(_path(schema, name))
        except FileNotFoundError:
            return None
        return _parsed(fold(schema), fold(name), data)

    def put(self, schema: str, name: str, definition: FunctionDefinition, default_schema: str, *, or_replace: bool) -> None:
        """Create a function, as `Functions` says. Raises CommitStateUnknown, too."""
        self._check_schema_exists(schema)
        shown = f"{quote(fold(schema))}.{quote(fold(name))}"
        content = {
            "format-version": _VERSION,
            "writer": str(uuid4()),
            "default-schema": default_schema,
            "modified-ms": time.time_ns() // 1_000_000,
            "definition": asdict(definition),
        }
        data = json.dumps(content, ensure_ascii=False, indent=2).encode()
        if or_replace:
            self._storage.put(_path(schema, name), data)
        elif not put_once(self._storage, _path(schema, name), data, f"the function {shown}"):
            raise AlreadyExists(f"The function {shown} exists already. Add OR REPLACE or IF NOT EXISTS.")

    def drop(self, schema: str, name: str) -> None:
        if not (has_folder(schema) and has_folder(name) and self._storage.exists(_path(schema, name))):
            raise FunctionNotFound(f"{quote(fold(schema))}.{quote(fold(name))}", self.names(schema))
        self._storage.delete([_path(schema, name)])


class NoFunctions:
    """Implements `Functions` for a catalog that stores none, such as every catalog of Iceberg tables."""

    def __init__(self, catalog: str) -> None:
        """`catalog`: its name and kind, for messages."""
        self._catalog = catalog

    def names(self, schema: str) -> list[str]:
        return []

    def get(self, schema: str, name: str) -> Function | None:
        return None

    def put(self, schema: str, name: str, definition: FunctionDefinition, default_schema: str, *, or_replace: bool) -> None:
        check_segment("schema", schema)
        check_segment("function", name)
        raise TableError(
            f"The function {quote(fold(schema))}.{quote(fold(name))} cannot be made: the catalog {self._catalog} keeps none. "
            f"Write its expression where it is called, or use a warehouse folder without a catalog."
        )

    def drop(self, schema: str, name: str) -> None:
        raise FunctionNotFound(f"{quote(fold(schema))}.{quote(fold(name))}")


def _path(schema: str, name: str) -> str:
    return f"{folder_of(schema)}/{_FOLDER}/{folder_of(name)}{_SUFFIX}"


def _parsed(schema: str, name: str, data: bytes) -> Function:
    shown = f"{quote(schema)}.{quote(name)}"
    try:
        content: dict[str, Any] = decode_json(data)
        if content["format-version"] != _VERSION:
            raise ValueError(f"format version {content['format-version']} is not known, only {_VERSION}")
        told = dict(content["definition"])
        parameters = tuple(Parameter(**each) for each in told.pop("parameters"))
        definition = FunctionDefinition(parameters, packages=tuple(told.pop("packages")), **told)
        return Function(schema, name, definition, str(content["default-schema"]), int(content["modified-ms"]))
    except (ArithmeticError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise TableError(f"The function {shown} cannot be read ({error}). Make it again with CREATE OR REPLACE FUNCTION.") from error
