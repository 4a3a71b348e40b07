"""The environments of `make test-dbt` have the oldest and the newest packages of dbt that setup.py accepts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.functional.dbt_core import RELEASES

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("dbt-core", "dbt-adapters", "dbt-common", "dbt-spark")


@pytest.fixture(scope="module")
def ranges() -> dict[str, Requirement]:
    """Return the packages of dbt that setup.py requires."""
    range_texts = re.findall(r'^ +"(dbt-[^"]+)",', (ROOT / "setup.py").read_text(encoding="utf-8"), re.MULTILINE)
    requirements = {each.name: each for each in map(Requirement, range_texts)}
    return {name: requirements[name] for name in PACKAGES}


def _pins(*files: str) -> dict[str, str]:
    """Return the exact versions in requirements files; a later file takes precedence."""
    text = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in files)
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))


@pytest.mark.parametrize("release", RELEASES)
def test_each_release_has_packages_that_setup_py_accepts(ranges, release):
    overrides = [] if release == "1.11" else [f"tests/requirements/dbt-{release}.txt"]
    pins = _pins("constraints.txt", *overrides)
    assert pins["dbt-core"].startswith(f"{release}.")
    assert [name for name, requirement in ranges.items() if not requirement.specifier.contains(pins[name])] == []


def test_the_oldest_release_runs_with_the_oldest_accepted_packages(ranges):
    pins = _pins("tests/requirements/dbt-1.10.txt")
    for name in PACKAGES[1:]:
        oldest = re.search(r">=([\d.]+)", str(ranges[name].specifier))
        assert oldest and re.fullmatch(rf"{re.escape(oldest[1])}(\.0)*", pins[name]), name


def test_the_documentation_names_the_ranges_and_the_tested_releases():
    page = (ROOT / "docs" / "dbt_versions.md").read_text(encoding="utf-8")
    range_texts = _written_ranges()
    tested = ", ".join(
        _pins(name)["dbt-core"] for name in ("tests/requirements/dbt-1.10.txt", "constraints.txt", "tests/requirements/dbt-1.12.txt")
    )
    assert f"| `dbt-core` | `{range_texts['dbt-core']}` | {tested} |" in page
    for name in PACKAGES:
        assert f"| `{name}` | `{range_texts[name]}` |" in page


def _written_ranges() -> dict[str, str]:
    """Return the version ranges as setup.py writes them."""
    return dict(re.findall(r'^ +"(dbt-[a-z]+)([^"]+)",', (ROOT / "setup.py").read_text(encoding="utf-8"), re.MULTILINE))
