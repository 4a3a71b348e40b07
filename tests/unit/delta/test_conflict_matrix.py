"""Every pair of commands as winner and loser of a race, on what they may have in common, under both isolation levels."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowmerge.delta.commits import conflicts
from tests.unit.delta.conflict_matrix import RACES, endings, expected


@pytest.mark.one_of("relation", "level")
@pytest.mark.parametrize(("winner", "level", "relation"), RACES)
def test_races_end_as_the_table_says_and_as_if_one_came_after_the_other(tmp_path: Path, winner: str, level: str, relation: str) -> None:
    signs = {}
    for loser, ending in endings(tmp_path, winner, level, relation).items():
        signs[loser] = ending.sign
        orders = [ending.in_order]
        if level == "WriteSerializable" and winner == "append":
            orders.append(ending.other_order)
        assert ending.rows in orders, f"{winner}, then {loser}"
    assert signs == expected(level, winner, relation)


@pytest.mark.parametrize(
    ("rule", "winner", "loser", "relation", "without"),
    [
        ("protocol_conflict", "protocol", "append", "other partition", "M"),
        ("metadata_conflict", "metadata", "append", "other partition", "."),
        ("added_rows_conflict", "insert-only merge", "insert-only merge", "same rows", "."),
        ("removed_rows_conflict", "delete", "insert-only merge", "same rows", "."),
        ("double_removal_conflict", "delete", "delete", "same rows", "+"),
    ],
)
def test_no_rule_can_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str, winner: str, loser: str, relation: str, without: str
) -> None:
    monkeypatch.setattr(conflicts, "RULES", [known for known in conflicts.RULES if known.__name__ != rule])
    assert endings(tmp_path, winner, "WriteSerializable", relation)[loser].sign == without
