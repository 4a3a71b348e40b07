"""For each touched file: drop it, mark its deleted rows, or write it again without them."""

from __future__ import annotations

from enum import Enum

from rowmerge.table.metadata.settings import WriteMode

REWRITE_FRACTION = 0.2
"""From this share of deleted rows on, reading round them costs more, scan for scan, than one rewrite."""
SMALL_FILE = 4 * 1024 * 1024
"""Files up to this size in bytes are rewritten: that takes no longer than a deletion vector, and leaves a clean file."""


class Strategy(Enum):
    """What becomes of a file that lost rows."""

    KEEP = "keep"
    DROP = "drop"
    MARK = "deletion vector"
    REWRITE = "rewrite"


def choose_strategy(mode: WriteMode, *, can_mark: bool, records: int | None, deleted: int, newly_deleted: int, size: int) -> Strategy:
    """Return what happens to one file of `records` rows (None: unknown) and `size` bytes.

    `deleted` counts its deleted rows after the command, `newly_deleted` those of them that the command deletes.
    """
    if newly_deleted == 0:
        return Strategy.KEEP
    if records is not None and deleted >= records:
        return Strategy.DROP
    # Delta requires the number of rows of a file that has a deletion vector.
    if mode is WriteMode.COPY_ON_WRITE or not can_mark or records is None:
        return Strategy.REWRITE
    if mode is WriteMode.MERGE_ON_READ:
        return Strategy.MARK
    if size <= SMALL_FILE or deleted >= records * REWRITE_FRACTION:
        return Strategy.REWRITE
    return Strategy.MARK
