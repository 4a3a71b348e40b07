"""Collect no tests of functions with dbt-core 1.10: they import names that dbt-core 1.11 added."""

from dbt.version import __version__

from tests.functional.dbt_core import release_key

collect_ignore_glob = ["test_*.py"] if release_key(__version__) < (1, 11) else []
