"""The source of a MERGE: evaluated once, counted, its keys known.

One job evaluates the source and keeps its rows in the executors. It returns the size, the keys and, of a small source, the rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from rowmerge.plan.expressions.conditions import KeyPair
from rowmerge.spark.types import frame_of, has_collation, schema_of
from rowmerge.table.metadata.engine_columns import MET, ORDINAL
from rowmerge.table.metadata.schema import Array, DataType, Decimal, Field, Map, Primitive, Struct, arrow_type, backquote

_MATCHED = "__rowmerge_matched"
_WHOLE = "__rowmerge_row"
_TASK_BITS = 33
"""`monotonically_increasing_id` is the task's index times 2^33 plus the row's index in it."""
LOCAL_ROWS, LOCAL_TASKS, LOCAL_TEXT = 1_000, 64, 2_000
"""A source of up to so many rows in each of so many tasks, with up to so many bytes of text in a row, comes to the driver as a whole."""
PREPARED_ROWS, PREPARED_TEXT = 100_000, 500
"""At most so many source rows, with so many bytes of text each, are made into rows of the table before their matches are known."""
COLLECTED_KEYS = 1_000_000
"""Up to so many source rows, their keys come to the driver and files are pruned by each key, not by the range alone."""
MANY_KEYS, LOOKED_UP_KEYS, KEY_BYTES = 10_000_000, 4_000_000, 256 * 1024 * 1024
"""Up to so many come to a driver that can do without a join then, or that joins the rows alone which have such a key, if all keys take no
more than so many bytes."""
_ANSWERED_KEYS = f"({ORDINAL} & {(1 << _TASK_BITS) - 1}) * (shiftright({ORDINAL}, {_TASK_BITS}) + 1) < {COLLECTED_KEYS}"
"""SQL for the rows whose keys are sent at once: of the n-th task the n-th part of them, so that all of evenly filled tasks are among them
and of many tasks a few times as many at most."""
FEW_TASKS, ROWS_OF_A_FILE = 4, 50_000
"""So many tasks write few files, if they have so many rows each on average none that are too small."""
BROADCAST_BYTES = 64 * 1024 * 1024
"""A source up to this estimated size is broadcast, so that the target is not shuffled."""

Prepare = Callable[[DataFrame, Sequence[str]], DataFrame]
"""A function from the source's rows, under the source's alias, and the names of their key columns, to rows of the table. The result has
these key columns and ORDINAL, too."""

_TEXTS = (Primitive("string"), Primitive("binary"))
_PLAIN = ("boolean", "byte", "short", "integer", "long", "float", "double", "date", "timestamp", "timestamp_ntz", "string", "binary")


@dataclass(frozen=True)
class SourceKey:
    """The values that one key of the ON condition has in the source.

    `values`: the distinct non-null ones, sorted; None when only the range is known, from `low` to `high`, or not even that.
    `column`: the value of each row, the same rows for all keys of a source; None when they are too many.
    """

    pair: KeyPair
    type: DataType
    values: pa.Array | None
    low: pa.Scalar | None
    high: pa.Scalar | None
    has_null: bool
    column: pa.ChunkedArray | None = None


@dataclass(frozen=True)
class Source:
    """The rows of a source, each with an ordinal that identifies it in every job.

    `ordinals`: the first and the last ordinal; `local`: the same rows on the driver, if they are few; `key_ordinals`: the ordinals of the
    rows in the order of `SourceKey.column`, if known; `prepared`: rows of the table that `materialize` made of all source rows, if asked.
    `counting` yields the exact row count of a source that is not kept once a job has read it; until then `rows` is an estimate.
    """

    frame: DataFrame
    schema: Struct
    rows: int
    keys: tuple[SourceKey, ...]
    ordinals: tuple[int, int] = (0, 0)
    local: pa.Table | None = None
    key_ordinals: pa.ChunkedArray | None = None
    prepared: pa.Table | None = None
    counting: Observation | None = None

    @property
    def broadcastable(self) -> bool:
        """Whether it is small enough to send to every executor."""
        return _is_small(self.rows, self.schema)

    @property
    def makes_few_files(self) -> bool:
        """Whether its tasks write few files and no small ones, so that rows need not be brought together first."""
        return self._tasks == 1 or (self._tasks <= FEW_TASKS and self.rows >= self._tasks * ROWS_OF_A_FILE)

    @property
    def parted(self) -> DataFrame:
        """The rows, in more tasks where they are many and one has them all: each goes over all of them, which are in memory, and leaves
        the others' out. A shuffle would take longer. What Spark knows to be one partition, a range for one, it leaves so."""
        parts = min(FEW_TASKS, os.cpu_count() or 1, self.rows // ROWS_OF_A_FILE)
        if self.local is not None or self._tasks > 1 or parts < 2:
            return self.frame
        ends = pairwise(self.ordinals[0] + self.rows * part // parts for part in range(parts + 1))
        return reduce(DataFrame.unionAll, (self.frame.where(f"{ORDINAL} >= {start} and {ORDINAL} < {end}") for start, end in ends))

    @property
    def _tasks(self) -> int:
        first, last = (ordinal >> _TASK_BITS for ordinal in self.ordinals)
        return last - first + 1

    def counted(self) -> Source:
        """The same, after the job that read its rows."""
        return self if self.counting is None else replace(self, rows=_observed(self.counting))

    def without(self, ordinals: BitMap64) -> DataFrame:
        """The rows, less those with these ordinals."""
        if not ordinals:
            return self.parted
        if self.local is not None:
            rows = self.local.filter(pc.invert(pc.is_in(self.local[ORDINAL], value_set=ordinal_array(ordinals))))
            return frame_of(self.frame.sparkSession, rows, _with_ordinal(self.schema))
        return self.parted.join(self._broadcast(ordinals), F.col(ORDINAL) == F.col(_MATCHED), "left_anti")

    def marked(self, ordinals: BitMap64) -> DataFrame:
        """The rows, with MET: whether their ordinals are among these."""
        if self.local is not None:
            rows = self.local.append_column(MET, pc.is_in(self.local[ORDINAL], value_set=ordinal_array(ordinals)))
            schema = Struct((*_with_ordinal(self.schema), Field(MET, Primitive("boolean"))))
            return frame_of(self.frame.sparkSession, rows, schema)
        known = self.parted.join(self._broadcast(ordinals), F.col(ORDINAL) == F.col(_MATCHED), "left")
        return known.withColumn(MET, F.col(_MATCHED).isNotNull()).drop(_MATCHED)

    def _broadcast(self, ordinals: BitMap64) -> DataFrame:
        return F.broadcast(frame_of(self.frame.sparkSession, pa.table({_MATCHED: ordinal_array(ordinals)})))


def materialize(frame: DataFrame, alias: str, pairs: Sequence[KeyPair], *, most_keys: int = 0, prepare: Prepare | None = None) -> Source:
    """Evaluate the source once, and tell how many rows and which keys it has: in one job if the rows are few. `most_keys`: of how many rows
    they are wanted if need be, if that is more than COLLECTED_KEYS.

    Few rows come to the driver and are a relation of it from then on; others are kept by the executors (localCheckpoint). Either way, what
    runs later reads them, and a nondeterministic source is not asked again.
    With `prepare`, the rows of the table that it makes, with their keys and ordinals, come to the driver instead if they are not too many.
    """
    schema = schema_of(frame)
    names = key_names(pairs)
    kept = with_keys(frame, alias, pairs).select("*", F.monotonically_increasing_id().alias(ORDINAL)).localCheckpoint(eager=False)
    counted = Observation()
    observed = kept.observe(counted, F.count(F.lit(1)).alias("rows"), F.min(ORDINAL).alias("first"), F.max(ORDINAL).alias("last"))
    prepared, local = None, None
    if prepare is None or not can_be_held(schema):
        known, local = _first_answer(observed, names, schema)
    else:
        try:
            prepared = known = prepare(observed.where(_few_prepared(schema)).alias(alias), names).toArrow()
        except PySparkException:
            # The error may come from a row that no clause would write.
            return materialize(frame, alias, pairs, most_keys=most_keys)
    rows, ordinals = int(counted.get["rows"]), (int(counted.get["first"] or 0), int(counted.get["last"] or 0))
    key_ordinals = None
    if known.num_rows < rows or rows > COLLECTED_KEYS:
        keys, key_ordinals = _keys_of(kept, pairs, rows, most_keys)
    elif pairs:
        keys, key_ordinals = known_keys(pairs, _fields(kept, names), known), known[ORDINAL]
    else:
        keys = ()
    whole = Source(kept.drop(*names), schema, rows, keys, ordinals, key_ordinals=key_ordinals)
    if prepared is not None and prepared.num_rows == rows:
        return replace(whole, prepared=prepared.drop_columns(names))
    if local is None or local.num_rows < rows:
        return whole
    return replace(whole, frame=frame_of(frame.sparkSession, local, _with_ordinal(schema)), local=local)


@dataclass
class SourceRowsOnce:
    """A source that is evaluated when its keys are first needed, and kept for later attempts.

    `was_streamed`: an attempt evaluated the source without keeping it.
    """

    frame: DataFrame
    alias: str
    was_streamed: bool = False
    _kept: tuple[tuple[KeyPair, ...], Source] | None = None

    @property
    def is_kept(self) -> bool:
        """Whether an attempt evaluated the source and kept its rows."""
        return self._kept is not None

    def is_broadcastable(self, rows: int) -> bool:
        """Return whether so many rows of this source are small enough to send to every executor."""
        return _is_small(rows, schema_of(self.frame))

    def stream(self, estimated_rows: int) -> Source:
        """Return the rows for one job that reads them once. Nothing keeps the rows, and their keys are unknown."""
        self.was_streamed = True
        counting = Observation()
        rows = self.frame.observe(counting, F.count(F.lit(1)).alias("rows")).withColumn(ORDINAL, F.monotonically_increasing_id())
        return Source(rows, schema_of(self.frame), estimated_rows, (), counting=counting)

    def rows(self, pairs: tuple[KeyPair, ...], *, most_keys: int = 0, prepare: Prepare | None = None) -> Source:
        """Return the materialized source with these keys. Only the first call returns prepared rows."""
        if self._kept is None:
            source = materialize(self.frame, self.alias, pairs, most_keys=most_keys, prepare=prepare)
            self._kept = (pairs, replace(source, prepared=None))
            return source
        if self._kept[0] != pairs:
            self._kept = (pairs, materialize(self._kept[1].frame.drop(ORDINAL), self.alias, pairs, most_keys=most_keys))
        return self._kept[1]


def _first_answer(kept: DataFrame, names: Sequence[str], schema: Struct) -> tuple[pa.Table, pa.Table | None]:
    """The keys of rows, and the first rows as a whole, with their ordinals, where the driver can hold such rows; all in one job."""
    first = _among_the_first(schema)
    some = kept.where(_ANSWERED_KEYS if names else first)
    if not can_be_held(schema):
        return some.select(*names, ORDINAL).toArrow(), None
    whole = ", ".join(backquote(name) for name in (*schema.names, ORDINAL))
    # A list of none or one: where it is null it takes no room, as the null values of columns would.
    told = some.selectExpr(*names, ORDINAL, f"if({first}, array(struct({whole})), null) as {_WHOLE}").toArrow()
    return told, pa.Table.from_struct_array(pc.list_flatten(told[_WHOLE]))


def _few_prepared(schema: Struct) -> str:
    """SQL for the rows that the driver takes when they are prepared."""
    among_first = f"({ORDINAL} & {(1 << _TASK_BITS) - 1}) * (shiftright({ORDINAL}, {_TASK_BITS}) + 1) < {PREPARED_ROWS}"
    return among_first + _short(schema, PREPARED_TEXT)


def _short(schema: Struct, most: int) -> str:
    texts = [f"coalesce(octet_length({backquote(f.name)}), 0)" for f in schema if f.type in _TEXTS]
    return f" and {' + '.join(texts)} <= {most}" if texts else ""


def _among_the_first(schema: Struct) -> str:
    """SQL for the rows that are brought to the driver: so many of each task, of so many tasks, and none with long texts."""
    short = _short(schema, LOCAL_TEXT) if can_be_held(schema) else ""
    return f"{ORDINAL} & {(1 << _TASK_BITS) - 1} < {LOCAL_ROWS} and shiftright({ORDINAL}, {_TASK_BITS}) < {LOCAL_TASKS}{short}"


def can_be_held(schema: Struct) -> bool:
    """Whether rows come from Spark and go back as they are: each column has a name of its own and a plain type without a collation."""
    plain = all(isinstance(f.type, Decimal) or (isinstance(f.type, Primitive) and f.type.name in _PLAIN) for f in schema)
    return plain and len({f.name.lower() for f in schema}) == len(schema) and not has_collation(schema)


def _with_ordinal(schema: Struct) -> Struct:
    return Struct((*schema, Field(ORDINAL, Primitive("long"))))


def with_keys(frame: DataFrame, alias: str, pairs: Sequence[KeyPair]) -> DataFrame:
    """The rows of a source that is called `alias` in its keys, and these keys, under `key_names`."""
    keys = [F.expr(pair.source).alias(name) for pair, name in zip(pairs, key_names(pairs), strict=True)]
    return frame.alias(alias).select("*", *keys)


def key_names(pairs: Sequence[KeyPair]) -> list[str]:
    """What the keys are called beside the columns of a source."""
    return [f"__rowmerge_key_{index}" for index in range(len(pairs))]


def ordinal_array(ordinals: BitMap64) -> pa.Array:
    """As int64, like ORDINAL."""
    return pa.array(np.array(ordinals.to_array(), dtype=np.uint64).astype(np.int64))


def _fields(kept: DataFrame, names: Sequence[str]) -> tuple[Field, ...]:
    return schema_of(kept.select(*names)).fields if names else ()


def _known(pair: KeyPair, field: Field, column: pa.ChunkedArray) -> SourceKey:
    """A key whose values are all here. Of nested ones neither bounds nor kernels know an order: they prune nothing."""
    if has_collation(Struct((field,))):
        return _unknown(pair, field)
    values = None if isinstance(field.type, Array | Map | Struct) else _distinct(column)
    return SourceKey(pair, field.type, values, None, None, column.null_count > 0, column)


def _unknown(pair: KeyPair, field: Field) -> SourceKey:
    """A text whose collation says what is equal to it."""
    return SourceKey(pair, field.type, None, None, None, True)


def _keys_of(kept: DataFrame, pairs: Sequence[KeyPair], rows: int, most_keys: int) -> tuple[tuple[SourceKey, ...], pa.ChunkedArray | None]:
    """The keys of rows that were not all told at once: their values when that is not too many, with ordinals, else their range."""
    if not pairs:
        return (), None
    names = key_names(pairs)
    fields = _fields(kept, names)
    if rows <= COLLECTED_KEYS or (rows <= most_keys and _are_short(kept, fields, rows)):
        values = kept.select(*names, ORDINAL).toArrow()
        return known_keys(pairs, fields, values), values[ORDINAL]
    asked = []
    for name in names:
        column = F.col(name)
        asked += [F.min(column).alias(f"{name}_low"), F.max(column).alias(f"{name}_high"), F.count(column).alias(f"{name}_known")]
    told = kept.select(*names).agg(*asked).toArrow()
    return tuple(_ranged(pair, field, told, rows) for pair, field in zip(pairs, fields, strict=True)), None


def _are_short(kept: DataFrame, fields: Sequence[Field], rows: int) -> bool:
    """Whether the keys of so many rows take KEY_BYTES at most. How long texts are is asked."""
    if not all(isinstance(field.type, Primitive | Decimal) for field in fields):
        return False
    texts = [F.sum(F.octet_length(F.col(field.name))) for field in fields if field.type in _TEXTS]
    long = 0 if not texts else sum(length or 0 for length in kept.agg(*texts).toArrow().to_pylist()[0].values())
    return rows * row_width(Struct(tuple(field for field in fields if field.type not in _TEXTS))) + long <= KEY_BYTES


def most_keys_at_once(fields: Sequence[Field]) -> int:
    """Of how many rows keys of these types come to the driver without a look at how long they are."""
    short = all(isinstance(field.type, Primitive) and field.type not in _TEXTS for field in fields)
    return MANY_KEYS if short else COLLECTED_KEYS


def known_keys(pairs: Sequence[KeyPair], fields: Sequence[Field], rows: pa.Table) -> tuple[SourceKey, ...]:
    """The keys of a source, all of whose rows are here: a column for each key, called as its field is."""
    return tuple(_known(pair, field, rows[field.name]) for pair, field in zip(pairs, fields, strict=True))


def _ranged(pair: KeyPair, field: Field, told: pa.Table, rows: int) -> SourceKey:
    if has_collation(Struct((field,))):
        return _unknown(pair, field)
    low, high, known = (told[f"{field.name}_{what}"][0] for what in ("low", "high", "known"))
    return SourceKey(pair, field.type, None, low, high, known.as_py() < rows)


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


def _observed(counting: Observation) -> int:
    """The count. Where Spark saw that there are no rows, and left the counting out, it has no value, for which PySpark has no row."""
    try:
        return int(counting.get.get("rows", 0))
    except Exception as error:
        if type(error).__module__ == "py4j.protocol" and "toPyRow" in str(error):
            return 0
        raise


def _is_small(rows: int, schema: Struct) -> bool:
    return rows * row_width(schema) <= BROADCAST_BYTES


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
    if pa.types.is_integer(column.type):
        ordered = np.sort(pc.drop_null(column).to_numpy())
        return pa.array(ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]], column.type)
    values = pc.drop_null(pc.unique(column))
    return values.take(pc.sort_indices(values))
