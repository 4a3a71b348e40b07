"""Options of the whole test suite: the suite, and the table format."""

from __future__ import annotations

import pytest

from tests.support import suites
from tests.support.soak import SoakPlugin

pytest_plugins = ["tests.support.faulty_s3", "tests.support.hive_metastore", "tests.support.postgresql"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--suite", choices=suites.SUITES, default="gate", help="gate (default), full, or soak: docs/testing.md")
    parser.addoption("--format", choices=("delta", "iceberg"), help="leave out the tests of the other table format")
    parser.addoption("--soak-minutes", type=float, default=30, help="minutes after which a soak run stops")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "one_of(*parameters, keep=1): the gate runs so many variants of these parameters")
    config.addinivalue_line("markers", "full_suite(reason): only the full suite runs this test")
    config.addinivalue_line("markers", "artifacts: the test reads the artifacts that dbt writes (manifest.json, run_results.json, …)")
    config.addinivalue_line("markers", "soak: only the soak suite runs this test")
    config.addinivalue_line("markers", "property_test: the suite decides how many examples this test draws")
    suites.chosen_suite = config.getoption("--suite")
    if suites.chosen_suite == "soak":
        config.pluginmanager.register(SoakPlugin(config.getoption("--soak-minutes")))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[suites.COLLECTED_ITEMS] = list(items)
    selected = suites.items_of_suite(items, suites.chosen_suite)
    if format_ := config.getoption("--format"):
        selected = suites.items_of_format(selected, format_)
    remaining = set(selected)
    config.hook.pytest_deselected(items=[item for item in items if item not in remaining])
    items[:] = selected
