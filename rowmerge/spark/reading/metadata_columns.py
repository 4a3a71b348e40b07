"""The metadata columns of rows that Spark reads from data files, and their bounds in each file, by which conditions exclude files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.types import StructType

from rowmerge.parquet.data_files import CHANGED_IN, ROW_ID as STORED_ROW_ID
from rowmerge.spark.reading.data_files import spark_path
from rowmerge.spark.types import without_empty_batches
from rowmerge.table.metadata.engine_columns import FILE as FILE_URI, POSITION as ROW_INDEX
from rowmerge.table.metadata.schema import Field, Primitive, Struct, arrow_type, sql_name, string_literal, to_json
from rowmerge.table.snapshots.files import FileListing, FileMask, MatchingFiles
from rowmerge.table.snapshots.metadata_columns import (
    DELETED,
    FILE,
    FIRST_ROW_ID,
    LAST_UPDATED,
    METADATA,
    MODIFIED,
    PARTITION,
    PATH,
    POSITION,
    ROW_ID,
    SPEC_ID,
    VERSION,
)
from rowmerge.table.snapshots.snapshot import Snapshot

IS_DELETED = "__rowmerge_deleted"
"""The column of a scan that shows whether a row is deleted."""
_LONG, _TIME = Primitive("long"), Primitive("timestamp")
_FIELDS_OF_SPARK = {"file_size": _LONG, "file_block_start": _LONG, "file_block_length": _LONG, "file_modification_time": _TIME}
"""The fields of METADATA whose values come from Spark's own column, except the address of the row, which every scan can add."""
_USED_PROPERTIES = {
    FILE: {FILE},
    SPEC_ID: {SPEC_ID},
    PARTITION: {PARTITION},
    ROW_ID: {FIRST_ROW_ID},
    LAST_UPDATED: {FIRST_ROW_ID, VERSION},
    METADATA: {MODIFIED, FIRST_ROW_ID, VERSION},
}
_PROPERTY, _SPARK_FIELD = "__rowmerge_property_{}", "__rowmerge_metadata_{}"


def scan_fields(names: Collection[str]) -> Struct:
    """Return the columns that a scan adds for metadata columns, beside the address and the lineage of each row.

    Args:
        names: The names of the metadata columns.
    """
    fields = [Field(_SPARK_FIELD.format(name), type_, nullable=False) for name, type_ in _FIELDS_OF_SPARK.items() if METADATA in names]
    return Struct((*fields, *([Field(IS_DELETED, Primitive("boolean"), nullable=False)] if DELETED in names else [])))


def spark_columns(names: Collection[str]) -> list[str]:
    """Return SQL for those of `scan_fields` that Spark's reader returns."""
    return [f"_metadata.{name} as {_SPARK_FIELD.format(name)}" for name in _FIELDS_OF_SPARK if METADATA in names]


def needs_row_ids(names: Collection[str]) -> bool:
    """Return whether a scan must add the columns of row lineage for metadata columns, if the table has them."""
    return not {ROW_ID, LAST_UPDATED, METADATA}.isdisjoint(names)


def empty_scan(spark: SparkSession, fields: Sequence[Field]) -> DataFrame:
    """Return an empty DataFrame. In contrast to `empty_frame`, columns that are not nullable stay so."""
    schema = pa.schema([(field.name, arrow_type(field.type)) for field in fields])
    return spark.createDataFrame(schema.empty_table(), StructType.fromJson(to_json(Struct(tuple(fields)))))


def with_metadata_columns(
    spark: SparkSession, snapshot: Snapshot, rows: DataFrame, files: FileListing, names: Collection[str], kept_columns: Sequence[str]
) -> DataFrame:
    """Return the rows of a scan with metadata columns. A join adds the properties of files, if the columns need some.

    Args:
        spark: The session.
        snapshot: The snapshot of the table.
        rows: The rows, with their addresses, `scan_fields` and, if the columns need row ids, the columns of row lineage.
        files: The files of the rows.
        names: The names of the metadata columns.
        kept_columns: SQL for the other columns of the result.
    """
    metadata = snapshot.metadata_columns
    used = frozenset[str]().union(*(_USED_PROPERTIES.get(name, set()) for name in names))
    properties = [name for name in (FILE, SPEC_ID, PARTITION, MODIFIED, FIRST_ROW_ID, VERSION) if name in used & metadata.properties]
    if properties:
        table = metadata.read_properties(files.paths, properties)
        path = _PROPERTY.format(PATH)
        rows = rows.join(F.broadcast(_frame_of(spark, table, metadata.columns)), F.col(FILE_URI) == F.col(path), "inner")
    columns = [_column_sql(column, frozenset(properties)) for column in metadata.columns if column.name in names]
    return rows.selectExpr(*kept_columns, *columns)


def _frame_of(spark: SparkSession, table: pa.Table, columns: Struct) -> DataFrame:
    """Return the properties of files as a DataFrame, in which the path is spelled as in the addresses of rows."""
    types = dict.fromkeys((FIRST_ROW_ID, VERSION), _LONG) | dict.fromkeys((PATH, FILE), Primitive("string"))
    types |= {MODIFIED: _TIME, SPEC_ID: Primitive("integer")}
    partition = columns.find(PARTITION)
    fields = [
        Field(_PROPERTY.format(field.name), partition.type if field.name == PARTITION and partition else types[field.name], field.nullable)
        for field in table.schema
    ]
    paths = pa.array(map(spark_path, table[PATH].to_pylist()), pa.string())
    renamed = table.set_column(0, PATH, paths).rename_columns([field.name for field in fields])
    schema = pa.schema([pa.field(field.name, arrow_type(field.type)) for field in fields])
    return spark.createDataFrame(without_empty_batches(renamed.cast(schema)), StructType.fromJson(to_json(Struct(tuple(fields)))))


def _column_sql(column: Field, properties: Collection[str]) -> str:
    """Return SQL for a metadata column over the rows of a scan and these properties of their files."""
    first_row_id, version = _PROPERTY.format(FIRST_ROW_ID), _PROPERTY.format(VERSION)
    row_id = f"coalesce({STORED_ROW_ID}, {first_row_id} + {ROW_INDEX})"
    changed_in = f"coalesce({CHANGED_IN}, {version})"
    match column.name:
        case "_file":
            text = _PROPERTY.format(FILE)
        case "_pos":
            text = ROW_INDEX
        case "_deleted":
            text = IS_DELETED
        case "_row_id":
            text = row_id
        case "_last_updated_sequence_number":
            text = f"if({row_id} is null, null, {changed_in})"
        case "_metadata":
            modified = _SPARK_FIELD.format("file_modification_time")
            values = {
                # From a join on FILE itself, Spark would derive that the checks of paths in one version also hold for another version.
                "file_path": f"concat({FILE_URI}, '')",
                "file_name": f"substring_index({FILE_URI}, '/', -1)",
                **{name: _SPARK_FIELD.format(name) for name in _FIELDS_OF_SPARK},
                "file_modification_time": f"coalesce({_PROPERTY.format(MODIFIED)}, {modified})" if MODIFIED in properties else modified,
                "row_index": ROW_INDEX,
                "row_id": row_id,
                "base_row_id": first_row_id,
                "default_row_commit_version": version,
                "row_commit_version": changed_in,
            }
            assert isinstance(column.type, Struct)
            text = f"named_struct({', '.join(f'{string_literal(name)}, {values[name]}' for name in column.type.names)})"
        case _:  # the properties of a file; a table without partition fields has an empty struct
            text = _PROPERTY.format(column.name) if column.name in properties else f"cast(null as {sql_name(column.type)})"
    return f"{text} as {column.name}"


def with_metadata_bounds(snapshot: Snapshot, names: Collection[str], files: FileListing) -> FileListing:
    """Return a listing with the bounds of metadata columns. The values that are equal for all rows of a file are both bounds.

    Args:
        snapshot: The snapshot of the table. Files of other snapshots have fewer bounds.
        names: The names of the metadata columns.
        files: The files.
    """
    bounds = _bounds(snapshot, names, files)
    lower, upper, nulls = ({name: values[side] for name, values in bounds.items() if values[side] is not None} for side in range(3))
    rows = files.rows
    for statistic, children in (("lower", lower), ("upper", upper), ("nulls", nulls)):
        if children:
            rows = rows.set_column(rows.column_names.index(statistic), statistic, _extended(rows[statistic], children))
    return FileListing(rows)


def _extended(struct: pa.ChunkedArray, children: Mapping[str, pa.Array]) -> pa.StructArray:
    """Return a struct array with further fields."""
    combined = struct.combine_chunks()
    old = {field.name: pc.struct_field(combined, [index]) for index, field in enumerate(combined.type)}
    merged = {**old, **children}
    return pa.StructArray.from_arrays(list(merged.values()), names=list(merged))


_Bounds = tuple[Any, Any, Any]
"""The lower bounds, the upper bounds and the null counts of a column in each file. None for unknown."""


def _bounds(snapshot: Snapshot, names: Collection[str], files: FileListing) -> dict[str, _Bounds]:
    """Return the bounds of metadata columns."""
    positions = pa.repeat(pa.scalar(0, pa.int64()), len(files)), _column(files, "records", -1), None
    values = _properties_in_order(snapshot, names, files)
    versions = values.get(VERSION)
    bounds: dict[str, _Bounds] = {name: (values[name], values[name], None) for name in (FILE, SPEC_ID) if name in values}
    if PARTITION in values:
        bounds[PARTITION] = values[PARTITION], values[PARTITION], _null_counts(values[PARTITION], _column(files, "records"))
    bounds |= {POSITION: positions, LAST_UPDATED: (None, versions, None)}
    # A deletion vector can be empty, so only a count of zero is certain.
    bounds[DELETED] = pa.repeat(pa.scalar(False), len(files)), pc.not_equal(_column(files, "deleted"), 0), None
    if METADATA in names:
        bounds[METADATA] = _metadata_bounds(files, values, positions)
    return {name: value for name, value in bounds.items() if name in names}


def _metadata_bounds(files: FileListing, values: Mapping[str, pa.Array], positions: _Bounds) -> _Bounds:
    """Return the bounds of the struct METADATA. `values`: the properties of the files. `positions`: the bounds of row positions."""
    uris = pa.array(map(spark_path, files.paths), pa.string())
    sizes = _column(files, "size")
    exact = {"file_path": uris, "file_name": pc.replace_substring_regex(uris, "^.*/", ""), "file_size": sizes}
    exact |= {name: values[key] for name, key in (("file_modification_time", MODIFIED), ("base_row_id", FIRST_ROW_ID)) if key in values}
    upper = {"row_index": positions[1], "file_block_start": sizes, "file_block_length": sizes}
    if VERSION in values:
        exact["default_row_commit_version"] = upper["row_commit_version"] = values[VERSION]
    structs = [
        pa.StructArray.from_arrays(list(each.values()), names=list(each)) for each in (exact | {"row_index": positions[0]}, exact | upper)
    ]
    return structs[0], structs[1], None


def _column(files: FileListing, name: str, shift: int = 0) -> pa.Array:
    """Return numbers in a listing, increased by `shift`."""
    values = files.rows[name].combine_chunks()
    return pc.add(values, shift) if shift else values


def _properties_in_order(snapshot: Snapshot, names: Collection[str], files: FileListing) -> dict[str, pa.Array]:
    """Return the properties that metadata columns need, in the order of the files. They are null for files of other snapshots."""
    metadata = snapshot.metadata_columns
    used = frozenset[str]().union(*(_USED_PROPERTIES.get(name, set()) for name in names)) & metadata.properties
    if not used:
        return {}
    table = metadata.read_properties(files.paths, sorted(used))
    indexes = pc.index_in(pa.array(files.paths, pa.string()), value_set=table[PATH].combine_chunks())
    return {name: table[name].combine_chunks().take(indexes) for name in used}


def _null_counts(values: pa.StructArray, records: pa.Array) -> pa.StructArray:
    """Return the null counts of the fields of a struct with one value for all rows of a file."""
    counts = [pc.if_else(pc.is_null(pc.struct_field(values, [index])), records, 0) for index in range(values.type.num_fields)]
    return pa.StructArray.from_arrays(counts, names=[field.name for field in values.type])


@dataclass(frozen=True)
class FilesWithMetadataColumns:
    """The files of a snapshot for a statement that uses metadata columns, whose bounds exclude files, too.

    `columns`: the metadata columns of the statement.
    """

    snapshot: Snapshot
    columns: Struct

    @property
    def name(self) -> str:
        return self.snapshot.name

    @property
    def version(self) -> int:
        return self.snapshot.version

    @property
    def schema(self) -> Struct:
        return Struct((*self.snapshot.schema, *self.columns))

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return self.snapshot.partition_columns

    def files(self, columns: Collection[str] = ()) -> FileListing:
        return with_metadata_bounds(self.snapshot, self.columns.names, self.snapshot.files(columns))

    def files_matching(self, mask: FileMask, columns: Collection[str] = ()) -> MatchingFiles:
        matching = self.snapshot.files_matching(mask, columns)
        files = with_metadata_bounds(self.snapshot, self.columns.names, matching.listing)
        return replace(matching, listing=MatchingFiles.of(files, mask).listing)
