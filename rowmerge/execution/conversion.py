"""CONVERT TO DELTA: make a Delta table of a folder of Parquet files, without copying them. The first version of the log names the files.

A process that is killed before it puts this version leaves the folder as it was.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from rowmerge.concurrency import map_concurrently
from rowmerge.errors import AlreadyExists, CommitStateUnknown, FilesNotFound, PlanError, UnreadableDataFile, ValueOutOfRange
from rowmerge.execution.result import ChangeResult, Timings
from rowmerge.execution.row_counts import RowCounts
from rowmerge.parquet.filesystems import Options, UnreadableFile, open_data_file
from rowmerge.parquet.leaf_columns import column_statistics, leaves
from rowmerge.storage.store import Storage, StoredObject
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Unknown
from rowmerge.table.metadata.partitioning import PartitionField
from rowmerge.table.metadata.schema import Field, Struct, arrow_type
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import AddedFile, FileChanges
from rowmerge.table.table import Table

_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Conversion:
    """A conversion of the Parquet files in a folder.

    `table`: the table that the folder becomes. `storage`: the storage of the folder. `columns`: the columns of the files. `partition`: the
    columns whose values are in the names of folders, in their order. `properties`: the properties of the table. `has_statistics`: whether
    the bounds of columns are read from the files.
    """

    table: Table
    storage: Storage
    columns: Struct
    partition: Sequence[Field]
    properties: Mapping[str, str]
    has_statistics: bool

    def run(self) -> ChangeResult:
        """Convert the folder: commit a first version of the Delta table that has all its files.

        Raises:
            FilesNotFound: The folder contains no files.
            PlanError: The folders have other partition columns than the statement, or the table cannot have a column.
            ValueOutOfRange: A partition value does not have the type of its column.
            UnreadableDataFile: A file is not a Parquet file.
            AlreadyExists: A concurrent statement created a table in the folder.
            CommitStateUnknown: It is unknown whether the table was created.
        """
        timings = Timings()
        expected = self.table.creation_version()
        if expected is None:
            raise self._created_by_other()
        partition_fields = tuple(PartitionField((field.name,), name=field.name) for field in self.partition)
        definition = TableDefinition(Struct((*self.columns, *self.partition)), partition_fields, self.properties)
        with timings.measure("plan"):
            files = self._files(self.table.resolve_shape(definition).filesystem_options)
        names = [field.name for field in self.partition]
        parameters = {"numFiles": len(files), "partitionedBy": names, "collectStats": self.has_statistics, "sourceFormat": "parquet"}
        request = CommitRequest("CONVERT", parameters, {"numConvertedFiles": len(files)}, files=FileChanges(files))
        with timings.measure("commit"):
            outcome = self.table.create(definition, request, expected)
        match outcome:
            case Committed(version):
                return ChangeResult(version, RowCounts(files_added=len(files)), timings)
            case Conflicted():
                raise self._created_by_other()
            case Unknown(reason):
                problem = f"It is unknown whether {self.table.name} was converted: {reason}"
                raise CommitStateUnknown(f"{problem}. Run the statement again: it does nothing if the folder is a Delta table.")

    def _created_by_other(self) -> AlreadyExists:
        return AlreadyExists(f"A concurrent statement created a table in {self.storage.location}. Read that table.")

    def _files(self, filesystem_options: Options) -> tuple[AddedFile, ...]:
        """Return the files with their statistics and partition values."""
        listed = [file for file in self.storage.list() if not any(name.startswith(("_", ".")) for name in _visible_parts(file.path))]
        if not listed:
            raise FilesNotFound(self.storage.location, "Parquet file", "Check the path.")
        partitions = self._partitions(listed)
        read = partial(_read_file, self.storage.location, self._bounded_columns, filesystem_options)
        files = map_concurrently(read, listed)
        return tuple(AddedFile(partition=partition, **fields) for fields, partition in zip(files, partitions, strict=True))

    @property
    def _bounded_columns(self) -> frozenset[str]:
        """The columns whose bounds are read. Parquet's bounds of floating-point numbers leave out NaN, which Spark sorts last."""
        return (
            frozenset(field.name for field in self.columns if not _has_floats(arrow_type(field.type)))
            if self.has_statistics
            else frozenset()
        )

    def _partitions(self, files: Sequence[StoredObject]) -> list[dict[str, Any]]:
        """Return the partition values of files, from the names of their folders."""
        texts_by_file = [[part.partition("=")[::2] for part in posixpath.dirname(file.path).split("/") if "=" in part] for file in files]
        names = [field.name for field in self.partition]
        for file, texts in zip(files, texts_by_file, strict=True):
            folder_columns = [unquote(name) for name, _ in texts]
            if [name.lower() for name in folder_columns] != [name.lower() for name in names]:
                advice = "List the columns of the folders: PARTITIONED BY (column type, …)"
                problem = f"{self.storage.location}/{file.path} has the partition columns ({', '.join(folder_columns)})"
                raise PlanError(f"{problem}, but the statement has ({', '.join(names)}). {advice}.")
        texts_by_column = [[unquote(texts[index][1]) for texts in texts_by_file] for index in range(len(names))]
        columns = [_typed(field, texts) for field, texts in zip(self.partition, texts_by_column, strict=True)]
        return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)] if names else [{} for _ in files]


def _visible_parts(path: str) -> list[str]:
    """Return the parts of a path whose first character decides whether the file is hidden: not those of partition folders."""
    return [part for part in path.split("/") if "=" not in part or part.startswith(".")]


def _has_floats(type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return any(_has_floats(type_.field(index).type) for index in range(type_.num_fields))
    return bool(pa.types.is_floating(type_))


def _typed(field: Field, texts: Sequence[str]) -> list[Any]:
    """Return the values of a partition column. Raise ValueOutOfRange for a text that is not a value of its type."""
    nullable = [None if text == _NULL_PARTITION else text for text in texts]
    try:
        return list(pa.array(nullable, pa.string()).cast(arrow_type(field.type)).to_pylist())
    except pa.ArrowInvalid as error:
        raise ValueOutOfRange(f"A value of the partition column {field.name} is not of its type: {error}. Choose another type.") from error


def _read_file(location: str, columns: frozenset[str], options: Options, file: StoredObject) -> dict[str, Any]:
    """Return the fields of AddedFile for a file, except the partition. `columns`: those whose bounds are read."""
    path = f"{location}/{file.path}"
    try:
        with open_data_file(path, options, by_field_id=False) as source:
            footer, schema = source.metadata, source.schema_arrow
    except UnreadableFile as error:
        raise UnreadableDataFile(location, path, str(error.reason)) from error
    columns = frozenset(name for name in columns if name in schema.names and not (_has_old_calendar(footer) and _has_times(schema, name)))
    fields = pa.struct(list(schema))
    statistics = column_statistics(footer, list(leaves(fields, fields)), columns)
    return {"path": path, "size": file.size, "records": footer.num_rows, **statistics}


def _has_old_calendar(footer: pq.FileMetaData) -> bool:
    """Return whether dates in a file may be in the calendar of Spark 2. Then its bounds are not those of the rows as they are read."""
    metadata = footer.metadata or {}
    version = metadata.get(b"org.apache.spark.version", b"3")
    return b"org.apache.spark.legacyDateTime" in metadata or version.split(b".")[0] < b"3"


def _has_times(schema: pa.Schema, name: str) -> bool:
    """Return whether a column of this name contains dates or timestamps, also in its fields."""
    text = str(schema.field(name).type)
    return "date" in text or "timestamp" in text
