"""The changes of rows between consecutive versions of a table, derived from the files that differ (Iceberg's `create_changelog_view`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession, Window, functions as F

from rowmerge.spark.reading.scan import read_snapshot
from rowmerge.spark.types import empty_frame
from rowmerge.table.metadata.engine_columns import FILE, POSITION
from rowmerge.table.metadata.schema import FIELD_ID, Field, Primitive, Struct, backquote, sql_name
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table

CHANGE_TYPE, ORDINAL, SNAPSHOT_ID = "_change_type", "_change_ordinal", "_commit_snapshot_id"
"""The columns after those of the table, with the names of Iceberg."""
REARRANGING = ("OPTIMIZE", "REORG", "REWRITE MANIFESTS", "REWRITE POSITION DELETES", "replace")
"""The operations that change no row, which Iceberg's changelog leaves out, too."""
_INSERT, _DELETE = "INSERT", "DELETE"
_SIGN, _RANK, _RUNNING, _NET, _FIRST = (f"__rowmerge_{name}" for name in ("sign", "rank", "running", "net", "first"))
_DELETED, _INSERTED, _ADDRESS = "__rowmerge_deleted", "__rowmerge_inserted", "__rowmerge_address"


@dataclass(frozen=True)
class VersionChange:
    """A version of a table whose changes are read. `parent`: the version that it follows, or None for the first one of the table."""

    version: Snapshot
    parent: Snapshot | None


def read_file_changes(spark: SparkSession, table: Table, snapshot: Snapshot) -> DataFrame:
    """Return the rows of Iceberg's metadata table `changes`: those of all added and all removed files, also of rows that only moved.

    They begin after the oldest version that has not expired, or with the first version of the table.

    Args:
        spark: The session that reads the files.
        table: The table, which is an Iceberg table.
        snapshot: The version to which the changes lead. Its columns are those of the result.
    """
    versions = [] if table.maintenance is None else table.maintenance.changelog_versions(snapshot.version)
    if versions and versions[-1][-1] is not None:  # the parent of the oldest version has expired
        versions.pop()
    changes = [
        VersionChange(table.snapshot_at(version=id_), None if parent is None else table.snapshot_at(version=parent))
        for id_, _, operation, parent in reversed(versions)
        if operation not in REARRANGING
    ]
    return read_changelog(spark, changes, snapshot.schema, with_moved_rows=True)


def read_changelog(spark: SparkSession, changes: Sequence[VersionChange], schema: Struct, *, with_moved_rows: bool = False) -> DataFrame:
    """Return a row for each inserted and each deleted row of the versions.

    Args:
        spark: The session that reads the files.
        changes: The versions, oldest first.
        schema: The columns of the result, the present ones of the table.
        with_moved_rows: Whether a row that moved to another file unchanged is a deleted and an inserted row, instead of none.
    """
    frames: list[DataFrame] = []
    ordinal = 0
    for change in changes:
        changed_rows = _changed_rows(spark, change, ordinal, schema, with_moved_rows=with_moved_rows)
        frames += changed_rows
        ordinal += 1 if changed_rows else 0  # a version without changed files, such as a change of properties, has no ordinal
    if frames:
        return reduce(DataFrame.unionAll, frames)
    metadata_columns = (
        Field(CHANGE_TYPE, Primitive("string")),
        Field(ORDINAL, Primitive("integer")),
        Field(SNAPSHOT_ID, Primitive("long")),
    )
    return empty_frame(spark, Struct((*schema, *metadata_columns)))


def _changed_rows(spark: SparkSession, change: VersionChange, ordinal: int, schema: Struct, *, with_moved_rows: bool) -> list[DataFrame]:
    """Return the deleted and the inserted rows of one version, in at most two DataFrames."""
    old_files = {} if change.parent is None else change.parent.deletes_by_file()
    new_files = change.version.deletes_by_file()
    old_paths = [path for path, deletes in old_files.items() if path not in new_files or deletes != new_files[path]]
    new_paths = [path for path, deletes in new_files.items() if path not in old_files or deletes != old_files[path]]
    old_rows = _rows(spark, change.parent, old_paths, schema) if change.parent is not None and old_paths else None
    new_rows = _rows(spark, change.version, new_paths, schema) if new_paths else None
    deleted, inserted = old_rows, new_rows
    if old_rows is not None and new_rows is not None:
        if not with_moved_rows:
            deleted, inserted = (rows.drop(FILE, POSITION) for rows in (old_rows, new_rows))
            deleted, inserted = deleted.exceptAll(inserted), inserted.exceptAll(deleted)
        elif not set(old_paths).isdisjoint(new_paths):
            deleted, inserted = _at_other_addresses(old_rows, new_rows), _at_other_addresses(new_rows, old_rows)
    rows_by_type = [(_DELETE, deleted), (_INSERT, inserted)]
    return [
        _with_change(rows.drop(FILE, POSITION), type_, ordinal, change.version.version) for type_, rows in rows_by_type if rows is not None
    ]


def _at_other_addresses(rows: DataFrame, others: DataFrame) -> DataFrame:
    """Return the rows whose file and position none of the other rows has."""
    # From equal columns, Spark would derive that the checks of paths in one version also hold for the paths of the other one.
    address = F.struct(FILE, POSITION)
    return rows.join(others.select(address.alias(_ADDRESS)), address == F.col(_ADDRESS), "left_anti")


def _rows(spark: SparkSession, snapshot: Snapshot, paths: Sequence[str], schema: Struct) -> DataFrame:
    """Return the live rows of files with the columns of `schema`, and FILE and POSITION. A column has the same field id, or else name."""
    rows = read_snapshot(spark, snapshot, snapshot.files().with_paths(paths), with_addresses=True)
    return rows.select(*(F.expr(_column_sql(snapshot.schema, field)).alias(field.name) for field in schema), FILE, POSITION)


def _column_sql(schema: Struct, field: Field) -> str:
    source = next((column for column in schema if _is_same_column(column, field)), None)
    return f"cast({'null' if source is None else backquote(source.name)} as {sql_name(field.type)})"


def _is_same_column(column: Field, other: Field) -> bool:
    ids = [item.metadata.get(FIELD_ID) for item in (column, other)]
    return ids[0] == ids[1] if None not in ids else column.name == other.name


def _with_change(rows: DataFrame, type_: str, ordinal: int, version: int) -> DataFrame:
    values = {CHANGE_TYPE: F.lit(type_), ORDINAL: F.lit(ordinal), SNAPSHOT_ID: F.lit(version).cast("long")}
    return rows.select("*", *(value.alias(name) for name, value in values.items()))


def net_changes(changes: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return the changes without those that later changes of equal rows undo. A change keeps its version.

    As in Iceberg, of several equal changes the first one stands for all of them.

    Args:
        changes: The rows of `read_changelog`.
        columns: The columns of the table.
    """
    same_row = Window.partitionBy(*(F.col(backquote(name)) for name in columns))
    ordered = same_row.orderBy(ORDINAL, CHANGE_TYPE)
    signed = changes.withColumn(_SIGN, F.when(F.col(CHANGE_TYPE) == _INSERT, 1).otherwise(-1)).withColumn(
        _RANK, F.row_number().over(ordered)
    )
    by_rank = same_row.orderBy(_RANK).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    summed = signed.withColumns({_RUNNING: F.sum(_SIGN).over(by_rank), _NET: F.sum(_SIGN).over(same_row)})
    last_balance = F.coalesce(F.max(F.when(F.col(_RUNNING) == 0, F.col(_RANK))).over(same_row), F.lit(0))
    first_of_rest = summed.withColumn(_FIRST, last_balance + 1).where(f"{_RANK} = {_FIRST} and {_NET} <> 0")
    repeated = first_of_rest.withColumn(_RANK, F.expr(f"explode(sequence(1, cast(abs({_NET}) as int)))"))
    return repeated.drop(_SIGN, _RANK, _RUNNING, _NET, _FIRST)


def with_updates(changes: DataFrame, identifier_columns: Sequence[str]) -> DataFrame:
    """Return the changes with UPDATE_BEFORE and UPDATE_AFTER instead of a DELETE and an INSERT of the same identifier in one version.

    The query fails if several rows of a version have the same identifier, because then it is unknown which row became which.

    Args:
        changes: The rows of `read_changelog`.
        identifier_columns: The columns that identify a row.
    """
    same_row = Window.partitionBy(*(F.col(backquote(name)) for name in (*identifier_columns, ORDINAL)))
    counts = {
        name: F.count(F.when(F.col(CHANGE_TYPE) == type_, 1)).over(same_row) for name, type_ in ((_DELETED, _DELETE), (_INSERTED, _INSERT))
    }
    names = ", ".join(identifier_columns)
    problem = f"Several changed rows of a version have the same values in the identifier columns {names}, so updates are ambiguous."
    is_ambiguous = (F.col(_DELETED) > 1) | ((F.col(_DELETED) == 1) & (F.col(_INSERTED) > 1))
    type_ = (
        F.when(is_ambiguous, F.raise_error(F.lit(problem)))
        .when((F.col(_DELETED) == 0) | (F.col(_INSERTED) == 0), F.col(CHANGE_TYPE))
        .otherwise(F.when(F.col(CHANGE_TYPE) == _DELETE, "UPDATE_BEFORE").otherwise("UPDATE_AFTER"))
    )
    return changes.withColumns(counts).withColumn(CHANGE_TYPE, type_).drop(_DELETED, _INSERTED)
