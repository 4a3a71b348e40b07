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
from rowmerge.parquet.key_lookup import LookedUpFile, find_rows, with_addresses
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
    matching_rows: list[pa.Table] = []
    with closing(map_files(table, files, lambda file: list(find_rows(file, columns, keys)))) as matches_by_file:
        for file_index, row_groups in enumerate(matches_by_file):
            for rows, positions in row_groups:
                matching_rows.append(with_addresses(rows, str(file_index), positions, (FILE, POSITION)))
            _raise_if_too_many(matching_rows)
    if not matching_rows:
        return with_addresses(columns.empty_table(), "", np.zeros(0, dtype=np.int64), (FILE, POSITION))
    return pa.concat_tables(matching_rows)


def _raise_if_too_many(tables: Sequence[pa.Table]) -> None:
    """Raise TooManyRows if the tables together have more than MAX_FOUND_ROWS rows or MAX_FOUND_BYTES bytes."""
    row_count, byte_count = sum(rows.num_rows for rows in tables), sum(rows.nbytes for rows in tables)
    if row_count > MAX_FOUND_ROWS or byte_count > MAX_FOUND_BYTES:
        raise TooManyRows


def map_files(table: str, files: Sequence[LookedUpFile], read: Callable[[LookedUpFile], Result]) -> Generator[Result, None, None]:
    """Apply `read` to files in several threads, and yield the results in the order of the files.

    Args:
        table: The name of the table in error messages.
        files: The data files. Files on a local disk are read by one thread for each core, and others by at least STORE_THREADS threads.
        read: A function that reads one file. It may raise UnreadableFile.

    Raises:
        MissingDataFile: A data file does not exist.
        UnreadableDataFile: A data file cannot be read.
    """
    cores = os.cpu_count() or 1
    threads = cores if all(file.path.startswith("file:") for file in files) else max(cores, STORE_THREADS)
    try:
        with closing(map_in_batches(read, files, threads)) as results:
            yield from results
    except UnreadableFile as error:
        raise unreadable_data_file(table, error.path, error.reason) from error
