"""Find the positions of the deleted rows of data files: deletion vectors, position deletes, and equality deletes, which Spark joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession, functions as F

from rowmerge.parquet.outcomes import rows_by_file
from rowmerge.spark.reading.data_files import ADDRESS_COLUMNS, ColumnPair, read_files, spark_path
from rowmerge.table.metadata.engine_columns import FILE, POSITION
from rowmerge.table.metadata.rules import INITIAL
from rowmerge.table.metadata.schema import FIELD_ID, Field, stored_types
from rowmerge.table.snapshots.files import EqualityDeletes, FileLayout, Positions
from rowmerge.table.snapshots.snapshot import Snapshot


def deleted_rows(spark: SparkSession, snapshot: Snapshot, paths: Sequence[str]) -> dict[str, Positions]:
    """Return the positions of the deleted rows of data files by path. Files without deleted rows have no entry.

    Args:
        spark: The session that finds the rows of equality deletes, with one job for all data files with the same delete files.
        snapshot: The snapshot with the deletion vectors and delete files.
        paths: The paths of data files of the snapshot.
    """
    deleted_positions = snapshot.deleted_positions(paths)
    for equality_deletes in snapshot.equality_deletes(paths):
        path_by_uri = {spark_path(path): path for path in equality_deletes.applies_to}
        for file_uri, positions in _equality_deleted_positions(spark, snapshot, equality_deletes).items():
            path = path_by_uri[file_uri]
            deleted_positions[path] = deleted_positions.get(path, Positions()) | positions
    return deleted_positions


def _equality_deleted_positions(spark: SparkSession, snapshot: Snapshot, deletes: EqualityDeletes) -> dict[str, Positions]:
    """Return the positions of the rows whose keys equality delete files contain ("Equality Delete Files" in the Iceberg specification).

    The keys of the result are the paths of the data files, as Spark's FILE column spells them. In a key, NULL equals NULL.
    """
    # Field ids identify the columns in delete files. So the key columns can have any unique names in the join.
    key_columns = [replace(column, name=f"__rowmerge_key_{index}") for index, column in enumerate(deletes.columns)]
    # In files, a key may have another type than in Spark: a UUID is 16 bytes in files, and a string in Spark.
    key_pairs = list(zip(key_columns, stored_types(deletes.columns), strict=True))
    deleted_keys = _read_deleted_keys(spark, snapshot, deletes, key_pairs)
    # The snapshot has compared sequence numbers and partitions, so the deletes apply to all of these data files.
    data_rows = _read_keys(spark, snapshot, deletes.applies_to, key_pairs)
    has_deleted_key = " and ".join(f"data.{column.name} <=> deleted.{column.name}" for column in key_columns)
    matching_rows = data_rows.alias("data").join(deleted_keys.alias("deleted"), F.expr(has_deleted_key), "left_semi")
    addresses = matching_rows.select(FILE, POSITION).toArrow()
    return {path: Positions(positions) for path, _, positions in rows_by_file(addresses)}


def _read_deleted_keys(spark: SparkSession, snapshot: Snapshot, deletes: EqualityDeletes, key_pairs: Sequence[ColumnPair]) -> DataFrame:
    """Return the distinct keys in equality delete files."""
    delete_files = FileLayout(deletes.paths, stored_types(deletes.columns), by_field_id=True, missing_columns=())
    return read_files(spark, snapshot, delete_files, key_pairs, metadata_columns=()).distinct()


def _read_keys(spark: SparkSession, snapshot: Snapshot, paths: Sequence[str], key_pairs: Sequence[ColumnPair]) -> DataFrame:
    """Return the key columns and the addresses of all rows of data files, including deleted rows."""
    frames = []
    for layout in snapshot.layouts(paths):
        columns = [(column, _column_in_files(snapshot, layout, file_column)) for column, file_column in key_pairs]
        frames.append(read_files(spark, snapshot, layout, columns, ADDRESS_COLUMNS))
    return reduce(DataFrame.unionAll, frames)


def _column_in_files(snapshot: Snapshot, layout: FileLayout, field: Field) -> Field:
    """Return a column with its name in files of a layout. The field id of the column connects the two names."""
    if layout.by_field_id:
        return field
    field_id, table_ids = field.metadata[FIELD_ID], [column.metadata.get(FIELD_ID) for column in snapshot.schema]
    name = layout.stored_schema.names[table_ids.index(field_id)] if field_id in table_ids else "__rowmerge_key_missing"
    return replace(field, name=name, metadata={key: value for key, value in field.metadata.items() if key == INITIAL})
