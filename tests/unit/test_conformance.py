"""dbt's adapter tests are all run, or listed with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from dbt.version import __version__

from tests.functional.conformance_page import page, run_here, suite_classes
from tests.functional.dbt_core import release_key
from tests.functional.left_out import LEFT_OUT

pytestmark = pytest.mark.skipif(release_key(__version__) < (1, 11), reason="dbt's tests of functions import names of dbt-core 1.11")

NAMES = [name for names in LEFT_OUT.values() for name in names]


def test_every_test_of_the_suite_is_run_or_listed():
    run = run_here()
    missing = [
        f"{name}.{test}"
        for name, class_ in suite_classes().items()
        for test in dir(class_)
        if test.startswith("test_") and callable(getattr(class_, test))
        if name not in NAMES and f"{name}.{test}" not in NAMES and test not in run.get(name, ())
    ]
    assert not missing, "subclass them below tests/functional/adapter, or list them in tests/functional/left_out.py with the reason"


def test_every_listed_test_exists_and_is_not_run():
    run, classes = run_here(), suite_classes()
    assert len(set(NAMES)) == len(NAMES)
    for name in NAMES:
        class_name, _, test = name.split("[")[0].rpartition(".")
        assert name in classes or hasattr(classes.get(class_name), test), f"{name} is gone"
        assert name not in run, f"{name} is run"


def test_the_page_is_generated_from_the_classes():
    page_path = Path(__file__).parents[2] / "docs" / "conformance.md"
    assert page_path.read_text(encoding="utf-8") == page(), "run: python -m tests.functional.conformance_page > docs/conformance.md"
