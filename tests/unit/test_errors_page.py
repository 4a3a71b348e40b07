"""Each error class states its cause and its remedy, and docs/errors.md shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.errors_page import RAISED, document, entry, exception_classes

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"


def test_the_page_is_generated_from_the_docstrings() -> None:
    assert PAGE.read_text(encoding="utf-8") == document(), "run: python -m tests.unit.errors_page > docs/errors.md"


@pytest.mark.parametrize("error", exception_classes(), ids=lambda error: error.__name__)
def test_a_class_states_its_cause_and_its_remedy(error: type[Exception]) -> None:
    content = entry(error)
    assert content.cause.startswith(RAISED)
    assert content.remedy.endswith(".")
    assert f" {error.__name__}\n\n{content.cause[:40]}" in PAGE.read_text(encoding="utf-8"), "the page lacks this class"
