"""The join of a MERGE between target and source rows, chosen by the size of the source.

The same join finds the files of concurrent commits that contain rows that a command would have changed or matched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F

from rowmerge.commands.rows import Match
from rowmerge.errors import MissingDataFile, UnknownColumn
from rowmerge.plan.expressions.sides import Side
from rowmerge.plan.row_plan import Clause, RowPlan, SourceRows
from rowmerge.spark.failures import rowmerge_error
from rowmerge.spark.reading.data_files import spark_path
from rowmerge.spark.reading.scan import read_snapshot
from rowmerge.spark.source.source import Source
from rowmerge.spark.values.outcomes import GuardedClause, OutcomeShape, as_boolean, condition_of, new_rows, outcome_rows
from rowmerge.table.metadata.engine_columns import FILE, ORDINAL, POSITION
from rowmerge.table.metadata.schema import backquote, string_literal
from rowmerge.table.snapshots.files import FileListing
from rowmerge.table.snapshots.snapshot import Snapshot

_IS_MATCH = f"({FILE} is not null and {ORDINAL} is not null)"
_IS_UNMATCHED_TARGET = f"({FILE} is not null and {ORDINAL} is null)"
_IS_UNMATCHED_SOURCE = f"({FILE} is null and {ORDINAL} is not null)"


@dataclass(frozen=True)
class Join:
    """The join of target and source in the first job of a MERGE.

    `kind`: Spark's join type. `leaves_unmatched_source`: whether a second job inserts the source rows without a match.
    `returns_ordinals`: whether the job returns the ordinal (the identifying number) of each matching source row, even if no clause fires
    for the match. `broadcasts_target`: whether the target's side contains only rows with a key of the source, and Spark broadcasts these
    rows.
    """

    kind: str
    leaves_unmatched_source: bool = False
    returns_ordinals: bool = False
    broadcasts_target: bool = False


def choose_join(plan: RowPlan, source: Source) -> Join:
    """Choose the join of a MERGE: a broadcast join for a small source, or a single join with all results for a large source.

    The target is the left side of the join, and the source is the right side.

    Spark cannot broadcast the source in a join that keeps source rows without a match. So a broadcast join leaves these rows to a second
    job, and returns the ordinals of matching source rows. The second job inserts the source rows whose ordinals the first job did not
    return.

    Args:
        plan: The plan of a statement with a source.
        source: The source of the statement.
    """
    changes_unmatched_target = bool(plan.of(Match.NOT_MATCHED_BY_SOURCE))
    inserts_unmatched_source = plan.source_rows is SourceRows.UNMATCHED
    if inserts_unmatched_source and not source.is_broadcastable:
        return Join("full" if changes_unmatched_target else "right")
    kind = "left" if changes_unmatched_target else "inner"
    return Join(kind, leaves_unmatched_source=inserts_unmatched_source, returns_ordinals=inserts_unmatched_source)


def changes_all_rows(plan: RowPlan) -> bool:
    """Return whether every target row without a match is deleted or updated.

    The source of such a plan usually has about as many rows as the target. Its keys do not allow any file to be skipped.
    """
    unconditional = any(clause.condition is None for clause in plan.of(Match.NOT_MATCHED_BY_SOURCE))
    return unconditional and plan.on is not None and plan.source_rows is not SourceRows.ALL and plan.whole_files is None


def looked_up_target_join(plan: RowPlan, *, broadcasts_target: bool) -> Join:
    """Return a single join with all results, for target rows that a lookup found.

    Args:
        plan: The plan of a statement with a source.
        broadcasts_target: Whether the target rows are so few that Spark broadcasts them. Otherwise, Spark decides on it when it knows them.
    """
    inserts_unmatched_source = plan.source_rows is SourceRows.UNMATCHED
    kind = "right" if inserts_unmatched_source else "inner"
    return Join(kind, returns_ordinals=inserts_unmatched_source, broadcasts_target=broadcasts_target)


def join_of_target_rows(plan: RowPlan, *, broadcasts_target: bool = False) -> Join:
    """Return a join without source rows that match nothing. A second job inserts these, by the ordinals that the join returns.

    Args:
        plan: The plan of a statement with a source.
        broadcasts_target: Whether the target rows are so few that Spark broadcasts them.
    """
    inserts_unmatched_source = plan.source_rows is SourceRows.UNMATCHED
    kind = "left" if plan.of(Match.NOT_MATCHED_BY_SOURCE) else "inner"
    return Join(kind, inserts_unmatched_source, returns_ordinals=inserts_unmatched_source, broadcasts_target=broadcasts_target)


def joined_rows(plan: RowPlan, join: Join, target: DataFrame, source: Source) -> DataFrame:
    """Join the target to the source on the plan's condition, under the plan's aliases.

    Args:
        plan: The plan of a statement with a source.
        join: The kind of the join, and the side that Spark broadcasts.
        target: The rows of the target, or only the rows that have a key of the source.
        source: The rows of the source.
    """
    assert plan.on is not None and plan.source is not None
    target_rows, on_condition = target.alias(plan.target.alias), F.expr(as_boolean(plan.on.text))
    if join.broadcasts_target:
        # A lookup has found only a few target rows, and the source may be large. So Spark broadcasts the target. The rows of the source may
        # all be in one task. `parallel_rows` divides them among several tasks.
        return F.broadcast(target_rows).join(source.parallel_rows.alias(plan.source.alias), on_condition, join.kind)
    source_rows = source.frame.alias(plan.source.alias)
    # Spark cannot broadcast the right side of a right join.
    right_side = F.broadcast(source_rows) if source.is_broadcastable and join.kind != "right" else source_rows
    return target_rows.join(right_side, on_condition, join.kind)


def check_scopes(plan: RowPlan, target: DataFrame, source: Source) -> None:
    """Check that WHEN NOT MATCHED clauses use only source columns, and NOT MATCHED BY SOURCE clauses only target columns.

    Spark analyses the conditions and values of the clauses, but runs no job.

    Args:
        plan: The plan of a statement with a source.
        target: A frame with the target's columns.
        source: The source of the statement.

    Raises:
        UnknownColumn: A clause names a column that its side lacks. Other errors of Spark's analysis pass through.
    """
    assert plan.source is not None
    _check_clauses_of_side(plan, Match.NOT_MATCHED_BY_SOURCE, target, plan.target)
    _check_clauses_of_side(plan, Match.NOT_MATCHED, source.frame, plan.source)


def _check_clauses_of_side(plan: RowPlan, match: Match, frame: DataFrame, side: Side) -> None:
    """Raise UnknownColumn if a clause of `match` names a column that the rows of its side lack. Spark's other errors pass through."""
    clauses = plan.of(match)
    if not clauses:
        return
    try:
        query = frame.alias(side.alias).selectExpr(*sorted(_expressions_of(clauses)))
        query.schema  # noqa: B018  Spark Connect analyses a query only when its schema is read; no job runs
    except PySparkException as error:
        translated_error = rowmerge_error(error, text=plan.table, table=plan.table)
        if not isinstance(translated_error, UnknownColumn):
            raise
        visible_side = "the target" if match is Match.NOT_MATCHED_BY_SOURCE else "the source"
        raise UnknownColumn(translated_error.name, side.columns, where=f"{match.value}, which can read only {visible_side}") from error


def _expressions_of(clauses: Sequence[Clause]) -> set[str]:
    """Return SQL for the values and conditions of clauses. Each condition is inside a CASE expression, as in `outcome_rows`."""
    values = {value for clause in clauses for value in clause.values.values()}
    conditions = {f"case when {as_boolean(clause.condition)} then 1 end" for clause in clauses if clause.condition is not None}
    return values | conditions


def merge_outcomes(
    plan: RowPlan,
    join: Join,
    target: DataFrame,
    source: Source,
    *,
    old_values: bool = False,
    lineage: bool = False,
    late_columns: frozenset[str] = frozenset(),
) -> DataFrame:
    """Join the target to the source, and return the outcome rows: each row with the action and the new values of the clause that fires.

    Args:
        plan: The plan of a statement with a source.
        join: The join of target and source.
        target: The rows of the target with their addresses.
        source: The source. If `join` omits source rows without a match, a later job inserts them.
        old_values: Whether to add the values of the target row (see `OutcomeShape`).
        lineage: Whether to add the lineage columns of the target row.
        late_columns: The columns that the writer reads (see `OutcomeShape`). Then `join` must leave new source rows to a later job.
    """
    shape = OutcomeShape(addresses=True, ordinals=join.returns_ordinals, old_values=old_values, lineage=lineage, late_columns=late_columns)
    return outcome_rows(joined_rows(plan, join, target, source), plan, _guarded_clauses(plan, join), shape)


def _guarded_clauses(plan: RowPlan, join: Join) -> list[GuardedClause]:
    """Return the clauses that apply to rows of the join. The guard of each is true for the rows of its kind, such as pairs of a match."""
    clauses: list[GuardedClause] = [(_IS_MATCH, clause) for clause in plan.of(Match.MATCHED)]
    clauses += [(_IS_UNMATCHED_TARGET, clause) for clause in plan.of(Match.NOT_MATCHED_BY_SOURCE)]
    # Otherwise, a later job inserts the source rows without a match, or (SourceRows.ALL) all source rows, or there is nothing to insert.
    if plan.source_rows is SourceRows.UNMATCHED and not join.leaves_unmatched_source:
        clauses += [(_IS_UNMATCHED_SOURCE, clause) for clause in plan.of(Match.NOT_MATCHED)]
    return clauses


def unmatched_rows(plan: RowPlan, source: Source, matched: BitMap64) -> DataFrame:
    """Return the outcome rows of the NOT MATCHED clauses for source rows without a match.

    Args:
        plan: The plan of a statement with a source.
        source: The source of the statement.
        matched: The ordinals of the source rows that match a target row.
    """
    assert plan.source is not None
    return new_rows(source.without(matched).alias(plan.source.alias), plan, plan.of(Match.NOT_MATCHED))


def repeated_keys(plan: RowPlan, target: DataFrame, source: Source) -> list[str]:
    """Return the keys of target rows that match several source rows, for an error message.

    The first job counts such rows, but does not return their keys. So this function joins the target to the source again.

    Args:
        plan: The plan of a statement with a source, with the rule of cardinality that decides which matches count.
        target: The rows of the target with their addresses.
        source: The source of the statement.

    Returns:
        Up to five strings such as `id = 1, day = NULL`. They show the target columns that the ON condition compares, or the first three
        columns if it compares none.
    """
    rows = _repeatedly_matched_rows(plan, target, source).orderBy("keys").limit(5)
    return [row["keys"] for row in rows.select("keys").collect()]


def count_repeated_matches(plan: RowPlan, target: DataFrame, source: Source) -> int:
    """Return the number of target rows that match several source rows.

    Args:
        plan: The plan of a statement with a source.
        target: The rows of the target with their addresses.
        source: The source of the statement.
    """
    return _repeatedly_matched_rows(plan, target, source).count()


def _repeatedly_matched_rows(plan: RowPlan, target: DataFrame, source: Source) -> DataFrame:
    """Return the target rows that match several source rows, with the column `keys`. See `repeated_keys` for the arguments."""
    assert plan.on is not None
    rows = joined_rows(plan, Join("inner"), target, source)
    shown_columns = list(dict.fromkeys(key.path for key in plan.on.keys)) or [(name,) for name in plan.target.columns[:3]]
    key_text = F.expr(_description_of(shown_columns, backquote(plan.target.alias)))
    change_condition = " or ".join(condition_of(clause) for clause in plan.of(Match.MATCHED)) or "false"  # no clause changes a matched row
    counted_condition = "true" if plan.counts_every_match else change_condition
    changes = rows.withColumn("__rowmerge_shown", key_text).where(F.expr(counted_condition))
    # The address (file and position) identifies a target row.
    target_rows = changes.groupBy(FILE, POSITION).agg(F.count(F.lit(1)).alias("change_count"), F.first("__rowmerge_shown").alias("keys"))
    return target_rows.where("change_count > 1")


def _description_of(paths: Sequence[Sequence[str]], alias: str) -> str:
    """Return SQL for a string with the names and values of columns and nested fields, such as `a = 1, b.c = NULL`."""
    values = {".".join(path): f"coalesce(cast({alias}.{'.'.join(map(backquote, path))} as string), 'NULL')" for path in paths}
    descriptions = [f"{string_literal(name + ' = ')}, {value}" for name, value in values.items()]
    return "concat(" + ", ', ', ".join(descriptions) + ")"


def relevant_file_mask(spark: SparkSession, snapshot: Snapshot, plan: RowPlan, source: Source | None, files: FileListing) -> pa.Array:
    """Return for each data file of concurrent commits whether it contains a row that the plan would change or match.

    Args:
        spark: The session that reads the files.
        snapshot: A snapshot with the schema of the files. The files need not belong to this snapshot.
        plan: The plan of the statement whose commit conflicts with the concurrent commits.
        source: The source; None for a statement without a source.
        files: The data files, which must have no deleted rows.

    Returns:
        A boolean for each of `files`. If Spark cannot read the files, or the plan uses metadata columns, all values are True.
    """
    if plan.metadata_columns:  # the snapshot does not know them for the files of later commits
        return pa.repeat(pa.scalar(True), len(files))
    try:
        rows = _relevant_rows(plan, read_snapshot(spark, snapshot, files, with_addresses=True), source)
        # FILE contains paths in the form of `spark_path`.
        relevant_paths = set(rows.select(F.col(FILE).alias("file")).distinct().toArrow()["file"].to_pylist())
    except (PySparkException, MissingDataFile):
        # The next attempt of the command encounters the same error, and reports it.
        return pa.repeat(pa.scalar(True), len(files))
    return pa.array([spark_path(path) in relevant_paths for path in files.paths], pa.bool_())


def _relevant_rows(plan: RowPlan, target: DataFrame, source: Source | None) -> DataFrame:
    """Return the rows that the plan would change, or that keep a source row from being inserted."""
    clauses_without_match = plan.of(Match.NOT_MATCHED_BY_SOURCE)
    if source is None or plan.on is None:
        conditions = [condition_of(clause) for clause in clauses_without_match]
        return target.alias(plan.target.alias).where(_any_of(conditions))
    conditions = [f"{_IS_UNMATCHED_TARGET} and {condition_of(clause)}" for clause in clauses_without_match]
    conditions += [f"{_IS_MATCH} and {condition_of(clause)}" for clause in plan.of(Match.MATCHED)]
    if plan.source_rows is SourceRows.UNMATCHED:
        conditions.append(_IS_MATCH)  # each match keeps its source row from being inserted
    return joined_rows(plan, Join("left" if clauses_without_match else "inner"), target, source).where(_any_of(conditions))


def _any_of(conditions: Sequence[str]) -> str:
    """Return SQL for the OR of conditions."""
    return " or ".join(f"({condition})" for condition in conditions)
