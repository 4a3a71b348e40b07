"""docs/conformance.md: which of dbt's own adapter tests this adapter passes. Run as a program it prints the page."""

from __future__ import annotations

import importlib
import inspect
import math
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import ModuleType

import dbt.tests.adapter

from tests.functional.left_out import LEFT_OUT

SUITE = "dbt.tests.adapter."
OURS = Path(__file__).parent / "adapter"
HEADER = """# Conformance

dbt has a suite of tests that every adapter should pass, `dbt-tests-adapter`. These are the tests of its classes, by area; `make functional`
runs them, with fixtures changed only where they are another database's SQL (`tests/functional/adapter/<area>`). A class that a new release
of the suite brings fails a test until it is run or listed below. This page is printed by `python -m tests.functional.conformance_page`.

| area | pass | left out |
| --- | --- | --- |
"""


@cache
def suite_classes() -> dict[str, type]:
    """The suite's classes with tests, by module and name without the package's; names that are only another class's are left out."""
    root = Path(next(iter(dbt.tests.adapter.__path__)))
    names = sorted(".".join(path.relative_to(root).with_suffix("").parts) for path in root.rglob("*.py") if path.stem != "__init__")
    found = {f"{name}.{each}": class_ for name in names for each, class_ in _classes(importlib.import_module(SUITE + name)).items()}
    return {name: class_ for name, class_ in found.items() if _tests(class_) and not _alias(class_)}


@cache
def our_classes() -> list[type]:
    """The test classes below tests/functional/adapter that are the suite's."""
    found = []
    for path in sorted(OURS.rglob("test_*.py")):
        name = ".".join(path.relative_to(OURS.parents[2]).with_suffix("").parts)
        found += [class_ for each, class_ in _classes(importlib.import_module(name)).items() if each.startswith("Test")]
    return [class_ for class_ in found if _of_the_suite(class_)]


def run_here() -> dict[str, set[str]]:
    """The suite's classes that one of ours has as a base, with the tests of each that are run."""
    run: dict[str, set[str]] = {}
    for class_ in our_classes():
        for base in _of_the_suite(class_):
            run.setdefault(_name(base), set()).update(_tests(class_))
    return run


def items_run_here() -> dict[str, int]:
    """Return by class of the suite how many of its items run here.

    A class of the suite counts once, although two classes of ours may run it with different configs.
    """
    return {_name(_of_the_suite(class_)[0]): sum(_tests(class_).values()) for class_ in our_classes()}


def page() -> str:
    """The text of the page."""
    classes = suite_classes()
    passed = items_run_here()
    missed = [(name, _left_out(name, classes), reason) for reason, names in LEFT_OUT.items() for name in names]
    passes, misses = Counter[str](), Counter[str]()
    for name, items in passed.items():
        passes[name.split(".")[0]] += items
    for name, items, _ in missed:
        misses[name.split(".")[0]] += items
    lines = [f"| {area} | {passes[area] or ''} | {misses[area] or ''} |" for area in sorted({*passes, *misses})]
    total = f"| all | {passes.total()} | {misses.total()} |"
    why = [f"- {_told(sum(items for _, items, its in missed if its == reason))}: {reason}" for reason in LEFT_OUT]
    return HEADER + "\n".join([*lines, total, "", "## What is left out, and why", "", *why, ""])


def _left_out(name: str, classes: dict[str, type]) -> int:
    """How many items an entry of the list is about: those of a class, of a test, or one (`test[values]`)."""
    if name in classes:
        return sum(_tests(classes[name]).values())
    class_name, _, test = name.rsplit("[", 1)[0].rpartition(".")
    return 1 if "[" in name else _tests(classes[class_name])[test]


def _told(items: int) -> str:
    return f"{items} {'test' if items == 1 else 'tests'}"


def _name(class_: type) -> str:
    return f"{class_.__module__.removeprefix(SUITE)}.{class_.__name__}"


def _of_the_suite(class_: type) -> list[type]:
    """The class's bases that are the suite's, the nearest first."""
    return [base for base in class_.__mro__ if base.__module__.startswith(SUITE)]


def _classes(module: ModuleType) -> dict[str, type]:
    return {name: each for name, each in vars(module).items() if inspect.isclass(each) and each.__module__ == module.__name__}


def _tests(class_: type) -> dict[str, int]:
    """The tests of a class, and how many items each makes; a fixture called `tests` is none."""
    found = {name: getattr(class_, name) for name in dir(class_) if name.startswith("test_")}
    return {name: _items(test) for name, test in found.items() if inspect.isfunction(test)}


def _items(test: object) -> int:
    return math.prod(len(mark.args[1]) for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize")


def _alias(class_: type) -> bool:
    """Whether the class is another one under a name that pytest collects."""
    return not [name for name in vars(class_) if not name.startswith("__")]


if __name__ == "__main__":
    sys.stdout.write(page())
