"""The functions of a warehouse folder: a file for each, `<schema>/.functions/<name>.json`."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import Any
from uuid import uuid4

from rowmerge.catalog.names import fold, folder_of, has_folder, name_of
from rowmerge.commands.functions import FunctionDefinition, Parameter
from rowmerge.errors import AlreadyExists, FunctionNotFound, TableError
from rowmerge.storage.store import Storage
from rowmerge.table.commit import put_once
from rowmerge.table.metadata_json import decode_json
from rowmerge.table.schema import quote

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


class FunctionFiles:
    """Reads and writes the files. Each is put as a whole: a function is the old one or the new one. Functions have names of their own: a
    table may be called as one is. Raises StorageError."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def names(self, schema: str) -> list[str]:
        """Those of a schema, sorted."""
        if not has_folder(schema):
            return []
        paths = [o.path.rpartition("/")[2] for o in self._storage.list(f"{folder_of(schema)}/{_FOLDER}")]
        found = (name_of(path.removesuffix(_SUFFIX)) for path in paths if path.endswith(_SUFFIX))
        return sorted(name for name in found if name is not None)

    def get(self, schema: str, name: str) -> Function | None:
        """The function of this name, or None. Raises TableError for a file that says nothing."""
        if not (has_folder(schema) and has_folder(name)):
            return None
        try:
            data = self._storage.get(_path(schema, name))
        except FileNotFoundError:
            return None
        return _parsed(fold(schema), fold(name), data)

    def put(self, schema: str, name: str, definition: FunctionDefinition, default_schema: str, *, or_replace: bool) -> None:
        """Keep a function. Raises AlreadyExists without `or_replace`, CommitStateUnknown."""
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
        """Raises FunctionNotFound."""
        if not (has_folder(schema) and has_folder(name) and self._storage.exists(_path(schema, name))):
            raise FunctionNotFound(f"{quote(fold(schema))}.{quote(fold(name))}", self.names(schema))
        self._storage.delete([_path(schema, name)])


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
