"""Every sentence of docs/guarantees.md links to a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guarantees.md"
LINK = re.compile(r'\[(\d+)\]\((\.\./tests/[^ )]+) "(\w+)"\)')


def test_each_link_names_a_test_of_its_file() -> None:
    links = LINK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(links) > 30
    for _, path, test in links:
        source = (PAGE.parent / path).resolve().read_text(encoding="utf-8")
        assert re.search(rf"^(    )?def {test}\(", source, re.MULTILINE), f"{path} has no test {test}"


def test_the_links_are_numbered_from_one() -> None:
    numbers = [int(number) for number, _, _ in LINK.findall(PAGE.read_text(encoding="utf-8"))]
    assert numbers == list(range(1, len(numbers) + 1))


def test_each_sentence_of_a_list_has_a_link_unless_nothing_is_guaranteed() -> None:
    text = PAGE.read_text(encoding="utf-8").split("## What is not guaranteed")[0]
    items = re.findall(r"^- .*?(?=^- |^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(items) > 15
    assert [item for item in items if not LINK.search(item)] == []
