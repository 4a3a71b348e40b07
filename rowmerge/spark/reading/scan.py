"""Read the files of a snapshot as a DataFrame, without deleted rows. Arrow reads many small files, and Spark's own reader all others.

Spark's Parquet reader returns the address of each row: its file and its position. A bitmap contains the positions of a file's deleted rows.

A column has two names: users see the name in a snapshot's `schema`, and data files and statistics have the name in its `stored_schema`.
Names are converted here, in `rowmerge.parquet.data_files`, and where a format reads and writes its metadata.
In rows of older files, a new column has its default value. The metadata of `stored_schema` contains the default as SQL (`INITIAL`).
Spark's Parquet reader returns the default for these rows, and so does the writer that moves rows without Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, functions as F

from rowmerge.errors.environment import unreadable_data_file
from rowmerge.parquet.data_files import CHANGED_IN, ROW_ID
from rowmerge.parquet.partitions import HIVE_NULL, hive_folders
from rowmerge.plan.pruning.key_ranges import string_sql
from rowmerge.spark.reading import metadata_columns as metadata
from rowmerge.spark.reading.bit_sets import (
    BitSet,
    BitSlice,
    bit_at_position,
    bit_set_of,
    concatenated,
    stop_query_sql,
    word_index_sql,
)
from rowmerge.spark.reading.data_files import ADDRESS_COLUMNS, ADDRESS_FIELDS, lineage_columns, read_files, spark_path
from rowmerge.spark.reading.deleted_rows import deleted_rows
from rowmerge.spark.reading.small_files import has_arrow_types, read_with_arrow, small_files_mask
from rowmerge.spark.types import empty_frame, frame_of
from rowmerge.table.metadata.engine_columns import FILE, POSITION
from rowmerge.table.metadata.schema import Field, Primitive, Struct, arrow_schema, backquote, bare
from rowmerge.table.metadata.shape import Lineage
from rowmerge.table.snapshots.files import FileLayout, FileListing
from rowmerge.table.snapshots.metadata_columns import DELETED
from rowmerge.table.snapshots.snapshot import Snapshot

_FILE_KEY, _BIT_WORDS, _FIRST_WORD, _FILE_SIZE = "__rowmerge_key", "__rowmerge_words", "__rowmerge_first", "__rowmerge_size"
_FILE_INDEX = "__rowmerge_index"
_MAX_SHARE_JOINED_ANYWAY = 1 / 16
"""If files without deleted rows have less than this share of all bytes, Spark reads and joins them together with the other files."""
_MAX_FILES_OF_FILTER = 16
"""The maximum number of files whose deleted rows a filter drops. The compiled filter grows with it. Java only interprets large methods."""
_MAX_WORDS_OF_FILTER = 1 << 15
"""The maximum number of 64-bit words in the bit sets of a filter, for about 2 million rows. Each task reads a copy of them.

Spark tests the bit of each row before the conditions of the query. For more rows, this takes as long as the broadcast for an anti-join,
which tests only the rows that pass the conditions.
"""
_MIN_BYTES_CHECKED_ONCE = 16 << 20
"""If files have at least this number of bytes, a query checks their sizes or paths. It takes as long as a check of a million rows."""
_HIVE_TYPES = {"string", "long", "integer", "short", "byte", "date", "boolean"}


def read_snapshot(
    spark: SparkSession,
    snapshot: Snapshot,
    files: FileListing | None = None,
    columns: Collection[str] | None = None,
    *,
    with_addresses: bool = False,
    with_lineage: bool = False,
    metadata_columns: Collection[str] = (),
) -> DataFrame:
    """Return the live rows of a snapshot, or of some of its files, with the columns in the table's order.

    Args:
        spark: The session that reads the data files.
        snapshot: The snapshot of the table.
        files: The files to read; None for all files of the snapshot.
        columns: The names of the columns to read, at least one; None for all columns.
        with_addresses: Whether to add FILE, the path as Spark spells it (see `spark_path`), and POSITION, the row's index in the file.
        with_lineage: Whether to add ROW_ID and CHANGED_IN, with their values in the files, if the table has row lineage.
        metadata_columns: The names of the metadata columns to add at the end. The result has deleted rows if `_deleted` is one of them.

    Raises:
        MissingDataFile: Spark does not find one of the files while it lists them.
    """
    files = snapshot.files() if files is None else files
    if len(listings := files.with_distinct_paths()) > 1:  # joins identify a file by its path
        options: dict[str, Any] = {"with_addresses": with_addresses, "with_lineage": with_lineage, "metadata_columns": metadata_columns}
        return reduce(DataFrame.unionAll, (read_snapshot(spark, snapshot, each, columns, **options) for each in listings))
    columns = [name for name in snapshot.schema.names if columns is None or name in columns]
    lineage = snapshot.shape.row_lineage if with_lineage else None
    lineage = snapshot.metadata_columns.row_lineage if metadata.needs_row_ids(metadata_columns) else lineage
    scan = _Scan(spark, snapshot, columns, with_addresses or bool(metadata_columns), lineage, metadata_columns)
    frames = list(scan.frames(files if scan.marks_deleted_rows else _files_with_live_rows(snapshot, files)))
    rows = reduce(DataFrame.unionAll, frames) if frames else scan.empty_frame()
    kept_columns = [*map(backquote, columns), *([FILE, POSITION] * with_addresses), *([ROW_ID, CHANGED_IN] * with_lineage)]
    return rows if not metadata_columns else metadata.with_metadata_columns(spark, snapshot, rows, files, metadata_columns, kept_columns)


def _files_with_live_rows(snapshot: Snapshot, files: FileListing) -> FileListing:
    """Return the files without those whose rows are all deleted by position."""
    is_emptied = pc.fill_null(pc.equal(files.deleted, files.records), False)
    if not pc.any(is_emptied).as_py():
        return files
    # The listing counts equality deletes as one row, whose number is unknown.
    emptied_paths = files.filter(is_emptied).paths
    uncertain = {path for deletes in snapshot.equality_deletes(emptied_paths) for path in deletes.applies_to}
    return files.with_paths(set(files.paths) - (set(emptied_paths) - uncertain)) if len(uncertain) < len(emptied_paths) else files


def files_where(spark: SparkSession, snapshot: Snapshot, files: FileListing, condition: str) -> FileListing:
    """Return the files whose partition values satisfy a condition.

    Args:
        spark: The session that evaluates the condition.
        snapshot: The snapshot with the partition columns.
        files: The files to choose from.
        condition: A SQL condition on partition columns only. It may qualify the columns with the table's name, without the schema.

    Returns:
        The selected files, in the order of `files`.
    """
    partitions = files.partitions
    fields = snapshot.schema.select(snapshot.partition_columns)
    columns: dict[str, Any] = {field.name: pc.struct_field(partitions, [field.name]) for field in fields}
    columns[_FILE_INDEX] = pa.array(range(len(files)), pa.int64())
    frame = frame_of(spark, pa.table(columns), Struct((*fields, Field(_FILE_INDEX, Primitive("long")))))
    selected_rows = frame.alias(snapshot.name.rpartition(".")[2]).where(condition).select(_FILE_INDEX).collect()
    file_indexes = sorted(index for (index,) in selected_rows)  # Spark returns rows in any order
    return FileListing(files.rows.take(pa.array(file_indexes, pa.int64())))


@dataclass(frozen=True)
class _Scan:
    """A scan of live rows.

    `columns`: the names of the columns, in the table's order. `with_addresses`: whether to add FILE and POSITION. `lineage`: the lineage
    columns to add, or None. `metadata_columns`: the names of the metadata columns that the rows will get, which need `scan_fields`.
    """

    spark: SparkSession
    snapshot: Snapshot
    columns: Sequence[str]
    with_addresses: bool
    lineage: Lineage | None
    metadata_columns: Collection[str] = ()

    @property
    def marks_deleted_rows(self) -> bool:
        """Whether the scan marks deleted rows instead of dropping them."""
        return DELETED in self.metadata_columns

    def empty_frame(self) -> DataFrame:
        """Return a frame with the columns of the scan, but without rows."""
        addresses = ADDRESS_FIELDS if self.with_addresses else ()
        lineage = () if self.lineage is None else (Field(ROW_ID, Primitive("long")), Field(CHANGED_IN, Primitive("long")))
        columns = self.snapshot.schema.select(tuple(self.columns))
        if self.metadata_columns:
            address = (replace(field, nullable=False) for field in addresses)
            return metadata.empty_scan(self.spark, (*bare(columns), *address, *lineage, *metadata.scan_fields(self.metadata_columns)))
        return empty_frame(self.spark, Struct((*columns, *addresses, *lineage)))

    def frames(self, files: FileListing) -> Iterator[DataFrame]:
        """Yield the live rows of files: a frame for each layout and each column that identifies files (see `_group_by_file_key`)."""
        is_small = small_files_mask(self.spark, files)
        # Only Spark's own reader returns the sizes and times of files, and columns that are not nullable.
        if is_small.any() and not self.metadata_columns and has_arrow_types(self.snapshot.schema.select(tuple(self.columns))):
            yield from map(self._select, self._frames_of_small_files(files.filter(pa.array(is_small))))
            files = files.filter(pa.array(~is_small))
        for group, file_key in _group_by_file_key(files):
            for layout in self.snapshot.layouts(group.paths) if len(group) else ():
                layout_files = group if len(layout.paths) == len(group) else group.with_paths(layout.paths)
                yield self._live_rows(layout, layout_files, file_key)

    def _live_rows(self, layout: FileLayout, files: FileListing, file_key: str | None) -> DataFrame:
        """Return the live rows of files of one layout: the files store the table's columns under the same names, with the same types.

        The rows are read, then joined to the deleted rows of their files, and then to the partition values that the files lack.
        `file_key`: the column that identifies a row's file in the join with deleted rows; None if no file has deleted rows.
        """
        # Spark reads missing partition values from folders with Hive-style names (`day=2024-01-31`). Otherwise, a join adds them.
        joined_columns = () if _has_hive_folders(self.snapshot, layout, files) else layout.missing_columns
        frame = self._stored_rows(replace(layout, paths=tuple(files.paths)), file_key, joined_columns)
        if file_key is not None:
            frame = self._without_deleted_rows(frame, files, file_key)
        elif self.marks_deleted_rows:
            frame = _marked(frame, "false")
        if joined_columns:
            frame = self._with_partition_values(frame, joined_columns, files)
        return self._select(frame)

    def _frames_of_small_files(self, files: FileListing) -> Iterator[DataFrame]:
        """Yield the live rows of small files, which Arrow reads: a frame for each layout."""
        for layout in self.snapshot.layouts(files.paths):
            layout_files = files if len(layout.paths) == len(files) else files.with_paths(layout.paths)
            yield read_with_arrow(
                self.spark,
                self.snapshot,
                layout,
                layout_files,
                self.columns,
                with_addresses=self.with_addresses,
                lineage=self.lineage,
            )

    def _select(self, frame: DataFrame) -> DataFrame:
        """Return the columns of the scan, in their order."""
        addresses = (FILE, POSITION) if self.with_addresses else ()
        lineage = () if self.lineage is None else (ROW_ID, CHANGED_IN)
        return frame.selectExpr(*map(backquote, self.columns), *addresses, *lineage, *metadata.scan_fields(self.metadata_columns).names)

    def _stored_rows(self, layout: FileLayout, file_key: str | None, joined_columns: Sequence[str]) -> DataFrame:
        """Return all rows of files, including deleted rows, for a join that drops these, and a join that adds partition columns.

        Args:
            layout: The paths of the files, and the names and types of the columns that they store.
            file_key: The result's column for the join with deleted rows: FILE, or `_FILE_SIZE` if no two files have the same size. This
                join takes less time. None for no join.
            joined_columns: The partition columns that a later join adds. The result lacks them.
        """
        column_pairs = zip(self.snapshot.schema, layout.stored_schema, strict=True)
        columns = [(column, file_column) for column, file_column in column_pairs if column.name not in joined_columns]
        columns += lineage_columns(self.lineage, layout)
        metadata_columns = self._metadata_columns(file_key, joins_partition_values=bool(joined_columns))
        # If no join adds the missing partition columns, Spark reads their values from the names of folders.
        partition_folder = self.snapshot.shape.location if layout.missing_columns and not joined_columns else None
        return read_files(self.spark, self.snapshot, layout, columns, metadata_columns, partition_folder=partition_folder)

    def _metadata_columns(self, file_key: str | None, *, joins_partition_values: bool) -> list[str]:
        """Return SQL for the address of a row and for the size of its file, as far as the result or a join needs them."""
        has_addresses = self.with_addresses or file_key is not None or joins_partition_values
        addresses = list(ADDRESS_COLUMNS) if has_addresses else []  # a join on the struct `_metadata` would build it for each row
        sizes = [f"_metadata.file_size as {_FILE_SIZE}"] if file_key == _FILE_SIZE else []
        return [*addresses, *sizes, *metadata.spark_columns(self.metadata_columns)]

    def _without_deleted_rows(self, rows: DataFrame, files: FileListing, file_key: str) -> DataFrame:
        """Drop or mark the deleted rows: a filter or a join tests the bit of each row in the bit set of its file.

        Each task contains the bit sets of a filter. Those of an anti-join are broadcast, by a job on which the query waits. So a filter
        tests few and small bit sets.

        Args:
            rows: All rows of the files.
            files: The files.
            file_key: The column that identifies the file of a row: its path (FILE), or its size, which must be unique among `files`.

        Raises:
            UnreadableDataFile: A file has another size or path than the table records.
        """
        # A deletion vector can be empty.
        deleted = {path: rows for path, rows in deleted_rows(self.spark, self.snapshot, files.paths).items() if rows}
        if not deleted:
            return _marked(rows, "false") if self.marks_deleted_rows else rows
        rows = self._with_checked_files(rows, files, file_key)
        bit_sets = {path: bit_set_of(positions) for path, positions in deleted.items()}
        word_count = sum(len(words) for words, _ in bit_sets.values())
        if (
            not self.marks_deleted_rows
            and file_key == _FILE_SIZE
            and len(files) <= _MAX_FILES_OF_FILTER
            and word_count <= _MAX_WORDS_OF_FILTER
        ):
            return self._filtered_by_bits(rows, files, bit_sets)
        return self._joined_with_bits(rows, files, file_key, bit_sets)

    def _filtered_by_bits(self, rows: DataFrame, files: FileListing, bit_sets: Mapping[str, BitSet]) -> DataFrame:
        """Drop the rows whose bit is 1 by a filter. `bit_sets`: the bit sets of the files with deleted rows, by path."""
        sizes = dict(zip(files.paths, files.sizes.to_pylist(), strict=True))
        words, slices = concatenated(list(bit_sets.values()))
        slice_by_size: dict[int, BitSlice | None] = dict.fromkeys(sizes.values())
        slice_by_size |= {sizes[path]: bits for path, bits in zip(bit_sets, slices, strict=True)}
        # A scalar subquery is evaluated once. In SQL, the words would be thousands of literals.
        all_words = frame_of(self.spark, pa.table({_BIT_WORDS: pa.array([words], pa.list_(pa.int64()))})).scalar()
        word = F.get(all_words, F.expr(f"cast({word_index_sql(_FILE_SIZE, slice_by_size)} as int)"))
        bit = F.coalesce(F.bit_get(word, F.expr(f"cast({POSITION} & 63 as int)")), F.lit(0))
        return rows.where(bit == 0)

    def _joined_with_bits(self, rows: DataFrame, files: FileListing, file_key: str, bit_sets: Mapping[str, BitSet]) -> DataFrame:
        """Drop the rows whose bit is 1 by an anti-join with a row for each file, or mark them by a left join.

        The row has the value of `file_key` (`_FILE_KEY`) and the bit set (`_BIT_WORDS`, `_FIRST_WORD`). Spark's estimated size of an
        anti-join is the size of `rows`. For other joins it is a product, by which no table would be broadcast.
        """
        sizes = dict(zip(files.paths, files.sizes.to_pylist(), strict=True))
        keys = pa.array([sizes[path] for path in bit_sets], pa.int64())
        if file_key != _FILE_SIZE:
            keys = pa.array(map(spark_path, bit_sets), pa.string())
        first_words = pa.array([first_word for _, first_word in bit_sets.values()], pa.int64())
        words = pa.array([words for words, _ in bit_sets.values()], pa.list_(pa.int64()))
        table = pa.table({_FILE_KEY: keys, _FIRST_WORD: first_words, _BIT_WORDS: words})
        has_key, is_deleted = f"{file_key} = {_FILE_KEY}", f"{bit_at_position(_BIT_WORDS, _FIRST_WORD)} = 1"
        bits = F.broadcast(frame_of(self.spark, table))
        if self.marks_deleted_rows:
            return _marked(rows.join(bits, F.expr(has_key), "left"), is_deleted).drop(_FILE_KEY, _FIRST_WORD, _BIT_WORDS)
        return rows.join(bits, F.expr(f"{has_key} and {is_deleted}"), "left_anti")

    def _with_checked_files(self, rows: DataFrame, files: FileListing, file_key: str) -> DataFrame:
        """Return the rows of files that all have their recorded path and size. The deleted rows of other files would stay.

        For files with many bytes, a query looks for other files. Spark answers it from its listing, so it opens no file. For files with few
        bytes, each row is checked when it is read, which takes less time than a query.

        Args:
            rows: All rows of the files.
            files: The files.
            file_key: The column that identifies the file of a row (see `_without_deleted_rows`).

        Raises:
            UnreadableDataFile: A file has another size or path than the table records.
        """
        keys = map(str, files.sizes.to_pylist()) if file_key == _FILE_SIZE else map(string_sql, map(spark_path, files.paths))
        is_recorded = f"{file_key} in ({', '.join(keys)})"
        property_ = "size" if file_key == _FILE_SIZE else "path"
        reason = f"its {property_} differs from the {property_} that the table records"
        if files.total_size < _MIN_BYTES_CHECKED_ONCE:
            return rows.where(f"case when {is_recorded} then true else {stop_query_sql(reason)} is null end")
        for (path,) in rows.where(f"not {is_recorded}").select(FILE).limit(1).collect():
            raise unreadable_data_file(self.snapshot.name, path, reason)
        return rows

    def _with_partition_values(self, rows: DataFrame, columns: Sequence[str], files: FileListing) -> DataFrame:
        """Add the partition columns `columns` to rows, through a join with each file's partition values in the table's metadata."""
        schema = bare(Struct((Field(_FILE_KEY, Primitive("string")), *self.snapshot.schema.select(tuple(columns)))))
        partitions = files.partitions
        arrays = [pa.array(map(spark_path, files.paths), pa.string()), *(pc.struct_field(partitions, [name]) for name in columns)]
        # Without the schema, PySpark would treat a timestamp_ntz as an instant.
        partition_values = frame_of(self.spark, pa.Table.from_arrays(arrays, schema=arrow_schema(schema)), schema)
        return rows.join(F.broadcast(partition_values), F.col(FILE) == F.col(_FILE_KEY), "inner").drop(_FILE_KEY)


def _marked(rows: DataFrame, condition: str) -> DataFrame:
    """Return rows with the column `metadata.IS_DELETED`. `condition`: SQL that is true for deleted rows."""
    return rows.withColumn(metadata.IS_DELETED, F.expr(condition))


def _group_by_file_key(files: FileListing) -> Iterator[tuple[FileListing, str | None]]:
    """Divide files into groups, and yield each group with the column that joins its rows to the deleted rows of their files.

    A join on the size of files costs nothing measurable; a join on their long paths costs a third of a scan or more. So files are joined by
    size as far as their sizes differ. For example, the files a, b and c have deleted rows, and a and b have the same size. Then a and c are
    joined by size (`_FILE_SIZE`), and b is joined by path (FILE). Files without deleted rows need no join: their column is None. Groups may
    be empty.
    """
    needs_join = _needs_join(files)
    yield files.filter(pa.array(~needs_join)), None
    joined_files = files.filter(pa.array(needs_join))
    is_first_of_size = np.zeros(len(joined_files), dtype=bool)
    _, first_indexes = np.unique(joined_files.sizes.to_numpy(), return_index=True)
    is_first_of_size[first_indexes] = True
    yield joined_files.filter(pa.array(is_first_of_size)), _FILE_SIZE
    yield joined_files.filter(pa.array(~is_first_of_size)), FILE


def _needs_join(files: FileListing) -> np.ndarray[Any, Any]:
    """Return for each file whether its rows are joined with deleted rows: True for files with deleted rows, or for all files.

    A join takes time for each row, and a separate scan for the files without deleted rows takes a fixed time. If these files have few
    bytes, they are joined too, which saves the scan.
    """
    has_deletes: np.ndarray[Any, Any] = pc.not_equal(files.deleted, 0).to_numpy()
    sizes = files.sizes.to_numpy()
    # A join by path, which files of equal size need (see `_group_by_file_key`), would take more time than the scan that it saves.
    can_join_by_size = len(np.unique(sizes)) == len(sizes)
    has_few_other_bytes = sizes[~has_deletes].sum() < sizes.sum() * _MAX_SHARE_JOINED_ANYWAY
    return np.ones_like(has_deletes) if can_join_by_size and has_few_other_bytes else has_deletes


def _has_hive_folders(snapshot: Snapshot, layout: FileLayout, files: FileListing) -> bool:
    """Return whether Spark's partition discovery finds the partition values of files in the names of their folders.

    Each file must be in the folder that Hive would choose for the partition values in the table's metadata (`day=2024-01-31/`).
    """
    if not layout.missing_columns:
        return True  # the files contain all columns, so no value comes from a folder
    names_in_files = dict(zip(snapshot.schema.names, layout.stored_schema.names, strict=True))
    partitions, folders = files.partitions, []
    for column in snapshot.schema.select(layout.missing_columns):
        values = _hive_texts(column, partitions)
        if values is None:
            return False
        folders.append(hive_folders(names_in_files[column.name], values))
    expected_folders = pc.binary_join_element_wise(snapshot.shape.location, *folders, "/")  # the last argument is the separator
    file_folders = pc.replace_substring_regex(files.rows["path"].combine_chunks(), r"/[^/]*$", "")
    return bool(pc.all(pc.equal(expected_folders, file_folders)).as_py())


def _hive_texts(column: Field, partitions: pa.Array) -> pa.Array | None:
    """Return the values of a partition column as strings, or None if Spark may read a different value from a folder's name.

    This happens for types that write one value in several ways (2.0, 2.00), and for the string that represents NULL in Hive.
    """
    if not isinstance(column.type, Primitive) or column.type.name not in _HIVE_TYPES:
        return None
    values = pc.struct_field(partitions, [column.name])
    texts = pc.if_else(values, "true", "false") if pa.types.is_boolean(values.type) else values.cast(pa.string())
    return None if pc.any(pc.equal(texts, HIVE_NULL)).as_py() else texts
