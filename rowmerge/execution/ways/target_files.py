"""File pruning: select the data files that a row-level statement reads, by its conditions and by the keys of its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.commands.rows import Match
from rowmerge.plan.bounds.bounds import comparison_field
from rowmerge.plan.pruning.file_pruning import KeyRange, all_of, key_mask, range_mask
from rowmerge.plan.pruning.key_ranges import key_condition
from rowmerge.plan.row_plan import RowPlan
from rowmerge.spark.reading.metadata_columns import FilesWithMetadataColumns
from rowmerge.spark.source.keys import SourceKey, cast_key_values
from rowmerge.spark.source.source import Source
from rowmerge.table.metadata.schema import Field, Struct
from rowmerge.table.snapshots.files import FileListing, FileMask
from rowmerge.table.snapshots.snapshot import Snapshot


@dataclass(frozen=True)
class TargetFiles:
    """The data files that one statement reads.

    Attributes:
        listing: All live files.
        candidates: The files that may contain rows to change.
        removable: The candidates that the statement removes without reading them, because all their rows leave the table.
        to_read: The remaining candidates, which the statement reads.
        mask: The function that selects the candidates. The commit also applies it to the files of concurrent commits.
        columns: The columns whose bounds `mask` compares.
    """

    listing: FileListing
    candidates: FileListing
    removable: FileListing
    to_read: FileListing
    mask: FileMask
    columns: tuple[str, ...]


@dataclass(frozen=True)
class PruningKey:
    """A key of the ON condition whose source values exclude files and rows of the target.

    `key`: the key with its values in the source. `column`: the column or nested field of the target, whose columns are `schema`. `values`:
    the distinct source values, cast to the type of `column`, or None if only their range is known.
    """

    key: SourceKey
    column: Field
    schema: Struct
    values: pa.Array | None

    def file_mask(self, snapshot: Snapshot) -> tuple[FileMask, Sequence[str]]:
        """Return the mask of the files that may contain a source value, and the columns whose bounds the mask reads."""
        key, pair = self.key, self.key.pair
        if self.values is not None:
            return key_mask(pair.path, pair.op, self.values, key.has_null, self.schema, snapshot.partition_columns)
        key_range = KeyRange(least=key.low, greatest=key.high, has_null=key.has_null)
        return range_mask(pair.path, pair.op, key_range, self.schema, snapshot.partition_columns)

    def row_condition(self) -> str | None:
        """Return a SQL condition that every matching target row fulfils, or None if the key implies no condition."""
        key, values = self.key, self.values
        if values is None:
            assert key.low is not None and key.high is not None  # else `_pruning_key` returns None
            values = pa.array([key.low, key.high], key.low.type).drop_null()
        return key_condition(key.pair.path, self.column, key.pair.op, values, key.has_null, values_are_ends=self.values is None)


def pruning_keys(snapshot: Snapshot, plan: RowPlan, source: Source) -> list[PruningKey]:
    """Return the keys that exclude target rows, or an empty list if the plan also changes target rows without a match.

    Args:
        snapshot: The version of the table that the statement changes.
        plan: The plan of the statement.
        source: The evaluated source, with the values of its keys.
    """
    if plan.of(Match.NOT_MATCHED_BY_SOURCE):
        return []
    columns = Struct((*snapshot.schema, *plan.metadata_columns))
    keys = (_pruning_key(columns, key) for key in source.keys)
    return [key for key in keys if key is not None]


def _pruning_key(columns: Struct, key: SourceKey) -> PruningKey | None:
    """Return the pruning key for a key of the source, or None if its values cannot be compared with the bounds of target files.

    The result is None if neither the key values nor their range are known, or if they do not fit the target column's type.
    """
    column = comparison_field(columns, key.pair.path)
    if column is None:
        return None
    if key.values is None:
        has_comparable_range = key.low is not None and key.type == column.type
        return PruningKey(key, column, columns, values=None) if has_comparable_range else None  # only the range is known
    values = cast_key_values(key.values, key.pair.op, key.type, column.type)
    return None if values is None else PruningKey(key, column, columns, values=values)


def target_files(snapshot: Snapshot, plan: RowPlan, keys: Sequence[PruningKey], *, writes_change_rows: bool) -> TargetFiles:
    """List the files that may contain rows to change, by the conditions of the plan and by the keys.

    A mask is a function that returns a boolean for each file of a listing. It is false if the partition values or the column bounds of
    the file exclude the condition. A file must pass the mask of the statement's conditions and the mask of each key.

    Args:
        snapshot: The version of the table that the statement changes.
        plan: The plan of the statement.
        keys: The keys of the source that exclude files. Empty before the source is evaluated.
        writes_change_rows: Whether the commit writes files of change rows.

    Returns:
        All live files, the files that the statement reads, and the files that it removes without reading them.

    Raises:
        UnsupportedTableFeature: The metadata list a file that the statement reads more than once.
    """
    mask, bound_columns = _file_mask(snapshot, plan, keys)
    listing = FilesWithMetadataColumns(snapshot, plan.metadata_columns).files(bound_columns)
    candidates = listing.filter(mask(listing))
    removable = _removable_files(plan, candidates, writes_change_rows=writes_change_rows)
    is_removable = pc.is_in(candidates.rows["path"], value_set=removable.rows["path"].combine_chunks())
    to_read = candidates.filter(pc.invert(is_removable))
    to_read.check_listed_once(snapshot.name)
    return TargetFiles(listing, candidates, removable, to_read, mask=mask, columns=bound_columns)


def _file_mask(snapshot: Snapshot, plan: RowPlan, keys: Sequence[PruningKey]) -> tuple[FileMask, tuple[str, ...]]:
    """Return the mask of the files that the plan's conditions and all keys admit, and the columns whose bounds the mask compares."""
    condition_mask = plan.files
    key_masks = [key.file_mask(snapshot) for key in keys]
    mask = all_of([condition_mask, *(key_mask for key_mask, _ in key_masks)])
    columns = [*plan.bound_columns, *(column for _, key_columns in key_masks for column in key_columns)]
    return mask, tuple(dict.fromkeys(columns))


def _removable_files(plan: RowPlan, candidates: FileListing, *, writes_change_rows: bool) -> FileListing:
    """Return the candidates whose rows all leave the table, so that the commit removes the files without reading them."""
    if plan.whole_files is None:
        return candidates.without_files()
    removable = candidates.filter(plan.whole_files(candidates))
    # Once a commit has change rows, readers of the change feed ignore its removed files. So all candidates are removed, or none.
    return candidates.without_files() if writes_change_rows and len(removable) < len(candidates) else removable
