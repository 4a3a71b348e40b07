"""Look up the rows of partitions in files that were written with another partitioning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from rowmerge.parquet.outcomes import rows_by_file
from rowmerge.spark.executors import bind_for_executors
from rowmerge.spark.reading.scan import read_snapshot
from rowmerge.spark.writing import sink
from rowmerge.spark.writing.specs import write_spec
from rowmerge.table.metadata.engine_columns import FILE, POSITION
from rowmerge.table.metadata.schema import backquote
from rowmerge.table.snapshots.files import FileListing, Positions
from rowmerge.table.snapshots.snapshot import Snapshot


def rows_of_partitions(
    spark: SparkSession, snapshot: Snapshot, files: FileListing, partitions: Sequence[Mapping[str, Any]]
) -> dict[str, Positions]:
    """Return the positions of the live rows that belong to partitions of the present partitioning, by path as Spark spells it.

    Args:
        spark: The session that reads the files.
        snapshot: The version of the table.
        files: The files to search.
        partitions: The values of each partition, by the name of the partition field, as a written file reports them.
    """
    keys = write_spec(snapshot.shape).partition
    source_columns = tuple(dict.fromkeys(key.source[0] for key in keys if key.source))
    rows = read_snapshot(spark, snapshot, files, with_addresses=True)
    # PySpark cannot pass columns with dots or backquotes in their names to a function.
    columns = [f"{backquote(name)} as __rowmerge_column_{index}" for index, name in enumerate(source_columns)]
    find_rows = bind_for_executors(sink.address_filter, keys, source_columns, [dict(partition) for partition in partitions])
    addresses = rows.selectExpr(*columns, FILE, POSITION).mapInArrow(find_rows, "file string, position bigint").toArrow()
    return {path: Positions(positions) for path, _, positions in rows_by_file(addresses)}
