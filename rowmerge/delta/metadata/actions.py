"""The actions of Delta's log: their fields as Python values, and their serialization as newline-delimited JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from rowmerge.delta.metadata.column_mapping import MAPPING_MODE, stored_fields, stored_partition_columns
from rowmerge.table.metadata.copied_files import RESERVED
from rowmerge.table.metadata.json_objects import check_texts, decode_json
from rowmerge.table.metadata.schema import Struct, UnknownType, schema_from_json, to_json

Action = Mapping[str, Any]
"""One line of a commit: an object with a single key, the action's name (`add`, `remove`, `metaData`, …)."""

DROP_OPERATION = "DROP TABLE"
DROPPED_PROPERTY = "rowmerge.dropped"
"""The name of the operation that drops a table, and of the table property that marks its version.

That version is the last one until a new table is created in the same folder and continues the log.
"""
_WRITER_VERSION_BY_FEATURE = {"appendOnly": 2, "invariants": 2, "checkConstraints": 3, "changeDataFeed": 4, "generatedColumns": 4}
_WRITER_VERSION_BY_FEATURE |= {"columnMapping": 5, "identityColumns": 6}
"""The lowest writer version that implies a feature (PROTOCOL.md, Table Features)."""
READER_FEATURES = frozenset(
    "columnMapping deletionVectors timestampNtz v2Checkpoint vacuumProtocolCheck catalogManaged".split()
    + "typeWidening typeWidening-preview variantType variantShredding".split()
)
"""Features that a protocol lists in both `readerFeatures` and `writerFeatures` (PROTOCOL.md, Valid Feature Names in Table Features)."""


@dataclass(frozen=True)
class Protocol:
    """The `protocol` action: the versions and features that a client must support.

    `min_reader`, `min_writer`: the protocol versions. `reader_features`, `writer_features`: the listed features, or None if the version has
    no such list.
    """

    min_reader: int
    min_writer: int
    reader_features: frozenset[str] | None = None
    writer_features: frozenset[str] | None = None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Protocol:
        """Parse the fields of a `protocol` action."""
        min_reader, min_writer = int(fields["minReaderVersion"]), int(fields["minWriterVersion"])
        reader_features = frozenset(fields.get("readerFeatures") or ()) if min_reader >= 3 else None
        writer_features = frozenset(fields.get("writerFeatures") or ()) if min_writer >= 7 else None
        return cls(min_reader, min_writer, reader_features, writer_features)

    @property
    def features(self) -> frozenset[str]:
        """All features that the protocol supports, including those that a legacy writer version implies."""
        if self.writer_features is not None:
            return self.writer_features | (self.reader_features or frozenset())
        return frozenset(feature for feature, version in _WRITER_VERSION_BY_FEATURE.items() if version <= self.min_writer)

    def supports(self, feature: str) -> bool:
        """Return whether the protocol lists or implies a feature."""
        return feature in self.features

    def with_features(self, required: Iterable[str]) -> Protocol:
        """Return the lowest protocol that supports all features of this protocol and the required features."""
        missing = frozenset(required) - self.features
        if not missing:
            return self
        features = self.features | missing
        if self.min_reader >= 3 or missing & READER_FEATURES:
            return Protocol(3, 7, features & READER_FEATURES, features)
        return Protocol(self.min_reader, 7, None, features)

    def without_feature(self, feature: str, *added: str) -> Protocol:
        """Return the lowest protocol that supports all features of this protocol except one, and additional features.

        Lower versions, which imply features, are used if they imply exactly these features.
        """
        features = (self.features | frozenset(added)) - {feature}
        reader_features = features & READER_FEATURES
        # Column mapping is the only feature of reader version 2.
        min_reader = 3 if reader_features - {"columnMapping"} else 2 if reader_features else 1
        legacy = Protocol(min_reader, max([1, *(_WRITER_VERSION_BY_FEATURE.get(each, 7) for each in features)]))
        if legacy.min_writer < 7 and legacy.features == features:
            return legacy
        return Protocol(min_reader, 7, reader_features if min_reader == 3 else None, features)

    def action(self) -> Action:
        """Return the `protocol` action."""
        fields: dict[str, Any] = {"minReaderVersion": self.min_reader, "minWriterVersion": self.min_writer}
        if self.reader_features is not None:
            fields["readerFeatures"] = sorted(self.reader_features)
        if self.writer_features is not None:
            fields["writerFeatures"] = sorted(self.writer_features)
        return {"protocol": fields}


LOWEST_PROTOCOL = Protocol(min_reader=1, min_writer=2)
"""The protocol of a table without special features. Every engine can read such a table."""


@dataclass(frozen=True)
class Metadata:
    """The `metaData` action: the schema, the partitioning and the properties of a table.

    `configuration`: the table properties. `created`: the creation time in milliseconds since the epoch, or None if it is unknown.
    """

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
    """Whether the protocol supports column mapping. Otherwise, `delta.columnMapping.mode` has no effect."""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Metadata:
        """Parse the fields of a `metaData` action."""
        format_ = fields.get("format") or {}
        return cls(
            id=fields["id"],
            schema_string=fields["schemaString"],
            partition_columns=tuple(fields.get("partitionColumns") or ()),
            configuration=without_nulls(fields.get("configuration")) or {},
            name=fields.get("name"),
            description=fields.get("description"),
            created=fields.get("createdTime"),
            provider=format_.get("provider") or "parquet",
            options=without_nulls(format_.get("options")) or {},
        )

    @property
    def schema(self) -> Struct:
        """The table's columns. Raises UnknownType for an unknown type, and ValueError for an invalid `schemaString`."""
        return _schema_of(self.schema_string)

    @property
    def is_dropped(self) -> bool:
        """Whether the table was dropped. Another engine may have restored the table and kept this mark."""
        return self.configuration.get(DROPPED_PROPERTY) == "true"

    @property
    def mapping_mode(self) -> str:
        """The column mapping mode: `none`, `name` or `id`."""
        return self.configuration.get(MAPPING_MODE, "none").strip().lower() if self.mapping_supported else "none"

    @cached_property
    def stored_schema(self) -> Struct:
        """The columns with their physical names, as in data files and statistics. Raises the same errors as `schema`."""
        return self.schema if self.mapping_mode == "none" else stored_fields(self.schema)

    @cached_property
    def stored_partition_columns(self) -> tuple[str, ...]:
        """The physical names of the partition columns, which are the keys of `partitionValues`."""
        if self.mapping_mode == "none":
            return self.partition_columns
        return stored_partition_columns(json.loads(self.schema_string), self.partition_columns)

    def action(self) -> Action:
        """Return the `metaData` action, without fields that are null."""
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
        return {"metaData": without_nulls(fields)}


def without_nulls(fields: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the non-null fields, or None if `fields` is None."""
    return None if fields is None else {name: value for name, value in fields.items() if value is not None}


@lru_cache(maxsize=256)
def _schema_of(text: str) -> Struct:
    """Parse a `schemaString`. Raises UnknownType for an unknown type, and ValueError for an invalid string."""
    try:
        value = decode_json(text)
        if "\\u" in text:
            check_texts(value)
        return schema_from_json(value)
    except UnknownType:
        raise
    except ValueError as error:
        raise ValueError(f"schemaString of the action metaData is not a valid schema: {error}") from error


@dataclass(frozen=True)
class Transaction:
    """The newest transaction version of an application (`txn`).

    `last_updated`: the time of the transaction in milliseconds since the epoch, or None if it is unknown.
    """

    version: int
    last_updated: int | None = None


def copied_files(transactions: Mapping[str, Transaction]) -> frozenset[str]:
    """Return the keys of the files that COPY INTO has loaded: those of its application ids whose transaction version is odd.

    A replacement of the table makes the version even, because the new table may load the file again.
    """
    odd = (name for name, newest in transactions.items() if name.startswith(RESERVED) and newest.version % 2 == 1)
    return frozenset(name.removeprefix(RESERVED) for name in odd)


def transaction_actions(
    transactions: Mapping[str, Transaction], own: tuple[str, int] | None, keys: Iterable[str], now: int
) -> Iterator[Action]:
    """Yield the `txn` actions of a commit: of its own transaction, and of files that it records as loaded or as no longer loaded.

    Args:
        transactions: The newest transaction of each application before the commit.
        own: The application id and the version of the commit's own transaction, or None.
        keys: The keys of files. A loaded file becomes one that is not loaded, and the reverse.
        now: The time of the commit in milliseconds since the epoch.
    """
    new_versions = {} if own is None else {own[0]: own[1]}
    for application in (f"{RESERVED}{key}" for key in sorted(keys)):
        new_versions[application] = transactions[application].version + 1 if application in transactions else 1
    for application, version in new_versions.items():
        yield {"txn": {"appId": application, "version": version, "lastUpdated": now}}


def transaction_fields(transactions: Iterable[tuple[str, Transaction]]) -> list[dict[str, Any]]:
    """Return the fields of one `txn` action for each pair of an application id and its newest transaction."""
    return [{"appId": name, "version": txn.version, "lastUpdated": txn.last_updated} for name, txn in transactions]


def domain_fields(domains: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the fields of one `domainMetadata` action for each pair of a metadata domain and its configuration."""
    return [{"domain": name, "configuration": configuration, "removed": False} for name, configuration in domains]


def _is_text_map(value: Any) -> bool:
    """Return whether a JSON value is an object whose values are all strings or null."""
    return isinstance(value, Mapping) and all(isinstance(item, str | None) for item in value.values())


_TYPE_TESTS: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63,
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, Mapping),
    "list of strings": lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    "map of strings": _is_text_map,
}
_FIELDS: Mapping[str, Mapping[str, tuple[str, bool]]] = {
    "protocol": {
        "minReaderVersion": ("integer", True),
        "minWriterVersion": ("integer", True),
        "readerFeatures": ("list of strings", False),
        "writerFeatures": ("list of strings", False),
    },
    "metaData": {
        "id": ("string", True),
        "name": ("string", False),
        "description": ("string", False),
        "format": ("object", False),
        "schemaString": ("string", True),
        "partitionColumns": ("list of strings", False),
        "configuration": ("map of strings", False),
        "createdTime": ("integer", False),
    },
    "txn": {"appId": ("string", True), "version": ("integer", True), "lastUpdated": ("integer", False)},
    "domainMetadata": {"domain": ("string", True), "configuration": ("string", True), "removed": ("boolean", False)},
    "sidecar": {"path": ("string", True)},
    "cdc": {"path": ("string", True), "partitionValues": ("map of strings", False), "size": ("integer", False)},
    "commitInfo": {},
}
"""The fields that rowmerge reads from each action: the type of each field, and whether it is required.

`commitInfo` can have any fields.
"""


def check_action(action: Action) -> None:
    """Raise ValueError if an action lacks a required field, or a field has a wrong type. Accept unknown actions."""
    for name, fields in action.items():
        if fields is not None and name in _FIELDS:
            _check_fields(name, fields)
            if name == "metaData":
                _check_metadata(fields)


def _check_fields(name: str, fields: object) -> None:
    """Raise ValueError if the fields of the action `name` are not a JSON object, or a field is missing or of a wrong type."""
    if not isinstance(fields, Mapping):
        raise ValueError(f"the action {name} is not a JSON object")
    for key, (type_name, is_required) in _FIELDS[name].items():
        value = fields.get(key)
        if value is None and is_required:
            raise ValueError(f"the action {name} has no {key}")
        if value is not None and not _TYPE_TESTS[type_name](value):
            raise ValueError(f"{key} of the action {name} is not of type {type_name}: {value!r:.80}")


def _check_metadata(metadata_fields: Mapping[str, Any]) -> None:
    """Raise ValueError if a `metaData` action has an invalid format or schema, or a partition column that is not in the schema."""
    file_format = metadata_fields.get("format") or {}
    provider, options = file_format.get("provider"), file_format.get("options")
    has_valid_options = options is None or _is_text_map(options)
    if not isinstance(provider, str | None) or not has_valid_options:
        raise ValueError(f"the action metaData has an invalid format: {metadata_fields['format']!r:.80}")
    metadata = Metadata.of(metadata_fields)
    try:
        column_names = metadata.schema.names  # raises ValueError for an invalid schema
    except UnknownType:
        return  # `check_readable` raises an error that names the type
    for name in metadata.partition_columns:
        if name not in column_names:
            raise ValueError(f"the partition column {name!r} of the action metaData is not a column of the schema")


def schema_text(schema: Struct) -> str:
    """Return a schema as the JSON of a `schemaString`."""
    return compact(to_json(schema))


def compact(value: Any) -> str:
    """Serialize a value as JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parameter_text(value: Any) -> str:
    """Return a value of `operationParameters` or `operationMetrics` as a string: a string unchanged, any other value as JSON."""
    return value if isinstance(value, str) else compact(value)


def serialize(actions: Iterable[Action]) -> bytes:
    """Serialize the actions of a commit as JSON, one per line."""
    return b"".join(compact(action).encode() + b"\n" for action in actions)
