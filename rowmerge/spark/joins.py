"""Which target rows meet which source rows: the join of a MERGE, chosen by the size of the source."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rowmerge.commands.rows import Match
from rowmerge.plan.row_plan import Clause, RowPlan, SourceRows
from rowmerge.spark.outcomes import Guarded, new_rows, outcome_rows
from rowmerge.spark.scan import FILE, POSITION
from rowmerge.spark.source import ORDINAL, Source
from rowmerge.spark.types import frame_of
from rowmerge.table.schema import backquote, string_literal

BOTH = f"({FILE} is not null and {ORDINAL} is not null)"
TARGET_ALONE = f"({FILE} is not null and {ORDINAL} is null)"
_SOURCE_ALONE = f"({FILE} is null and {ORDINAL} is not null)"


@dataclass(frozen=True)
class Join:
    """The first job of a MERGE. `leaves_unmatched`: matched source ordinals come back, and the rest is inserted by a second job."""

    kind: str
    broadcast: bool
    leaves_unmatched: bool


def choose_join(plan: RowPlan, source: Source) -> Join:
    """A small source is broadcast and never joined outer on its own side; a large one takes one join for everything."""
    by_source = bool(plan.of(Match.NOT_MATCHED_BY_SOURCE))
    inserts = plan.source_rows is SourceRows.UNMATCHED
    if source.broadcastable or plan.source_rows is SourceRows.ALL:
        return Join("left" if by_source else "inner", source.broadcastable, inserts)
    kind = {(False, False): "inner", (True, False): "left", (False, True): "right", (True, True): "full"}[by_source, inserts]
    return Join(kind, False, False)


def joined_rows(plan: RowPlan, join: Join, target: DataFrame, source: Source) -> DataFrame:
    """Target joined to source on the plan's condition, under the plan's aliases."""
    assert plan.on is not None and plan.source is not None
    right = source.frame.alias(plan.source.alias)
    return target.alias(plan.target.alias).join(F.broadcast(right) if join.broadcast else right, F.expr(plan.on.text), join.kind)


def merge_outcomes(plan: RowPlan, join: Join, rows: DataFrame, *, before: bool = False) -> DataFrame:
    """The outcome rows of the join, with `before` the target rows as they were too."""
    cases: list[Guarded] = [(BOTH, clause) for clause in plan.of(Match.MATCHED)]
    cases += [(TARGET_ALONE, clause) for clause in plan.of(Match.NOT_MATCHED_BY_SOURCE)]
    if not join.leaves_unmatched and plan.source_rows is SourceRows.UNMATCHED:
        cases += [(_SOURCE_ALONE, clause) for clause in plan.of(Match.NOT_MATCHED)]
    return outcome_rows(rows, plan, cases, addresses=True, ordinals=join.leaves_unmatched, before=before)


def unmatched_rows(spark: SparkSession, plan: RowPlan, source: Source, matched: BitMap64) -> DataFrame:
    """The rows that the NOT MATCHED clauses make of the source rows that matched nothing."""
    assert plan.source is not None
    rows = source.frame.alias(plan.source.alias)
    if matched:
        ordinals = pa.table({"matched": pa.array(np.array(matched.to_array(), dtype=np.uint64).astype(np.int64))})
        known = F.broadcast(frame_of(spark, ordinals))
        rows = rows.join(known, F.col(ORDINAL) == F.col("matched"), "left_anti")
    clauses: tuple[Clause, ...] = plan.of(Match.NOT_MATCHED)
    return new_rows(rows, plan, clauses)


def repeated_keys(plan: RowPlan, rows: DataFrame) -> list[str]:
    """Up to five keys of target rows that more than one source row would change: the target's columns of the ON condition."""
    assert plan.on is not None
    columns = list(dict.fromkeys(key.column for key in plan.on.keys)) or list(plan.target.columns[:3])
    target = backquote(plan.target.alias)
    shown = ", ', ', ".join(
        f"{string_literal(column + ' = ')}, coalesce(cast({target}.{backquote(column)} as string), 'NULL')" for column in columns
    )
    keyed = rows.withColumn("__rowmerge_shown", F.expr(f"concat({shown})"))
    guarded = [("true", clause) for clause in plan.of(Match.MATCHED)]
    fired = " or ".join(f"({clause.condition})" if clause.condition else "true" for _, clause in guarded) or "false"
    hit = keyed.where(F.expr(fired)).groupBy(FILE, POSITION)
    counted = hit.agg(F.count(F.lit(1)).alias("hits"), F.first("__rowmerge_shown").alias("keys")).where("hits > 1")
    return [row["keys"] for row in counted.orderBy("keys").limit(5).select("keys").collect()]
