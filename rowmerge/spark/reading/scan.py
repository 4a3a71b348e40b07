"""A snapshot's files as a DataFrame: clean files through Spark's own reader alone, marked files less their deleted rows.

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
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rowmerge.errors import MissingDataFile
from rowmerge.parquet.lineage import CHANGED_IN, ROW_ID
from rowmerge.parquet.partitions import HIVE_NULL, partition_folder
from rowmerge.parquet.reading import UNREADABLE
from rowmerge.spark.types import empty_frame, frame_of, to_spark
from rowmerge.spark.values.uuids import readable
from rowmerge.table.metadata.engine_columns import FILE, POSITION
from rowmerge.table.metadata.rules import INITIAL
from rowmerge.table.metadata.schema import FIELD_ID, Field, Primitive, Struct, arrow_schema, backquote, bare, held_types, sql_name
from rowmerge.table.metadata.shape import Lineage
from rowmerge.table.snapshots.files import EqualityDeletes, FileLayout, FileListing, Positions
from rowmerge.table.snapshots.snapshot import Snapshot

_KEY = "__rowmerge_key"
_WORDS = "__rowmerge_words"
_FIRST = "__rowmerge_first"
_SIZE = "__rowmerge_size"
_NEARLY_ALL = 16
"""Files without deleted rows are few where all bytes are more than so many times theirs."""
_HIVE_TYPES = {"string", "long", "integer", "short", "byte", "date", "boolean"}
# java.net.URI keeps these in a path, besides letters, digits and what is not ASCII.
_ENCODED = re.compile(r"[^\w\-!.~'()*,;:$&+=@/\x80-\U0010ffff]", re.ASCII)


def read_snapshot(
    spark: SparkSession, snapshot: Snapshot, files: FileListing | None = None, *, addresses: bool = False, lineage: bool = False
) -> DataFrame:
    """The live rows of a snapshot, or of some of its files, columns in the table's order.

    With `addresses`, two more columns: FILE, the file's path as Spark spells it (see `spark_path`), and POSITION, the row's index in it;
    with `lineage` the two hidden columns besides, as files hold them, where the table has any.
    Raises MissingDataFile when a file is gone and Spark finds out while listing.
    """
    files = snapshot.files() if files is None else files
    hidden = snapshot.shape.row_lineage if lineage else None
    frames = [
        _read(spark, snapshot, layout, _of(layout, some), addresses, known_by, hidden)
        for some, known_by in _by_deleted_rows(files)
        for layout in (snapshot.layouts(some.paths) if len(some) else ())
    ]
    if not frames:
        nothing = empty_frame(spark, snapshot.schema)
        if addresses:
            nothing = nothing.withColumns({FILE: F.lit("").cast("string"), POSITION: F.lit(0).cast("bigint")})
        if hidden is not None:
            nothing = nothing.withColumns({name: F.lit(None).cast("bigint") for name in (ROW_ID, CHANGED_IN)})
        return nothing
    return reduce(DataFrame.unionAll, frames)


def spark_path(path: str) -> str:
    """How Spark's `_metadata.file_path` spells a file's path (Hadoop's Path.toUri().toString()).

    The path is percent-encoded as `java.net.URI` does it, and a local path begins with `file:/`.
    """
    if path.startswith("file://"):
        path = "file:" + path[len("file://") :]
    return _ENCODED.sub(lambda match: f"%{ord(match[0]):02X}", path)


def files_where(spark: SparkSession, snapshot: Snapshot, files: FileListing, condition: str) -> FileListing:
    """Those of these files for whose partition values a condition over partition columns is true."""
    partition = files.partitions
    fields = snapshot.schema.select(snapshot.partition_columns)
    columns: dict[str, Any] = {f.name: pc.struct_field(partition, [f.name]) for f in fields}
    numbered = pa.table({**columns, _KEY: pa.array(range(len(files)), pa.int64())})
    frame = frame_of(spark, numbered, Struct((*fields.fields, Field(_KEY, Primitive("long")))))
    chosen = frame.alias(snapshot.name.rsplit(".", 1)[-1]).where(condition).select(_KEY).collect()
    return FileListing(files.rows.take(pa.array(sorted(row[0] for row in chosen), pa.int64())))


def _by_deleted_rows(files: FileListing) -> Iterator[tuple[FileListing, str | None]]:
    """The files without deleted rows, and those with some by the column that tells them apart.

    It is their size, wherever no two have the same: to look up a number for each row costs nothing that one can measure, to look up a path
    as long as these a third of a scan and more. Where nearly all bytes are in files with deleted rows the others are read like them: a
    second read in a plan takes longer than to look up their rows in vain.
    """
    clean, sizes = pc.equal(files.deleted, 0).to_numpy(), files.sizes.to_numpy()
    if sizes[clean].sum() * _NEARLY_ALL < sizes.sum() and len(np.unique(sizes)) == len(sizes):
        clean = np.zeros_like(clean)
    yield files.filter(pa.array(clean)), None
    others = files.filter(pa.array(~clean))
    first = np.zeros(len(others), dtype=bool)
    first[np.unique(others.sizes.to_numpy(), return_index=True)[1]] = True
    yield others.filter(pa.array(first)), _SIZE
    yield others.filter(pa.array(~first)), FILE


def _of(layout: FileLayout, files: FileListing) -> FileListing:
    """Those of these files that have a layout."""
    if len(layout.paths) == len(files):
        return files
    return files.with_paths(layout.paths)


def _read(
    spark: SparkSession,
    snapshot: Snapshot,
    layout: FileLayout,
    files: FileListing,
    addresses: bool,
    known_by: str | None,
    hidden: Lineage | None,
) -> DataFrame:
    """The live rows of files of one layout. `known_by`: see `_by_deleted_rows`. `hidden`: columns to read besides the table's."""
    hive = _follows_hive(snapshot, layout, files)
    pairs = [pair for pair in zip(snapshot.schema, layout.stored, strict=True) if hive or pair[0].name not in layout.outside]
    pairs += lineage_columns(hidden, layout)
    paths = files.paths
    folders = snapshot.shape.location if hive and layout.outside else None
    told = addresses or known_by is not None or not hive
    frame = read_files(spark, snapshot, layout, paths, pairs, addresses=told, sizes=known_by == _SIZE, partition_folders=folders)
    if known_by is not None:
        frame = _without_deleted(spark, snapshot, frame, files, known_by)
    if not hive:
        frame = _with_partition_values(spark, frame, snapshot, layout, files)
    wanted = [backquote(name) for name in snapshot.schema.names]
    wanted += [FILE, POSITION] if addresses else []
    return frame.selectExpr(*wanted, *([] if hidden is None else [ROW_ID, CHANGED_IN]))


def lineage_columns(lineage: Lineage | None, layout: FileLayout) -> list[tuple[Field, Field]]:
    """The hidden columns, under our names and as files of a layout hold them; files that know no ids where others do have none."""
    if lineage is None:
        return []
    fields = ((ROW_ID, lineage.row_id), (CHANGED_IN, lineage.changed_in))
    missing = FIELD_ID in lineage.row_id.metadata and not layout.by_field_id
    return [(Field(name, held.type), Field(name, held.type) if missing else held) for name, held in fields]


def deleted_rows(spark: SparkSession, snapshot: Snapshot, paths: Sequence[str]) -> dict[str, Positions]:
    """The deleted rows of data files, by their positions, only of files that have any.

    What is deleted by its values is looked up, in one job for all files that the same deletes apply to.
    """
    found = snapshot.deleted_positions(paths)
    for deletes in snapshot.equality_deletes(paths):
        spelled = {spark_path(path): path for path in deletes.applies_to}
        for path, positions in _positions_of_equal_rows(spark, snapshot, deletes).items():
            found[spelled[path]] = found.get(spelled[path], Positions()) | positions
    return found


def _positions_of_equal_rows(spark: SparkSession, snapshot: Snapshot, deletes: EqualityDeletes) -> dict[str, Positions]:
    """The positions of equal rows, by path as Spark spells it."""
    names = [f"{_KEY}_{index}" for index in range(len(deletes.columns))]
    named = [replace(field, name=name) for name, field in zip(names, deletes.columns, strict=True)]
    columns = held_types(deletes.columns)
    by_id = FileLayout(deletes.paths, columns, True, ())
    gone = read_files(spark, snapshot, by_id, deletes.paths, list(zip(named, columns, strict=True)), addresses=False)
    parts = []
    for layout in snapshot.layouts(deletes.applies_to):
        pairs = list(zip(named, [_held(snapshot, layout, field) for field in columns], strict=True))
        parts.append(read_files(spark, snapshot, layout, layout.paths, pairs, addresses=True))
    same = F.expr(" and ".join(f"rows.{name} <=> gone.{name}" for name in names))
    rows = reduce(DataFrame.unionAll, parts).alias("rows")
    hit = rows.join(gone.distinct().alias("gone"), same, "left_semi").select(FILE, POSITION).toArrow()
    encoded = hit[FILE].combine_chunks().dictionary_encode()
    codes, positions = encoded.indices.to_numpy(zero_copy_only=False), hit[POSITION].to_numpy().astype(np.uint64)
    return {path: Positions(positions[codes == code]) for code, path in enumerate(encoded.dictionary.to_pylist())}


def _held(snapshot: Snapshot, layout: FileLayout, field: Field) -> Field:
    """A column, known by its id, as files of a layout hold it."""
    if layout.by_field_id:
        return field
    ids = [column.metadata.get(FIELD_ID) for column in snapshot.schema]
    name = layout.stored.names[ids.index(field.metadata[FIELD_ID])] if field.metadata[FIELD_ID] in ids else f"{_KEY}_missing"
    return replace(field, name=name, metadata={key: field.metadata[key] for key in (INITIAL,) if key in field.metadata})


def read_files(
    spark: SparkSession,
    snapshot: Snapshot,
    layout: FileLayout,
    paths: Sequence[str],
    pairs: Sequence[tuple[Field, Field]],
    *,
    addresses: bool,
    sizes: bool = False,
    partition_folders: str | None = None,
) -> DataFrame:
    """All rows of data files of one layout. `pairs` are the columns, by the table's field and the files' field; with `addresses` FILE and
    POSITION too, with `sizes` the size of the row's file.

    `partition_folders`: the folder below which names of folders tell the values of partition columns. Raises MissingDataFile.
    """
    if layout.by_field_id:
        # Of the session, for Spark asks when the query runs; it means nothing for tables whose fields have no ids.
        spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
    kept = [FIELD_ID] * layout.by_field_id + [INITIAL] * snapshot.shape.supports_initial_defaults
    stored = to_spark(Struct(tuple(held for _, held in pairs)), kept)
    reader = spark.read.schema(stored).option("mergeSchema", "false")
    reader = reader.option("datetimeRebaseMode", "CORRECTED").option("int96RebaseMode", "CORRECTED")
    if partition_folders is not None:
        # Only then: without it the names of folders mean nothing, and files may lie elsewhere, as those of a shallow clone do.
        reader = reader.option("basePath", partition_folders)
    try:
        frame = reader.parquet(*map(_unglobbed, paths))
    except AnalysisException as error:
        if (error.getCondition() or "").startswith("PATH_NOT_FOUND"):
            missing = re.sub(r"\\(.)", r"\1", (error.getMessageParameters() or {}).get("path", ""))
            raise MissingDataFile(snapshot.name, missing) from error
        raise
    # As texts: each part of a Column that is made here would be a call to the JVM, and tables may have a thousand columns.
    columns = [_named(field, held) for field, held in pairs]
    if addresses:
        columns += [f"_metadata.file_path as {FILE}", f"_metadata.row_index as {POSITION}"]
    if sizes:
        columns.append(f"_metadata.file_size as {_SIZE}")
    return frame.selectExpr(*columns)


def _unglobbed(path: str) -> str:
    """The path as Spark takes it to the letter: to Hadoop some characters are patterns.

    With Spark's own switch, `__globPaths__` = false, each path that looks like a pattern brings all other paths along: rows come twice.
    """
    return re.sub(r"[{}\[\]*?\\]", r"\\\g<0>", path)


def _named(field: Field, held: Field) -> str:
    """SQL for a column of the files under the table's name, its structs' fields too."""
    column = readable(backquote(held.name), held.type)
    if held.metadata or field.type != held.type:
        # An expression has no metadata: that of the files' column says nothing of the table's.
        column = f"cast({column} as {sql_name(field.type)})"
    return f"{column} as {backquote(field.name)}"


def _without_deleted(spark: SparkSession, snapshot: Snapshot, frame: DataFrame, files: FileListing, known_by: str) -> DataFrame:
    """A left join with one bit set a file (as words of 64 bits, from the first deleted row on) and a test of the row's bit.

    A file that is not of the size that the table says would keep its deleted rows: it stops the query.
    """
    deleted = deleted_rows(spark, snapshot, files.paths)
    firsts, words = [], []
    for path in files.paths:
        bits, first = bit_words(deleted[path]) if path in deleted else ((), 0)
        firsts.append(first)
        words.append(bits)
    keys = files.sizes.cast(pa.int64()) if known_by == _SIZE else pa.array(map(spark_path, files.paths), pa.string())
    columns = [keys, pa.array(firsts, pa.int64()), pa.array(words, pa.list_(pa.int64()))]
    # Spark moves a filter on `_metadata` below the projection of its fields, and makes the struct for each row and mention.
    # A join keeps the fields apart. A scalar subquery with all bits and a CASE over sizes needs no broadcast, and was no faster for that.
    marks = F.broadcast(frame_of(spark, pa.Table.from_arrays(columns, [_KEY, _FIRST, _WORDS])))
    joined = frame.join(marks, F.col(known_by) == F.col(_KEY), "left")
    stop = f"raise_error(concat('{UNREADABLE} ', to_json(array({FILE}, 'it has not the size that the table says'))))"
    deleted_bit = f"case when {_KEY} is null then {stop} else {bit_of(_WORDS, _FIRST)} end"
    return joined.where(F.expr(f"{deleted_bit} = 0")).drop(_KEY, _FIRST, _WORDS)


def bit_of(words: str, first: str) -> str:
    """SQL text: the bit of a row's POSITION in a bit set (see `bit_words`), 0 where there is none."""
    word = f"get({words}, cast(shiftright({POSITION}, 6) - {first} as int))"
    return f"coalesce(bit_get({word}, cast({POSITION} & 63 as int)), 0)"


def bit_words(positions: Positions) -> tuple[np.ndarray[Any, Any], int]:
    """Positions, at least one, as a bit set in words of 64 bits, and the index of its first word."""
    values = np.array(positions.to_array(), dtype=np.int64)
    first = int(values[0]) >> 6
    bits = np.zeros((((int(values[-1]) >> 6) - first + 1) * 64,), dtype=np.uint8)
    bits[values - (first << 6)] = 1
    return np.packbits(bits, bitorder="little").view(np.int64), first


def _with_partition_values(spark: SparkSession, frame: DataFrame, snapshot: Snapshot, layout: FileLayout, files: FileListing) -> DataFrame:
    schema = bare(Struct((Field(_KEY, Primitive("string")), *snapshot.schema.select(layout.outside))))
    partition = files.partitions
    keys = pa.array([spark_path(path) for path in files.paths], pa.string())
    columns = [keys, *(pc.struct_field(partition, [name]) for name in layout.outside)]
    # The schema makes a timestamp_ntz stay one: without it PySpark would take it for an instant.
    values = frame_of(spark, pa.Table.from_arrays(columns, schema=arrow_schema(schema)), schema)
    return frame.join(F.broadcast(values), F.col(FILE) == F.col(_KEY), "inner").drop(_KEY)


def _follows_hive(snapshot: Snapshot, layout: FileLayout, files: FileListing) -> bool:
    """Whether Spark's partition discovery would give exactly the log's values for all these files.

    Only for types whose text has one form; otherwise the values come by a join on the path.
    """
    if not layout.outside:
        return True
    by_name = {field.name: (field, held) for field, held in zip(snapshot.schema, layout.stored, strict=True)}
    fields = [by_name[name] for name in layout.outside]
    if any(not isinstance(f.type, Primitive) or f.type.name not in _HIVE_TYPES for f, _ in fields):
        return False
    partition = files.partitions
    folders = []
    for field, held in fields:
        values = pc.struct_field(partition, [field.name])
        text = pc.if_else(values, "true", "false") if pa.types.is_boolean(values.type) else values.cast(pa.string())
        encoded = pc.dictionary_encode(text)
        named = pa.array([partition_folder(held.name, value) for value in encoded.dictionary.to_pylist()], pa.string())
        folders.append(pc.fill_null(named.take(encoded.indices), partition_folder(held.name, None)))
        if pc.any(pc.equal(text, HIVE_NULL)).as_py():
            return False
    expected = pc.binary_join_element_wise(snapshot.shape.location, *folders, "/")
    parent = pc.replace_substring_regex(files.rows["path"].combine_chunks(), r"/[^/]*$", "")
    return bool(pc.all(pc.equal(expected, parent)).as_py())
