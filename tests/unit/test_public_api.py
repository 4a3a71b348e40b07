"""The public API changes only on purpose."""

from __future__ import annotations

from pathlib import Path

from tests.unit.public_api import lines

LIST = Path(__file__).with_name("public_api.txt")


def test_the_public_api_equals_the_list() -> None:
    message = "the public API changed: add the change to CHANGELOG.md, and run python -m tests.unit.public_api > tests/unit/public_api.txt"
    assert LIST.read_text(encoding="utf-8").splitlines() == list(lines()), message
