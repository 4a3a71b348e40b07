"""Parse actions in newline-delimited JSON: file actions into Arrow tables, and all other actions into Python values."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
_READ_ERRORS = (pa.ArrowException, ValueError, OverflowError)
_UNREADABLE_TOGETHER = "its file actions cannot be read together"
_MAX_TAG_NAMES = 256
"""The maximum number of tag names for which Arrow reads tags as a struct. A struct has a field for each name in each file."""
_KEY_PREFIX_LENGTH = 32
"""The number of bytes at the start of a line in which the action's name appears. Some writers put spaces before the name."""


@dataclass(frozen=True)
class Document:
    """The content of a commit, or of a checkpoint file in JSON or Parquet. `path`: the absolute path of the file, for error messages."""

    path: str
    data: bytes


@dataclass(frozen=True)
class FileActions:
    """The `add` and `remove` actions as tables, which `rowmerge.delta.files.columns` describes.

    Their additional column `document_index` has the index of the document that contains the action.
    """

    adds: pa.Table
    removes: pa.Table


def non_file_actions(document: Document) -> list[Action]:
    """Parse all actions except `add`, `remove` and `cdc`, and check their fields.

    Raises:
        CorruptLog: The document is empty, or a line is not a valid action.
    """
    lines = _numbered_lines(document)
    if not lines:
        raise CorruptLog(document.path, "the file is empty")
    return [_parse_line(document, number, line) for number, line in lines if not line.startswith(_FILE_ACTIONS)]


def is_drop(document: Document) -> bool:
    """Return whether a commit drops the table. Raises CorruptLog if the commit is unreadable."""
    if f'"{DROPPED_PROPERTY}"'.encode() not in document.data:
        return False
    actions = non_file_actions(document)
    has_property = any(Metadata.of(action["metaData"]).is_dropped for action in actions if action.get("metaData"))
    # Another engine can write to a dropped table, which restores it, and keep the property.
    return has_property and any((action.get("commitInfo") or {}).get("operation") == DROP_OPERATION for action in actions)


def cdc_actions(document: Document) -> list[Action]:
    """Parse the `cdc` actions of a commit. Raises CorruptLog if the commit is unreadable."""
    actions = [_parse_line(document, number, line) for number, line in _numbered_lines(document) if b'"cdc"' in line[:_KEY_PREFIX_LENGTH]]
    return [action for action in actions if action.get("cdc")]


def file_actions(documents: Sequence[Document], partition_columns: Sequence[str]) -> FileActions:
    """Parse the `add` and `remove` actions of documents. The caller must have checked the documents with `non_file_actions`.

    Args:
        documents: Commits or JSON files of checkpoints, oldest first.
        partition_columns: The physical names of the partition columns. The tables have a column for each of them.

    Raises:
        CorruptLog: A file action is unreadable. The error names the path of its document, and the line if it can be found.
    """
    try:
        return _parse_file_actions(documents, partition_columns)
    except _READ_ERRORS:
        # Arrow rejects an object with the same key twice. Other readers, and Python's parser, take the last value.
        normalized_documents = [_normalized(document) for document in documents]
    try:
        return _parse_file_actions(normalized_documents, partition_columns)
    except _READ_ERRORS as error:
        raise _unreadable_line_error(normalized_documents, partition_columns) from error


def _parse_file_actions(documents: Sequence[Document], partition_columns: Sequence[str]) -> FileActions:
    """Parse the file actions of documents with Arrow. Raises one of _READ_ERRORS if an action is unreadable.

    Arrow parses the lines of all documents at once, because a call for each document is slow. The resulting table has one row for each
    line, so the row of an action identifies its document.

    Arrow parses the tags of a file, an object such as `{"RUN": "5"}`, into a struct. The schema of this struct has a field for each name in
    any of the documents, so the names must be known first. Each file has a value or null in each field, so very many names would take too
    much memory. In this case, Arrow skips the tags, and Python parses them from the lines of the `add` actions.
    """
    data = b"\n".join(document.data for document in documents)
    lines, document_indices = _lines_of(documents)
    tag_names = set(_tag_names(data))
    has_many_tag_names = len(tag_names) > _MAX_TAG_NAMES
    schema = _actions_schema(partition_columns, tag_names=() if has_many_tag_names else tag_names)
    actions = _read_actions(data, lines, schema)
    adds = _file_rows_with_document(actions["add"], document_indices, file_schema(partition_columns))
    if has_many_tag_names:
        adds = _with_tags(adds, compress(lines, actions["add"].is_valid().to_pylist()))
    removes = _file_rows_with_document(actions["remove"], document_indices, tombstone_schema(partition_columns))
    return FileActions(adds, removes)


def _lines_of(documents: Sequence[Document]) -> tuple[list[bytes], pa.Array]:
    """Return the non-blank lines of all documents, and for each line the index of its document.

    For a document with three lines and one with two lines, the indices are 0, 0, 0, 1, 1.
    """
    lines_by_document = [[line for _, line in _numbered_lines(document)] for document in documents]
    line_counts = [len(lines) for lines in lines_by_document]
    document_indices = pa.array(np.repeat(np.arange(len(documents)), line_counts), pa.int64())
    return list(chain.from_iterable(lines_by_document)), document_indices


def _read_actions(data: bytes, lines: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    """Parse `data`, which consists of `lines`, into one row per line and one column per kind of action. Raises one of _READ_ERRORS."""
    actions = read_json_lines(data, schema, longest_line=max(map(len, lines), default=0))
    if actions.num_rows != len(lines):
        raise ValueError("a line contains more than one action, or only part of an action")
    actions.validate(full=True)  # `read_json` does not check the encoding of strings
    return actions


def _numbered_lines(document: Document) -> list[tuple[int, bytes]]:
    """Return the non-blank lines of a document with their line numbers."""
    return [(number, line) for number, line in enumerate(document.data.split(b"\n"), 1) if line and not line.isspace()]


def _parse_line(document: Document, number: int, line: bytes) -> Action:
    """Parse the action in a line. Raises CorruptLog for invalid JSON, invalid fields, or strings with an invalid encoding."""
    action = parse_object(line, document.path, line=number)
    add = action.get("add")
    if isinstance(add, dict) and not _is_encodable_text(add.get("stats")):
        del add["stats"]  # a file with unreadable statistics counts as a file without statistics
    try:
        # UTF-8 cannot encode a lone surrogate. The line is UTF-8, so only an escape such as \ud800 can put one into a string.
        if b"\\u" in line:
            check_texts(action)
        check_action(action)
    except ValueError as error:
        raise CorruptLog(document.path, str(error), line=number) from error
    return action


def _is_encodable_text(value: Any) -> bool:
    """Return whether a JSON value is null or a string that can be encoded in UTF-8."""
    try:
        return value is None or bool(value.encode())
    except (AttributeError, UnicodeEncodeError):
        return False


def _normalized(document: Document) -> Document:
    """Return the document with each line parsed and rewritten by Python's JSON module. Raises CorruptLog for an invalid line.

    The line numbers do not change.
    """
    lines = {number: json.dumps(_parse_line(document, number, line)).encode() for number, line in _numbered_lines(document)}
    return Document(document.path, b"\n".join(lines.get(number, b"") for number in range(1, max(lines, default=0) + 1)))


def _unreadable_line_error(documents: Sequence[Document], partition_columns: Sequence[str]) -> CorruptLog:
    """Return the error for the first line that Arrow cannot parse. Arrow's own error does not identify the document and its line."""
    for document in documents:
        lines = _numbered_lines(document)
        if not _why_unreadable(lines, partition_columns):
            continue
        # If the first n lines are unreadable, more lines are too. So a binary search finds the smallest unreadable number of lines, and the
        # last of these is the line to report. It may be valid alone: lines are unreadable together if they give a field different types.
        line_counts = range(1, len(lines) + 1)
        index = bisect_left(line_counts, True, key=lambda count: bool(_why_unreadable(lines[:count], partition_columns)))
        number, line = lines[index]
        reason = _why_unreadable([(number, line)], partition_columns) or _UNREADABLE_TOGETHER
        return CorruptLog(document.path, reason, line=number)
    return CorruptLog(documents[0].path, "the file actions of this commit and of the later commits cannot be read together")


def _why_unreadable(lines: Sequence[tuple[int, bytes]], partition_columns: Sequence[str]) -> str:
    """Return the reason why Arrow cannot parse the file actions in numbered lines, or an empty string if it can."""
    try:
        _parse_file_actions([Document("", b"\n".join(line for _, line in lines))], partition_columns)
    except _READ_ERRORS as error:
        return str(error) or _UNREADABLE_TOGETHER
    return ""


def _file_rows_with_document(actions: pa.ChunkedArray, document_indices: pa.Array, schema: pa.Schema) -> pa.Table:
    """Return the non-null actions as a table with one row per file, and the index of the document that contains each action."""
    return file_rows(actions, schema).append_column("document_index", document_indices.filter(actions.is_valid().combine_chunks()))


def _actions_schema(partition_columns: Sequence[str], tag_names: Collection[str]) -> pa.Schema:
    """Return the schema with which Arrow parses the lines. It has a struct column for each kind of file action.

    `tag_names`: the names of the tags to read. Arrow ignores all other tags.
    """
    partition = partition_type(partition_columns)
    tags = pa.struct([(name, pa.string()) for name in sorted(tag_names)])
    add = {**ADD, "partitionValues": partition, "tags": tags}
    remove = {**REMOVE, "partitionValues": partition}
    return pa.schema({"add": pa.struct(add), "remove": pa.struct(remove)})


def _with_tags(adds: pa.Table, lines: Iterable[bytes]) -> pa.Table:
    """Return the `add` actions with tags that Python parses from the line of each action."""
    return adds.set_column(adds.schema.get_field_index("tags"), "tags", pa.array(map(_parse_tags, lines), TEXT_MAP))


def _parse_tags(line: bytes) -> list[tuple[str, str]] | None:
    """Parse the tags in the line of an `add` action. Return None if it has no tags."""
    tags = decode_json(line)["add"].get("tags") or {}
    return [(name, value) for name, value in tags.items() if isinstance(value, str)] or None


def _tag_names(data: bytes) -> Iterator[str]:
    """Yield the names of the tags in a document. Arrow reads JSON objects as structs, whose fields the schema must have."""
    for match in _TAGS.finditer(data):
        try:
            tags: dict[str, Any] = decode_json(match[1])
        except ValueError:
            continue  # a string inside another value that resembles tags
        yield from (name for name, value in tags.items() if isinstance(value, str))


def commit_info(actions: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the fields of a commit's `commitInfo`, or an empty mapping if it has none."""
    return next((action["commitInfo"] for action in actions if action.get("commitInfo")), {})
