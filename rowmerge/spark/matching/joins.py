"""Which target rows meet which source rows: the join of a MERGE, chosen by the size of the source."""

from __future__ import annotations

from dataclasses import dataclass

from pyroaring import BitMap64
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rowmerge.commands.rows import Match
from rowmerge.errors import UnknownColumn
from rowmerge.plan.expressions.conditions import Side
from rowmerge.plan.row_plan import RowPlan, SourceRows
from rowmerge.spark.failures import as_ours
from rowmerge.spark.source.source import Source
from rowmerge.spark.values.outcomes import Guarded, boolean, new_rows, outcome_rows
from rowmerge.table.metadata.engine_columns import FILE, ORDINAL, POSITION
from rowmerge.table.metadata.schema import backquote, string_literal

BOTH = f"({FILE} is not null and {ORDINAL} is not null)"
TARGET_ALONE = f"({FILE} is not null and {ORDINAL} is null)"
_SOURCE_ALONE = f"({FILE} is null and {ORDINAL} is not null)"


@dataclass(frozen=True)
class Join:
    """The first job of a MERGE. `leaves_unmatched`: the source rows that matched nothing are inserted by a second job; `ordinals`: it is
    told which source rows matched. `looked_up`: of the target there are only the rows that have a key of the source, and they are
    broadcast.
    """

    kind: str
    broadcast: bool
    leaves_unmatched: bool
    ordinals: bool = False
    looked_up: bool = False


def choose_join(plan: RowPlan, source: Source) -> Join:
    """A small source is broadcast and never joined outer on its own side; a large one takes one join for everything."""
    by_source = bool(plan.of(Match.NOT_MATCHED_BY_SOURCE))
    inserts = plan.source_rows is SourceRows.UNMATCHED
    if source.broadcastable or plan.source_rows is SourceRows.ALL:
        return Join("left" if by_source else "inner", source.broadcastable, inserts, inserts)
    kind = {(False, False): "inner", (True, False): "left", (False, True): "right", (True, True): "full"}[by_source, inserts]
    return Join(kind, False, False)


def changes_all_rows(plan: RowPlan) -> bool:
    """Return whether every target row without a match is deleted or updated.

    The source of such a plan usually has about as many rows as the target, and no key of the source leaves a file unread.
    """
    unconditional = any(clause.condition is None for clause in plan.of(Match.NOT_MATCHED_BY_SOURCE))
    return unconditional and plan.on is not None and plan.source_rows is not SourceRows.ALL and plan.whole_files is None


def join_looked_up(plan: RowPlan) -> Join:
    """One join for everything: few rows of the target, which are sent to where the source lies."""
    inserts = plan.source_rows is SourceRows.UNMATCHED
    return Join("right" if inserts else "inner", False, False, inserts, looked_up=True)


def joined_rows(plan: RowPlan, join: Join, target: DataFrame, source: Source) -> DataFrame:
    """Target joined to source on the plan's condition, under the plan's aliases."""
    assert plan.on is not None and plan.source is not None
    left, right = target.alias(plan.target.alias), source.frame.alias(plan.source.alias)
    if join.looked_up:
        return F.broadcast(left).join(source.parted.alias(plan.source.alias), F.expr(boolean(plan.on.text)), join.kind)
    return left.join(F.broadcast(right) if join.broadcast else right, F.expr(boolean(plan.on.text)), join.kind)


def check_visibility(plan: RowPlan, target: DataFrame, source: Source) -> None:
    """A clause about rows of one side names columns of that side alone, though the joined rows have both.

    Raises UnknownColumn, and what Spark's analysis raises.
    """
    assert plan.source is not None
    _check_alone(plan, Match.NOT_MATCHED_BY_SOURCE, target, plan.target)
    _check_alone(plan, Match.NOT_MATCHED, source.frame, plan.source)


def _check_alone(plan: RowPlan, match: Match, frame: DataFrame, side: Side) -> None:
    clauses = plan.of(match)
    if not clauses:
        return
    texts = {text for clause in clauses for text in clause.values.values()}
    texts |= {f"case when {boolean(clause.condition)} then 1 end" for clause in clauses if clause.condition is not None}
    try:
        analysed = frame.alias(side.alias).selectExpr(*sorted(texts))
        assert len(analysed.schema) == len(texts)  # Spark Connect analyses no sooner than it must
    except PySparkException as error:
        ours = as_ours(error, plan.table, plan.table)
        if isinstance(ours, UnknownColumn):
            where = f"{match.value}, which sees {'the target' if match is Match.NOT_MATCHED_BY_SOURCE else 'the source'} only"
            raise UnknownColumn(ours.name, side.columns, where=where) from error
        raise


def merge_outcomes(plan: RowPlan, join: Join, rows: DataFrame, *, before: bool = False, lineage: bool = False) -> DataFrame:
    """The outcome rows of the join, with `before` the target rows as they were too, with `lineage` the table's hidden columns."""
    cases: list[Guarded] = [(BOTH, clause) for clause in plan.of(Match.MATCHED)]
    cases += [(TARGET_ALONE, clause) for clause in plan.of(Match.NOT_MATCHED_BY_SOURCE)]
    if not join.leaves_unmatched and plan.source_rows is SourceRows.UNMATCHED:
        cases += [(_SOURCE_ALONE, clause) for clause in plan.of(Match.NOT_MATCHED)]
    return outcome_rows(rows, plan, cases, addresses=True, ordinals=join.ordinals, before=before, lineage=lineage)


def unmatched_rows(plan: RowPlan, source: Source, matched: BitMap64) -> DataFrame:
    """The rows that the NOT MATCHED clauses make of the source rows that matched nothing."""
    assert plan.source is not None
    rows = source.without(matched).alias(plan.source.alias)
    return new_rows(rows, plan, plan.of(Match.NOT_MATCHED))


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
