"""The source of a MERGE: evaluate it once, count its rows, and extract its keys.

One job evaluates the source and keeps its rows on the executors. It returns the row count, the keys and, if the source is small, the rows.
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
from rowmerge.spark.source.keys import (
    ROW_INDEX,
    TASK_BITS,
    TASK_INDEX,
    TEXT_TYPES,
    SourceKey,
    and_short_texts,
    are_short_keys,
    in_share_of_task,
    is_unchanged_by_arrow,
    key_names,
    key_ranges,
    known_keys,
    ordinal_array,
    with_keys,
)
from rowmerge.spark.spark_session import analyses_later, is_local_mode, local_checkpoint
from rowmerge.spark.types import estimated_row_bytes, frame_of, schema_of, with_nullable_fields
from rowmerge.table.metadata.engine_columns import MET, ORDINAL
from rowmerge.table.metadata.schema import Field, Primitive, Struct, backquote

_MATCHED_ORDINAL = "__rowmerge_matched"
_ROW = "__rowmerge_row"
MAX_LOCAL_ROWS, MAX_LOCAL_TASKS, MAX_LOCAL_TEXT_BYTES = 1_000, 64, 2_000
"""The limits of a source whose rows are all sent to the driver: rows in a task, tasks, and bytes of strings and binary values in a row."""
MAX_PREPARED_ROWS, MAX_PREPARED_TEXT_BYTES = 100_000, 500
"""The limits of prepared rows, which are converted to table rows before their matches are known: rows, and bytes of strings in a row."""
MAX_COLLECTED_KEYS = 1_000_000
"""The maximum number of source rows whose keys the driver always collects, to prune files by each key instead of the range of the keys."""
MAX_KEYS_WITHOUT_JOIN, MAX_LOOKED_UP_KEYS = 10_000_000, 4_000_000
"""The maximum number of source rows if a lookup of their keys replaces a join, and the maximum number if it precedes a join."""
MAX_RETURNED_KEY_TEXT, MAX_UNMEASURED_KEYS = 100, 100_000
"""The maximum number of bytes of the strings in a key that the job that evaluates the source returns, and the number of rows up to which
the driver collects keys of any length."""
MAX_UNSHUFFLED_TASKS, MIN_ROWS_PER_FILE = 4, 50_000
"""The maximum number of tasks that write source rows without a shuffle, and the minimum average number of rows in each of their files."""
MAX_BROADCAST_BYTES = 64 * 1024 * 1024
"""The maximum estimated size in bytes of a source that Spark broadcasts, to avoid a shuffle of the target."""

Prepare = Callable[[DataFrame, Sequence[str]], DataFrame]
"""A function that converts source rows to table rows, which also have the key columns and ORDINAL. The arguments are the source rows under
the alias of the source, and the names of their key columns."""


_RETURNED_KEY_SQL = in_share_of_task(MAX_COLLECTED_KEYS)
"""The SQL condition that selects the rows whose keys are returned by the job that evaluates the source."""


@dataclass(frozen=True)
class Source:
    """The rows of a source, each with an ordinal that identifies it in every job.

    Attributes:
        frame: The rows with the column ORDINAL.
        schema: The columns without ORDINAL.
        row_count: The number of rows, an estimate if `counting` is set.
        keys: The keys of the ON condition and their values.
        ordinals: The first and the last ordinal.
        local_rows: The rows of `frame` on the driver, None if there are too many.
        key_ordinals: The ordinals of the rows in the order of `SourceKey.column`, None if the keys were not collected.
        prepared_rows: All source rows as table rows (see `prepare_rows`), None if there are too many or they were not requested.
        counting: The observation that provides the exact number of rows once a job has read them, None if `row_count` is exact.
        is_large: Whether the rows are known to be too large for the driver, whatever their estimated size.
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
    is_large: bool = False

    @property
    def is_streamed(self) -> bool:
        """Return whether a single job reads the rows and counts them, and Spark keeps none of them (see `SourceRowsOnce.stream`)."""
        return self.counting is not None

    @property
    def is_broadcastable(self) -> bool:
        """Return whether the source is small enough to send to every executor."""
        return not self.is_large and _is_small(self.row_count, self.schema)

    @property
    def parallel_rows(self) -> DataFrame:
        """Return the rows in a form that several tasks can write in parallel, even if one task evaluated all of them.

        If one task evaluated many rows, the result is a union of ranges of ordinals. Each new task selects its range from all rows, which
        executors keep in memory. This takes less time than a shuffle. Otherwise, the rows are returned unchanged: there are only few on the
        driver, and the rows of several tasks are already written in parallel.
        """
        split_count = min(MAX_UNSHUFFLED_TASKS, os.cpu_count() or 1, self.row_count // MIN_ROWS_PER_FILE)
        if self.local_rows is not None or self.task_count > 1 or split_count < 2:
            return self.frame
        first_ordinal, _ = self.ordinals  # one task numbers its rows consecutively
        split_starts = [first_ordinal + self.row_count * index // split_count for index in range(split_count + 1)]
        splits = [self.frame.where(f"{ORDINAL} >= {start} and {ORDINAL} < {end}") for start, end in pairwise(split_starts)]
        return reduce(DataFrame.unionAll, splits)

    @property
    def task_count(self) -> int:
        """Return the number of tasks that evaluated the source."""
        first, last = (ordinal >> TASK_BITS for ordinal in self.ordinals)
        return last - first + 1

    def counted(self) -> Source:
        """Return the source with its exact row count, which is known after a job has read its rows."""
        if self.counting is None:
            return self
        try:
            return replace(self, row_count=int(self.counting.get.get("rows", 0)))
        except Exception as error:
            # PySpark cannot convert the result if Spark skipped the count because it detected that there are no rows.
            if type(error).__module__ == "py4j.protocol" and "toPyRow" in str(error):
                return replace(self, row_count=0)
            raise

    def without(self, ordinals: BitMap64) -> DataFrame:
        """Return the rows whose ordinals are not in `ordinals`."""
        if not ordinals:
            return self.parallel_rows
        if self.local_rows is not None:
            rows = self.local_rows.filter(pc.invert(pc.is_in(self.local_rows[ORDINAL], value_set=ordinal_array(ordinals))))
            return frame_of(self.frame.sparkSession, rows, _with_ordinal(self.schema))
        return self._joined_to(ordinals, "left_anti")

    def marked(self, ordinals: BitMap64) -> DataFrame:
        """Return the rows with an added column MET, which is true for the rows with these ordinals."""
        if self.local_rows is not None:
            rows = self.local_rows.append_column(MET, pc.is_in(self.local_rows[ORDINAL], value_set=ordinal_array(ordinals)))
            return frame_of(self.frame.sparkSession, rows, Struct((*_with_ordinal(self.schema), Field(MET, Primitive("boolean")))))
        return self._joined_to(ordinals, "left").withColumn(MET, F.col(_MATCHED_ORDINAL).isNotNull()).drop(_MATCHED_ORDINAL)

    def _joined_to(self, ordinals: BitMap64, kind: str) -> DataFrame:
        """Return the rows joined to these ordinals. `kind`: The join type, as Spark names it."""
        matched = F.broadcast(frame_of(self.frame.sparkSession, pa.table({_MATCHED_ORDINAL: ordinal_array(ordinals)})))
        return self.parallel_rows.join(matched, F.col(ORDINAL) == F.col(_MATCHED_ORDINAL), kind)


def evaluate_source(frame: DataFrame, alias: str, pairs: Sequence[KeyPair], *, max_keys: int = 0, prepare: Prepare | None = None) -> Source:
    """Evaluate a source once, count its rows and extract its keys. If there are few rows, this takes only one job.

    The executors keep the rows (localCheckpoint), because a nondeterministic source would produce other rows in another evaluation. The job
    that evaluates the source also returns the first rows of each task. If the source is small, these are all its rows, and the driver keeps
    them. With `prepare`, they are already table rows, so the driver can write them without another job. Otherwise, they are source rows.

    Args:
        frame: The rows of the source.
        alias: The alias of the source in the expressions of `pairs`.
        pairs: The keys of the ON condition.
        max_keys: The maximum number of rows whose keys the driver collects, if it is greater than MAX_COLLECTED_KEYS.
        prepare: A function that converts source rows to table rows, which the driver then keeps. None to keep source rows.
    """
    schema, checkpoint = schema_of(frame), _Checkpoint(frame, alias, pairs)
    if checkpoint.is_counted and checkpoint.row_count > MAX_PREPARED_ROWS:
        return checkpoint.to_source(schema, pa.table({}), max_keys)  # no job for rows that are too many for the driver
    if prepare is not None and is_unchanged_by_arrow(schema):
        source = _evaluate_prepared(checkpoint, schema, max_keys, prepare)
        if source is not None:
            return source
        # The job failed, perhaps at the conversion of a row. So a second job returns source rows. The failed job kept no rows, so the
        # checkpoint is a new one.
        checkpoint = _Checkpoint(frame, alias, pairs)
    return _evaluate_unprepared(checkpoint, schema, max_keys)


class _Checkpoint:
    """The rows of a source with their keys and ordinals (row numbers), which executors keep from the first job that reads `observed_rows`.

    Spark evaluates a frame again in each job, unless executors keep its rows (a lazy `localCheckpoint`). The first job also computes the
    row count and the range of ordinals (an `Observation`), so that no separate job is needed to count rows. On a cluster, the checkpoint
    itself is the first job.
    """

    def __init__(self, frame: DataFrame, alias: str, pairs: Sequence[KeyPair]) -> None:
        self.alias, self.key_columns, self._pairs = alias, key_names(pairs), pairs
        rows = with_nullable_fields(with_keys(frame, alias, pairs))
        spark = frame.sparkSession
        statistics = F.count(F.lit(1)).alias("rows"), F.min(ORDINAL).alias("first"), F.max(ORDINAL).alias("last")
        self._statistics = Observation()
        numbered_rows = rows.select("*", F.monotonically_increasing_id().alias(ORDINAL))
        # An executor may be lost with its rows. Spark evaluates them again until a first job has finished, perhaps to other rows. So on
        # a cluster, nothing is read from this evaluation before it is complete. Later, a loss is an error (`lost_source_rows`).
        is_eager = not is_local_mode(spark)
        self.is_counted = is_eager and not analyses_later(spark)  # Spark Connect observes no statistics of a checkpoint
        if self.is_counted:
            numbered_rows = numbered_rows.observe(self._statistics, *statistics)
        self._rows = local_checkpoint(numbered_rows, eager=is_eager)
        self.observed_rows = self._rows if self.is_counted else self._rows.observe(self._statistics, *statistics)

    @property
    def row_count(self) -> int:
        """The number of rows. It is known before the first job if `is_counted`, and after it otherwise."""
        return int(self._statistics.get["rows"] or 0)

    def to_source(self, schema: Struct, key_rows: pa.Table, max_keys: int) -> Source:
        """Return the source after a job has read `observed_rows` and returned `key_rows`. `schema`: The source columns without keys."""
        first, last = (int(self._statistics.get[name] or 0) for name in ("first", "last"))
        source = Source(self._rows.drop(*self.key_columns), schema, self.row_count, keys=(), ordinals=(first, last))
        return self._with_keys(source, max_keys, key_rows) if self._pairs else source

    def _with_keys(self, source: Source, max_keys: int, key_rows: pa.Table) -> Source:
        """Return the source with the keys of the ON condition: their values, or only their range if there are too many for the driver.

        The job that evaluated the source did not know the row count in advance. So it returned only the keys of the first rows of each
        task. If these are not all rows, another job reads the kept rows.

        Args:
            source: The source, with the number of its rows.
            max_keys: The maximum number of rows for keys that take little memory (`are_short_keys`). The limit for other keys is
                MAX_COLLECTED_KEYS.
            key_rows: The key columns of the first rows of each task, and ORDINAL, the number that identifies a source row.
        """
        fields, row_count = schema_of(self._rows.select(*self.key_columns)).fields, source.row_count
        if key_rows.num_rows < row_count:
            if not self._do_keys_fit(fields, row_count, max(max_keys, MAX_COLLECTED_KEYS)):
                return replace(source, keys=key_ranges(self._rows, self._pairs, fields, row_count))
            key_rows = self._rows.select(*self.key_columns, ORDINAL).toArrow()
        return replace(source, keys=known_keys(self._pairs, fields, key_rows), key_ordinals=key_rows[ORDINAL])

    def _do_keys_fit(self, fields: Sequence[Field], row_count: int, max_keys: int) -> bool:
        """Return whether the keys of all rows are few and short enough for the driver. `fields`: the key columns."""
        if row_count <= MAX_UNMEASURED_KEYS:
            return True
        return row_count <= max_keys and are_short_keys(self._rows, fields, row_count)


@dataclass
class SourceRowsOnce:
    """The source of a statement, which is evaluated when an attempt first needs its keys. The rows are then kept for later attempts.

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
        """Return whether an attempt has evaluated the source, with or without keeping the rows."""
        return self._kept_source is not None or self.was_streamed

    def discard_rows(self) -> None:
        """Discard the rows that executors keep, because some are lost. The next attempt evaluates the whole source again."""
        self._kept_source = None

    def is_broadcastable(self, row_count: int) -> bool:
        """Return whether `row_count` rows of this source are small enough to send to every executor."""
        return _is_small(row_count, schema_of(self.frame))

    def stream(self, estimated_rows: int) -> Source:
        """Return the source for a single job that reads the rows once. Executors do not keep the rows, and the keys are unknown."""
        self.was_streamed = True
        counting = Observation()
        rows = self.frame.observe(counting, F.count(F.lit(1)).alias("rows")).withColumn(ORDINAL, F.monotonically_increasing_id())
        return Source(rows, schema_of(self.frame), estimated_rows, (), counting=counting)

    def materialize(self, pairs: tuple[KeyPair, ...], *, max_keys: int = 0, prepare: Prepare | None = None) -> Source:
        """Return the materialized source with these keys. The first call evaluates the source, and later calls reuse the rows.

        If a later call requests other keys, they are extracted from the kept rows.

        Args:
            pairs: The keys of the ON condition.
            max_keys: The maximum number of rows whose keys the driver collects, if it is greater than MAX_COLLECTED_KEYS.
            prepare: A function that converts source rows to table rows before their matches are known. None: no conversion. Only the
                first result has these prepared rows. They may not fit the table's schema when a new attempt follows a conflict, so a later
                call returns the kept source rows without them.
        """
        if self._kept_source is None:
            source = evaluate_source(self.frame, self.alias, pairs, max_keys=max_keys, prepare=prepare)
            self._kept_source = replace(source, prepared_rows=None)  # only for this attempt
            return source
        if tuple(key.pair for key in self._kept_source.keys) != pairs:
            kept_rows = self._kept_source.frame.drop(ORDINAL)  # the new source numbers its rows itself
            self._kept_source = evaluate_source(kept_rows, self.alias, pairs, max_keys=max_keys)
        return self._kept_source


def _evaluate_prepared(checkpoint: _Checkpoint, schema: Struct, max_keys: int, prepare: Prepare) -> Source | None:
    """Evaluate a source in a job that returns rows already converted to table rows, so that the driver can write them without another job.

    The row count is unknown until the job ends. So each task returns only its first rows. If these are all rows, the result has them as
    `prepared_rows`. Otherwise, only their keys are used.

    Args:
        checkpoint: The source rows, which executors keep. The first job that reads its `observed_rows` evaluates and counts them.
        schema: The source columns without keys.
        max_keys: See `evaluate_source`.
        prepare: The function that converts source rows to table rows.

    Returns:
        The source, or None if the job failed: the cause may be the conversion of a row that the statement does not write.
    """
    is_first_row = in_share_of_task(MAX_PREPARED_ROWS) + and_short_texts(schema, MAX_PREPARED_TEXT_BYTES)
    first_rows = checkpoint.observed_rows.where(is_first_row)
    try:
        prepared_rows = with_nullable_fields(prepare(first_rows.alias(checkpoint.alias), checkpoint.key_columns)).toArrow()
    except PySparkException:
        return None
    source = checkpoint.to_source(schema, prepared_rows, max_keys)
    if prepared_rows.num_rows != source.row_count:
        return source
    return replace(source, prepared_rows=prepared_rows.drop_columns(checkpoint.key_columns))


def _evaluate_unprepared(checkpoint: _Checkpoint, schema: Struct, max_keys: int) -> Source:
    """Evaluate a source in a job that returns unconverted source rows. See `_evaluate_prepared` for the arguments."""
    key_rows, local_rows = _collect_keys_and_rows(checkpoint.observed_rows, checkpoint.key_columns, schema)
    source = checkpoint.to_source(schema, key_rows, max_keys)
    if local_rows is None or local_rows.num_rows < source.row_count:
        return source  # too many rows for the driver: the job has returned only the first rows of each task
    return replace(source, frame=frame_of(source.frame.sparkSession, local_rows, _with_ordinal(schema)), local_rows=local_rows)


def _collect_keys_and_rows(rows: DataFrame, key_columns: Sequence[str], schema: Struct) -> tuple[pa.Table, pa.Table | None]:
    """Collect the keys of many source rows, and all columns of a few source rows, in the job that evaluates the source.

    The driver prunes target files by the keys, and keeps all rows of a small source. The row count is unknown until the job ends. So each
    task returns its first rows, and the caller then compares their number with the row count.

    Both tables are packed into the result of one job. For example, the source has the columns `id` and `name`, and `id` is the key:

    - A row of both tables is (key 7, ORDINAL 0, [{id: 7, name: "a", ORDINAL: 0}]).
    - A row of only the first table is (key 8, ORDINAL 1000, NULL).

    Args:
        rows: The source rows with ORDINAL (the number of the row, which contains the index of its task) and key columns.
        key_columns: The names of the key columns. If there are none, the job returns only the rows of the second table.
        schema: The columns of the source.

    Returns:
        Two tables. The first contains the key columns and ORDINAL of the rows that `_RETURNED_KEY_SQL` selects. The second contains all
        columns and ORDINAL of the rows of a small source. It is None if conversion to Arrow changes values (`is_unchanged_by_arrow`).
    """
    can_return_rows = is_unchanged_by_arrow(schema)
    # The second table has only the first rows of the first tasks, so that it fits in the driver even if the source is large.
    local_row_sql = f"{ROW_INDEX} < {MAX_LOCAL_ROWS} and {TASK_INDEX} < {MAX_LOCAL_TASKS}"
    if can_return_rows:
        local_row_sql += and_short_texts(schema, MAX_LOCAL_TEXT_BYTES)
    returned_rows = rows.where(local_row_sql)
    if key_columns:
        short_keys = and_short_texts(schema_of(rows.select(*key_columns)), MAX_RETURNED_KEY_TEXT)
        returned_rows = rows.where(f"{_RETURNED_KEY_SQL}{short_keys} or {local_row_sql}")
    if not can_return_rows:
        return returned_rows.select(*key_columns, ORDINAL).toArrow(), None
    columns_sql = ", ".join(backquote(name) for name in (*schema.names, ORDINAL))
    # A NULL in the array column takes less space than a NULL in each column of the second table.
    row_array_sql = f"if({local_row_sql}, array(struct({columns_sql})), null) as {_ROW}"
    keys_and_rows = returned_rows.selectExpr(*key_columns, ORDINAL, row_array_sql).toArrow()
    return keys_and_rows, pa.Table.from_struct_array(pc.list_flatten(keys_and_rows[_ROW]))


def _with_ordinal(schema: Struct) -> Struct:
    return Struct((*schema, Field(ORDINAL, Primitive("long"))))


def max_collected_keys(fields: Sequence[Field]) -> int:
    """Return the maximum number of rows whose keys the driver collects, given the types of the keys. Lengths of strings are ignored."""
    have_fixed_width = all(isinstance(field.type, Primitive) and field.type not in TEXT_TYPES for field in fields)
    return MAX_KEYS_WITHOUT_JOIN if have_fixed_width else MAX_COLLECTED_KEYS


def unevaluated(frame: DataFrame) -> Source:
    """Return a source without keys or a row count, with which Spark can analyse a statement. No job reads its rows."""
    return Source(frame.withColumn(ORDINAL, F.lit(0)), schema_of(frame), 0, ())


def _is_small(row_count: int, schema: Struct) -> bool:
    """Return whether the estimated size of the rows is small enough for Spark to broadcast them."""
    return row_count * estimated_row_bytes(schema) <= MAX_BROADCAST_BYTES
