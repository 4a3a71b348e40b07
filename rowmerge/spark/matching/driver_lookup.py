"""Look up the keys of a source in data files that the driver reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import TypeVar

import numpy as np
import pyarrow as pa

from rowmerge.concurrency import STORE_THREADS, map_in_batches
from rowmerge.errors.environment import unreadable_data_file
from rowmerge.parquet.filesystems import UnreadableFile
from rowmerge.parquet.key_lookup import LookedUpFile, files_at_once, find_rows
from rowmerge.parquet.source_keys import SourceKeys
from rowmerge.table.metadata.engine_columns import FILE, POSITION

MAX_FOUND_ROWS, MAX_FOUND_BYTES = 2_000_000, 256 * 1024 * 1024
"""The maximum number of rows that the driver passes to Spark, and their maximum size in bytes.

If more rows have a key of the source, Spark reads the table itself.
"""

Result = TypeVar("Result")


class TooManyRows(Exception):
    """Raised when more than MAX_FOUND_ROWS rows have a key of the source, or when the rows take more than MAX_FOUND_BYTES.

    Remedy: No action is needed. Spark joins the whole table instead.
    """


def read_rows_with_keys(table: str, files: Sequence[LookedUpFile], columns: pa.Schema, keys: SourceKeys) -> pa.Table:
    """Return the live rows that have a key of the source, with the address of each row: its file and its position in the file.

    Args:
        table: The name of the table in error messages.
        files: The data files to read.
        columns: The table's columns to return, which include the key columns.
        keys: The keys of the source.

    Returns:
        The columns, followed by FILE and POSITION. FILE is the index of the file in `files` as a string such as "12". A path would take
        much more memory, because each row repeats it.

    Raises:
        MissingDataFile: A data file does not exist.
        UnreadableDataFile: A data file cannot be read.
        TooManyRows: More than MAX_FOUND_ROWS rows match, or they take more than MAX_FOUND_BYTES.
    """
    matching_rows, byte_count, row_count = list[pa.Table](), 0, 0
    with closing(map_files(table, files, keys, lambda group: list(find_rows(group, columns, keys)))) as rows_by_group:
        for group, rows_of_group in rows_by_group:
            for rows in rows_of_group:
                matching_rows.append(rows.with_addresses(np.array(group), (FILE, POSITION)))
                row_count, byte_count = row_count + matching_rows[-1].num_rows, byte_count + matching_rows[-1].nbytes
            if row_count > MAX_FOUND_ROWS or byte_count > MAX_FOUND_BYTES:
                raise TooManyRows
    address_schema = pa.schema([*columns, (FILE, pa.string()), (POSITION, pa.int64())])
    return pa.concat_tables(matching_rows) if matching_rows else address_schema.empty_table()


def map_files(
    table: str, files: Sequence[LookedUpFile], keys: SourceKeys, read: Callable[[Sequence[LookedUpFile]], Result]
) -> Generator[tuple[range, Result], None, None]:
    """Apply `read` to groups of adjacent files in several threads, and yield the results in the order of the files.

    Args:
        table: The name of the table in error messages.
        files: The data files. Files on a local disk are read by one thread for each core, and others by at least STORE_THREADS threads.
        keys: The keys that `read` looks up, which determine the groups (see `files_at_once`).
        read: A function that reads a group of files. It may raise UnreadableFile.

    Yields:
        The range of a group's indexes in `files`, and the result of `read`.

    Raises:
        MissingDataFile: A data file does not exist.
        UnreadableDataFile: A data file cannot be read.
    """
    cores = os.cpu_count() or 1
    threads = cores if all(file.path.startswith("file:") for file in files) else max(cores, STORE_THREADS)
    groups = files_at_once(files, keys, threads)
    start = 0
    try:
        with closing(map_in_batches(read, groups, threads)) as results:
            for group, result in zip(groups, results, strict=True):
                yield range(start, start + len(group)), result
                start += len(group)
    except UnreadableFile as error:
        raise unreadable_data_file(table, error.path, error.reason) from error
