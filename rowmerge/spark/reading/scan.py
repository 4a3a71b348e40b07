"""Read a snapshot's files as a DataFrame, by Spark's own reader, without their deleted rows.

Spark's Parquet reader returns the file and the position of each row. These two are the address of a row, and a deleted row is a position in
a bitmap. A merge that changes few rows of a file writes a deletion vector and the new rows.

A snapshot names columns twice: `schema` as users do, `stored_schema` as data files and statistics do. Names change in three places only:
here, where `rowmerge.parquet.data_files` writes a file, and where a format reads and writes its metadata.

A row of an older file has the default of a new column as its value. The metadata of `stored_schema` holds the default as SQL text
(`INITIAL`). Spark's Parquet reader fills it in, and so does the writer that moves rows without Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rowmerge.errors import MissingDataFile
from rowmerge.parquet.data_files import CHANGED_IN, ROW_ID
from rowmerge.parquet.filesystems import UNREADABLE
from rowmerge.parquet.outcomes import rows_by_file
from rowmerge.parquet.partitions import HIVE_NULL, partition_folder
from rowmerge.spark.types import empty_frame, frame_of, to_spark
from rowmerge.spark.values.nested import readable
from rowmerge.table.metadata.engine_columns import FILE, POSITION
from rowmerge.table.metadata.rules import INITIAL
from rowmerge.table.metadata.schema import FIELD_ID, Field, Primitive, Struct, arrow_schema, backquote, bare, held_types, sql_name
from rowmerge.table.metadata.shape import Lineage
from rowmerge.table.snapshots.files import EqualityDeletes, FileLayout, FileListing, Positions
from rowmerge.table.snapshots.snapshot import Snapshot

_KEY, _WORDS, _FIRST, _FILE_SIZE = "__rowmerge_key", "__rowmerge_words", "__rowmerge_first", "__rowmerge_size"
_CLEAN_SHARE = 16
"""If files without deleted rows have less than this part of all bytes, they are read like the files with deleted rows."""
_HIVE_TYPES = {"string", "long", "integer", "short", "byte", "date", "boolean"}
# java.net.URI keeps these in a path, besides letters, digits and what is not ASCII.
_ENCODED = re.compile(r"[^\w\-!.~'()*,;:$&+=@/\x80-\U0010ffff]", re.ASCII)

ADDRESS_FIELDS = (Field(FILE, Primitive("string")), Field(POSITION, Primitive("long")))
ADDRESS_COLUMNS = (f"_metadata.file_path as {FILE}", f"_metadata.row_index as {POSITION}")
"""SQL for the address of a row that Spark reads from a file."""
ColumnPair = tuple[Field, Field]
"""A column as the table has it, and as files have it."""


def read_snapshot(
    spark: SparkSession, snapshot: Snapshot, files: FileListing | None = None, *, addresses: bool = False, lineage: bool = False
) -> DataFrame:
    """Return the live rows of a snapshot, or of some of its files, with the columns in the table's order.

    `addresses` adds two columns: FILE, the file's path as Spark spells it (see `spark_path`), and POSITION, the row's index in it.
    `lineage` adds the two hidden columns, as files hold them, if the table has any.
    Raises MissingDataFile if Spark finds out while it lists files that one is missing.
    """
    scan = _Scan(spark, snapshot, addresses, snapshot.shape.row_lineage if lineage else None)
    frames = list(scan.frames(snapshot.files() if files is None else files))
    return reduce(DataFrame.unionAll, frames) if frames else scan.empty_frame()


def spark_path(path: str) -> str:
    """Return a path as Spark's `_metadata.file_path` spells it: percent-encoded as by `java.net.URI`, a local path with `file:/`."""
    if path.startswith("file://"):
        path = "file:" + path[len("file://") :]
    return _ENCODED.sub(lambda match: f"%{ord(match[0]):02X}", path)


def files_where(spark: SparkSession, snapshot: Snapshot, files: FileListing, condition: str) -> FileListing:
    """Return the files whose partition values fulfil a condition over partition columns."""
    partitions = files.partitions
    fields = snapshot.schema.select(snapshot.partition_columns)
    columns: dict[str, Any] = {field.name: pc.struct_field(partitions, [field.name]) for field in fields}
    file_indexes = pa.array(range(len(files)), pa.int64())
    frame = frame_of(spark, pa.table({**columns, _KEY: file_indexes}), Struct((*fields, Field(_KEY, Primitive("long")))))
    selected_rows = frame.alias(snapshot.name.rsplit(".", 1)[-1]).where(condition).select(_KEY).collect()
    return FileListing(files.rows.take(pa.array(sorted(index for (index,) in selected_rows), pa.int64())))


@dataclass(frozen=True)
class _Scan:
    """A scan of live rows. `addresses`: with FILE and POSITION; `lineage`: the hidden columns to read, None for none."""

    spark: SparkSession
    snapshot: Snapshot
    addresses: bool
    lineage: Lineage | None

    def empty_frame(self) -> DataFrame:
        """Return the scan's columns without rows."""
        addresses = ADDRESS_FIELDS if self.addresses else ()
        hidden = () if self.lineage is None else (Field(ROW_ID, Primitive("long")), Field(CHANGED_IN, Primitive("long")))
        return empty_frame(self.spark, Struct((*self.snapshot.schema, *addresses, *hidden)))

    def frames(self, files: FileListing) -> Iterator[DataFrame]:
        """Yield the live rows of these files: a frame for each layout, and for each column that identifies files."""
        for group, file_key in _group_by_file_key(files):
            for layout in self.snapshot.layouts(group.paths) if len(group) else ():
                layout_files = group if len(layout.paths) == len(group) else group.with_paths(layout.paths)
                yield self._live_rows(layout, layout_files, file_key)

    def _live_rows(self, layout: FileLayout, files: FileListing, file_key: str | None) -> DataFrame:
        """Return the live rows of files of one layout. `file_key`: see `_group_by_file_key`."""
        # Spark reads partition values from the names of Hive-style folders. Otherwise, a join adds the values.
        has_hive_folders = _has_hive_folders(self.snapshot, layout, files)
        frame = self._stored_rows(replace(layout, paths=tuple(files.paths)), file_key, has_hive_folders=has_hive_folders)
        if file_key is not None:
            frame = self._without_deleted_rows(frame, files, file_key)
        if not has_hive_folders:
            frame = self._with_partition_values(frame, layout, files)
        addresses = (FILE, POSITION) if self.addresses else ()
        hidden = () if self.lineage is None else (ROW_ID, CHANGED_IN)
        return frame.selectExpr(*map(backquote, self.snapshot.schema.names), *addresses, *hidden)

    def _stored_rows(self, layout: FileLayout, file_key: str | None, *, has_hive_folders: bool) -> DataFrame:
        """Return all rows of files, also deleted ones, with the columns that later joins need. See `read_files` for errors.

        Columns that the files lack are read from the names of Hive-style folders. Without such folders, the result lacks them, too.
        """
        omitted_names = () if has_hive_folders else layout.missing_columns
        column_pairs = zip(self.snapshot.schema, layout.stored, strict=True)
        columns = [(column, file_column) for column, file_column in column_pairs if column.name not in omitted_names]
        columns += lineage_columns(self.lineage, layout)
        metadata = self._metadata_columns(file_key, joins_partition_values=not has_hive_folders)
        folder = self.snapshot.shape.location if has_hive_folders and layout.missing_columns else None
        return read_files(self.spark, self.snapshot, layout, columns, metadata, partition_folder=folder)

    def _metadata_columns(self, file_key: str | None, *, joins_partition_values: bool) -> list[str]:
        """Return SQL for the address of a row, and for the size of its file, if the result or a join needs them."""
        has_addresses = self.addresses or file_key is not None or joins_partition_values
        addresses = list(ADDRESS_COLUMNS) if has_addresses else []
        return [*addresses, f"_metadata.file_size as {_FILE_SIZE}"] if file_key == _FILE_SIZE else addresses

    def _without_deleted_rows(self, frame: DataFrame, files: FileListing, file_key: str) -> DataFrame:
        """Join a bit set for each file (words of 64 bits, from its first deleted row on), and drop the rows whose bits are set.

        A file whose size is not the table's would keep its deleted rows. It stops the query.
        """
        # Spark moves a filter on `_metadata` below the projection of its fields, and makes the struct for each row and mention. A join
        # keeps the fields apart. A scalar subquery with all bits and a CASE over sizes needs no broadcast, and was no faster for that.
        bits = F.broadcast(frame_of(self.spark, self._deleted_bits(files, file_key)))
        joined = frame.join(bits, F.col(file_key) == F.col(_KEY), "left")
        error = f"raise_error(concat('{UNREADABLE} ', to_json(array({FILE}, 'it has not the size that the table says'))))"
        deleted_bit = f"case when {_KEY} is null then {error} else {bit_of(_WORDS, _FIRST)} end"
        return joined.where(F.expr(f"{deleted_bit} = 0")).drop(_KEY, _FIRST, _WORDS)

    def _deleted_bits(self, files: FileListing, file_key: str) -> pa.Table:
        """Return the deleted rows of each file as a bit set (see `bit_words`), with the file's value of `file_key`."""
        deleted = deleted_rows(self.spark, self.snapshot, files.paths)
        bit_sets = [bit_words(deleted[path]) if path in deleted else ((), 0) for path in files.paths]
        keys = files.sizes.cast(pa.int64()) if file_key == _FILE_SIZE else pa.array(map(spark_path, files.paths), pa.string())
        firsts = pa.array([first for _, first in bit_sets], pa.int64())
        words = pa.array([words for words, _ in bit_sets], pa.list_(pa.int64()))
        return pa.table({_KEY: keys, _FIRST: firsts, _WORDS: words})

    def _with_partition_values(self, frame: DataFrame, layout: FileLayout, files: FileListing) -> DataFrame:
        schema = bare(Struct((Field(_KEY, Primitive("string")), *self.snapshot.schema.select(layout.missing_columns))))
        partitions = files.partitions
        keys = pa.array([spark_path(path) for path in files.paths], pa.string())
        columns = [keys, *(pc.struct_field(partitions, [name]) for name in layout.missing_columns)]
        # Without the schema, PySpark would take a timestamp_ntz for an instant.
        values = frame_of(self.spark, pa.Table.from_arrays(columns, schema=arrow_schema(schema)), schema)
        return frame.join(F.broadcast(values), F.col(FILE) == F.col(_KEY), "inner").drop(_KEY)


def _group_by_file_key(files: FileListing) -> Iterator[tuple[FileListing, str | None]]:
    """Yield the files without deleted rows, with None, and the others with the column that identifies the file of a row.

    The column is the file's size, and the path only for further files of the same size. To look up a number for each row costs nothing
    measurable. To look up a long path costs a third of a scan and more.
    """
    is_clean = _is_clean(files)
    yield files.filter(pa.array(is_clean)), None
    files_with_deletes = files.filter(pa.array(~is_clean))
    has_own_size = np.zeros(len(files_with_deletes), dtype=bool)
    _, first_of_sizes = np.unique(files_with_deletes.sizes.to_numpy(), return_index=True)
    has_own_size[first_of_sizes] = True
    yield files_with_deletes.filter(pa.array(has_own_size)), _FILE_SIZE
    yield files_with_deletes.filter(pa.array(~has_own_size)), FILE


def _is_clean(files: FileListing) -> np.ndarray[Any, Any]:
    """Return for each file whether it is read as a file without deleted rows. If such files have few bytes, none of them is.

    A second read in a plan takes longer than to look up the rows of these files in vain.
    """
    is_clean: np.ndarray[Any, Any] = pc.equal(files.deleted, 0).to_numpy()
    sizes = files.sizes.to_numpy()
    have_different_sizes = len(np.unique(sizes)) == len(sizes)
    if have_different_sizes and sizes[is_clean].sum() * _CLEAN_SHARE < sizes.sum():
        return np.zeros_like(is_clean)
    return is_clean


def lineage_columns(lineage: Lineage | None, layout: FileLayout) -> list[ColumnPair]:
    """Return the hidden columns as pairs. Files without field ids do not have the columns of a table with field ids."""
    if lineage is None:
        return []
    fields = ((ROW_ID, lineage.row_id), (CHANGED_IN, lineage.changed_in))
    are_missing = FIELD_ID in lineage.row_id.metadata and not layout.by_field_id
    return [(Field(name, held.type), Field(name, held.type) if are_missing else held) for name, held in fields]


def deleted_rows(spark: SparkSession, snapshot: Snapshot, paths: Sequence[str]) -> dict[str, Positions]:
    """Return the positions of deleted rows by path, for data files that have any. One job finds the rows of the same equality deletes."""
    deleted = snapshot.deleted_positions(paths)
    for deletes in snapshot.equality_deletes(paths):
        path_of = {spark_path(path): path for path in deletes.applies_to}
        for spelled_path, positions in _equality_deleted_positions(spark, snapshot, deletes).items():
            path = path_of[spelled_path]
            deleted[path] = deleted.get(path, Positions()) | positions
    return deleted


def _equality_deleted_positions(spark: SparkSession, snapshot: Snapshot, deletes: EqualityDeletes) -> dict[str, Positions]:
    """Return the positions of rows that equal a deleted row, by path as Spark spells it."""
    # Names of our own, because the columns of a delete file are known by their ids alone.
    keys = [replace(field, name=f"{_KEY}_{index}") for index, field in enumerate(deletes.columns)]
    stored_keys = held_types(deletes.columns)
    delete_layout = FileLayout(deletes.paths, stored_keys, True, ())
    deleted_keys = read_files(spark, snapshot, delete_layout, list(zip(keys, stored_keys, strict=True)), ()).distinct()
    rows_of_layouts = []
    for layout in snapshot.layouts(deletes.applies_to):
        columns = [(key, _column_in_files(snapshot, layout, stored)) for key, stored in zip(keys, stored_keys, strict=True)]
        rows_of_layouts.append(read_files(spark, snapshot, layout, columns, ADDRESS_COLUMNS))
    rows = reduce(DataFrame.unionAll, rows_of_layouts).alias("rows")
    is_deleted = F.expr(" and ".join(f"rows.{key.name} <=> deleted.{key.name}" for key in keys))
    addresses = rows.join(deleted_keys.alias("deleted"), is_deleted, "left_semi").select(FILE, POSITION).toArrow()
    return {path: Positions(positions) for path, _, positions in rows_by_file(addresses)}


def _column_in_files(snapshot: Snapshot, layout: FileLayout, field: Field) -> Field:
    """Return a column, which its field id identifies, as files of a layout hold it."""
    if layout.by_field_id:
        return field
    field_id, table_ids = field.metadata[FIELD_ID], [column.metadata.get(FIELD_ID) for column in snapshot.schema]
    name = layout.stored.names[table_ids.index(field_id)] if field_id in table_ids else f"{_KEY}_missing"
    return replace(field, name=name, metadata={key: value for key, value in field.metadata.items() if key == INITIAL})


def read_files(
    spark: SparkSession,
    snapshot: Snapshot,
    layout: FileLayout,
    columns: Sequence[ColumnPair],
    metadata: Sequence[str],
    *,
    partition_folder: str | None = None,
) -> DataFrame:
    """Return all rows of the files of a layout, with these columns under the table's names. Raises MissingDataFile.

    `metadata`: SQL for columns about the row's file, such as ADDRESS_COLUMNS. `partition_folder`: the folder below which the names of
    folders hold the values of partition columns.
    """
    if layout.by_field_id:
        # A setting of the session, because Spark reads it when the query runs. It has no effect on tables whose fields have no ids.
        spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
    used_metadata = {INITIAL: snapshot.shape.supports_initial_defaults, FIELD_ID: layout.by_field_id}
    kept_keys = [key for key, is_used in used_metadata.items() if is_used]
    file_schema = to_spark(Struct(tuple(file_column for _, file_column in columns)), kept_keys)
    frame = _read_parquet(spark, snapshot.name, layout.paths, file_schema, partition_folder)
    # Each part of a Column object would be a call to the JVM, and tables may have a thousand columns. So columns are SQL texts.
    return frame.selectExpr(*(_column_sql(column, file_column) for column, file_column in columns), *metadata)


def _read_parquet(spark: SparkSession, table: str, paths: Sequence[str], schema: StructType, partition_folder: str | None) -> DataFrame:
    """Return the rows of Parquet files. `partition_folder`: see `read_files`. Raises MissingDataFile."""
    options = {"mergeSchema": "false", "datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}
    if partition_folder is not None:
        # Without this option, names of folders have no meaning, and files may be elsewhere, as those of a shallow clone are.
        options["basePath"] = partition_folder
    try:
        return spark.read.schema(schema).options(**options).parquet(*map(_escape_patterns, paths))
    except AnalysisException as error:
        if not (error.getCondition() or "").startswith("PATH_NOT_FOUND"):
            raise
        missing_path = re.sub(r"\\(.)", r"\1", (error.getMessageParameters() or {}).get("path", ""))
        raise MissingDataFile(table, missing_path) from error


def _escape_patterns(path: str) -> str:
    """Return the path with escaped characters, so that Hadoop takes none of them as a pattern."""
    # With Spark's own switch, `__globPaths__` = false, each path that looks like a pattern brings all other paths along: rows come twice.
    return re.sub(r"[{}\[\]*?\\]", r"\\\g<0>", path)


def _column_sql(field: Field, file_column: Field) -> str:
    """Return SQL for a column of the files under the table's name and with the table's names of struct fields."""
    column = readable(backquote(file_column.name), file_column.type)
    if file_column.metadata or field.type != file_column.type:
        # The cast drops the metadata of the files' column, which must not become the table's.
        column = f"cast({column} as {sql_name(field.type)})"
    return f"{column} as {backquote(field.name)}"


def bit_of(words: str, first: str) -> str:
    """Return SQL for the bit of a row's POSITION in a bit set (see `bit_words`), 0 outside of the set."""
    word = f"get({words}, cast(shiftright({POSITION}, 6) - {first} as int))"
    return f"coalesce(bit_get({word}, cast({POSITION} & 63 as int)), 0)"


def bit_words(positions: Positions) -> tuple[np.ndarray[Any, Any], int]:
    """Return positions, at least one, as a bit set in words of 64 bits, and the index of its first word."""
    values = np.array(positions.to_array(), dtype=np.int64)
    first, last = int(values[0]) >> 6, int(values[-1]) >> 6
    bits = np.zeros(((last - first + 1) * 64,), dtype=np.uint8)
    bits[values - (first << 6)] = 1
    return np.packbits(bits, bitorder="little").view(np.int64), first


def _has_hive_folders(snapshot: Snapshot, layout: FileLayout, files: FileListing) -> bool:
    """Return whether Spark's partition discovery finds exactly the log's values for these files. Each type must have one text per value."""
    if not layout.missing_columns:
        return True
    stored_names = dict(zip(snapshot.schema.names, layout.stored.names, strict=True))
    partitions, folders = files.partitions, []
    for column in snapshot.schema.select(layout.missing_columns):
        texts = _hive_texts(column, partitions)
        if texts is None:
            return False
        folders.append(_hive_folders(stored_names[column.name], texts))
    expected_folders = pc.binary_join_element_wise(snapshot.shape.location, *folders, "/")
    file_folders = pc.replace_substring_regex(files.rows["path"].combine_chunks(), r"/[^/]*$", "")
    return bool(pc.all(pc.equal(expected_folders, file_folders)).as_py())


def _hive_texts(column: Field, partitions: pa.Array) -> pa.Array | None:
    """Return the values of a partition column as texts, or None if Spark may read another value from the text in a folder's name."""
    if not isinstance(column.type, Primitive) or column.type.name not in _HIVE_TYPES:
        return None
    values = pc.struct_field(partitions, [column.name])
    texts = pc.if_else(values, "true", "false") if pa.types.is_boolean(values.type) else values.cast(pa.string())
    return None if pc.any(pc.equal(texts, HIVE_NULL)).as_py() else texts


def _hive_folders(column: str, values: pa.Array) -> pa.Array:
    """Return the folder of each partition value as Hive names it. The name of each distinct folder is made once."""
    encoded = pc.dictionary_encode(values)
    folders = pa.array([partition_folder(column, value) for value in encoded.dictionary.to_pylist()], pa.string())
    return pc.fill_null(folders.take(encoded.indices), partition_folder(column, None))
