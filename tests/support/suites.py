"""Choose which tests a run contains: the gate before every change, the full suite, or the soak tests.

Every test but the soak tests belongs to the full suite. Two markers take a test out of the gate:

- `one_of("format_", "mode")`: the gate runs one variant of these parameters for each combination of the other parameters (`keep=2`: two).
  A hash of the test and of the other parameters picks the variant. So the choice is stable, and a file with many tests covers all
  variants evenly. A module may name parameters that only some of its tests have. The name of a parametrized fixture is a parameter too.
- `full_suite("reason")`: only the full suite runs the test. The reason says why the gate can do without it.

dbt's own suite of adapter tests has no markers. The gate runs a quarter of its classes in each of our files, at least one.

`soak` marks tests that run for many minutes. Only `--suite soak` runs them (see tests/support/soak.py).
`property_test` marks tests of every suite whose number of examples comes from `examples`.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Sequence
from pathlib import Path

import pytest

SUITES = ("gate", "full", "soak")
chosen_suite = "gate"
"""The suite of this run. tests/conftest.py sets it before pytest imports the first test module."""

COLLECTED_ITEMS = pytest.StashKey[list[pytest.Item]]()
"""All items that pytest collected in this run, before the suite selected a part of them."""


def examples(gate: int, full: int, soak: int | None = None) -> int:
    """Return the number of examples that a property test draws in the suite of this run."""
    return {"gate": gate, "full": full, "soak": soak or full}[chosen_suite]


def items_of_suite(items: Sequence[pytest.Item], suite: str) -> list[pytest.Item]:
    """Return the items that belong to a suite, in their order."""
    if suite == "soak":
        return [item for item in items if item.get_closest_marker("soak") or item.get_closest_marker("property_test")]
    items = [item for item in items if not item.get_closest_marker("soak")]
    if suite == "full":
        return items
    return _sampled_variants(_quarter_of_dbt_suite([item for item in items if not item.get_closest_marker("full_suite")]))


def items_of_format(items: Sequence[pytest.Item], format_: str) -> list[pytest.Item]:
    """Return the items without those that have another table format as a parameter, or that lie in another format's folder."""
    other = "iceberg" if format_ == "delta" else "delta"
    return [item for item in items if other not in _parameters(item).values() and other not in item.path.parts]


def stable_hash(text: str) -> int:
    """Return a hash of the text that is the same in every process and on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _sampled_variants(items: list[pytest.Item]) -> list[pytest.Item]:
    variants: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        variants[_test_without_variant(item)].append(item)
    sampled: set[pytest.Item] = set()
    for test, of_test in variants.items():
        marker = of_test[0].get_closest_marker("one_of")
        keep, first = marker.kwargs.get("keep", 1) if marker else 1, stable_hash(test)
        sampled.update(of_test[(first + number) % len(of_test)] for number in range(keep))
    return [item for item in items if item in sampled]


def _test_without_variant(item: pytest.Item) -> str:
    """Return a text that all variants of one test share, and no other test has."""
    marker = item.get_closest_marker("one_of")
    if marker is None or not _parameters(item):
        return item.nodeid
    values = {name: value for name, value in sorted(_parameters(item).items()) if name not in marker.args}
    # The repr of a function has its address, which differs between processes.
    parameters = [f"{name}={getattr(value, 'name', getattr(value, '__name__', value))}" for name, value in values.items()]
    return "::".join([item.nodeid.split("[")[0], *parameters])


def _parameters(item: pytest.Item) -> dict[str, object]:
    callspec = getattr(item, "callspec", None)
    return (
        {} if callspec is None else {name: value if isinstance(value, Hashable) else str(value) for name, value in callspec.params.items()}
    )


def _quarter_of_dbt_suite(items: list[pytest.Item]) -> list[pytest.Item]:
    classes: dict[Path, set[type]] = defaultdict(set)
    for item in items:
        if class_ := _class_of_dbt_suite(item):
            classes[item.path].add(class_)
    chosen = {
        class_
        for of_file in classes.values()
        for class_ in sorted(of_file, key=lambda class_: stable_hash(class_.__qualname__))[: max(1, len(of_file) // 4)]
    }
    return [item for item in items if (class_ := _class_of_dbt_suite(item)) is None or class_ in chosen]


def _class_of_dbt_suite(item: pytest.Item) -> type | None:
    """Return the item's class if dbt's suite has tests in one of its bases."""
    class_: type | None = getattr(item, "cls", None)
    bases = class_.__mro__ if class_ is not None else ()
    return class_ if any(base.__module__.startswith("dbt.tests.adapter.") for base in bases) else None
