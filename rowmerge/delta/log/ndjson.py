"""Newline-delimited JSON actions: file actions as Arrow tables, the few others as Python values."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from rowmerge.delta.files.columns import ADD, REMOVE, TEXT_MAP, file_rows, file_schema, partition_type, tombstone_schema
from rowmerge.delta.metadata.actions import DROP, DROPPED, Action, Metadata, check_action
from rowmerge.errors import CorruptLog
from rowmerge.table.metadata.json_objects import check_texts, decode_json, parse_object

_FILE_ACTIONS = (b'{"add":', b'{"remove":', b'{"cdc":')
_TAGS = re.compile(rb'"tags":\s*(\{[^{}]*\})')
_BLOCK = 1 << 20
_UNREADABLE = (pa.ArrowException, ValueError, OverflowError)
_MOST_TAGS = 256
"""So many names of tags are fields of a struct in Arrow, where every file has a value for each."""
_KEY_WITHIN = 32
"""Within so many bytes a line's one key stands, whatever space a writer leaves before it."""


@dataclass(frozen=True)
class Document:
    """One file of actions: a commit, or a checkpoint in JSON. `path` is the whole one, for messages."""

    path: str
    data: bytes


@dataclass(frozen=True)
class FileActions:
    """`adds` and `removes` as `rowmerge.delta.files.columns` says, with one more column `document`: the index of the document of each."""

    adds: pa.Table
    removes: pa.Table


def other_actions(document: Document) -> list[Action]:
    """The actions that are not about data files: `protocol`, `metaData`, `txn`, `domainMetadata`, `commitInfo`, `sidecar`, …

    Their fields are checked. Raises CorruptLog.
    """
    lines = _lines(document)
    if not lines:
        raise CorruptLog(document.path, "the file is empty")
    return [_parsed(document, number, line) for number, line in lines if not line.startswith(_FILE_ACTIONS)]


def is_drop(document: Document) -> bool:
    """Whether a commit drops the table. Raises CorruptLog.

    Another engine that writes to a dropped table makes it a table again, and may keep its properties.
    """
    if f'"{DROPPED}"'.encode() not in document.data:
        return False
    actions = other_actions(document)
    is_marked = any(Metadata.of(fields).is_dropped for action in actions if (fields := action.get("metaData")))
    return is_marked and any((action.get("commitInfo") or {}).get("operation") == DROP for action in actions)


def cdc_actions(document: Document) -> list[Action]:
    """The `cdc` actions of a commit. Raises CorruptLog."""
    found = [_parsed(document, number, line) for number, line in _lines(document) if b'"cdc"' in line[:_KEY_WITHIN]]
    return [action for action in found if action.get("cdc")]


def file_actions(documents: Sequence[Document], partition_columns: Sequence[str]) -> FileActions:
    """The file actions of documents, oldest first, parsed in one go. `other_actions` has looked at them before. Raises CorruptLog."""
    try:
        return _file_actions(documents, partition_columns)
    except _UNREADABLE:
        # Arrow rejects a key that occurs twice. Other readers, and Python's parser, take its last value.
        rewritten = [_rewritten(document) for document in documents]
    try:
        return _file_actions(rewritten, partition_columns)
    except _UNREADABLE as error:
        raise _first_unreadable_line(rewritten, partition_columns) from error


def _file_actions(documents: Sequence[Document], partition_columns: Sequence[str]) -> FileActions:
    data = b"\n".join(document.data for document in documents)
    lines = [_lines(document) for document in documents]
    counts = [len(found) for found in lines]
    longest = max((len(line) for found in lines for _, line in found), default=0)
    tags = set(_tag_names(data))
    parsed = pyarrow.json.read_json(
        pa.BufferReader(data),
        read_options=pyarrow.json.ReadOptions(block_size=max(_BLOCK, 2 * longest + 2)),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=_schema(partition_columns, tags), unexpected_field_behavior="ignore"),
    )
    if parsed.num_rows != sum(counts):
        raise ValueError("a line holds more than one action, or a part of one")
    parsed.validate(full=True)  # Arrow does not look at the encoding of texts
    owner = pa.array(np.repeat(np.arange(len(documents)), counts), pa.int64())
    adds = _with_document(parsed["add"], owner, file_schema(partition_columns))
    if len(tags) > _MOST_TAGS:
        texts = [line for found in lines for _, line in found]
        maps = [_tags_of(texts[row]) for row in np.flatnonzero(parsed["add"].is_valid().to_numpy())]
        adds = adds.set_column(adds.schema.get_field_index("tags"), "tags", pa.array(maps, TEXT_MAP))
    return FileActions(adds, _with_document(parsed["remove"], owner, tombstone_schema(partition_columns)))


def _lines(document: Document) -> list[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers from 1."""
    return [(number, line) for number, line in enumerate(document.data.split(b"\n"), 1) if line and not line.isspace()]


def _parsed(document: Document, number: int, line: bytes) -> Action:
    action = parse_object(line, document.path, line=number)
    added = action.get("add")
    if isinstance(added, dict) and not _is_text(added.get("stats")):
        del added["stats"]  # statistics that cannot be read count as absent
    try:
        if b"\\u" in line:
            check_texts(action)
        check_action(action)
    except ValueError as error:
        raise CorruptLog(document.path, str(error), line=number) from error
    return action


def _is_text(value: Any) -> bool:
    """Whether a value of JSON is a text that can be stored, or null."""
    try:
        return value is None or bool(value.encode())
    except (AttributeError, UnicodeEncodeError):
        return False


def _rewritten(document: Document) -> Document:
    """The document with each line as Python's parser takes it, on the same line. Raises CorruptLog for a line that it rejects."""
    lines = {number: json.dumps(_parsed(document, number, line)).encode() for number, line in _lines(document)}
    return Document(document.path, b"\n".join(lines.get(number, b"") for number in range(1, max(lines, default=0) + 1)))


def _first_unreadable_line(documents: Sequence[Document], partition_columns: Sequence[str]) -> CorruptLog:
    """The error for the first line whose file action cannot be read; Arrow counts the rows of all documents together."""

    def problem(document: Document, lines: Sequence[tuple[int, bytes]]) -> str | None:
        try:
            _file_actions([Document(document.path, b"\n".join(line for _, line in lines))], partition_columns)
        except _UNREADABLE as error:
            return str(error)
        return None

    for document in documents:
        lines = _lines(document)
        if problem(document, lines) is None:
            continue
        readable, unreadable = 0, len(lines)
        while unreadable - readable > 1:
            middle = (readable + unreadable) // 2
            readable, unreadable = (middle, unreadable) if problem(document, lines[:middle]) is None else (readable, middle)
        last = lines[readable:unreadable]
        return CorruptLog(document.path, problem(document, last) or "its file actions cannot be read together", line=last[0][0])
    return CorruptLog(documents[0].path, "the file actions of this commit and of those after it cannot be read together")


def _with_document(actions: pa.ChunkedArray, owner: pa.Array, schema: pa.Schema) -> pa.Table:
    rows = file_rows(actions, schema)
    return rows.append_column("document", owner.filter(actions.is_valid().combine_chunks()))


def _schema(partition_columns: Sequence[str], tags: Collection[str]) -> pa.Schema:
    partition = ("partitionValues", partition_type(partition_columns))
    tagged = ("tags", pa.struct([(name, pa.string()) for name in sorted(tags)] if len(tags) <= _MOST_TAGS else []))
    return pa.schema([("add", pa.struct([*ADD, partition, tagged])), ("remove", pa.struct([*REMOVE, partition]))])


def _tags_of(line: bytes) -> list[tuple[str, str]] | None:
    tags = decode_json(line)["add"].get("tags") or {}
    return [(name, value) for name, value in tags.items() if isinstance(value, str)] or None


def _tag_names(data: bytes) -> Iterator[str]:
    """The names of all tags: Arrow reads objects as structs, whose fields must be known."""
    for match in _TAGS.finditer(data):
        try:
            tags: dict[str, Any] = decode_json(match[1])
        except ValueError:
            continue  # text inside some value that only looks like tags
        yield from (name for name, value in tags.items() if isinstance(value, str))


def commit_info(actions: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The fields of a commit's `commitInfo`, empty without one."""
    return next((action["commitInfo"] for action in actions if action.get("commitInfo")), {})
