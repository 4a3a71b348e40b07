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
from pyspark.sql import DataFrame, Observation, functions as F

from rowmerge.plan.expressions.conditions import KeyPair
from rowmerge.spark.source.keys import EXACT_TYPES, SourceKey, key_names, known_keys, ordinal_array
from rowmerge.spark.types import estimated_row_bytes, frame_of, has_collation, schema_of
from rowmerge.table.metadata.engine_columns import MET, ORDINAL
from rowmerge.table.metadata.schema import Decimal, Field, Primitive, Struct, backquote

_MATCHED_ORDINAL = "__rowmerge_matched"
_ROW = "__rowmerge_row"
_TASK_BITS = 33
"""`monotonically_increasing_id` is the task's index times 2^33 plus the row's index in it."""
_TASK_INDEX, _ROW_INDEX = f"shiftright({ORDINAL}, {_TASK_BITS})", f"({ORDINAL} & {(1 << _TASK_BITS) - 1})"
"""SQL for the index of a row's task, and for the row's index in the task."""

MAX_LOCAL_ROWS, MAX_LOCAL_TASKS, MAX_LOCAL_TEXT_BYTES = 1_000, 64, 2_000
"""The limits of a source whose rows all go to the driver: rows in a task, tasks, and bytes of text in a row."""
MAX_PREPARED_ROWS, MAX_PREPARED_TEXT_BYTES = 100_000, 500
"""The limits of prepared rows: source rows that become table rows before the driver knows their matches."""
MAX_COLLECTED_KEYS = 1_000_000
"""The number of source rows up to which the driver always collects keys, to prune files by each key instead of the range of the keys."""
MAX_KEYS_WITHOUT_JOIN, MAX_LOOKED_UP_KEYS, MAX_KEY_BYTES = 10_000_000, 4_000_000, 256 * 1024 * 1024
"""The limits of source rows if their keys replace a join, and if the keys select rows for a join. The third limit is the bytes of keys."""
MAX_UNSHUFFLED_TASKS, MIN_ROWS_PER_FILE = 4, 50_000
"""The most tasks that write source rows without a shuffle, and the fewest rows that one file of them should have on average."""
MAX_BROADCAST_BYTES = 64 * 1024 * 1024
"""The largest estimated size of a source that is broadcast, so that Spark does not shuffle the target."""

Prepare = Callable[[DataFrame, Sequence[str]], DataFrame]
"""Converts source rows to table rows, which also have the key columns and ORDINAL. The arguments are the source rows under the alias of the
source, and the names of their key columns."""

_TEXT_TYPES = (Primitive("string"), Primitive("binary"))
_UNCHANGED_TYPES = (*EXACT_TYPES, "float", "double")


def _in_share_of_task(max_rows: int) -> str:
    """Return a SQL condition for the first `max_rows` / n rows of the n-th task.

    It is true for all of `max_rows` rows in evenly filled tasks, and for a few times `max_rows` rows at most (a harmonic sum).
    """
    return f"{_ROW_INDEX} * ({_TASK_INDEX} + 1) < {max_rows}"


_RETURNED_KEY_SQL = _in_share_of_task(MAX_COLLECTED_KEYS)
"""A SQL condition for the rows whose keys the job that evaluates the source returns."""


@dataclass(frozen=True)
class Source:
    """The rows of a source, each with an ordinal that identifies it in every job.

    Attributes:
        frame: The rows with ORDINAL.
        schema: The columns without ORDINAL.
        row_count: The number of rows, an estimate if `counting` is set.
        keys: The keys of the ON condition.
        ordinals: The first and the last ordinal.
        local_rows: The rows of `frame` on the driver, None if they are many.
        key_ordinals: The ordinals of the rows in the order of `SourceKey.column`, None if the keys were not collected.
        prepared_rows: All source rows as table rows (see `prepare_rows`), None if they are many or were not requested.
        counting: The exact number of rows, after a job has read a source that is not kept.
    """

    frame: DataFrame
    schema: Struct
    row_count: int
    keys: tuple[SourceKey, ...]
    ordinals: tuple[int, int] = (0, 0)
    local_rows: pa.Table | None = None
    key_ordinals: pa.ChunkedArray | None = None
    prepared_rows: pa.Table | None = None
    counting: Observation | None = None

    @property
    def is_broadcastable(self) -> bool:
        """Return whether the source is small enough to send to every executor."""
        return _is_small(self.row_count, self.schema)

    @property
    def parallel_rows(self) -> DataFrame:
        """Return the rows, which several tasks can write in parallel even if one task evaluated all of them.

        If one task evaluated many rows, the result is a union of ranges of ordinals. Each new task filters its range out of all rows,
        which executors keep in memory: this takes less time than a shuffle. Other rows stay as they are: rows on the driver are few, and
        rows of several tasks are written in parallel already.
        """
        split_count = min(MAX_UNSHUFFLED_TASKS, os.cpu_count() or 1, self.row_count // MIN_ROWS_PER_FILE)
        if self.local_rows is not None or self.task_count > 1 or split_count < 2:
            return self.frame
        first_ordinal, _ = self.ordinals  # one task numbers its rows consecutively
        bounds = pairwise(first_ordinal + self.row_count * index // split_count for index in range(split_count + 1))
        splits = (self.frame.where(f"{ORDINAL} >= {start} and {ORDINAL} < {end}") for start, end in bounds)
        return reduce(DataFrame.unionAll, splits)

    @property
    def task_count(self) -> int:
        """Return the number of tasks that evaluated the source."""
        first, last = (ordinal >> _TASK_BITS for ordinal in self.ordinals)
        return last - first + 1

    def counted(self) -> Source:
        """Return the source with its exact row count, after a job has read its rows."""
        if self.counting is None:
            return self
        try:
            return replace(self, row_count=int(self.counting.get.get("rows", 0)))
        except Exception as error:
            # If Spark saw that there are no rows and left the count out, PySpark cannot convert the result.
            if type(error).__module__ == "py4j.protocol" and "toPyRow" in str(error):
                return replace(self, row_count=0)
            raise

    def without(self, ordinals: BitMap64) -> DataFrame:
        """Return the rows except those with these ordinals."""
        if not ordinals:
            return self.parallel_rows
        if self.local_rows is not None:
            rows = self.local_rows.filter(pc.invert(pc.is_in(self.local_rows[ORDINAL], value_set=ordinal_array(ordinals))))
            return frame_of(self.frame.sparkSession, rows, _with_ordinal(self.schema))
        return self._joined_to(ordinals, "left_anti")

    def marked(self, ordinals: BitMap64) -> DataFrame:
        """Return the rows with the column MET, which is true for rows with these ordinals."""
        if self.local_rows is not None:
            rows = self.local_rows.append_column(MET, pc.is_in(self.local_rows[ORDINAL], value_set=ordinal_array(ordinals)))
            return frame_of(self.frame.sparkSession, rows, Struct((*_with_ordinal(self.schema), Field(MET, Primitive("boolean")))))
        return self._joined_to(ordinals, "left").withColumn(MET, F.col(_MATCHED_ORDINAL).isNotNull()).drop(_MATCHED_ORDINAL)

    def _joined_to(self, ordinals: BitMap64, kind: str) -> DataFrame:
        """Return the rows joined to these ordinals, with a join type of Spark."""
        matched = F.broadcast(frame_of(self.frame.sparkSession, pa.table({_MATCHED_ORDINAL: ordinal_array(ordinals)})))
        return self.parallel_rows.join(matched, F.col(ORDINAL) == F.col(_MATCHED_ORDINAL), kind)


def materialize(frame: DataFrame, alias: str, pairs: Sequence[KeyPair], *, max_keys: int = 0, prepare: Prepare | None = None) -> Source:
    """Evaluate a source once, count its rows and extract its keys: in one job if the rows are few.

    The executors keep the rows (localCheckpoint), because a nondeterministic source has other rows when it is evaluated again. The job that
    evaluates the source also returns the first rows of each task. They are all rows of a small source, and the driver then keeps them: as
    table rows (`prepare`) or as a local relation.

    Args:
        frame: The rows of the source.
        alias: The alias of the source in the expressions of `pairs`.
        pairs: The keys of the ON condition.
        max_keys: The number of rows up to which the driver collects all keys, if it is above MAX_COLLECTED_KEYS.
        prepare: Converts source rows to table rows, which the driver then takes instead of source rows. None to take source rows.
    """
    schema, key_columns = schema_of(frame), key_names(pairs)
    if prepare is not None and can_be_held(schema):
        # First attempt: the job converts source rows to table rows. The result is None if the conversion of a row fails.
        checkpoint = _Checkpoint(frame, alias, pairs)
        prepared_rows = _collect_prepared_rows(checkpoint.observed_rows, alias, key_columns, schema, prepare)
        if prepared_rows is not None:
            source = checkpoint.to_source(schema, prepared_rows, max_keys)
            has_all_rows = prepared_rows.num_rows == source.row_count  # the job returns only the first rows of each task
            return replace(source, prepared_rows=prepared_rows.drop_columns(key_columns)) if has_all_rows else source
    # The job returns source rows, which need no conversion. It has a checkpoint of its own: after a failed job, no rows are kept.
    checkpoint = _Checkpoint(frame, alias, pairs)
    key_rows, local_rows = _collect_keys_and_rows(checkpoint.observed_rows, key_columns, schema)
    source = checkpoint.to_source(schema, key_rows, max_keys)
    if local_rows is None or local_rows.num_rows < source.row_count:
        return source
    return replace(source, frame=frame_of(frame.sparkSession, local_rows, _with_ordinal(schema)), local_rows=local_rows)


class _Checkpoint:
    """The rows of a source with their keys and ordinals, which executors keep from the first job that reads `observed_rows`.

    Spark evaluates a frame anew in each job, unless executors keep its rows (a lazy `localCheckpoint`). The first job also computes the
    row count and the range of ordinals (an `Observation`), so that no job only counts rows.
    """

    def __init__(self, frame: DataFrame, alias: str, pairs: Sequence[KeyPair]) -> None:
        self._pairs = pairs
        self._rows = with_keys(frame, alias, pairs).select("*", F.monotonically_increasing_id().alias(ORDINAL)).localCheckpoint(eager=False)
        self._statistics = Observation()
        row_count, first, last = F.count(F.lit(1)).alias("rows"), F.min(ORDINAL).alias("first"), F.max(ORDINAL).alias("last")
        self.observed_rows = self._rows.observe(self._statistics, row_count, first, last)

    def to_source(self, schema: Struct, key_rows: pa.Table, max_keys: int) -> Source:
        """Return the source after a job over `observed_rows`, which returned `key_rows`. `schema`: the columns without keys."""
        row_count, first, last = (int(self._statistics.get[name] or 0) for name in ("rows", "first", "last"))
        keys, key_ordinals = self._extract_keys(row_count, max_keys, key_rows)
        return Source(self._rows.drop(*key_names(self._pairs)), schema, row_count, keys, (first, last), key_ordinals=key_ordinals)

    def _extract_keys(self, row_count: int, max_keys: int, key_rows: pa.Table) -> tuple[tuple[SourceKey, ...], pa.ChunkedArray | None]:
        """Return the keys of the ON condition with their values, and the ordinals of the rows in the order of these values.

        A source with too many rows gets the minimum and maximum of each key instead of the values (`_key_ranges`), and no ordinals (None).

        Args:
            row_count: The number of source rows.
            max_keys: A second limit of rows, for keys that take little memory (`_are_short_keys`). MAX_COLLECTED_KEYS limits all keys.
            key_rows: Key columns and ORDINAL of the rows that the evaluating job returned, which are the first rows of each task. If some
                rows are missing, a second job collects the keys of all rows.
        """
        if not self._pairs:
            return (), None
        names = key_names(self._pairs)
        fields = schema_of(self._rows.select(*names)).fields
        are_few_keys = row_count <= MAX_COLLECTED_KEYS or (row_count <= max_keys and _are_short_keys(self._rows, fields, row_count))
        if not are_few_keys:
            return _key_ranges(self._rows, self._pairs, fields, row_count), None
        if key_rows.num_rows < row_count:
            key_rows = self._rows.select(*names, ORDINAL).toArrow()
        return known_keys(self._pairs, fields, key_rows), key_rows[ORDINAL]


@dataclass
class SourceRowsOnce:
    """The source of a statement, which is evaluated when an attempt first needs its keys, and then kept for later attempts.

    Attributes:
        frame: The rows of the source.
        alias: The alias of the source in the statement.
        was_streamed: Whether an attempt read the rows without keeping them.
    """

    frame: DataFrame
    alias: str
    was_streamed: bool = False
    _kept_source: Source | None = None

    @property
    def was_evaluated(self) -> bool:
        """Return whether an attempt evaluated the source, and kept its rows or not."""
        return self._kept_source is not None or self.was_streamed

    def is_broadcastable(self, row_count: int) -> bool:
        """Return whether so many rows of this source are small enough to send to every executor."""
        return _is_small(row_count, schema_of(self.frame))

    def stream(self, estimated_rows: int) -> Source:
        """Return the source for one job that reads its rows once. Executors do not keep the rows, and the keys are unknown."""
        self.was_streamed = True
        counting = Observation()
        rows = self.frame.observe(counting, F.count(F.lit(1)).alias("rows")).withColumn(ORDINAL, F.monotonically_increasing_id())
        return Source(rows, schema_of(self.frame), estimated_rows, (), counting=counting)

    def materialize(self, pairs: tuple[KeyPair, ...], *, max_keys: int = 0, prepare: Prepare | None = None) -> Source:
        """Return the materialized source with these keys. The first call evaluates it, and later calls reuse the rows.

        If a later call has other keys, they are extracted from the kept rows.

        Args:
            pairs: The keys of the ON condition.
            max_keys: See the function `materialize`.
            prepare: See the function `materialize`. Only the first call returns prepared rows.
        """
        if self._kept_source is None:
            source = materialize(self.frame, self.alias, pairs, max_keys=max_keys, prepare=prepare)
            self._kept_source = replace(source, prepared_rows=None)
            return source
        if tuple(key.pair for key in self._kept_source.keys) != pairs:
            kept_rows = self._kept_source.frame.drop(ORDINAL)  # the new source numbers its rows itself
            self._kept_source = materialize(kept_rows, self.alias, pairs, max_keys=max_keys)
        return self._kept_source


def _collect_prepared_rows(rows: DataFrame, alias: str, key_columns: Sequence[str], schema: Struct, prepare: Prepare) -> pa.Table | None:
    """Return the table rows that `prepare` makes of the first source rows of each task.

    Returns None after an error, because its cause may be a row that the statement does not write.
    """
    first_rows = rows.where(_in_share_of_task(MAX_PREPARED_ROWS) + _and_short_texts(schema, MAX_PREPARED_TEXT_BYTES))
    try:
        return prepare(first_rows.alias(alias), key_columns).toArrow()
    except PySparkException:
        return None


def _collect_keys_and_rows(rows: DataFrame, key_columns: Sequence[str], schema: Struct) -> tuple[pa.Table, pa.Table | None]:
    """Collect the keys of many source rows, and all columns of a few source rows, in the job that evaluates the source.

    The driver prunes target files by the keys, and keeps all rows of a small source. While the job runs, the row count is unknown. So each
    task returns its first rows, and the caller compares their number with the row count.

    Args:
        rows: The source rows with ORDINAL and key columns.
        key_columns: The names of the key columns. Without keys, the job returns only the rows of the second table.
        schema: The columns of the source.

    Returns:
        A table with the key columns and ORDINAL of up to about MAX_COLLECTED_KEYS rows. A table with all columns and ORDINAL of the
        first MAX_LOCAL_ROWS rows of each task, without rows with long texts. The second table is None if a type changes between Arrow and
        Spark.
    """
    local_row_sql = f"{_ROW_INDEX} < {MAX_LOCAL_ROWS} and {_TASK_INDEX} < {MAX_LOCAL_TASKS}"
    if not can_be_held(schema):
        return rows.where(_RETURNED_KEY_SQL if key_columns else local_row_sql).select(*key_columns, ORDINAL).toArrow(), None
    local_row_sql += _and_short_texts(schema, MAX_LOCAL_TEXT_BYTES)
    columns_sql = ", ".join(backquote(name) for name in (*schema.names, ORDINAL))
    # An array of one struct holds all columns. It is NULL for a row of the first table alone, which is smaller than a NULL in each column.
    row_array_sql = f"if({local_row_sql}, array(struct({columns_sql})), null) as {_ROW}"
    returned_rows = rows.where(_RETURNED_KEY_SQL if key_columns else local_row_sql)
    keys_and_rows = returned_rows.selectExpr(*key_columns, ORDINAL, row_array_sql).toArrow()
    return keys_and_rows, pa.Table.from_struct_array(pc.list_flatten(keys_and_rows[_ROW]))


def _and_short_texts(schema: Struct, most_bytes: int) -> str:
    """Return SQL that limits the bytes of text in a row, to append to a condition."""
    lengths = [f"coalesce(octet_length({backquote(field.name)}), 0)" for field in schema if field.type in _TEXT_TYPES]
    return f" and {' + '.join(lengths)} <= {most_bytes}" if lengths else ""


def can_be_held(schema: Struct) -> bool:
    """Return whether rows stay the same from Spark to Arrow and back: simple types, no collation, and distinct column names."""
    types = [field.type for field in schema]
    are_unchanged = all(isinstance(type_, Decimal) or (isinstance(type_, Primitive) and type_.name in _UNCHANGED_TYPES) for type_ in types)
    return are_unchanged and len({field.name.lower() for field in schema}) == len(schema) and not has_collation(schema)


def _with_ordinal(schema: Struct) -> Struct:
    return Struct((*schema, Field(ORDINAL, Primitive("long"))))


def with_keys(frame: DataFrame, alias: str, pairs: Sequence[KeyPair]) -> DataFrame:
    """Return the rows of a source with a column for each key, named by `key_names`.

    Args:
        frame: The rows of the source.
        alias: The alias of the source in the expressions of `pairs`.
        pairs: The keys of the ON condition.
    """
    keys = [F.expr(pair.source).alias(name) for pair, name in zip(pairs, key_names(pairs), strict=True)]
    return frame.alias(alias).select("*", *keys)


def _key_ranges(rows: DataFrame, pairs: Sequence[KeyPair], fields: Sequence[Field], row_count: int) -> tuple[SourceKey, ...]:
    """Return the keys with their minimum and maximum, and whether a NULL occurs. One job aggregates the rows.

    A key with a collation has no range: its order is that of the collation, but bounds in files follow the order of bytes.

    `fields`: the name (see `key_names`) and type of each key's column.
    """
    aggregates = []
    for name in (field.name for field in fields):
        aggregates += [F.min(name).alias(f"{name}_low"), F.max(name).alias(f"{name}_high"), F.count(name).alias(f"{name}_count")]
    statistics = rows.agg(*aggregates).toArrow()
    keys = []
    for pair, field in zip(pairs, fields, strict=True):
        key = SourceKey(pair, field.type)
        if not has_collation(Struct((field,))):
            low, high, count = (statistics[f"{field.name}_{suffix}"][0] for suffix in ("low", "high", "count"))
            key = replace(key, low=low, high=high, has_null=count.as_py() < row_count)
        keys.append(key)
    return tuple(keys)


def _are_short_keys(rows: DataFrame, fields: Sequence[Field], row_count: int) -> bool:
    """Return whether the keys of all rows take up to MAX_KEY_BYTES. A job adds up the lengths of texts."""
    if not all(isinstance(field.type, Primitive | Decimal) for field in fields):
        return False
    other_fields = Struct(tuple(field for field in fields if field.type not in _TEXT_TYPES))
    key_bytes = row_count * estimated_row_bytes(other_fields)
    text_lengths = [F.sum(F.octet_length(F.col(field.name))) for field in fields if field.type in _TEXT_TYPES]
    if text_lengths:
        (totals,) = rows.agg(*text_lengths).toArrow().to_pylist()
        key_bytes += sum(total or 0 for total in totals.values())
    return key_bytes <= MAX_KEY_BYTES


def max_collected_keys(fields: Sequence[Field]) -> int:
    """Return the number of rows whose keys of these types the driver collects, whatever the lengths of texts."""
    have_fixed_width = all(isinstance(field.type, Primitive) and field.type not in _TEXT_TYPES for field in fields)
    return MAX_KEYS_WITHOUT_JOIN if have_fixed_width else MAX_COLLECTED_KEYS


def unevaluated(frame: DataFrame) -> Source:
    """Return a source without keys and count, with which Spark can analyse a statement. No job reads its rows."""
    return Source(frame.withColumn(ORDINAL, F.lit(0)), schema_of(frame), 0, ())


def _is_small(row_count: int, schema: Struct) -> bool:
    """Return whether the estimated size of rows allows Spark to broadcast them."""
    return row_count * estimated_row_bytes(schema) <= MAX_BROADCAST_BYTES
