"""Every pair of commands as winner and loser of a race, for each overlap and both isolation levels."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowmerge.delta.commits import conflicts
from tests.unit.delta.conflict_matrix import RACES, endings, expected


@pytest.mark.one_of("relation", "level")
@pytest.mark.parametrize(("winner", "level", "relation"), RACES)
def test_races_end_as_documented_and_serializable(tmp_path: Path, winner: str, level: str, relation: str) -> None:
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
def test_each_conflict_rule_is_necessary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str, winner: str, loser: str, relation: str, without: str
) -> None:
    monkeypatch.setattr(conflicts, "RULES", [other for other in conflicts.RULES if other.__name__ != rule])
    assert endings(tmp_path, winner, "WriteSerializable", relation)[loser].sign == without
