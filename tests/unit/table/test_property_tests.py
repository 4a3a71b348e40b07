"""property_tests.txt names a test of the effect of each honoured property: a test that reads files, a log or metadata."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from rowmerge.delta.metadata.registry import DELTA_PROPERTIES
from rowmerge.iceberg.metadata.registry import ICEBERG_PROPERTIES
from rowmerge.table.metadata.property_registry import Effect

ROOT = Path(__file__).parents[3]
LIST = Path(__file__).with_name("property_tests.txt")
HONOURED = {
    property_.name: property_
    for registry in (DELTA_PROPERTIES, ICEBERG_PROPERTIES)
    for property_ in registry.properties
    if property_.effect is Effect.HONOURED
}
TESTS = [
    (path, test, names.split())
    for path, test, names in re.findall(r"^(tests/\S+): (\w+)\n((?: {4}.*\n)+)", LIST.read_text(encoding="utf-8"), re.MULTILINE)
]


def test_each_honoured_property_has_one_test_of_its_effect() -> None:
    counts = Counter(name for _, _, names in TESTS for name in names)
    assert sorted(HONOURED.keys() - counts.keys()) == [], f"Write a test of the effect of these properties, and add it to {LIST.name}."
    assert sorted(counts.keys() - HONOURED.keys()) == []
    assert [name for name, count in counts.items() if count > 1] == []


@pytest.mark.parametrize(("path", "test", "names"), TESTS, ids=[test for _, test, _ in TESTS])
def test_the_file_of_each_test_names_the_properties(path: str, test: str, names: list[str]) -> None:
    source = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"^def {test}\(", source, re.MULTILINE), f"{path} has no test {test}"
    for name in names:
        whole_name = (HONOURED[name].prefix or name).removesuffix(".")
        # Some tests have the beginning of several names in a constant, or a variable inside the name.
        end = whole_name.rpartition(".")[2]
        assert whole_name in source or re.search(rf"(?<![a-zA-Z]){end}['\"]", source), f"{path} does not name {name}"
