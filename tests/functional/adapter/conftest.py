"""dbt's test fixtures with one Spark session for the whole run."""

from __future__ import annotations

import os
from functools import cache

import pytest
from dbt.adapters.factory import reset_adapters
from dbt.clients import jinja_static
from dbt.tests.fixtures.project import *  # noqa: F403  dbt's fixtures are a plugin; plugins load from the top only
from dbt_common.behavior_flags import BehaviorFlagRendered
from dbt_common.clients.jinja import get_environment
from dbt_common.tests import disable_test_caching, enable_test_caching

from tests.support import suites
from tests.support.jvm import SPARK_SETTINGS, remember_java_classes

remember_java_classes()


@pytest.fixture(scope="session", autouse=True)
def parsed_once():
    """Parse each text once per process, with dbt's own switch for tests, because each project parses the 600 macros of its packages.

    Two other steps of dbt take a fifth of the time of a small project. dbt creates a Jinja environment for each macro, and it searches
    pytest's deep stack for the module that defines a behavior flag.
    """
    enable_test_caching()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jinja_static, "get_environment", cache(get_environment))
        patch.setattr(BehaviorFlagRendered, "_default_source", staticmethod(lambda: "dbt.adapters"))
        yield
    disable_test_caching()


@pytest.fixture(scope="class", autouse=True)
def artifacts(request):
    """Let dbt write its artifacts. In the gate, it writes them for tests with the marker `artifacts`: they take a tenth of a dbt run."""
    with pytest.MonkeyPatch.context() as patch:
        if suites.chosen_suite == "gate" and request.node.get_closest_marker("artifacts") is None:
            patch.setenv("DBT_WRITE_JSON", "false")
        yield


@pytest.fixture(scope="class", autouse=True)
def no_adapter_of_others():
    """Reset dbt's registry of adapters, because dbt keeps the first adapter of each type, also one that a test of macros registered."""
    reset_adapters()


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory):
    return str(tmp_path_factory.mktemp("warehouse"))


@pytest.fixture(scope="class")
def dbt_profile_target(profile_target):
    return profile_target


@pytest.fixture(scope="class")
def profile_target(warehouse):
    """Return the profile, under a name that tests of dbt with a profile of another warehouse do not use.

    With `ROWMERGE_KEEP_WARM=10m`, Spark runs in a server, which the first test starts.
    """
    keep_warm = {"keep_warm": os.environ["ROWMERGE_KEEP_WARM"]} if "ROWMERGE_KEEP_WARM" in os.environ else {}
    return {
        "type": "rowmerge",
        "warehouse": warehouse,
        "threads": 4,
        "spark_config": dict(SPARK_SETTINGS),
        **keep_warm,
    }


@pytest.fixture(scope="class")
def profile_user():
    """Return no owner, which dbt's tests then expect for every relation."""
    return
