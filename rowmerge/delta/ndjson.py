"""Newline-delimited JSON actions: file actions as Arrow tables, the few others as Python values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from rowmerge.delta.actions import DROPPED, Action, Metadata
from rowmerge.delta.columns import ADD, REMOVE, file_schema, partition_type, rows_of, tombstone_schema
from rowmerge.errors import CorruptLog

_FILE_ACTIONS = (b'{"add":', b'{"remove":', b'{"cdc":')
_TAGS = re.compile(rb'"tags":\s*(\{[^{}]*\})')
_BLOCK = 1 << 20
_KEY_WITHIN = 32
"""Within so many bytes a line's one key stands, whatever space a writer leaves before it."""


@dataclass(frozen=True)
class Document:
    """One file of actions: a commit, or a checkpoint in JSON. `path` is the whole one, for messages."""

    path: str
    data: bytes


@dataclass(frozen=True)
class FileActions:
    """`adds` and `removes` as `rowmerge.delta.columns` says, with one more column `document`: the index of the document of each."""

    adds: pa.Table
    removes: pa.Table


def other_actions(document: Document) -> list[Action]:
    """The actions that are not about data files: `protocol`, `metaData`, `txn`, `domainMetadata`, `commitInfo`, `sidecar`, …

    Raises CorruptLog.
    """
    lines = _lines(document)
    if not lines:
        raise CorruptLog(document.path, "the file is empty")
    return [_parsed(document, number, line) for number, line in enumerate(lines, 1) if not line.startswith(_FILE_ACTIONS)]


def is_drop(document: Document) -> bool:
    """Whether a commit drops the table. Raises CorruptLog."""
    if f'"{DROPPED}"'.encode() not in document.data:
        return False
    return any(Metadata.of(fields).is_dropped for action in other_actions(document) if (fields := action.get("metaData")))


def cdc_actions(document: Document) -> list[Action]:
    """The `cdc` actions of a commit. Raises CorruptLog."""
    numbered = enumerate(_lines(document), 1)
    found = [_parsed(document, number, line) for number, line in numbered if b'"cdc"' in line[:_KEY_WITHIN]]
    return [action for action in found if action.get("cdc")]


def file_actions(documents: Sequence[Document], partition_columns: Sequence[str]) -> FileActions:
    """The file actions of documents, oldest first, parsed in one go. `other_actions` has looked at them before. Raises CorruptLog."""
    data = b"\n".join(document.data for document in documents)
    lines = [_lines(document) for document in documents]
    counts = [len(found) for found in lines]
    longest = max((len(line) for found in lines for line in found), default=0)
    try:
        parsed = pyarrow.json.read_json(
            pa.BufferReader(data),
            read_options=pyarrow.json.ReadOptions(block_size=max(_BLOCK, 2 * longest + 2)),
            parse_options=pyarrow.json.ParseOptions(explicit_schema=_schema(data, partition_columns), unexpected_field_behavior="ignore"),
        )
        if parsed.num_rows != sum(counts):
            raise ValueError("a line holds more than one action, or a part of one")
        owner = pa.array(np.repeat(np.arange(len(documents)), counts), pa.int64())
        return FileActions(
            _with_document(parsed["add"], owner, file_schema(partition_columns)),
            _with_document(parsed["remove"], owner, tombstone_schema(partition_columns)),
        )
    except (pa.ArrowInvalid, ValueError) as error:
        raise _culprit(documents, str(error)) from error


def _lines(document: Document) -> list[bytes]:
    return [line for line in document.data.split(b"\n") if line and not line.isspace()]


def _parsed(document: Document, number: int, line: bytes) -> Action:
    try:
        action = json.loads(line)
    except ValueError as error:
        raise CorruptLog(document.path, f"line {number} is no whole JSON object ({error})") from error
    if not isinstance(action, dict):
        raise CorruptLog(document.path, f"line {number} is no JSON object")
    return action


def _with_document(actions: pa.ChunkedArray, owner: pa.Array, schema: pa.Schema) -> pa.Table:
    rows = rows_of(actions, schema)
    return rows.append_column("document", owner.filter(actions.is_valid().combine_chunks()))


def _schema(data: bytes, partition_columns: Sequence[str]) -> pa.Schema:
    partition = ("partitionValues", partition_type(partition_columns))
    tags = ("tags", pa.struct([(name, pa.string()) for name in sorted(set(_tag_names(data)))]))
    return pa.schema([("add", pa.struct([*ADD, partition, tags])), ("remove", pa.struct([*REMOVE, partition]))])


def _tag_names(data: bytes) -> Iterator[str]:
    """The names of all tags: Arrow reads objects as structs, whose fields must be known."""
    for match in _TAGS.finditer(data):
        try:
            tags: dict[str, Any] = json.loads(match[1])
        except ValueError:
            continue  # text inside some value that only looks like tags
        yield from (name for name, value in tags.items() if isinstance(value, str))


def _culprit(documents: Sequence[Document], reason: str) -> CorruptLog:
    """The error for the first document with a line that is no JSON object; Arrow tells only a row of all of them."""
    for document in documents:
        for number, line in enumerate(_lines(document), 1):
            try:
                _parsed(document, number, line)
            except CorruptLog as error:
                return error
    for document in documents if len(documents) > 1 else ():
        try:
            file_actions([document], ())
        except CorruptLog as error:
            return error
    return CorruptLog(documents[-1].path, reason)
