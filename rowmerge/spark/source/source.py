"""The source of a MERGE: evaluate it once, count its rows, and extract its keys.

One job evaluates the source and keeps its rows in the executors. It returns the size, the keys and, of a small source, the rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from rowmerge.plan.expressions.conditions import KeyPair
from rowmerge.spark.source.keys import EXACT_TYPES, SourceKey, key_names, known_keys, ordinal_array
from rowmerge.spark.types import estimated_row_bytes, frame_of, has_collation, schema_of
from rowmerge.table.metadata.engine_columns import MET, ORDINAL
from rowmerge.table.metadata.schema import Decimal, Field, Primitive, Struct, backquote

_MATCHED_ORDINAL = "__rowmerge_matched"
_ROW = "__rowmerge_row"
_TASK_BITS = 33
"""`monotonically_increasing_id` is the task's index times 2^33 plus the row's index in it."""
_TASK, _ROW_OF_TASK = f"shiftright({ORDINAL}, {_TASK_BITS})", f"({ORDINAL} & {(1 << _TASK_BITS) - 1})"
"""SQL for the index of a row's task, and for the row's index in the task."""

MAX_LOCAL_ROWS, MAX_LOCAL_TASKS, MAX_LOCAL_TEXT_BYTES = 1_000, 64, 2_000
"""The driver takes a whole source of up to so many rows in each of so many tasks, with up to so many bytes of text in a row."""
MAX_PREPARED_ROWS, MAX_PREPARED_TEXT_BYTES = 100_000, 500
"""Up to so many source rows, with so many bytes of text each, become rows of the table before their matches are known."""
MAX_COLLECTED_KEYS = 1_000_000
"""The driver takes the keys of up to so many source rows in any case, and prunes files by each key instead of the range of the keys."""
MAX_KEYS_WITHOUT_JOIN, MAX_LOOKED_UP_KEYS, MAX_KEY_BYTES = 10_000_000, 4_000_000, 256 * 1024 * 1024
"""The driver takes so many keys if they replace a join, and so many if the join then reads only rows with such a key. All keys take up to
so many bytes."""
MAX_UNGATHERED_TASKS, MIN_ROWS_PER_FILE = 4, 50_000
"""Up to so many tasks write few files, and none too small if each task has so many rows on average."""
MAX_BROADCAST_BYTES = 64 * 1024 * 1024
"""A source up to this estimated size is broadcast, so that the target is not shuffled."""

Prepare = Callable[[DataFrame, Sequence[str]], DataFrame]
"""A function from the source's rows, under the source's alias, and the names of their key columns, to rows of the table. The result has
these key columns and ORDINAL, too."""

_TEXT_TYPES = (Primitive("string"), Primitive("binary"))
_UNCHANGED_TYPES = (*EXACT_TYPES, "float", "double")


def _in_share(most_rows: int) -> str:
    """Return SQL for `most_rows` / n rows of the n-th task: all rows of evenly filled tasks, and a few times `most_rows` at most."""
    return f"{_ROW_OF_TASK} * ({_TASK} + 1) < {most_rows}"


_RETURNED_KEYS = _in_share(MAX_COLLECTED_KEYS)
"""SQL for the rows whose keys the job that evaluates the source returns."""


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
        """Return whether the source is small enough to send to every executor."""
        return _is_small(self.rows, self.schema)

    @property
    def split_rows(self) -> DataFrame:
        """Return the rows, divided among several tasks if one task has many.

        Each task reads all rows, which are in memory, and keeps its own. A shuffle would take longer. Spark does not divide what it knows
        to be one partition, such as a range.
        """
        tasks = min(MAX_UNGATHERED_TASKS, os.cpu_count() or 1, self.rows // MIN_ROWS_PER_FILE)
        if self.local is not None or self.tasks > 1 or tasks < 2:
            return self.frame
        first, _ = self.ordinals
        bounds = pairwise(first + self.rows * task // tasks for task in range(tasks + 1))
        rows_of_tasks = (self.frame.where(f"{ORDINAL} >= {start} and {ORDINAL} < {end}") for start, end in bounds)
        return reduce(DataFrame.unionAll, rows_of_tasks)

    @property
    def tasks(self) -> int:
        """Return the number of tasks that evaluated the source."""
        first, last = (ordinal >> _TASK_BITS for ordinal in self.ordinals)
        return last - first + 1

    def counted(self) -> Source:
        """Return the source with its exact row count, after the job that read its rows."""
        if self.counting is None:
            return self
        try:
            return replace(self, rows=int(self.counting.get.get("rows", 0)))
        except Exception as error:
            # If Spark saw that there are no rows and left the count out, PySpark cannot convert the result.
            if type(error).__module__ == "py4j.protocol" and "toPyRow" in str(error):
                return replace(self, rows=0)
            raise

    def without(self, ordinals: BitMap64) -> DataFrame:
        """Return the rows except those with these ordinals."""
        if not ordinals:
            return self.split_rows
        if self.local is not None:
            rows = self.local.filter(pc.invert(pc.is_in(self.local[ORDINAL], value_set=ordinal_array(ordinals))))
            return frame_of(self.frame.sparkSession, rows, _with_ordinal(self.schema))
        return self._joined_to(ordinals, "left_anti")

    def marked(self, ordinals: BitMap64) -> DataFrame:
        """Return the rows with MET: whether their ordinals are among these."""
        if self.local is not None:
            rows = self.local.append_column(MET, pc.is_in(self.local[ORDINAL], value_set=ordinal_array(ordinals)))
            schema = Struct((*_with_ordinal(self.schema), Field(MET, Primitive("boolean"))))
            return frame_of(self.frame.sparkSession, rows, schema)
        return self._joined_to(ordinals, "left").withColumn(MET, F.col(_MATCHED_ORDINAL).isNotNull()).drop(_MATCHED_ORDINAL)

    def _joined_to(self, ordinals: BitMap64, kind: str) -> DataFrame:
        matched = F.broadcast(frame_of(self.frame.sparkSession, pa.table({_MATCHED_ORDINAL: ordinal_array(ordinals)})))
        return self.split_rows.join(matched, F.col(ORDINAL) == F.col(_MATCHED_ORDINAL), kind)


def materialize(frame: DataFrame, alias: str, pairs: Sequence[KeyPair], *, most_keys: int = 0, prepare: Prepare | None = None) -> Source:
    """Evaluate the source once, count its rows and extract its keys: in one job if the rows are few.

    The driver takes few rows, as a local relation. The executors keep other rows (localCheckpoint), so that later jobs do not evaluate a
    nondeterministic source again. `most_keys`: how many rows' keys the driver takes if that is more than MAX_COLLECTED_KEYS. `prepare`:
    makes rows of the table, which the driver takes instead of source rows if they are not too many.
    """
    schema, names = schema_of(frame), key_names(pairs)
    checkpoint = with_keys(frame, alias, pairs).select("*", F.monotonically_increasing_id().alias(ORDINAL)).localCheckpoint(eager=False)
    counts = Observation()
    observed = checkpoint.observe(counts, F.count(F.lit(1)).alias("rows"), F.min(ORDINAL).alias("first"), F.max(ORDINAL).alias("last"))
    prepared, local_rows = None, None
    if prepare is None or not can_be_held(schema):
        key_rows, local_rows = _collect_few_rows(observed, names, schema)
    else:
        key_rows = prepared = _collect_prepared_rows(observed, alias, names, schema, prepare)
        if key_rows is None:
            return materialize(frame, alias, pairs, most_keys=most_keys)
    rows, first, last = (int(counts.get[name] or 0) for name in ("rows", "first", "last"))
    keys, key_ordinals = _keys_of(checkpoint, pairs, rows, most_keys, key_rows)
    source = Source(checkpoint.drop(*names), schema, rows, keys, (first, last), key_ordinals=key_ordinals)
    if prepared is not None and prepared.num_rows == rows:
        return replace(source, prepared=prepared.drop_columns(names))
    if local_rows is not None and local_rows.num_rows >= rows:
        return replace(source, frame=frame_of(frame.sparkSession, local_rows, _with_ordinal(schema)), local=local_rows)
    return source


@dataclass
class SourceRowsOnce:
    """A source that is evaluated when its keys are first needed, and then kept. `was_streamed`: an attempt read it and kept nothing."""

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
        kept_pairs, kept_source = self._kept
        if kept_pairs != pairs:
            kept_source = materialize(kept_source.frame.drop(ORDINAL), self.alias, pairs, most_keys=most_keys)
            self._kept = (pairs, kept_source)
        return kept_source


def _collect_prepared_rows(observed: DataFrame, alias: str, names: Sequence[str], schema: Struct, prepare: Prepare) -> pa.Table | None:
    """Return table rows made of the first source rows, or None after an error, which may come from a row that no clause would write."""
    few_rows = observed.where(_in_share(MAX_PREPARED_ROWS) + _and_short_texts(schema, MAX_PREPARED_TEXT_BYTES))
    try:
        return prepare(few_rows.alias(alias), names).toArrow()
    except PySparkException:
        return None


def _collect_few_rows(observed: DataFrame, names: Sequence[str], schema: Struct) -> tuple[pa.Table, pa.Table | None]:
    """Return the keys and ordinals of the first rows, and the first whole rows if the driver can hold such rows, all by one job."""
    is_among_first = f"{_ROW_OF_TASK} < {MAX_LOCAL_ROWS} and {_TASK} < {MAX_LOCAL_TASKS}"
    can_be_local = can_be_held(schema)
    if can_be_local:
        is_among_first += _and_short_texts(schema, MAX_LOCAL_TEXT_BYTES)
    # Without keys, the ordinals of other rows are of no use.
    returned_rows = observed.where(_RETURNED_KEYS if names else is_among_first)
    if not can_be_local:
        return returned_rows.select(*names, ORDINAL).toArrow(), None
    columns = ", ".join(backquote(name) for name in (*schema.names, ORDINAL))
    # A list of one row or NULL: a NULL list takes no room, as NULL values of all columns would.
    row = f"if({is_among_first}, array(struct({columns})), null) as {_ROW}"
    key_rows = returned_rows.selectExpr(*names, ORDINAL, row).toArrow()
    return key_rows, pa.Table.from_struct_array(pc.list_flatten(key_rows[_ROW]))


def _and_short_texts(schema: Struct, most_bytes: int) -> str:
    """Return SQL that limits the bytes of text in a row, to append to a condition."""
    lengths = [f"coalesce(octet_length({backquote(field.name)}), 0)" for field in schema if field.type in _TEXT_TYPES]
    return f" and {' + '.join(lengths)} <= {most_bytes}" if lengths else ""


def can_be_held(schema: Struct) -> bool:
    """Return whether rows come from Spark to Arrow and back unchanged: simple types, no collation, and no name twice."""
    types = [field.type for field in schema]
    are_unchanged = all(isinstance(type_, Decimal) or (isinstance(type_, Primitive) and type_.name in _UNCHANGED_TYPES) for type_ in types)
    return are_unchanged and len({field.name.lower() for field in schema}) == len(schema) and not has_collation(schema)


def _with_ordinal(schema: Struct) -> Struct:
    return Struct((*schema, Field(ORDINAL, Primitive("long"))))


def with_keys(frame: DataFrame, alias: str, pairs: Sequence[KeyPair]) -> DataFrame:
    """Return the rows of a source, whose keys call it `alias`, and these keys under `key_names`."""
    keys = [F.expr(pair.source).alias(name) for pair, name in zip(pairs, key_names(pairs), strict=True)]
    return frame.alias(alias).select("*", *keys)


def _keys_of(
    checkpoint: DataFrame, pairs: Sequence[KeyPair], rows: int, most_keys: int, key_rows: pa.Table
) -> tuple[tuple[SourceKey, ...], pa.ChunkedArray | None]:
    """Return the keys of the source rows and the ordinals of these rows. For too many rows, return key ranges and None.

    `key_rows`: the keys of some or all source rows. If rows are missing, a Spark job collects all keys.
    """
    if not pairs:
        return (), None
    names = key_names(pairs)
    fields = schema_of(checkpoint.select(*names)).fields
    if rows > MAX_COLLECTED_KEYS and (rows > most_keys or not _are_short(checkpoint, fields, rows)):
        return _key_ranges(checkpoint, pairs, fields, rows), None
    if key_rows.num_rows < rows:
        key_rows = checkpoint.select(*names, ORDINAL).toArrow()
    return known_keys(pairs, fields, key_rows), key_rows[ORDINAL]


def _key_ranges(checkpoint: DataFrame, pairs: Sequence[KeyPair], fields: Sequence[Field], rows: int) -> tuple[SourceKey, ...]:
    """Return keys of which the range is known, and whether they have a NULL, by one job. Nothing is known of keys with a collation."""
    aggregates = []
    for name in key_names(pairs):
        aggregates += [F.min(name).alias(f"{name}_low"), F.max(name).alias(f"{name}_high"), F.count(name).alias(f"{name}_count")]
    statistics = checkpoint.agg(*aggregates).toArrow()
    keys = []
    for pair, field in zip(pairs, fields, strict=True):
        if has_collation(Struct((field,))):
            keys.append(SourceKey(pair, field.type))
            continue
        low, high, count = (statistics[f"{field.name}_{suffix}"][0] for suffix in ("low", "high", "count"))
        keys.append(SourceKey(pair, field.type, low=low, high=high, has_null=count.as_py() < rows))
    return tuple(keys)


def _are_short(checkpoint: DataFrame, fields: Sequence[Field], rows: int) -> bool:
    """Return whether the keys of all rows take up to MAX_KEY_BYTES. A job adds up the lengths of texts."""
    if not all(isinstance(field.type, Primitive | Decimal) for field in fields):
        return False
    other_fields = Struct(tuple(field for field in fields if field.type not in _TEXT_TYPES))
    key_bytes = rows * estimated_row_bytes(other_fields)
    text_lengths = [F.sum(F.octet_length(F.col(field.name))) for field in fields if field.type in _TEXT_TYPES]
    if text_lengths:
        (totals,) = checkpoint.agg(*text_lengths).toArrow().to_pylist()
        key_bytes += sum(total or 0 for total in totals.values())
    return key_bytes <= MAX_KEY_BYTES


def most_keys_at_once(fields: Sequence[Field]) -> int:
    """Return how many rows' keys of these types the driver takes, whatever their lengths."""
    have_fixed_width = all(isinstance(field.type, Primitive) and field.type not in _TEXT_TYPES for field in fields)
    return MAX_KEYS_WITHOUT_JOIN if have_fixed_width else MAX_COLLECTED_KEYS


def unevaluated(frame: DataFrame) -> Source:
    """Return a source with its columns alone, for Spark to analyse a statement. Nothing reads its rows."""
    return Source(frame.withColumn(ORDINAL, F.lit(0)), schema_of(frame), 0, ())


def _is_small(rows: int, schema: Struct) -> bool:
    return rows * estimated_row_bytes(schema) <= MAX_BROADCAST_BYTES
