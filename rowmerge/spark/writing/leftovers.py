"""Files that finished tasks of a failed job left behind: no message tells of them, so they are found by their names."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pyarrow.fs

from rowmerge.parquet.data_files import WriteSpec
from rowmerge.parquet.filesystems import filesystem_of
from rowmerge.spark.writing.written import discard_paths

_LATE_TASKS = 0.3
"""Seconds after which a task that was told to stop has stopped, as a rule; a file that comes later is VACUUM's."""


def discard_attempt(*specs: WriteSpec | None) -> None:
    """Delete the files of an attempt whose job failed. What cannot be deleted stays: the job's own error is the one to tell."""
    for pause in (0.0, _LATE_TASKS):
        time.sleep(pause)
        for spec in specs:
            if spec is not None:
                with contextlib.suppress(OSError):
                    _discard(spec)


def _discard(spec: WriteSpec) -> None:
    filesystem, root = filesystem_of(spec.root, spec.filesystem_options)
    written = [found.path for found in _files(filesystem, root, deep=bool(spec.partition)) if spec.attempt in found.base_name]
    # Only files of this job have the attempt's UUID in their names.
    discard_paths([f"{spec.root}{path.removeprefix(root)}" for path in written], spec.filesystem_options)


def _files(filesystem: pyarrow.fs.FileSystem, root: str, *, deep: bool) -> Iterator[pyarrow.fs.FileInfo]:
    """The files of a folder, and with `deep` of those below it that hold data."""
    for found in filesystem.get_file_info(pyarrow.fs.FileSelector(root, allow_not_found=True)):
        if found.type is pyarrow.fs.FileType.File:
            yield found
        elif deep and not found.base_name.startswith(("_", ".")):
            yield from _files(filesystem, found.path, deep=True)
