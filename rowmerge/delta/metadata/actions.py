"""The actions of Delta's log: their fields as Python values, and one commit as newline-delimited JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from rowmerge.delta.metadata.column_mapping import MODE, stored_fields, stored_partition_columns
from rowmerge.table.metadata.json_objects import check_texts, decode_json
from rowmerge.table.metadata.schema import Struct, UnknownType, schema_from_json, to_json

Action = Mapping[str, Any]
"""One row of a commit: an object with one key, the action's name (`add`, `remove`, `metaData`, …)."""

DROP = "DROP TABLE"
DROPPED = "rowmerge.dropped"
"""The operation and the property of the version that ends the log of a dropped table, until a new table continues it."""
_IMPLIED_BY_WRITER = (
    (2, ("appendOnly", "invariants")),
    (3, ("checkConstraints",)),
    (4, ("changeDataFeed", "generatedColumns")),
    (5, ("columnMapping",)),
    (6, ("identityColumns",)),
)
READER_FEATURES = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "catalogManaged",
        "typeWidening",
        "typeWidening-preview",
        "variantType",
        "variantShredding",
    }
)
"""Features that stand in both lists of a protocol (PROTOCOL.md, Valid Feature Names in Table Features)."""


@dataclass(frozen=True)
class Protocol:
    """What a client must know to read and to write the table. The lists are None where the version has none."""

    min_reader: int
    min_writer: int
    reader_features: frozenset[str] | None = None
    writer_features: frozenset[str] | None = None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Protocol:
        """From the fields of a `protocol` action."""
        reader, writer = int(fields["minReaderVersion"]), int(fields["minWriterVersion"])
        return cls(
            reader,
            writer,
            frozenset(fields.get("readerFeatures") or ()) if reader >= 3 else None,
            frozenset(fields.get("writerFeatures") or ()) if writer >= 7 else None,
        )

    @property
    def features(self) -> frozenset[str]:
        """All features that the protocol supports, those that a legacy version implies too."""
        if self.writer_features is not None:
            return self.writer_features | (self.reader_features or frozenset())
        return frozenset(name for version, names in _IMPLIED_BY_WRITER if version <= self.min_writer for name in names)

    def supports(self, feature: str) -> bool:
        return feature in self.features

    def with_features(self, needed: Iterable[str]) -> Protocol:
        """The least protocol above this one that supports these features too."""
        missing = frozenset(needed) - self.features
        if not missing:
            return self
        features = self.features | missing
        both = features & READER_FEATURES
        if self.min_reader >= 3 or missing & READER_FEATURES:
            return Protocol(3, 7, both, features)
        return Protocol(self.min_reader, 7, None, features)

    def action(self) -> Action:
        fields: dict[str, Any] = {"minReaderVersion": self.min_reader, "minWriterVersion": self.min_writer}
        if self.reader_features is not None:
            fields["readerFeatures"] = sorted(self.reader_features)
        if self.writer_features is not None:
            fields["writerFeatures"] = sorted(self.writer_features)
        return {"protocol": fields}


@dataclass(frozen=True)
class Metadata:
    """What the table is: schema, partitioning, properties. `created` in milliseconds since the epoch."""

    id: str
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None
    created: int | None = None
    provider: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)
    mapping_supported: bool = field(default=True, compare=False)
    """Whether the protocol lets the property `delta.columnMapping.mode` mean anything."""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Metadata:
        """From the fields of a `metaData` action."""
        format_ = fields.get("format") or {}
        return cls(
            id=fields["id"],
            schema_string=fields["schemaString"],
            partition_columns=tuple(fields.get("partitionColumns") or ()),
            configuration={key: value for key, value in (fields.get("configuration") or {}).items() if value is not None},
            name=fields.get("name"),
            description=fields.get("description"),
            created=fields.get("createdTime"),
            provider=format_.get("provider") or "parquet",
            options={key: value for key, value in (format_.get("options") or {}).items() if value is not None},
        )

    @property
    def schema(self) -> Struct:
        """The table's columns. Raises UnknownType for a type that is not known, ValueError for a text that is no schema."""
        return _schema_of(self.schema_string)

    @property
    def is_dropped(self) -> bool:
        """Whether this is the metadata of a dropped table, or of one that another engine made of it."""
        return self.configuration.get(DROPPED) == "true"

    @property
    def mapping_mode(self) -> str:
        """`none`, `name` or `id`."""
        return self.configuration.get(MODE, "none").strip().lower() if self.mapping_supported else "none"

    @cached_property
    def stored_schema(self) -> Struct:
        """The columns as data files and statistics hold them. Raises what `schema` raises."""
        return self.schema if self.mapping_mode == "none" else stored_fields(self.schema)

    @cached_property
    def stored_partition_columns(self) -> tuple[str, ...]:
        """The names of `partitionValues`."""
        if self.mapping_mode == "none":
            return self.partition_columns
        return stored_partition_columns(json.loads(self.schema_string), self.partition_columns)

    def action(self) -> Action:
        fields: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "format": {"provider": self.provider, "options": dict(self.options)},
            "schemaString": self.schema_string,
            "partitionColumns": list(self.partition_columns),
            "configuration": dict(self.configuration),
            "createdTime": self.created,
        }
        return {"metaData": {key: value for key, value in fields.items() if value is not None}}


@lru_cache(maxsize=256)
def _schema_of(text: str) -> Struct:
    try:
        value = decode_json(text)
        if "\\u" in text:
            check_texts(value)
        return schema_from_json(value)
    except UnknownType:
        raise
    except ValueError as error:
        raise ValueError(f"schemaString of the action metaData is no schema: {error}") from error


@dataclass(frozen=True)
class Transaction:
    """The newest version that an application wrote (`txn`)."""

    version: int
    last_updated: int | None = None


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63,
    "truth value": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, Mapping),
    "list of texts": lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    "map of texts": lambda value: isinstance(value, Mapping) and all(isinstance(item, str | None) for item in value.values()),
}
_FIELDS: Mapping[str, Mapping[str, tuple[str, bool]]] = {
    "protocol": {
        "minReaderVersion": ("number", True),
        "minWriterVersion": ("number", True),
        "readerFeatures": ("list of texts", False),
        "writerFeatures": ("list of texts", False),
    },
    "metaData": {
        "id": ("text", True),
        "name": ("text", False),
        "description": ("text", False),
        "format": ("object", False),
        "schemaString": ("text", True),
        "partitionColumns": ("list of texts", False),
        "configuration": ("map of texts", False),
        "createdTime": ("number", False),
    },
    "txn": {"appId": ("text", True), "version": ("number", True), "lastUpdated": ("number", False)},
    "domainMetadata": {"domain": ("text", True), "configuration": ("text", True), "removed": ("truth value", False)},
    "sidecar": {"path": ("text", True)},
    "cdc": {"path": ("text", True), "partitionValues": ("map of texts", False), "size": ("number", False)},
    "commitInfo": {},
}
"""The fields that are read of each action, what they hold, and whether they must be there. What `commitInfo` holds is up to its writer."""


def check_action(action: Action) -> None:
    """Raise ValueError if a known action lacks a field, or has a field of another type than the protocol says."""
    for name, fields in action.items():
        if fields is None or name not in _FIELDS:
            continue
        if not isinstance(fields, Mapping):
            raise ValueError(f"the action {name} is no object")
        for key, (kind, is_required) in _FIELDS[name].items():
            value = fields.get(key)
            if value is None and is_required:
                raise ValueError(f"the action {name} has no {key}")
            if value is not None and not _KINDS[kind](value):
                raise ValueError(f"{key} of the action {name} is no {kind}: {value!r:.80}")
        if name == "metaData":
            _check_metadata(fields)


def _check_metadata(fields: Mapping[str, Any]) -> None:
    provider, options = ((fields.get("format") or {}).get(key) for key in ("provider", "options"))
    if not (isinstance(provider, str | None) and (options is None or _KINDS["map of texts"](options))):
        raise ValueError(f"the format of the action metaData is {fields['format']!r:.80}")
    metadata = Metadata.of(fields)
    with suppress(UnknownType):  # which is no fault of the file
        names = metadata.schema.names
        if strangers := [name for name in metadata.partition_columns if name not in names]:
            raise ValueError(f"the partition column {strangers[0]!r} of the action metaData is none of its columns")


def schema_text(schema: Struct) -> str:
    """The `schemaString` of a schema."""
    return compact(to_json(schema))


def compact(value: Any) -> str:
    """JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def text(value: Any) -> str:
    """A value of `operationParameters` or `operationMetrics`: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else compact(value)


def serialize(actions: Iterable[Action]) -> bytes:
    """One commit's file: one action a line."""
    return b"".join(compact(action).encode() + b"\n" for action in actions)
