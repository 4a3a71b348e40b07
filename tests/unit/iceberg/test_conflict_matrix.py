"""Every pair of commands on Iceberg tables as winner and loser of a race, under both isolation levels."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowmerge.iceberg.commits import conflicts
from tests.unit.iceberg.conflict_matrix import RACES, endings, expected


@pytest.mark.one_of("relation", "level")
@pytest.mark.parametrize(("winner", "level", "format_version", "relation"), RACES)
def test_races_end_as_documented_and_serializable(tmp_path: Path, winner: str, level: str, format_version: int, relation: str) -> None:
    signs = {}
    for loser, ending in endings(tmp_path, winner, level, relation, format_version).items():
        signs[loser] = ending.sign
        orders = [ending.in_order]
        if level == "snapshot" and winner == "append":
            orders.append(ending.other_order)
        assert ending.rows in orders, f"{winner}, then {loser}"
    assert signs == expected(level, winner, relation)


@pytest.mark.parametrize(
    ("rule", "winner", "loser", "relation", "without"),
    [
        ("added_rows_conflict", "insert-only merge", "insert-only merge", "same rows", "."),
        ("removed_rows_conflict", "delete", "insert-only merge", "same rows", "."),
        ("double_removal_conflict", "delete", "delete", "same rows", "+"),
    ],
)
def test_each_conflict_rule_is_necessary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str, winner: str, loser: str, relation: str, without: str
) -> None:
    monkeypatch.setattr(conflicts, "RULES", [other for other in conflicts.RULES if other.__name__ != rule])
    assert endings(tmp_path, winner, "serializable", relation)[loser].sign == without


def test_other_conflict_rules_are_tested_separately() -> None:
    """Tests of the other rules are in tests/unit/iceberg/test_commit_races.py."""
    rules_of_commit_races = {"transaction_conflict", "moved_rows_conflict", "equality_deletes_conflict"}
    iceberg_rules = {"added_rows_conflict", "removed_rows_conflict", "double_removal_conflict"}
    assert {rule.__name__ for rule in conflicts.RULES} == iceberg_rules | rules_of_commit_races
