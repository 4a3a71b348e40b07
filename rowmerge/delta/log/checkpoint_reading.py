"""Reading checkpoints of every kind: classic, multi-part, and v2 in Parquet or JSON with sidecars (PROTOCOL.md, Checkpoints)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowmerge.delta.files.columns import ADD, REMOVE, file_rows, nulls, row_schema, tombstone_schema
from rowmerge.delta.files.file_statistics import CheckpointStatistics
from rowmerge.delta.files.live_files import LiveFiles
from rowmerge.delta.files.paths import absolute_path
from rowmerge.delta.log.log_files import LOG, SIDECARS, Checkpoint, read_documents
from rowmerge.delta.log.ndjson import Document, file_actions, other_actions
from rowmerge.delta.log.replay import State, described, state_of
from rowmerge.delta.metadata.actions import Action, check_action
from rowmerge.errors import CorruptLog
from rowmerge.storage.store import Storage, StoredObject

_FOOTER_TAIL = 8
"""The last bytes of a Parquet file: the length of its footer, and a magic number."""
_OTHERS = ("protocol", "metaData", "txn", "domainMetadata", "sidecar")
_ADD_FIELDS = [*(name for name, _ in ADD if name != "stats"), "tags", "partitionValues"]
_REMOVE_FIELDS = [*(name for name, _ in REMOVE), "partitionValues"]
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError, pa.ArrowException)
"""What Arrow and the code behind it raise when a file is damaged, or has columns of other types."""


def read_checkpoint(storage: Storage, checkpoint: Checkpoint) -> State:
    """The state that a checkpoint holds. Raises CorruptLog naming the file that cannot be read, StorageError."""
    documents = read_documents(storage, checkpoint.paths)
    others = [action for document in documents for action in _others(document)]
    metadata = described(others, documents[0].path).metadata
    partition = () if metadata is None else metadata.stored_partition_columns
    documents += _sidecars(storage, [action["sidecar"]["path"] for action in others if action.get("sidecar")])
    parts = [_files(document, partition) for document in documents]
    files = LiveFiles(tuple(block for live, _ in parts for block in live.blocks), row_schema(partition).empty_table())
    removes = pa.concat_tables([removes for _, removes in parts], promote_options="default")
    return state_of(checkpoint.version, others, files, removes, documents[0].path)


def sidecar_paths(storage: Storage, files: Sequence[StoredObject]) -> list[str]:
    """Return the sidecars that the files of a checkpoint name: relative to the table where they lie in it, absolute elsewhere.

    Only the footer is read of a Parquet file that cannot name any. Raises CorruptLog for a file that is not whole, StorageError.
    """
    naming = [file.path for file in files if not file.path.endswith(".parquet") or "sidecar" in _columns_of(storage, file)]
    actions = [action for document in read_documents(storage, naming) for action in _others(document)]
    return [_sidecar_path(storage, action["sidecar"]["path"]) for action in actions if action.get("sidecar")]


def _columns_of(storage: Storage, file: StoredObject) -> list[str]:
    try:
        return list(read_footer(storage, file.path, file.size).schema.to_arrow_schema().names)
    except FileNotFoundError as error:
        raise CorruptLog(f"{storage.location}/{file.path}", "it vanished while the table was read") from error


def read_footer(storage: Storage, path: str, size: int) -> pq.FileMetaData:
    """The footer of a Parquet file. Raises CorruptLog, FileNotFoundError, StorageError."""
    if size < 2 * _FOOTER_TAIL:
        raise CorruptLog(f"{storage.location}/{path}", "it is too short for a Parquet file")
    tail = storage.get_range(path, size - _FOOTER_TAIL, _FOOTER_TAIL)
    length = min(int.from_bytes(tail[:4], "little") + _FOOTER_TAIL, size)
    try:
        return pq.read_metadata(pa.BufferReader(storage.get_range(path, size - length, length)))
    except (OSError, pa.ArrowException) as error:
        raise CorruptLog(f"{storage.location}/{path}", f"it has no Parquet footer ({error})") from error


def _sidecar_path(storage: Storage, path: str) -> str:
    """Resolve the path of a sidecar, which is named by its file name alone, by its path in the table, or by a whole URI."""
    if "/" not in path or path.startswith(LOG):
        return path if path.startswith(LOG) else f"{SIDECARS}/{path}"
    return absolute_path(storage.location, path).removeprefix(f"{storage.location}/")


def _sidecars(storage: Storage, paths: Sequence[str]) -> list[Document]:
    resolved = [_sidecar_path(storage, path) for path in paths]
    documents = read_documents(storage, [path for path in resolved if path.startswith(LOG)])
    for path in resolved:
        if not path.startswith(LOG):
            folder, _, name = path.rpartition("/")
            documents += read_documents(storage.at(folder), [name])
    return documents


def _others(document: Document) -> list[Action]:
    if document.path.endswith(".json"):
        return other_actions(document)
    file = _opened(document)
    there = [name for name in _OTHERS if name in file.schema_arrow.names]
    table = _columns(document, file, there)
    actions: list[Action] = []
    try:
        for name in there:
            column = table[name]
            actions += [{name: _plain(value)} for value in column.filter(pc.is_valid(column)).to_pylist()]
        for action in actions:
            check_action(action)
    except _UNREADABLE as error:
        raise _unreadable(document, error) from error
    return actions


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """Maps come as pairs from Arrow: those of the small actions as dicts."""
    plain = {key: _plain(inner) if isinstance(inner, dict) else inner for key, inner in value.items()}
    return {key: dict(inner) if key in ("configuration", "options") and isinstance(inner, list) else inner for key, inner in plain.items()}


def _files(document: Document, partition: Sequence[str]) -> tuple[LiveFiles, pa.Table]:
    """The live files and the tombstones; statistics are read when they are asked for."""
    if document.path.endswith(".json"):
        actions = file_actions([document], partition)
        return LiveFiles.of(actions.adds.drop_columns(["document"])), actions.removes.drop_columns(["document"])
    file = _opened(document)
    try:
        adds = _structs(document, file, "add", _ADD_FIELDS)
        live = LiveFiles((), row_schema(partition).empty_table())
        if len(adds) > adds.null_count:
            rows = file_rows(adds, row_schema(partition))
            marked = rows["deletionVector"].null_count < rows.num_rows
            source = CheckpointStatistics(document.path, file, adds.is_valid().combine_chunks(), has_deletion_vectors=marked)
            live = LiveFiles.with_source(rows, source)
        removes = file_rows(_structs(document, file, "remove", _REMOVE_FIELDS), tombstone_schema(partition))
    except _UNREADABLE as error:
        raise _unreadable(document, error) from error
    return live, removes


def _structs(document: Document, file: pq.ParquetFile, action: str, wanted: Sequence[str]) -> pa.ChunkedArray:
    """One action's column with the fields that are wanted and there; only they are decoded."""
    there = _fields(file, action)
    fields = [name for name in wanted if name in there]
    if "partitionValues" in wanted and "partitionValues" not in there and "partitionValues_parsed" in there:
        fields.append("partitionValues_parsed")
    if not fields:
        return nulls(0, pa.struct([("path", pa.string())]))
    structs = _columns(document, file, [f"{action}.{name}" for name in fields])[action]
    structs.validate(full=True)  # Arrow does not look at the encoding of texts
    return structs


def _fields(file: pq.ParquetFile, action: str) -> set[str]:
    index = file.schema_arrow.get_field_index(action)
    return {field.name for field in file.schema_arrow.field(index).type} if index >= 0 else set()


def _columns(document: Document, file: pq.ParquetFile, columns: Sequence[str]) -> pa.Table:
    try:
        return file.read(columns=list(columns))
    except _UNREADABLE as error:
        raise _unreadable(document, error) from error


def _opened(document: Document) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(pa.BufferReader(document.data), coerce_int96_timestamp_unit="us", page_checksum_verification=True)
    except _UNREADABLE as error:
        raise _unreadable(document, error) from error


def _unreadable(document: Document, error: Exception) -> CorruptLog:
    return CorruptLog(document.path, f"it is no checkpoint in Parquet ({type(error).__name__}: {error})")
