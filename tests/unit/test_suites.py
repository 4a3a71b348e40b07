"""The gate runs each claim once and covers formats and write modes evenly; the full suite loses no case.

pytest-xdist stops the gate if two of its processes pick different tests.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.counts import PAGE, counts, table
from tests.support.suites import COLLECTED_ITEMS, items_of_format, items_of_suite

ROOT = Path(__file__).parents[2]
LEAST = {
    "claims in `tests/rows`": 624,
    "pairs of concurrent commits on Delta tables": 968,
    "pairs of concurrent commits on Iceberg tables": 924,
    "storage calls at which a process is killed": 537,
    "storage calls that are killed in the middle of a put": 67,
    "storage faults (each call fails once, fails after it took effect, or fails for good)": 1611,
    "items of dbt's adapter suite, with the newest dbt-core": 265,
}
"""The size of the full suite when the gate began to run a part of it. No change may make it smaller."""


@pytest.fixture(scope="module")
def collected(request: pytest.FixtureRequest) -> Callable[..., tuple[str, ...]]:
    """Return a function that lists the ids of the tests in a suite, and with a table format only those that `--format` selects."""
    items = request.config.stash[COLLECTED_ITEMS]
    paths = {item.path for item in items}
    if not {ROOT / "tests/engine/test_rows.py", ROOT / "tests/functional/adapter/test_strategies.py"} <= paths:
        pytest.skip("the suites are verified in runs that collect all of tests/")

    def ids(suite: str, format_: str | None = None) -> tuple[str, ...]:
        selected = items_of_suite(items, suite)
        return tuple(item.nodeid for item in (items_of_format(selected, format_) if format_ else selected))

    return ids


def claims(ids: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """Return claim, format and write mode of each case of tests/rows; `-` where a claim leaves no choice."""
    cases = [re.search(r"test_case\[(.+)-(delta|iceberg|-)-(copy-on-write|merge-on-read|-)\]", id_) for id_ in ids]
    return [(case[1], case[2], case[3]) for case in cases if case]


def test_the_full_suite_contains_every_test() -> None:
    assert {subject: count for subject, count in counts().items() if count < LEAST[subject]} == {}


def test_the_page_shows_the_counts() -> None:
    assert table() in PAGE.read_text(encoding="utf-8"), "run: make test-count"


def test_the_gate_runs_each_claim_once(collected: Callable[..., tuple[str, ...]]) -> None:
    gate, full = claims(collected("gate")), claims(collected("full"))
    assert len(full) > 1600
    assert sorted(claim for claim, _, _ in gate) == sorted({claim for claim, _, _ in full})
    assert set(gate) < set(full)


def test_the_gate_covers_formats_and_write_modes_evenly(collected: Callable[..., tuple[str, ...]]) -> None:
    full, gate = Counter(claims(collected("full"))), claims(collected("gate"))
    free = {claim for claim, _, _ in full if sum(key[0] == claim for key in full) == 4}
    shares = Counter((format_, mode) for claim, format_, mode in gate if claim in free)
    assert len(shares) == 4
    assert all(0.18 < share / len(free) < 0.32 for share in shares.values()), shares


def test_every_isolation_level_occurs_in_the_gate(collected: Callable[..., tuple[str, ...]]) -> None:
    gate = " ".join(collected("gate"))
    assert all(level in gate for level in ("-delta-WriteSerializable]", "-delta-Serializable]", "-iceberg-serializable]"))


def test_the_gate_runs_some_tests_of_every_file_that_runs_dbt(collected: Callable[..., tuple[str, ...]]) -> None:
    gate, full = ({id_.split("::")[0] for id_ in collected(suite) if "tests/functional" in id_} for suite in ("gate", "full"))
    assert gate == full


def test_the_gate_runs_about_a_quarter_of_the_suite_of_dbt(collected: Callable[..., tuple[str, ...]]) -> None:
    """Folders below tests/functional/adapter hold dbt's suite, files beside them our own tests."""
    gate, full = (len([id_ for id_ in collected(suite) if re.match(r"tests/functional/adapter/\w+/", id_)]) for suite in ("gate", "full"))
    assert 0.15 < gate / full < 0.35


def test_one_format_can_be_chosen(collected: Callable[..., tuple[str, ...]]) -> None:
    ids = collected("full", "iceberg")
    assert ids
    assert {format_ for _, format_, _ in claims(ids)} == {"iceberg", "-"}


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("test_*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_first_line_of_a_test_file_states_what_it_verifies(path: Path) -> None:
    first = path.read_text(encoding="utf-8").split("\n", 1)[0]
    assert re.match(r'"""\S.{15,}', first), f"{path.name} begins with {first!r}"
