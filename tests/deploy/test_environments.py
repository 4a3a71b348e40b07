"""Each environment of docs/deploy builds the flights project and runs the statements as the laptop does.

The gate runs the statements on the laptop alone. `python -m tests.deploy.page --run` runs these trials and writes docs/deploy/tested.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.environments import ENVIRONMENTS, PROFILES, VARIANTS, Environment, run_trial
from tests.deploy.page import RESULTS, page, read_results

LAPTOP = ENVIRONMENTS[0]
OTHERS = [
    pytest.param(environment, format_, id=f"{name}-{format_}")
    for name, environment in [*((each.name, each) for each in ENVIRONMENTS[1:]), *((each.components, each) for each in VARIANTS)]
    for format_ in environment.formats
]


@pytest.fixture(scope="module")
def laptop_trial(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """Return a function that runs the trial of the laptop with a format, once."""
    return cache(lambda format_: run_trial(LAPTOP, tmp_path_factory.mktemp("laptop") / format_, format_))


@pytest.mark.one_of("format_")
@pytest.mark.parametrize("format_", LAPTOP.formats)
def test_the_statements_succeed_on_the_laptop(format_: str, tmp_path: Path) -> None:
    result = run_trial(LAPTOP, tmp_path / "trial", format_, "statements")
    assert result["debug"]
    assert result["failures"] == {}
    assert result["statements"] >= 40


@pytest.mark.full_suite("each environment needs minutes; tests/functional/adapter/test_connect.py builds models on a server in the gate")
@pytest.mark.parametrize(("environment", "format_"), OTHERS)
def test_an_environment_has_the_results_of_the_laptop(
    environment: Environment, format_: str, laptop_trial: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    if reason := environment.missing():
        pytest.skip(reason)
    expected = laptop_trial(format_)
    assert set(expected["nodes"].values()) == {"success", "pass"}
    assert expected["failures"] == {}
    assert run_trial(environment, tmp_path / "trial", format_) == expected


def test_each_profile_has_a_page_that_shows_it() -> None:
    for path in PROFILES.glob("*.yml"):
        text = (PROFILES.parent / f"{path.stem}.md").read_text(encoding="utf-8")
        assert f"```yaml\n# profiles/{path.name}\n{path.read_text(encoding='utf-8')}```" in text, f"{path.stem}.md shows another profile"


def test_the_page_shows_the_recorded_results() -> None:
    assert (PROFILES.parent / "tested.md").read_text(encoding="utf-8") == page(read_results()), (
        f"run python -m tests.deploy.page after {RESULTS.name}"
    )
