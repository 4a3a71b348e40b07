"""docs/conflicts.md contains the results of the conflict matrices."""

from __future__ import annotations

from pathlib import Path

from tests.unit.conflicts_page import document


def test_the_page_is_generated_from_the_tables() -> None:
    page = Path(__file__).parents[2] / "docs" / "conflicts.md"
    assert page.read_text(encoding="utf-8") == document(), "run: python -m tests.unit.conflicts_page > docs/conflicts.md"
