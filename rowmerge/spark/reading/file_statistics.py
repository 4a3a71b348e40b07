"""The statistics of data files, computed by Spark from their rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession, functions as F

from rowmerge.spark.reading.data_files import spark_path
from rowmerge.spark.reading.scan import read_snapshot
from rowmerge.table.metadata.engine_columns import FILE
from rowmerge.table.metadata.schema import Decimal, Primitive, Struct, backquote
from rowmerge.table.snapshots.files import AddedFile
from rowmerge.table.snapshots.snapshot import Snapshot

_Path = tuple[str, ...]
_TIME = pa.timestamp("us", tz="UTC")


def computed_statistics(spark: SparkSession, snapshot: Snapshot) -> tuple[AddedFile, ...]:
    """Return the data files of a snapshot with the counts and bounds of their live rows. Files without live rows are omitted.

    Args:
        spark: The session that reads all rows.
        snapshot: The version of the table.
    """
    leaves = list(_leaves(snapshot.schema, frozenset(snapshot.partition_columns)))
    aggregates = [F.count(F.lit(1)).alias("rows")]
    for index, path in enumerate(leaves):
        column = F.col(".".join(map(backquote, path)))
        aggregates += [
            F.min(column).alias(f"lower{index}"),
            F.max(column).alias(f"upper{index}"),
            F.count(F.when(column.isNull(), 1)).alias(f"nulls{index}"),
        ]
    frame = read_snapshot(spark, snapshot, with_addresses=True)
    rows = frame.groupBy(FILE).agg(*aggregates).toArrow()
    values_by_path = {row[FILE]: row for row in _in_utc(rows).to_pylist()}
    files = []
    for file in snapshot.files().files():
        values = values_by_path.get(spark_path(file.path))
        if values is not None:
            records = values["rows"] + file.deleted if file.records is None else file.records
            lower, upper, nulls = (_nested(leaves, values, kind) for kind in ("lower", "upper", "nulls"))
            files.append(AddedFile(file.path, file.size, records, file.partition or {}, lower, upper, nulls))
    return tuple(files)


def _leaves(schema: Struct, partition_columns: frozenset[str], parent: _Path = ()) -> Iterator[_Path]:
    """Yield the paths of the columns and fields of structs that can have bounds, without partition columns."""
    for field in schema:
        path = (*parent, field.name)
        if isinstance(field.type, Struct):
            yield from _leaves(field.type, frozenset(), path)
        elif isinstance(field.type, Primitive | Decimal) and field.type != Primitive("binary") and field.name not in partition_columns:
            yield path


def _in_utc(rows: pa.Table) -> pa.Table:
    """Return rows whose times with a time zone are in UTC, as statistics contain them."""
    fields = [field.with_type(_TIME) if pa.types.is_timestamp(field.type) and field.type.tz else field for field in rows.schema]
    return rows.cast(pa.schema(fields))


def _nested(leaves: list[_Path], values: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return one kind of statistics as nested dictionaries by name. Unknown values are absent."""
    nested: dict[str, Any] = {}
    for index, path in enumerate(leaves):
        value = values[f"{kind}{index}"]
        if value is not None:
            parent = nested
            for name in path[:-1]:
                parent = parent.setdefault(name, {})
            parent[path[-1]] = value
    return nested
