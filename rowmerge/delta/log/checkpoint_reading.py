"""Read checkpoints of all kinds: classic, multi-part, and v2 in Parquet or JSON with sidecars (PROTOCOL.md, Checkpoints)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rowmerge.delta.files.columns import ADD, REMOVE, file_rows, nulls, row_schema, tombstone_schema
from rowmerge.delta.files.file_statistics import CheckpointStatistics
from rowmerge.delta.files.live_files import LiveFiles
from rowmerge.delta.files.paths import absolute_path
from rowmerge.delta.log.log_files import LOG, SIDECARS, Checkpoint, read_documents
from rowmerge.delta.log.ndjson import Document, file_actions, non_file_actions
from rowmerge.delta.log.replay import State, apply_table_actions, empty_state
from rowmerge.delta.metadata.actions import Action, check_action
from rowmerge.errors import CorruptLog
from rowmerge.storage.store import Storage, StoredObject

_FOOTER_TAIL = 8
"""The size in bytes of the last part of a Parquet file, which contains the length of the footer and a magic number."""
_MAPS = ("configuration", "options")
_NON_FILE_COLUMNS = ("protocol", "metaData", "txn", "domainMetadata", "sidecar")
_ADD_FIELDS = [*(name for name in ADD if name != "stats"), "tags", "partitionValues"]
_REMOVE_FIELDS = [*REMOVE, "partitionValues"]
_READ_ERRORS = (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError, pa.ArrowException)
"""The errors that Arrow, or code that uses its values, raises for a damaged file or for columns with wrong types."""


def read_checkpoint(storage: Storage, checkpoint: Checkpoint) -> State:
    """Read the state of a table from a checkpoint and its sidecars.

    Args:
        storage: The storage of the table.
        checkpoint: The checkpoint, of any kind.

    Raises:
        CorruptLog: A file of the checkpoint is missing or unreadable. The error names the file.
        StorageError: The store is unavailable.
    """
    documents = read_documents(storage, checkpoint.paths)
    actions = list(chain.from_iterable(map(_read_non_file_actions, documents)))
    state = apply_table_actions(empty_state(), actions, documents[0].path)
    partition_columns = state.metadata.stored_partition_columns
    documents += _read_sidecars(storage, _sidecar_paths(storage, actions))
    live_files, tombstone_tables = zip(*(_read_file_actions(document, partition_columns) for document in documents), strict=True)
    blocks = tuple(chain.from_iterable(files.blocks for files in live_files))
    tombstones = pa.concat_tables(tombstone_tables, promote_options="default")
    return replace(state, version=checkpoint.version, files=LiveFiles(blocks), tombstones=tombstones)


def sidecar_paths(storage: Storage, files: Sequence[StoredObject]) -> list[str]:
    """Return the paths of a checkpoint's sidecars.

    Args:
        storage: The storage of the table.
        files: The files of the checkpoint.

    Returns:
        The paths: relative to the table for files in its folder, and absolute for all other files.

    Raises:
        CorruptLog: A file of the checkpoint is missing or unreadable.
        StorageError: The store is unavailable.
    """
    # Only the footer of a Parquet file is read if the file has no column of sidecars. A JSON file shows this only in its lines.
    checkpoint_paths = [file.path for file in files if not file.path.endswith(".parquet") or "sidecar" in _column_names(storage, file)]
    actions = chain.from_iterable(map(_read_non_file_actions, read_documents(storage, checkpoint_paths)))
    return _sidecar_paths(storage, actions)


def _sidecar_paths(storage: Storage, actions: Iterable[Action]) -> list[str]:
    """Return the paths in the `sidecar` actions, each relative to the table or absolute."""
    return [_sidecar_path(storage, action["sidecar"]["path"]) for action in actions if action.get("sidecar")]


def _column_names(storage: Storage, file: StoredObject) -> list[str]:
    """Read the column names of a Parquet file from its footer. Raises CorruptLog if the file is missing or its footer is invalid."""
    try:
        return list(read_footer(storage, file.path, file.size).schema.to_arrow_schema().names)
    except FileNotFoundError as error:
        raise CorruptLog(f"{storage.location}/{file.path}", "it was deleted while the table was read") from error


def read_footer(storage: Storage, path: str, size: int) -> pq.FileMetaData:
    """Read only the footer of a Parquet file.

    Args:
        storage: The storage of the table.
        path: The path of the file in the storage.
        size: The size of the file in bytes.

    Raises:
        CorruptLog: The file has no valid footer.
        FileNotFoundError: The file does not exist.
    """
    if size < 2 * _FOOTER_TAIL:
        raise CorruptLog(f"{storage.location}/{path}", "it is too small for a Parquet file")
    tail = storage.get_range(path, size - _FOOTER_TAIL, _FOOTER_TAIL)
    # The tail consists of the footer's length in four bytes, and the magic number PAR1.
    footer_size = min(int.from_bytes(tail[:4], "little") + _FOOTER_TAIL, size)
    try:
        return pq.read_metadata(pa.BufferReader(storage.get_range(path, size - footer_size, footer_size)))
    except (OSError, pa.ArrowException) as error:
        raise CorruptLog(f"{storage.location}/{path}", f"it has no valid Parquet footer ({error})") from error


def _sidecar_path(storage: Storage, path: str) -> str:
    """Resolve the path in a `sidecar` action: a file name, a path in the table, or a URI."""
    if "/" not in path or path.startswith(LOG):
        return path if path.startswith(LOG) else f"{SIDECARS}/{path}"
    return absolute_path(storage.location, path).removeprefix(f"{storage.location}/")


def _read_sidecars(storage: Storage, paths: Sequence[str]) -> list[Document]:
    """Read the sidecars at these relative or absolute paths. Raises CorruptLog if one is missing."""
    documents = read_documents(storage, [path for path in paths if path.startswith(LOG)])
    for path in paths:
        if not path.startswith(LOG):
            folder, _, name = path.rpartition("/")
            documents += read_documents(storage.at(folder), [name])
    return documents


def _read_non_file_actions(document: Document) -> list[Action]:
    """Read all actions except file actions from a file of a checkpoint, and check their fields.

    A checkpoint in Parquet has one column for each kind of action. Each row has one action in the column of its kind, and null in all
    other columns. Raises CorruptLog if the file is unreadable or an action is invalid.
    """
    if document.path.endswith(".json"):
        return non_file_actions(document)  # also checks the fields
    file = _open_parquet(document)
    column_names = [name for name in _NON_FILE_COLUMNS if name in file.schema_arrow.names]
    with _corrupt_if_unreadable(document):
        table = file.read(columns=column_names)
        actions: list[Action] = []
        for name in column_names:
            actions += [{name: _maps_as_dicts(fields)} for fields in table[name].drop_null().to_pylist()]
        for action in actions:
            check_action(action)
        return actions


def _maps_as_dicts(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an action with maps as dicts. Arrow returns maps as lists of pairs."""
    converted = {key: _maps_as_dicts(value) if isinstance(value, dict) else value for key, value in fields.items()}
    return {key: dict(value) if key in _MAPS and isinstance(value, list) else value for key, value in converted.items()}


def _read_file_actions(document: Document, partition_columns: Sequence[str]) -> tuple[LiveFiles, pa.Table]:
    """Return the live files and the tombstones in a file of a checkpoint. Raises CorruptLog if the file is unreadable.

    The statistics of the live files are read on first use.
    """
    if document.path.endswith(".json"):
        actions = file_actions([document], partition_columns)
        return LiveFiles.of(actions.adds.drop_columns(["document_index"])), actions.removes.drop_columns(["document_index"])
    file = _open_parquet(document)
    with _corrupt_if_unreadable(document):
        live_files = _read_live_files(document, file, partition_columns)
        removes = _read_action_column(file, "remove", _REMOVE_FIELDS)
        return live_files, file_rows(removes, tombstone_schema(partition_columns))


def _read_live_files(document: Document, file: pq.ParquetFile, partition_columns: Sequence[str]) -> LiveFiles:
    """Return the live files in a Parquet file of a checkpoint. Raises one of _READ_ERRORS if the file is damaged."""
    adds = _read_action_column(file, "add", _ADD_FIELDS)
    if len(adds) == adds.null_count:
        return LiveFiles()
    rows = file_rows(adds, row_schema(partition_columns))
    has_deletion_vectors = rows["deletionVector"].null_count < rows.num_rows
    is_add = adds.is_valid().combine_chunks()
    return LiveFiles.with_source(rows, CheckpointStatistics(document.path, file, is_add, has_deletion_vectors=has_deletion_vectors))


def _read_action_column(file: pq.ParquetFile, action: str, requested_fields: Sequence[str]) -> pa.ChunkedArray:
    """Read the column of one kind of action, limited to those requested fields that the checkpoint has.

    Returns an empty column if the file has no such column. Raises one of _READ_ERRORS if the file is damaged.
    """
    index = file.schema_arrow.get_field_index(action)
    available_fields = {field.name for field in file.schema_arrow.field(index).type} if index >= 0 else set()
    fields = [name for name in requested_fields if name in available_fields]
    # A checkpoint may have only the typed form of the partition values.
    if "partitionValues" not in available_fields and "partitionValues_parsed" in available_fields:
        fields.append("partitionValues_parsed")
    if not fields:
        return nulls(0, pa.struct([("path", pa.string())]))  # no actions: a column without rows, which has the one required field
    structs = file.read(columns=[f"{action}.{name}" for name in fields])[action]
    structs.validate(full=True)  # Reading Parquet does not check the encoding of strings
    return structs


def _open_parquet(document: Document) -> pq.ParquetFile:
    with _corrupt_if_unreadable(document):
        return pq.ParquetFile(pa.BufferReader(document.data), coerce_int96_timestamp_unit="us", page_checksum_verification=True)


@contextmanager
def _corrupt_if_unreadable(document: Document) -> Iterator[None]:
    """Raise CorruptLog instead of one of _READ_ERRORS."""
    try:
        yield
    except _READ_ERRORS as error:
        raise CorruptLog(document.path, f"it is not a valid Parquet checkpoint ({type(error).__name__}: {error})") from error
