"""The releases of dbt-core that the adapter supports, and the mark of test classes that need a newer one than the oldest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
from dbt.version import __version__

RELEASES = ("1.10", "1.11", "1.12")
TestClass = TypeVar("TestClass", bound=type)


def release_key(release: str) -> tuple[int, int]:
    """Return the major and the minor number of a release, for comparisons."""
    major, minor = release.split(".")[:2]
    return int(major), int(minor)


def since(release: str) -> Callable[[TestClass], TestClass]:
    """Mark a test class as one that needs this release of dbt-core. pytest skips the class with an older release."""

    def mark(test_class: TestClass) -> TestClass:
        test_class.first_release = release  # type: ignore[attr-defined]
        is_older = release_key(__version__) < release_key(release)
        return pytest.mark.skipif(is_older, reason=f"needs dbt-core {release}, and this is {__version__}")(test_class)

    return mark


def runs_with(test_class: type, release: str) -> bool:
    """Return whether the tests of a class run with this release of dbt-core."""
    return release_key(getattr(test_class, "first_release", RELEASES[0])) <= release_key(release)
