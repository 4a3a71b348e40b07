"""Theta sketches of the columns of a snapshot, which Spark's tasks compute from batches of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from pyspark.sql import SparkSession, functions as F

from rowmerge.parquet.theta_sketches import NO_THETA, Hashes, sketch_columns, smallest
from rowmerge.spark.executors import bind_for_executors
from rowmerge.spark.reading.scan import read_snapshot
from rowmerge.table.metadata.schema import backquote
from rowmerge.table.snapshots.snapshot import Snapshot

Sketch = tuple[Hashes, int]
"""The hashes of a sketch in ascending order, and its threshold."""
_RESULT = "position int, theta bigint, hashes binary"


def distinct_values(spark: SparkSession, snapshot: Snapshot, columns: Sequence[Sequence[str]]) -> Mapping[tuple[str, ...], Sketch]:
    """Return a theta sketch of each column, from one scan of the live rows.

    Args:
        spark: The session that reads the rows.
        snapshot: The version of the table.
        columns: The paths of columns of primitive types, or of fields of structs.
    """
    rows = read_snapshot(spark, snapshot, columns={path[0] for path in columns})
    selected = rows.select(*(F.col(".".join(map(backquote, path))).alias(f"c{index}") for index, path in enumerate(columns)))
    result = selected.mapInArrow(bind_for_executors(sketch_columns, len(columns)), _RESULT).toArrow().to_pydict()
    sketches: dict[tuple[str, ...], Sketch] = {tuple(path): (np.empty(0, np.uint64), NO_THETA) for path in columns}
    for position, theta, data in zip(result["position"], result["theta"], result["hashes"], strict=True):
        path = tuple(columns[position])
        hashes, old_theta = sketches[path]
        sketches[path] = smallest(np.concatenate([hashes, np.frombuffer(data, np.uint64)]), min(theta, old_theta))
    return sketches
