"""Every sentence of docs/guarantees.md has a footnote with a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guarantees.md"
FOOTNOTE = re.compile(r"^\[\^(\d+)\]: `(tests/[^`]+)`: `(\w+)`$", re.MULTILINE)
REFERENCE = re.compile(r"\[\^(\d+)\](?!:)")


def test_each_footnote_names_a_test_of_its_file() -> None:
    footnotes = FOOTNOTE.findall(PAGE.read_text(encoding="utf-8"))
    assert len(footnotes) > 30
    for _, path, test in footnotes:
        source = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^(    )?def {test}\(", source, re.MULTILINE), f"{path} has no test {test}"


def test_the_references_and_their_footnotes_are_numbered_from_one() -> None:
    text = PAGE.read_text(encoding="utf-8")
    numbers = [int(number) for number in REFERENCE.findall(text)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert numbers == [int(number) for number, _, _ in FOOTNOTE.findall(text)]


def test_each_sentence_of_a_list_has_a_footnote_unless_nothing_is_guaranteed() -> None:
    text = PAGE.read_text(encoding="utf-8").split("## What is not guaranteed")[0]
    items = re.findall(r"^- .*?(?=^- |^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(items) > 15
    assert [item for item in items if not REFERENCE.search(item)] == []
