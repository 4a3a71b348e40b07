"""docs/conformance.md: the tests of dbt's adapter suite that this adapter passes. As a program, it prints the page."""

from __future__ import annotations

import importlib
import inspect
import math
import sys
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import dbt.tests.adapter

from tests.functional.dbt_core import RELEASES, runs_with
from tests.functional.left_out import LEFT_OUT

SUITE = "dbt.tests.adapter."
OURS = Path(__file__).parent / "adapter"
HEADER = f"""# Conformance

`dbt-tests-adapter` is dbt's test suite for adapters. This page counts the tests of the suite that dbt-rowmerge passes on Delta tables, by
area and by release of dbt-core. `make test-dbt DBT=1.12` runs the tests with one release. The tests in `tests/functional/adapter/<area>`
change a fixture only if it contains the SQL of another database. If a new release of the suite adds a class, a unit test fails until the
class runs or is in the list below. `python -m tests.functional.conformance_page` prints this page.

| area | {" | ".join(f"dbt-core {release}" for release in RELEASES)} | excluded |
| --- | {" | ".join("---:" for _ in RELEASES)} | ---: |
"""


@cache
def suite_classes() -> dict[str, type]:
    """Return the suite's classes with tests by module and name, without the package's name and without aliases of classes."""
    root = Path(next(iter(dbt.tests.adapter.__path__)))
    names = sorted(".".join(path.relative_to(root).with_suffix("").parts) for path in root.rglob("*.py") if path.stem != "__init__")
    classes = {f"{name}.{each}": class_ for name in names for each, class_ in _classes(importlib.import_module(SUITE + name)).items()}
    return {name: class_ for name, class_ in classes.items() if _tests(class_) and not _alias(class_)}


@cache
def our_classes() -> list[type]:
    """Return the classes of the suite's tests below tests/functional/adapter."""
    classes = []
    for path in sorted(OURS.rglob("test_*.py")):
        name = ".".join(path.relative_to(OURS.parents[2]).with_suffix("").parts)
        classes += [class_ for each, class_ in _classes(importlib.import_module(name)).items() if each.startswith("Test")]
    return [class_ for class_ in classes if _of_the_suite(class_)]


def run_here() -> dict[str, set[str]]:
    """Return the suite's classes that are bases of ours, each with the tests that run."""
    run: dict[str, set[str]] = {}
    for class_ in our_classes():
        for base in _of_the_suite(class_):
            run.setdefault(_name(base), set()).update(_tests(class_))
    return run


def page() -> str:
    """Return the text of the page."""
    classes = suite_classes()
    passes = {release: passes_by_area(release) for release in RELEASES}
    missed = [(name, _left_out(name, classes), reason) for reason, names in LEFT_OUT.items() for name in names]
    misses = Counter[str]()
    for name, items, _ in missed:
        misses[name.split(".")[0]] += items
    lines = [_row(area, [*(counts[area] for counts in passes.values()), misses[area]]) for area in sorted({*passes[RELEASES[-1]], *misses})]
    total = _row("all", [*(counts.total() for counts in passes.values()), misses.total()])
    why = [f"- {_show_count(sum(items for _, items, its in missed if its == reason))}: {reason}" for reason in LEFT_OUT]
    newer = [
        f"- {_show_count((passes[release] - passes[older]).total())} need dbt-core {release}: {_new_areas(passes[older], passes[release])}."
        for older, release in pairwise(RELEASES)
    ]
    sections = ["", "## Tests that need a newer dbt-core", "", *newer, "", "## Excluded tests", "", *why, ""]
    return HEADER + "\n".join([*lines, total, *sections])


def passes_by_area(release: str) -> Counter[str]:
    """Count the items of the suite that run with a release of dbt-core, by area. Two of our classes may run one class of the suite."""
    passed = {_name(_of_the_suite(class_)[0]): sum(_tests(class_).values()) for class_ in our_classes() if runs_with(class_, release)}
    counts = Counter[str]()
    for name, items in passed.items():
        counts[name.split(".")[0]] += items
    return counts


def _new_areas(older: Counter[str], newer: Counter[str]) -> str:
    return ", ".join(f"{items} of {area}" for area, items in sorted((newer - older).items()))


def _row(area: str, counts: list[int]) -> str:
    return f"| {area} | {' | '.join(str(count or '') for count in counts)} |"


def _left_out(name: str, classes: dict[str, type]) -> int:
    """Return the number of items of a list entry: those of a class or a test, or one for `test[values]`."""
    if name in classes:
        return sum(_tests(classes[name]).values())
    class_name, _, test = name.rsplit("[", 1)[0].rpartition(".")
    return 1 if "[" in name else _tests(classes[class_name])[test]


def _show_count(items: int) -> str:
    return f"{items} {'test' if items == 1 else 'tests'}"


def _name(class_: type) -> str:
    return f"{class_.__module__.removeprefix(SUITE)}.{class_.__name__}"


def _of_the_suite(class_: type) -> list[type]:
    """Return the suite's classes among the bases of a class, nearest first."""
    return [base for base in class_.__mro__ if base.__module__.startswith(SUITE)]


def _classes(module: ModuleType) -> dict[str, type]:
    return {name: each for name, each in vars(module).items() if inspect.isclass(each) and each.__module__ == module.__name__}


def _tests(class_: type) -> dict[str, int]:
    """Return the tests of a class with their numbers of items. A fixture called `tests` is not a test."""
    test_functions = {name: getattr(class_, name) for name in dir(class_) if name.startswith("test_")}
    return {name: _items(test) for name, test in test_functions.items() if inspect.isfunction(test)}


def _items(test: object) -> int:
    return math.prod(len(mark.args[1]) for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize")


def _alias(class_: type) -> bool:
    """Return whether the class is an alias that pytest collects."""
    return not [name for name in vars(class_) if not name.startswith("__")]


if __name__ == "__main__":
    sys.stdout.write(page())
