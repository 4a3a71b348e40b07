"""Few outcome rows are written by the driver: without the latency of Python on an executor, and of the first one there most of all.

A source of few rows comes to the driver in the job that counts it. The driver keeps it as a local relation, prunes files by each of its
keys, and writes its inserted rows. The driver also writes up to `FEW_ROWS` changed rows. So a small statement runs no Python on an
executor. One task reads, joins and writes small files, without a shuffle.
"""

from __future__ import annotations

import pyarrow as pa

from rowmerge.errors import StorageError
from rowmerge.parquet.data_files import PartitionedWriter, WriteSpec
from rowmerge.parquet.filesystems import without_secrets
from rowmerge.parquet.outcomes import OutcomeColumns, OutcomeTask, message_fields
from rowmerge.spark.writing.written import Written, discard_paths, written_of
from rowmerge.table.snapshots.files import FileListing

FEW_ROWS = 5_000
ONE_TASK_BYTES, ONE_TASK_ROWS = 4 * 1024 * 1024, 200_000
_WIDE_ROW = 2_000
"""Bytes of a row in its file; wider ones may be more than a driver should hold."""


def are_small(files: FileListing) -> bool:
    """Whether one task reads these files sooner than several would bring together what they find."""
    return files.total_size <= ONE_TASK_BYTES and files.total_records <= ONE_TASK_ROWS


def may_be_few(files: FileListing, *, source_is_few: bool) -> bool:
    """Whether it is worth to look if the outcome rows of these files are few.

    It is where a source has few rows: keys mostly meet one row each, and where they meet many, the look ends soon. Without a source it is
    where files are small: whatever is found in them, to read them twice takes less than Python on an executor.
    """
    return files.total_size <= _WIDE_ROW * files.total_records and (source_is_few or are_small(files))


def sink_here(rows: pa.Table, spec: WriteSpec, columns: OutcomeColumns, changes: WriteSpec | None) -> Written:
    """What the sink does with outcome rows, in this process. Raises StorageError."""
    task = OutcomeTask(columns, PartitionedWriter(spec), None if changes is None else PartitionedWriter(changes))
    try:
        if rows.num_rows:
            task.take(rows)
        return written_of(message_fields(task.close()))
    except (OSError, pa.ArrowException) as error:
        discard_paths(task.abort(), spec.filesystem_options)
        raise StorageError(spec.root, without_secrets(str(error).splitlines()[0], spec.filesystem_options)) from error
    except BaseException:
        discard_paths(task.abort(), spec.filesystem_options)
        raise
