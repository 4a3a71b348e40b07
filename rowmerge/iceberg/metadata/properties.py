"""The table properties that the engine acts on, by the names that Iceberg's users know, and ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches

from rowmerge.errors import ConfigurationError
from rowmerge.table.codecs import ParquetSettings, codec
from rowmerge.table.partitioning import Distribution
from rowmerge.table.retries import RetryPolicy
from rowmerge.table.snapshot import WriteMode

GC_ENABLED = "gc.enabled"
APPLICATION, APPLICATION_VERSION = "rowmerge.transaction.application", "rowmerge.transaction.version"
"""Where a snapshot's summary says whose transaction it is."""
WRITE_MODE = "rowmerge.write.mode"
SCHEMA_EVOLUTION = "rowmerge.write.schema-evolution"
FORMAT_VERSION = "format-version"
DISTRIBUTION = "write.distribution-mode"
COMPRESSION = "write.parquet.compression-codec"
LEVEL = "write.parquet.compression-level"
ROW_GROUP_SIZE = "write.parquet.row-group-size-bytes"
DATA_PATH = "write.data.path"
METADATA_PATH = "write.metadata.path"
PREVIOUS_VERSIONS = "write.metadata.previous-versions-max"
FILE_LOCATIONS = (DATA_PATH, METADATA_PATH, "write.object-storage.path", "write.folder-storage.path")
"""Properties that say where files are written; the last two are older spellings of the first."""
_MODES = ("write.merge.mode", "write.update.mode", "write.delete.mode")
_LEVELS_OF = {"zstd": (1, 22), "gzip": (1, 9)}
"""The least and the highest level of codecs that have levels."""
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
    for operation in ("MERGE", "UPDATE", "DELETE"):
        distribution_of(asked, operation)
    target_file_size(asked)
    parquet_settings(asked)
    retry_policy(asked)
    evolves(asked)
    whole_number(asked, PREVIOUS_VERSIONS, 100)


def file_locations(properties: Mapping[str, str]) -> list[str]:
    """Return the locations outside the table's folder that its properties name for its files."""
    return [properties[name] for name in FILE_LOCATIONS if properties.get(name, "").strip()]


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
    return _distribution(properties, DISTRIBUTION, "range" if ordered else "hash")


def distribution_of(properties: Mapping[str, str], operation: str) -> Distribution | None:
    """`write.<operation>.distribution-mode`; where the table does not say, hash for UPDATE and DELETE, and for MERGE None: the table's.

    These are the defaults of Iceberg on Spark. Raises ConfigurationError.
    """
    name = f"write.{operation.lower()}.distribution-mode"
    if name not in properties and operation not in ("UPDATE", "DELETE"):
        return None
    return _distribution(properties, name, "hash")


def parquet_settings(properties: Mapping[str, str]) -> ParquetSettings:
    """`write.parquet.compression-codec`, `….compression-level` of codecs that have levels, `….row-group-size-bytes`.

    Raises ConfigurationError.
    """
    name, level = codec(properties, COMPRESSION), None
    least_and_most = _LEVELS_OF.get(name or "zstd")
    if LEVEL in properties and least_and_most is not None:
        least, most = least_and_most
        level = whole_number(properties, LEVEL, least)
        if not least <= level <= most:
            raise ConfigurationError(f"The table property {LEVEL} is {level}. Set it to one of {least} to {most}.")
    return ParquetSettings(name, level, _bytes(properties, ROW_GROUP_SIZE))


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


def _distribution(properties: Mapping[str, str], name: str, default: str) -> Distribution:
    value = properties.get(name, default)
    try:
        return Distribution(value.strip().lower())
    except ValueError as error:
        raise ConfigurationError(f"The table property {name} is {value!r}. Set it to none, hash or range.") from error


def _bytes(properties: Mapping[str, str], name: str) -> int | None:
    value = properties.get(name)
    if value is None:
        return None
    if not re.fullmatch(r"\s*[1-9]\d*\s*", value):
        raise ConfigurationError(f"The table property {name} is {value!r}. Set it to a number of bytes.")
    return int(value)
