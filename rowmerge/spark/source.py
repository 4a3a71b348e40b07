"""The source of a MERGE: evaluated once, counted, its keys known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rowmerge.plan.conditions import KeyPair
from rowmerge.spark.types import schema_of
from rowmerge.table.schema import Array, DataType, Decimal, Map, Primitive, Struct, arrow_type

ORDINAL = "__rowmerge_source"
COLLECTED_KEYS = 50_000
"""Up to so many source rows, their keys come to the driver and files are pruned by each key, not by the range alone."""
BROADCAST_BYTES = 64 * 1024 * 1024
"""A source up to this estimated size is broadcast, so that the target is not shuffled."""


@dataclass(frozen=True)
class SourceKey:
    """The values that one key of the ON condition has in the source.

    `values`: the distinct non-null ones, sorted; None when only the range is known. `low`, `high`: one-element arrays or None.
    """

    pair: KeyPair
    type: DataType
    values: pa.Array | None
    low: pa.Scalar | None
    high: pa.Scalar | None
    has_null: bool


@dataclass(frozen=True)
class Source:
    """The materialized rows, with an ordinal that is theirs for good."""

    frame: DataFrame
    schema: Struct
    rows: int
    keys: tuple[SourceKey, ...]

    @property
    def broadcastable(self) -> bool:
        """Whether it is small enough to send to every executor."""
        return self.rows * row_width(self.schema) <= BROADCAST_BYTES


def materialize(frame: DataFrame, alias: str, pairs: Sequence[KeyPair]) -> Source:
    """Evaluate the source once, in one job, and tell how many rows and which keys it has.

    The rows are kept by the executors (localCheckpoint): what runs later reads them, and a nondeterministic source is not asked again.
    """
    schema = schema_of(frame)
    keys = [F.expr(pair.source).alias(_key(index)) for index, pair in enumerate(pairs)]
    kept = frame.alias(alias).select("*", *keys, F.monotonically_increasing_id().alias(ORDINAL)).localCheckpoint(eager=False)
    asked = [F.count(F.lit(1)).alias("rows")]
    for index in range(len(pairs)):
        column = F.col(_key(index))
        asked += [F.min(column).alias(f"low{index}"), F.max(column).alias(f"high{index}"), F.count(column).alias(f"known{index}")]
    told = collect_arrow(kept.select(*[_key(i) for i in range(len(pairs))]).agg(*asked) if pairs else kept.agg(*asked))
    rows = told["rows"][0].as_py()
    names = [_key(index) for index in range(len(pairs))]
    values = collect_arrow(kept.select(*names)) if pairs and 0 < rows <= COLLECTED_KEYS else None
    key_types = schema_of(kept.select(*names)) if pairs else Struct()
    found = []
    for index, pair in enumerate(pairs):
        # Of nested values neither bounds nor kernels know an order: they prune nothing.
        nested = isinstance(key_types.fields[index].type, Array | Map | Struct)
        known = None if values is None or nested else _distinct(values[_key(index)])
        low, high = told[f"low{index}"][0], told[f"high{index}"][0]
        has_null = told[f"known{index}"][0].as_py() < rows
        found.append(SourceKey(pair, key_types.fields[index].type, known, low, high, has_null))
    return Source(kept.drop(*names), schema, rows, tuple(found))


def unevaluated(frame: DataFrame) -> Source:
    """A source as its columns are, for Spark to analyse a statement; its rows are never asked for."""
    return Source(frame.withColumn(ORDINAL, F.lit(0)), schema_of(frame), 0, ())


def fit(values: pa.Array, op: str, source: DataType, target: DataType) -> pa.Array | None:
    """Key values in the target column's type; None when nothing can be said in that type.

    Values that the column cannot hold equal nothing in it, and are left out for `=` and `<=>`; for an inequality they say everything, so
    then it is None, as it is for types that Spark would not compare value by value.
    """
    if isinstance(target, Primitive | Decimal) and source == target:
        return values.cast(arrow_type(target)) if values.type != arrow_type(target) else values
    integers = {"byte", "short", "integer", "long"}
    if isinstance(source, Primitive) and isinstance(target, Primitive) and source.name in integers and target.name in integers:
        wide = values.cast(pa.int64())
        bits = pa.types.is_integer(arrow_type(target)) and arrow_type(target).bit_width
        limit = 1 << (int(bits) - 1)
        held = wide.filter(pc.and_(pc.greater_equal(wide, -limit), pc.less_equal(wide, limit - 1)))
        return held.cast(arrow_type(target)) if len(held) == len(wide) or op in ("=", "<=>") else None
    return None


def collect_arrow(frame: DataFrame) -> pa.Table:
    """A small result as Arrow."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    return pa.Table.from_pandas(frame.toPandas(), preserve_index=False)


def row_width(schema: Struct) -> int:
    """Bytes of a row as Spark estimates them: fixed for plain types, a guess for strings and nested ones."""
    sizes = {
        "long": 8,
        "double": 8,
        "timestamp": 8,
        "timestamp_ntz": 8,
        "integer": 4,
        "float": 4,
        "date": 4,
        "short": 2,
        "byte": 1,
        "boolean": 1,
    }
    return 8 + sum(sizes.get(f.type.name, 24) if isinstance(f.type, Primitive) else 48 for f in schema)


def _distinct(column: pa.ChunkedArray) -> pa.Array:
    values = pc.drop_null(pc.unique(column))
    return values.take(pc.sort_indices(values))


def _key(index: int) -> str:
    return f"__rowmerge_key_{index}"
