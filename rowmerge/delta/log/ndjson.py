"""Newline-delimited JSON actions: file actions as Arrow tables, the few others as Python values."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import Any

import numpy as np
import pyarrow as pa

from rowmerge.delta.files.columns import ADD, REMOVE, TEXT_MAP, file_rows, file_schema, partition_type, read_json_lines, tombstone_schema
from rowmerge.delta.metadata.actions import DROP_OPERATION, DROPPED_PROPERTY, Action, Metadata, check_action
from rowmerge.errors import CorruptLog
from rowmerge.table.metadata.json_objects import check_texts, decode_json, parse_object

_FILE_ACTIONS = (b'{"add":', b'{"remove":', b'{"cdc":')
_TAGS = re.compile(rb'"tags":\s*(\{[^{}]*\})')
_UNREADABLE = (pa.ArrowException, ValueError, OverflowError)
_UNREADABLE_TOGETHER = "its file actions cannot be read together"
_MOST_TAGS = 256
"""The most tag names for which Arrow reads tags as a struct, where every file has a value for each name."""
_KEY_WITHIN = 32
"""The first bytes of a line, which have its one key, even after the spaces of another writer."""


@dataclass(frozen=True)
class Document:
    """A file of actions: a commit, or a checkpoint in JSON or Parquet. `path` is absolute, for messages."""

    path: str
    data: bytes


@dataclass(frozen=True)
class FileActions:
    """Tables as described in `rowmerge.delta.files.columns`, with one more column `document`, the index of the action's document."""

    adds: pa.Table
    removes: pa.Table


def non_file_actions(document: Document) -> list[Action]:
    """Return the actions other than `add`, `remove` and `cdc`, with checked fields. Raises CorruptLog."""
    lines = _lines(document)
    if not lines:
        raise CorruptLog(document.path, "the file is empty")
    return [_parse_line(document, number, line) for number, line in lines if not line.startswith(_FILE_ACTIONS)]


def is_drop(document: Document) -> bool:
    """Return whether a commit drops the table. Raises CorruptLog."""
    if f'"{DROPPED_PROPERTY}"'.encode() not in document.data:
        return False
    actions = non_file_actions(document)
    has_property = any(Metadata.of(action["metaData"]).is_dropped for action in actions if action.get("metaData"))
    # Another engine that writes to a dropped table restores it, and may keep the property.
    return has_property and any((action.get("commitInfo") or {}).get("operation") == DROP_OPERATION for action in actions)


def cdc_actions(document: Document) -> list[Action]:
    """Return the `cdc` actions of a commit. Raises CorruptLog."""
    actions = [_parse_line(document, number, line) for number, line in _lines(document) if b'"cdc"' in line[:_KEY_WITHIN]]
    return [action for action in actions if action.get("cdc")]


def file_actions(documents: Sequence[Document], partition_columns: Sequence[str]) -> FileActions:
    """Parse the file actions of documents, oldest first, that `non_file_actions` has read before. Raises CorruptLog."""
    try:
        return _file_actions(documents, partition_columns)
    except _UNREADABLE:
        # Arrow rejects a key that occurs twice. Other readers, and Python's parser, take its last value.
        rewritten = [_rewrite(document) for document in documents]
    try:
        return _file_actions(rewritten, partition_columns)
    except _UNREADABLE as error:
        raise _first_unreadable_line(rewritten, partition_columns) from error


def _file_actions(documents: Sequence[Document], partition_columns: Sequence[str]) -> FileActions:
    """Parse the file actions of documents with Arrow. Raises one of _UNREADABLE."""
    data = b"\n".join(document.data for document in documents)
    numbered_lines = [_lines(document) for document in documents]
    lines = [line for _, line in chain.from_iterable(numbered_lines)]
    tag_names = set(_tag_names(data))
    actions = _parse_actions(data, lines, _schema(partition_columns, tag_names))
    document_indices = pa.array(np.repeat(np.arange(len(documents)), list(map(len, numbered_lines))), pa.int64())
    adds = _with_document(actions["add"], document_indices, file_schema(partition_columns))
    if len(tag_names) > _MOST_TAGS:
        add_lines = compress(lines, actions["add"].is_valid().to_pylist())
        adds = adds.set_column(adds.schema.get_field_index("tags"), "tags", pa.array(map(_parse_tags, add_lines), TEXT_MAP))
    return FileActions(adds, _with_document(actions["remove"], document_indices, tombstone_schema(partition_columns)))


def _parse_actions(data: bytes, lines: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    """Return the actions in `data`, which consists of these lines, one per row. Raises one of _UNREADABLE."""
    actions = read_json_lines(data, schema, longest_line=max(map(len, lines), default=0))
    if actions.num_rows != len(lines):
        raise ValueError("a line holds more than one action, or a part of one")
    actions.validate(full=True)  # Arrow does not look at the encoding of texts
    return actions


def _lines(document: Document) -> list[tuple[int, bytes]]:
    """Return the lines that are not blank, with their numbers from 1."""
    return [(number, line) for number, line in enumerate(document.data.split(b"\n"), 1) if line and not line.isspace()]


def _parse_line(document: Document, number: int, line: bytes) -> Action:
    """Parse and check the action in a line. Raises CorruptLog."""
    action = parse_object(line, document.path, line=number)
    add = action.get("add")
    if isinstance(add, dict) and not _is_storable_text(add.get("stats")):
        del add["stats"]  # statistics that cannot be read count as absent
    try:
        # Only an escape can spell a text that UTF-8 cannot encode.
        if b"\\u" in line:
            check_texts(action)
        check_action(action)
    except ValueError as error:
        raise CorruptLog(document.path, str(error), line=number) from error
    return action


def _is_storable_text(value: Any) -> bool:
    """Return whether a JSON value is null or a text that UTF-8 can encode."""
    try:
        return value is None or bool(value.encode())
    except (AttributeError, UnicodeEncodeError):
        return False


def _rewrite(document: Document) -> Document:
    """Return the document with each line as Python's parser reads it, on the same line. Raises CorruptLog for a line that it rejects."""
    lines = {number: json.dumps(_parse_line(document, number, line)).encode() for number, line in _lines(document)}
    return Document(document.path, b"\n".join(lines.get(number, b"") for number in range(1, max(lines, default=0) + 1)))


def _first_unreadable_line(documents: Sequence[Document], partition_columns: Sequence[str]) -> CorruptLog:
    """Return the error for the first line whose file action is unreadable. Arrow numbers the rows of all documents together."""
    for document in documents:
        lines = _lines(document)
        if not _why_unreadable(lines, partition_columns):
            continue
        # The shortest unreadable beginning of the document ends with the unreadable line.
        ends = range(1, len(lines) + 1)
        index = bisect_left(ends, True, key=lambda end: bool(_why_unreadable(lines[:end], partition_columns)))
        reason = _why_unreadable(lines[index : index + 1], partition_columns) or _UNREADABLE_TOGETHER
        return CorruptLog(document.path, reason, line=lines[index][0])
    return CorruptLog(documents[0].path, "the file actions of this commit and of those after it cannot be read together")


def _why_unreadable(lines: Sequence[tuple[int, bytes]], partition_columns: Sequence[str]) -> str:
    """Return why Arrow cannot read the file actions in numbered lines, an empty string if it can."""
    try:
        _file_actions([Document("", b"\n".join(line for _, line in lines))], partition_columns)
    except _UNREADABLE as error:
        return str(error) or _UNREADABLE_TOGETHER
    return ""


def _with_document(actions: pa.ChunkedArray, document_indices: pa.Array, schema: pa.Schema) -> pa.Table:
    """Return the actions as rows of files, with the index of their document."""
    return file_rows(actions, schema).append_column("document", document_indices.filter(actions.is_valid().combine_chunks()))


def _schema(partition_columns: Sequence[str], tag_names: Collection[str]) -> pa.Schema:
    partition = partition_type(partition_columns)
    tags = pa.struct([(name, pa.string()) for name in sorted(tag_names)] if len(tag_names) <= _MOST_TAGS else [])
    add, remove = {**ADD, "partitionValues": partition, "tags": tags}, {**REMOVE, "partitionValues": partition}
    return pa.schema({"add": pa.struct(add), "remove": pa.struct(remove)})


def _parse_tags(line: bytes) -> list[tuple[str, str]] | None:
    """Return the tags in the line of an `add` action."""
    tags = decode_json(line)["add"].get("tags") or {}
    return [(name, value) for name, value in tags.items() if isinstance(value, str)] or None


def _tag_names(data: bytes) -> Iterator[str]:
    """Yield the names of all tags: Arrow reads objects as structs, whose fields must be declared."""
    for match in _TAGS.finditer(data):
        try:
            tags: dict[str, Any] = decode_json(match[1])
        except ValueError:
            continue  # text inside another value that only looks like tags
        yield from (name for name, value in tags.items() if isinstance(value, str))


def commit_info(actions: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the fields of a commit's `commitInfo`, empty without one."""
    return next((action["commitInfo"] for action in actions if action.get("commitInfo")), {})
