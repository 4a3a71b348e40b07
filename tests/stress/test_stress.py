"""Many processes change, clean, drop and create one table, are stopped and killed: no acknowledged commit is lost or applied twice."""

from __future__ import annotations

from pathlib import Path
from threading import Lock

import pytest

from tests.stress.model import Model
from tests.support.faulty_s3 import FaultyS3, Request, needs_moto
from tests.support.suites import examples

SEEDS = range(10)
LONG_STOP = 4.0
"""Seconds in which other processes make a checkpoint, and clean the commits of a Delta log that expired after one second."""
COMMITS = 200
"""Of each seed and format: 2,000 of each format."""


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_some_rounds_lose_and_duplicate_no_rows(tmp_path: Path, format_: str) -> None:
    model = Model(str(tmp_path), format_, seed=1)
    for _ in range(examples(gate=2, full=6)):
        model.round()
    assert model.commits["WRITE"] > 10


@pytest.mark.soak
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
@pytest.mark.parametrize("seed", SEEDS)
def test_thousands_of_commits_lose_and_duplicate_no_rows(tmp_path: Path, format_: str, seed: int) -> None:
    model = Model(str(tmp_path), format_, seed, longest_stop=LONG_STOP)
    while sum(model.commits.values()) < COMMITS:
        model.round()


@needs_moto
@pytest.mark.soak
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
@pytest.mark.parametrize("seed", SEEDS)
def test_commits_to_an_object_store_lose_and_duplicate_no_rows(s3: FaultyS3, format_: str, seed: int) -> None:
    lock, answer = Lock(), s3.answer

    def answer_alone(request: Request) -> tuple[int, list[tuple[str, str]], bytes] | None:
        # moto looks whether an object exists, and writes it later. Only one request at a time makes a conditional put atomic.
        with lock:
            return answer(request)

    s3.answer = answer_alone  # type: ignore[method-assign]
    model = Model(f"{s3.location}/{format_}-{seed}", format_, seed, options=s3.options(retries=None))
    while sum(model.commits.values()) < COMMITS:
        model.round()


@pytest.mark.soak
@pytest.mark.parametrize(
    ("format_", "check"),
    [
        ("delta", "identity of a drop"),
        ("iceberg", "identity of a drop"),
        ("delta", "cleanup of a Delta log"),
        ("iceberg", "ghosts of Iceberg metadata"),
    ],
)
def test_every_check_is_necessary(tmp_path: Path, format_: str, check: str) -> None:
    with pytest.raises(AssertionError):
        commit_from_all_seeds(tmp_path, format_, check)


def commit_from_all_seeds(folder: Path, format_: str, check: str) -> None:
    for seed in SEEDS:
        drops, longest_stop = (7, 1.2) if "drop" in check else (3, LONG_STOP)
        model = Model(str(folder / str(seed)), format_, seed, without=check, drops=drops, longest_stop=longest_stop)
        while sum(model.commits.values()) < COMMITS:
            model.round()
