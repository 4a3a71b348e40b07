"""Write few outcome rows in the driver, without the latency of Python on an executor, and above all of the first Python process there.

A source of few rows comes to the driver in the job that counts it. The driver keeps it as a local relation, prunes files by each of its
keys, and writes its inserted rows. The driver also writes up to `FEW_ROWS` changed rows. So a small statement runs no Python on an
executor. One task reads, joins and writes small files, without a shuffle.
"""

from __future__ import annotations

import pyarrow as pa

from rowmerge.errors import StorageError
from rowmerge.parquet.data_files import WriteSpec
from rowmerge.parquet.filesystems import without_secrets
from rowmerge.parquet.outcomes import OutcomeColumns, OutcomeTask, message_fields
from rowmerge.spark.writing.written import Written, discard_paths, written_of
from rowmerge.table.snapshots.files import FileListing

FEW_ROWS = 5_000
ONE_TASK_BYTES, ONE_TASK_ROWS = 4 * 1024 * 1024, 200_000
_MAX_ROW_BYTES = 2_000
"""The bytes of a row in its file. A driver should not hold many wider rows."""


def are_small(files: FileListing) -> bool:
    """Return whether one task reads these files faster than several tasks would read them and bring together their results."""
    return files.total_size <= ONE_TASK_BYTES and files.total_records <= ONE_TASK_ROWS


def may_be_few(files: FileListing, *, source_is_few: bool) -> bool:
    """Return whether to test if the outcome rows of these files are few.

    With few source rows, the test pays: keys mostly match one row each, and if they match many, the test ends soon. Without a source, it
    pays for small files: to read them twice takes less than Python on an executor.
    """
    return files.total_size <= _MAX_ROW_BYTES * files.total_records and (source_is_few or are_small(files))


def write_on_driver(rows: pa.Table, spec: WriteSpec, columns: OutcomeColumns, changes: WriteSpec | None) -> Written:
    """Write outcome rows as the sink does, but in this process. `changes`: how change rows are written. Raises StorageError."""
    task = OutcomeTask(columns, spec, changes)
    try:
        if rows.num_rows:
            task.write(rows)
        return written_of(message_fields(task.close()))
    except BaseException as error:
        discard_paths(task.abort(), spec.filesystem_options)
        if isinstance(error, OSError | pa.ArrowException):
            raise StorageError(spec.root, without_secrets(str(error).splitlines()[0], spec.filesystem_options)) from error
        raise
