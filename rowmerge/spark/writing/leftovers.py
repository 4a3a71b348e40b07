"""Delete files that finished tasks of a failed job left behind. No message lists them, so they are found by their names."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pyarrow.fs

from rowmerge.parquet.data_files import WriteSpec
from rowmerge.parquet.filesystems import filesystem_of
from rowmerge.spark.writing.written import discard_paths

_STOP_SECONDS = 0.3
"""Tasks have usually stopped so long after they were told to. VACUUM deletes a file that comes later."""


def discard_attempt(*specs: WriteSpec | None) -> None:
    """Delete the files of an attempt whose job failed. An error here is ignored, because the job's own error is the one to report."""
    for pause in (0.0, _STOP_SECONDS):
        time.sleep(pause)
        for spec in specs:
            if spec is not None:
                with contextlib.suppress(OSError):
                    _discard(spec)


def _discard(spec: WriteSpec) -> None:
    """Delete the files with the attempt's UUID in their names, which only this job wrote."""
    filesystem, root = filesystem_of(spec.root, spec.filesystem_options)
    files = _data_files(filesystem, root, with_subfolders=bool(spec.partition))
    paths = [f"{spec.root}{file.path.removeprefix(root)}" for file in files if spec.attempt in file.base_name]
    discard_paths(paths, spec.filesystem_options)


def _data_files(filesystem: pyarrow.fs.FileSystem, folder: str, *, with_subfolders: bool) -> Iterator[pyarrow.fs.FileInfo]:
    """Yield the files of a folder and of its subfolders for data."""
    for entry in filesystem.get_file_info(pyarrow.fs.FileSelector(folder, allow_not_found=True)):
        if entry.type is pyarrow.fs.FileType.File:
            yield entry
        elif with_subfolders and not entry.base_name.startswith(("_", ".")):
            yield from _data_files(filesystem, entry.path, with_subfolders=True)
