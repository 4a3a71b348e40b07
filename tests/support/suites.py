"""Choose which tests a run contains: the gate before every change, the full suite, or the soak tests.

Every test belongs to the full suite. Two markers take a test out of the gate:

- `one_of("format_", "mode")`: the gate runs one variant of these parameters for each combination of the other parameters. A hash of the
  test and of the other parameters picks the variant, so the choice is stable, and a file with many tests covers all variants evenly.
- `full_suite("reason")`: only the full suite runs the test. The reason names what covers its subject in the gate.

`soak` marks tests that run for hours. Only `--suite soak` runs them (see tests/support/soak.py).
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

SUITES = ("gate", "full", "soak")
chosen_suite = "gate"
"""The suite of this run. tests/conftest.py sets it before pytest imports the first test module."""


def examples(gate: int, full: int, soak: int | None = None) -> int:
    """Return the number of examples that a property test draws in the suite of this run."""
    return {"gate": gate, "full": full, "soak": soak or full}[chosen_suite]


def items_of_suite(items: Sequence[pytest.Item], suite: str) -> list[pytest.Item]:
    """Return the items that belong to a suite, in their order."""
    if suite == "soak":
        return [item for item in items if item.get_closest_marker("soak")]
    items = [item for item in items if not item.get_closest_marker("soak")]
    if suite == "full":
        return items
    return _one_variant_each([item for item in items if not item.get_closest_marker("full_suite")])


def stable_hash(text: str) -> int:
    """Return a hash of the text that is the same in every process and on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _one_variant_each(items: list[pytest.Item]) -> list[pytest.Item]:
    variants: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        variants[_test_without_variant(item)].append(item)
    return [item for item in items if item is _pick(variants[_test_without_variant(item)], _test_without_variant(item))]


def _pick(variants: list[pytest.Item], test: str) -> pytest.Item:
    return variants[stable_hash(test) % len(variants)]


def _test_without_variant(item: pytest.Item) -> str:
    """Return a text that all variants of one test share, and no other test has."""
    marker = item.get_closest_marker("one_of")
    if marker is None:
        return item.nodeid
    parameters: dict[str, Any] = item.callspec.params  # type: ignore[attr-defined]
    missing = set(marker.args) - set(parameters)
    if missing:
        raise pytest.UsageError(f"{item.nodeid}: one_of names parameters that the test does not have: {', '.join(sorted(missing))}")
    rest = [f"{name}={getattr(value, 'name', value)}" for name, value in sorted(parameters.items()) if name not in marker.args]
    return "::".join([item.nodeid.split("[")[0], *rest])
