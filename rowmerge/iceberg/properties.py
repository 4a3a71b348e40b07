"""The table properties that the engine acts on, by the names that Iceberg's users know, and ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches

from rowmerge.errors import ConfigurationError
from rowmerge.table.codecs import codec
from rowmerge.table.partitioning import Distribution
from rowmerge.table.retries import RetryPolicy
from rowmerge.table.snapshot import WriteMode

WRITE_MODE = "rowmerge.write.mode"
SCHEMA_EVOLUTION = "rowmerge.write.schema-evolution"
FORMAT_VERSION = "format-version"
DISTRIBUTION = "write.distribution-mode"
COMPRESSION = "write.parquet.compression-codec"
DATA_PATH = "write.data.path"
METADATA_PATH = "write.metadata.path"
_MODES = ("write.merge.mode", "write.update.mode", "write.delete.mode")
_LEVELS = {"serializable": "serializable", "snapshot": "snapshot"}
_RETRIES = ("num-retries", "min-wait-ms", "max-wait-ms")
_OURS = frozenset((WRITE_MODE, SCHEMA_EVOLUTION, *(f"rowmerge.commit.retry.{name}" for name in _RETRIES)))


def check_properties(asked: Mapping[str, str]) -> None:
    """Raises ConfigurationError for a value that would fail later, and for a name of ours that there is not."""
    for name in asked:
        if name.startswith("rowmerge.") and name not in _OURS:
            near = get_close_matches(name, sorted(_OURS), n=1)
            advice = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(sorted(_OURS))}."
            raise ConfigurationError(f"There is no table property {name}. {advice}")
        if name.startswith("delta."):
            raise ConfigurationError(f"The table property {name} is Delta's, and this is an Iceberg table. Leave it out.")
    for operation in ("MERGE", "UPDATE", "DELETE", "WRITE"):
        write_mode(asked, operation)
        isolation_level(asked, operation)
    if asked.get(FORMAT_VERSION, "2") not in ("1", "2", "3"):
        raise ConfigurationError(f"The table property {FORMAT_VERSION} is {asked[FORMAT_VERSION]!r}. Set it to 2.")
    distribution(asked)
    target_file_size(asked)
    codec(asked, COMPRESSION)
    retry_policy(asked)
    evolves(asked)


def write_mode(properties: Mapping[str, str], operation: str) -> WriteMode:
    """How an operation deletes rows: `rowmerge.write.mode` before `write.<operation>.mode`, whose default is copy-on-write.

    Raises ConfigurationError.
    """
    name = f"write.{operation.lower()}.mode"
    if WRITE_MODE in properties or name not in _MODES:
        name = WRITE_MODE
    value = properties.get(name, "copy-on-write").strip().lower()
    try:
        return WriteMode(value)
    except ValueError as error:
        choices = ", ".join(mode.value for mode in WriteMode)
        raise ConfigurationError(f"The table property {name} is {properties[name]!r}. Set it to one of {choices}.") from error


def isolation_level(properties: Mapping[str, str], operation: str) -> str:
    """`serializable` (the default) or `snapshot`, from `write.<operation>.isolation-level`. Raises ConfigurationError."""
    name = f"write.{operation.lower()}.isolation-level"
    value = properties.get(name, "serializable").strip().lower()
    if value not in _LEVELS:
        raise ConfigurationError(f"The table property {name} is {properties[name]!r}. Set it to serializable or snapshot.")
    return _LEVELS[value]


def target_file_size(properties: Mapping[str, str]) -> int | None:
    """`write.target-file-size-bytes`, None when it is not set. Raises ConfigurationError."""
    return _bytes(properties, "write.target-file-size-bytes")


def evolves(properties: Mapping[str, str]) -> bool:
    """Whether every MERGE and INSERT may add to the schema. Raises ConfigurationError."""
    value = properties.get(SCHEMA_EVOLUTION, "false").strip().lower()
    if value not in ("true", "false"):
        raise ConfigurationError(f"The table property {SCHEMA_EVOLUTION} is {value!r}. Set it to true or false.")
    return value == "true"


def distribution(properties: Mapping[str, str], *, ordered: bool = False) -> Distribution:
    """`write.distribution-mode`; where the table does not say, range if it has an order, else hash. Raises ConfigurationError."""
    value = properties.get(DISTRIBUTION, "range" if ordered else "hash")
    try:
        return Distribution(value.strip().lower())
    except ValueError as error:
        raise ConfigurationError(f"The table property {DISTRIBUTION} is {value!r}. Set it to none, hash or range.") from error


def retry_policy(properties: Mapping[str, str]) -> RetryPolicy:
    """Iceberg's `commit.retry.*` stand for ours where those are not set. Raises ConfigurationError."""
    found = dict(properties)
    for name in _RETRIES:
        if (value := properties.get(f"commit.retry.{name}")) is not None:
            found.setdefault(f"rowmerge.commit.retry.{name}", value)
    return RetryPolicy.of(found)


def whole_number(properties: Mapping[str, str], name: str, default: int) -> int:
    """A property that is a whole number. Raises ConfigurationError."""
    value = properties.get(name, str(default))
    if not re.fullmatch(r"\s*\d+\s*", value):
        raise ConfigurationError(f"The table property {name} is {value!r}. Set it to a whole number, 0 or more.")
    return int(value)


def _bytes(properties: Mapping[str, str], name: str) -> int | None:
    value = properties.get(name)
    if value is None:
        return None
    if not re.fullmatch(r"\s*[1-9]\d*\s*", value):
        raise ConfigurationError(f"The table property {name} is {value!r}. Set it to a number of bytes.")
    return int(value)
