"""Options of the whole suite: which suite runs, and for which table format."""

from __future__ import annotations

import pytest

from tests.support import suites


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--suite", choices=suites.SUITES, default="gate", help="gate (default), full, or soak: docs/testing.md")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "one_of(*parameters): the gate runs one variant of these parameters")
    config.addinivalue_line("markers", "full_suite(reason): only the full suite runs this test")
    config.addinivalue_line("markers", "soak: only the soak suite runs this test")
    suites.chosen_suite = config.getoption("--suite")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    selected = suites.items_of_suite(items, suites.chosen_suite)
    remaining = set(selected)
    config.hook.pytest_deselected(items=[item for item in items if item not in remaining])
    items[:] = selected
