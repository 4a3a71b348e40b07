"""The functions of a warehouse folder: one file `<schema>/.functions/<name>.json` for each function."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any
from uuid import uuid4

from rowmerge.catalog.names import check_path_segment, folder_of, is_valid_name, lower_case, name_of, quoted_name
from rowmerge.commands.functions import FunctionDefinition, Parameter
from rowmerge.errors import AlreadyExists, FunctionNotFound, TableError
from rowmerge.storage.store import Storage, get_if_exists
from rowmerge.table.commits.commit import put_once
from rowmerge.table.metadata.json_objects import decode_json

_FOLDER, _SUFFIX = ".functions", ".json"
_FORMAT_VERSION = 1
_INVALID_CONTENT_ERRORS = (ArithmeticError, KeyError, TypeError, ValueError, AttributeError)
"""The built-in errors that an invalid file causes. For example, JSON allows the number 1e999, and `int` then raises OverflowError."""


@dataclass(frozen=True)
class Function:
    """A function, with names in lower case. `default_schema` resolves unqualified names in the body.

    `modified`: the time of the last change in milliseconds since the epoch.
    """

    schema: str
    name: str
    definition: FunctionDefinition
    default_schema: str
    modified: int = 0

    def __str__(self) -> str:
        return quoted_name(self.schema, self.name)


class FunctionFiles:
    """The functions of a warehouse folder, which may share names with tables. Every method raises StorageError if the storage fails."""

    def __init__(self, storage: Storage, check_schema_exists: Callable[[str], None]) -> None:
        """Read and write functions in `storage`, the warehouse folder.

        `check_schema_exists`: a function that raises SchemaNotFound if a schema does not exist.
        """
        self._storage, self._check_schema_exists = storage, check_schema_exists

    def names(self, schema: str) -> list[str]:
        """Return the sorted names of a schema's functions. The list is empty if the schema does not exist."""
        if not is_valid_name(schema):
            return []
        files = [file.path.rpartition("/")[2] for file in self._storage.list(f"{folder_of(schema)}/{_FOLDER}")]
        names = (name_of(file.removesuffix(_SUFFIX)) for file in files if file.endswith(_SUFFIX))
        return sorted(name for name in names if name is not None)

    def get(self, schema: str, name: str) -> Function | None:
        """Return the function with this name, or None if it does not exist.

        Args:
            schema: The name of the schema.
            name: The name of the function.

        Raises:
            TableError: The definition of the function cannot be read.
        """
        can_exist = is_valid_name(schema) and is_valid_name(name)
        data = get_if_exists(self._storage, _path(schema, name)) if can_exist else None
        return None if data is None else _parse_function(schema, name, data)

    def put(self, schema: str, name: str, definition: FunctionDefinition, default_schema: str, *, or_replace: bool) -> None:
        """Create or replace a function.

        Args:
            schema: The name of the schema.
            name: The name of the function.
            definition: The parameters, the result type and the body.
            default_schema: The schema that resolves unqualified names in the body.
            or_replace: Whether to replace an existing function.

        Raises:
            AlreadyExists: The function exists, and `or_replace` is false.
            CommitStateUnknown: It is not known whether the file was written.
            SchemaNotFound: The schema does not exist.
        """
        self._check_schema_exists(schema)
        # The writer's UUID makes the content unique, as `put_once` requires.
        function_file = {"format-version": _FORMAT_VERSION, "writer": str(uuid4()), "default-schema": default_schema}
        function_file |= {"modified-ms": time.time_ns() // 1_000_000, "definition": asdict(definition)}
        data = json.dumps(function_file, ensure_ascii=False, indent=2).encode()
        if or_replace:
            self._storage.put(_path(schema, name), data)
        elif not put_once(self._storage, _path(schema, name), data, f"the function {quoted_name(schema, name)}"):
            raise AlreadyExists(f"The function {quoted_name(schema, name)} already exists. Add OR REPLACE or IF NOT EXISTS.")

    def drop(self, schema: str, name: str) -> None:
        """Delete a function.

        Args:
            schema: The name of the schema.
            name: The name of the function.

        Raises:
            FunctionNotFound: The function does not exist.
        """
        if not (is_valid_name(schema) and is_valid_name(name) and self._storage.exists(_path(schema, name))):
            raise FunctionNotFound(quoted_name(schema, name), self.names(schema))
        self._storage.delete([_path(schema, name)])


class NoFunctions:
    """The functions of a catalog that cannot store functions, such as every Iceberg catalog."""

    def __init__(self, catalog: str) -> None:
        """Create the object. Error messages show `catalog`, the name and kind of the catalog."""
        self._catalog = catalog

    def names(self, schema: str) -> list[str]:
        """Return an empty list, because the catalog has no functions."""
        return []

    def get(self, schema: str, name: str) -> Function | None:
        """Return None, because the catalog has no functions.

        Args:
            schema: Ignored.
            name: Ignored.
        """
        return None

    def put(self, schema: str, name: str, definition: FunctionDefinition, default_schema: str, *, or_replace: bool) -> None:
        """Raise an error, because the catalog cannot store functions. An invalid name gets its own error first.

        Args:
            schema: The name of the schema.
            name: The name of the function.
            definition: Ignored.
            default_schema: Ignored.
            or_replace: Ignored.

        Raises:
            TableError: Always.
        """
        check_path_segment("schema", schema)
        check_path_segment("function", name)
        problem = f"The function {quoted_name(schema, name)} cannot be created: the catalog {self._catalog} does not support functions"
        raise TableError(f"{problem}. Write its expression in each query, or use a warehouse folder without a catalog.")

    def drop(self, schema: str, name: str) -> None:
        """Raise an error, because the catalog has no functions.

        Args:
            schema: The name of the schema, for the message.
            name: The name of the function, for the message.

        Raises:
            FunctionNotFound: Always.
        """
        raise FunctionNotFound(quoted_name(schema, name))


Functions = FunctionFiles | NoFunctions
"""The type of a catalog's functions: stored as files, or not supported."""


def _path(schema: str, name: str) -> str:
    """Return the path of a function's file, relative to the warehouse folder."""
    return f"{folder_of(schema)}/{_FOLDER}/{folder_of(name)}{_SUFFIX}"


def _parse_function(schema: str, name: str, data: bytes) -> Function:
    """Parse the content of a function's file. Raises TableError if the content is invalid."""
    try:
        content: dict[str, Any] = decode_json(data)
        if content["format-version"] != _FORMAT_VERSION:
            raise ValueError(f"its format version is {content['format-version']}, and only {_FORMAT_VERSION} is supported")
        fields = dict(content["definition"])
        parameters = tuple(Parameter(**parameter) for parameter in fields.pop("parameters"))
        definition = FunctionDefinition(parameters, packages=tuple(fields.pop("packages")), **fields)
        return Function(lower_case(schema), lower_case(name), definition, str(content["default-schema"]), int(content["modified-ms"]))
    except _INVALID_CONTENT_ERRORS as error:
        advice = "Replace it with CREATE OR REPLACE FUNCTION."
        raise TableError(f"The function {quoted_name(schema, name)} cannot be read ({error}). {advice}") from error
