"""dbt's own test fixtures, over one Spark session for the whole run."""

from __future__ import annotations

import pytest
from dbt.adapters.factory import reset_adapters
from dbt.tests.fixtures.project import *  # noqa: F403  dbt's fixtures are a plugin; plugins load from the top only
from dbt_common.tests import disable_test_caching, enable_test_caching

from tests.support.jvm import SPARK_SETTINGS, remember_java_classes

remember_java_classes()


@pytest.fixture(scope="session", autouse=True)
def parsed_once():
    """Each project makes dbt parse the 600 macros of its packages anew; by dbt's own switch for tests a text is parsed once a process."""
    enable_test_caching()
    yield
    disable_test_caching()


@pytest.fixture(scope="class", autouse=True)
def no_adapter_of_others():
    """dbt keeps the first adapter of a type that a process makes; tests of macros alone make one, too."""
    reset_adapters()


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory):
    return str(tmp_path_factory.mktemp("warehouse"))


@pytest.fixture(scope="class")
def dbt_profile_target(profile_target):
    return profile_target


@pytest.fixture(scope="class")
def profile_target(warehouse):
    """The profile, under a name of its own for tests of dbt that bring one of another warehouse."""
    return {
        "type": "rowmerge",
        "warehouse": warehouse,
        "threads": 4,
        "spark_config": dict(SPARK_SETTINGS),
    }


@pytest.fixture(scope="class")
def profile_user():
    """Whom dbt's tests expect as the owner of every relation: nobody."""
    return
