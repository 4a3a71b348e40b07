"""The tasks in which executors look up the keys of a source in data files with Arrow."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from rowmerge.concurrency import STORE_THREADS, map_ahead
from rowmerge.parquet.bitmaps import serialize
from rowmerge.parquet.data_files import StoredColumns
from rowmerge.parquet.filesystems import Options
from rowmerge.parquet.key_lookup import AddressedRows, LookedUpFile, files_at_once, find_positions, find_rows
from rowmerge.parquet.source_keys import NumpyArray, SourceKeys

Result = TypeVar("Result")
TaskFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class LookupSpec:
    """The keys that tasks look up, and the columns of the files in which they look.

    Attributes:
        columns: The table's columns to read, which include the key columns.
        keys: The keys of the source, without the values of the source rows.
        layouts: The columns as files store them. A file of a task has an index in this tuple.
        filesystem_options: The arguments of Arrow's file systems, including credentials.
    """

    columns: pa.Schema
    keys: SourceKeys
    layouts: tuple[StoredColumns, ...]
    filesystem_options: Options = field(default_factory=dict, repr=False)


class TaskFile(NamedTuple):
    """A file of a task. `number`: its index among the files of all tasks. `layout`: the index in `LookupSpec.layouts`."""

    number: int
    path: str
    layout: int
    deleted: bytes
    partition: Mapping[str, Any]
    row_count: int
    size: int


def rows_task(spec: LookupSpec, file_lists: Sequence[bytes], ids_per_list: int, address_columns: tuple[str, str]) -> TaskFunction:
    """Return a function for `DataFrame.mapInArrow` that looks up the keys of the source, and yields the matching live rows with addresses.

    Args:
        spec: The keys and the columns.
        file_lists: The files of each task, as pickled lists of the fields of `TaskFile`.
        ids_per_list: The number by which the value of an input row's first column is divided to get the index of its list.
        address_columns: The names of two additional columns: the number of a row's file as a string, and the row's position in the file.
    """

    def find_in_files(files: Sequence[LookedUpFile]) -> list[AddressedRows]:
        return list(find_rows(files, spec.columns, spec.keys))

    def look_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for numbers, rows_of_group in _map_task_files(batches, spec, file_lists, ids_per_list, find_in_files):
            for rows in rows_of_group:
                yield from rows.with_addresses(np.array(numbers), address_columns).combine_chunks().to_batches()

    return look_up


def positions_task(spec: LookupSpec, file_lists: Sequence[bytes], max_rows: int | None, with_key_ids: bool) -> TaskFunction:
    """Return a function for `DataFrame.mapInArrow` that looks up the keys of the source, and yields the positions of matching live rows.

    The result has one row for each file with such rows. Its columns (POSITIONS_SCHEMA) are the number of the file, the positions as a
    serialized bitmap, and the bytes of the key ids.

    Args:
        spec: The keys and the columns.
        file_lists: The files of each task, as pickled lists of the fields of `TaskFile`.
        max_rows: The number of rows after which a task stops at the end of a group of files, None for no limit. The driver then has more
            rows than it accepts.
        with_key_ids: Whether to return the key id of each row, as an int64 array.
    """

    def find_in_files(files: Sequence[LookedUpFile]) -> list[tuple[NumpyArray, NumpyArray]]:
        return find_positions(files, spec.columns, spec.keys, with_key_ids=with_key_ids)

    def look_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        row_count = 0
        for numbers, matches_by_file in _map_task_files(batches, spec, file_lists, 1, find_in_files):
            for number, (positions, key_ids) in zip(numbers, matches_by_file, strict=True):
                if len(positions):
                    row = {"file": number, "positions": serialize(positions.astype(np.uint64)), "key_ids": key_ids.tobytes()}
                    yield pa.RecordBatch.from_pylist([row], POSITIONS_SCHEMA)
                row_count += len(positions)
            if max_rows is not None and row_count > max_rows:
                break

    return look_up


POSITIONS_SCHEMA = pa.schema({"file": pa.int32(), "positions": pa.binary(), "key_ids": pa.binary()})
"""The columns that `positions_task` returns."""


def _map_task_files(
    batches: Iterator[pa.RecordBatch],
    spec: LookupSpec,
    file_lists: Sequence[bytes],
    ids_per_list: int,
    read: Callable[[Sequence[LookedUpFile]], Result],
) -> Iterator[tuple[list[int], Result]]:
    """Read the files of a task in groups with `read`, and yield the numbers of each group's files with its result.

    While a task decodes files in a remote store, threads wait for the bytes of the next files. See `rows_task` for the other arguments.
    """
    for batch in batches:
        for id_ in batch.column(0).to_pylist():
            task_files = [TaskFile(*fields) for fields in pickle.loads(file_lists[id_ // ids_per_list])]
            files = [
                LookedUpFile(
                    file.path, spec.layouts[file.layout], file.deleted, file.partition, spec.filesystem_options, file.row_count, file.size
                )
                for file in task_files
            ]
            is_local = all(file.path.startswith("file:") for file in files)
            groups = files_at_once(files, spec.keys, 1 if is_local else STORE_THREADS)
            numbers = iter([file.number for file in task_files])
            for group, result in zip(groups, map(read, groups) if is_local else map_ahead(read, groups), strict=True):
                yield list(islice(numbers, len(group))), result
