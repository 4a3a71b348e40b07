"""The result of write jobs on the driver, and the deletion of written files that do not belong to any version of a table."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
from pyroaring import BitMap64

from rowmerge.errors import RowmergeError, StorageError
from rowmerge.parquet.data_files import WriteSpec
from rowmerge.parquet.filesystems import Options, filesystem_of, safe_reason
from rowmerge.spark.reading.data_files import spark_path
from rowmerge.storage.deletion import PathOrigin, try_delete_files
from rowmerge.table.snapshots.files import AddedFile, FileListing, ListedFile, Positions

_STOP_SECONDS = 0.3
"""The time in seconds within which tasks usually stop after their job is cancelled. VACUUM deletes files that tasks finish later."""


@dataclass
class WriteOutput:
    """The files that the tasks of a job wrote, and the target rows that the tasks replaced or read. Paths are spelled as in Spark.

    Attributes:
        files: The written data files.
        change_rows: The written change files.
        positions: By path of a data file, the positions of the target rows that are updated or deleted.
        read_positions: By path of a data file, the positions of the matched target rows that stay unchanged.
        source_ordinals: The ordinals of the source rows that matched a target row.
        repeated_count: The number of updates and deletes of a target row that was already updated or deleted.
        updated: The number of updated rows.
        inserted: The number of inserted rows.
        unmatched_updated: The number of updated rows that match no source row.
        unmatched_deleted: The number of deleted rows that match no source row.
    """

    files: list[AddedFile] = field(default_factory=list)
    change_rows: list[AddedFile] = field(default_factory=list)
    positions: dict[str, Positions] = field(default_factory=dict)
    read_positions: dict[str, Positions] = field(default_factory=dict)
    source_ordinals: BitMap64 = field(default_factory=BitMap64)
    repeated_count: int = 0
    updated: int = 0
    inserted: int = 0
    unmatched_updated: int = 0
    unmatched_deleted: int = 0

    def add(self, other: WriteOutput) -> None:
        """Add the result of another job or task to the attributes, which the class describes.

        A target row that both results updated or deleted counts as repeated. A MERGE with repeated rows usually fails (cardinality
        check): several source rows match one target row, and it is not defined which of them applies.
        """
        self.files += other.files
        self.change_rows += other.change_rows
        common_paths = self.positions.keys() & other.positions.keys()
        changed_twice = sum(self.positions[path].intersection_cardinality(other.positions[path]) for path in common_paths)
        _merge_positions(self.positions, other.positions)
        _merge_positions(self.read_positions, other.read_positions)
        self.source_ordinals |= other.source_ordinals
        self.repeated_count += other.repeated_count + changed_twice
        self.updated += other.updated
        self.inserted += other.inserted
        self.unmatched_updated += other.unmatched_updated
        self.unmatched_deleted += other.unmatched_deleted

    def rename(self, paths: Mapping[str, str]) -> None:
        """Replace the short file names that outcome rows contain with the paths of the files. `paths`: The path for each name."""
        self.positions = {paths[name]: bitmap for name, bitmap in self.positions.items()}
        self.read_positions = {paths[name]: bitmap for name, bitmap in self.read_positions.items()}

    @property
    def changed_row_count(self) -> int:
        """Return the number of target rows that are updated or deleted."""
        return sum(len(bitmap) for bitmap in self.positions.values())

    def touched_files(self, files: FileListing) -> list[ListedFile]:
        """Return the files that contain updated or deleted rows."""
        if not self.positions:
            return []
        spelled_paths = pa.array([spark_path(path) for path in files.paths], pa.string())
        return files.filter(pc.is_in(spelled_paths, value_set=pa.array(list(self.positions), pa.string()))).files()

    def discard(self, filesystem_options: Options) -> None:
        """Delete all written files. A file that cannot be deleted stays for VACUUM."""
        discard([*self.files, *self.change_rows], filesystem_options)


def _merge_positions(bitmaps: dict[str, Positions], added: Mapping[str, Positions]) -> None:
    """Add positions to the bitmaps of files. Both arguments map paths to positions."""
    for path, positions in added.items():
        bitmaps[path] = bitmaps[path] | positions if path in bitmaps else positions


@contextmanager
def discard_on_error(output: WriteOutput, filesystem_options: Options, error_type: type[BaseException] = BaseException) -> Iterator[None]:
    """Delete the written files if the body of the `with` statement raises an error.

    Args:
        output: The written files, including those that the body adds.
        filesystem_options: The arguments of Arrow's file systems, including credentials.
        error_type: The class of the errors after which the files are deleted.
    """
    try:
        yield
    except error_type:
        output.discard(filesystem_options)
        raise


def discard_if_rejected(files: Iterable[AddedFile], filesystem_options: Options) -> AbstractContextManager[None]:
    """Delete the files if the body of the `with` statement raises RowmergeError, which means that nothing was committed.

    After any other error, the files are kept, because the commit may have succeeded.

    Args:
        files: The files to delete.
        filesystem_options: The arguments of Arrow's file systems, including credentials.
    """
    return discard_on_error(WriteOutput(list(files)), filesystem_options, RowmergeError)


@dataclass(frozen=True)
class DataFolder:
    """A folder of data files whose files Arrow's file systems delete. It implements `rowmerge.storage.deletion.FileDeleter`."""

    location: str
    filesystem_options: Options = field(repr=False)

    def at(self, location: str) -> DataFolder:
        return DataFolder(location, self.filesystem_options)

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files by their paths relative to the folder. A missing file counts as deleted.

        Raises:
            StorageError: A file cannot be deleted.
        """
        for path in paths:
            absolute = f"{self.location}/{path}"
            filesystem, inner_path = filesystem_of(absolute, self.filesystem_options)
            try:
                filesystem.delete_file(inner_path)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise StorageError(absolute, safe_reason(str(error), self.filesystem_options)) from None


def discard(files: Iterable[AddedFile], filesystem_options: Options) -> None:
    """Delete the files of a command that definitely failed, so that no version refers to them. VACUUM deletes files that remain.

    Args:
        files: The written files.
        filesystem_options: The arguments of Arrow's file systems, including credentials.
    """
    discard_paths([file.path for file in files], filesystem_options)


def discard_paths(paths: Sequence[str], filesystem_options: Options) -> None:
    """Delete data files that jobs of this process wrote. VACUUM deletes files that remain because of an error.

    Args:
        paths: The absolute paths of the files.
        filesystem_options: The arguments of Arrow's file systems, including credentials.
    """
    paths_by_store: dict[tuple[str, ...], list[str]] = {}  # the data and the change files of a table may be in different stores
    for path in paths:
        scheme_and_authority = tuple(path.split("/")[:3])
        paths_by_store.setdefault(scheme_and_authority, []).append(path)
    for store_paths in paths_by_store.values():
        # Any common parent folder is suitable, because all paths are below the location of the table's data.
        folder = store_paths[0].rpartition("/")[0]
        while not all(path.startswith(f"{folder}/") for path in store_paths):
            folder = folder.rpartition("/")[0]
        try_delete_files(DataFolder(folder, filesystem_options), [store_paths], PathOrigin.THIS_PROCESS)


def discard_attempt(*specs: WriteSpec | None, reported: Collection[str] = ()) -> None:
    """Delete the files of an attempt whose job failed, or those that no task has reported.

    A failed job does not return messages, so the files are identified by the UUID of the attempt in their names. Errors are ignored,
    because the caller raises the error of the job.

    Args:
        specs: How the job wrote files. None is skipped.
        reported: The paths of the files to keep.
    """
    for pause in (0.0, _STOP_SECONDS):
        time.sleep(pause)
        for spec in filter(None, specs):
            with suppress(OSError):
                discard_paths([path for path in _attempt_paths(spec) if path not in reported], spec.filesystem_options)


def _attempt_paths(spec: WriteSpec) -> list[str]:
    """Return the paths of the files that have the UUID of the attempt in their names."""
    filesystem, root = filesystem_of(spec.root, spec.filesystem_options)
    has_folders = bool(spec.partition) or spec.hashed_paths is not None or spec.random_prefix_length is not None
    files = _data_files(filesystem, root, with_subfolders=has_folders)
    return [f"{spec.root}{file.path.removeprefix(root)}" for file in files if spec.attempt in file.base_name]


def _data_files(filesystem: pyarrow.fs.FileSystem, folder: str, *, with_subfolders: bool) -> Iterator[pyarrow.fs.FileInfo]:
    for entry in filesystem.get_file_info(pyarrow.fs.FileSelector(folder, allow_not_found=True)):
        if entry.type is pyarrow.fs.FileType.File:
            yield entry
        elif with_subfolders and not entry.base_name.startswith(("_", ".")):
            yield from _data_files(filesystem, entry.path, with_subfolders=True)


def sum_of_tasks(messages: Iterable[Mapping[str, Any]]) -> WriteOutput:
    """Return the result of a job: the sum of the results of its tasks, each given as the fields of a `TaskMessage`."""
    total = WriteOutput()
    for message in messages:
        total.add(_read_task_message(message))
    return total


def _read_task_message(message: Mapping[str, Any]) -> WriteOutput:
    """Return the result of a task from the fields of its `TaskMessage`, with files as `AddedFile` and with deserialized bitmaps.

    `WriteOutput` describes the fields: for example, `positions` are those of updated or deleted target rows, and `read_positions` those of
    matched rows that stay unchanged.
    """
    source_ordinals = message["source_ordinals"]
    return WriteOutput(
        files=[AddedFile(**fields) for fields in message["files"]],
        change_rows=[AddedFile(**fields) for fields in message["change_rows"]],
        positions=_deserialize_positions(message["positions"]),
        read_positions=_deserialize_positions(message["read_positions"]),
        source_ordinals=BitMap64() if source_ordinals is None else BitMap64.deserialize(source_ordinals),
        repeated_count=message["repeated_count"],
        updated=message["updated"],
        inserted=message["inserted"],
        unmatched_updated=message["unmatched_updated"],
        unmatched_deleted=message["unmatched_deleted"],
    )


def _deserialize_positions(bitmaps: Mapping[str, bytes]) -> dict[str, Positions]:
    return {path: BitMap64.deserialize(bitmap) for path, bitmap in bitmaps.items()}
