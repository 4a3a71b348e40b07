"""Random tables and queries: a query that skips files returns the rows of the query that reads all files, and DuckDB agrees."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.reads.differential import Differential
from tests.support.suites import examples

QUERIES_OF_A_SEED = 300
SOAK_SEEDS = range(100, 117)
"""With QUERIES_OF_A_SEED, more than 5,000 queries."""


def differences(spark: SparkSession, folder: Path, seed: int, queries: int, tables: int, most_inserts: int) -> list[str]:
    """Run queries of a seed, write how many of them skipped files, and return the failures."""
    differential = Differential(spark, str(folder), seed, tables=tables, most_inserts=most_inserts)
    failures = [str(failure) for failure in differential.failures(iter(range(queries)))]
    sys.stdout.write(f"seed {seed}: {differential.tally}\n")
    assert differential.tally.failed_everywhere.total() < queries / 4
    assert differential.tally.skipped > queries / 10
    assert differential.tally.compared_with_duckdb > queries / 20
    return failures


def test_random_queries_return_the_same_rows_with_skipped_files(spark: SparkSession, tmp_path: Path) -> None:
    assert differences(spark, tmp_path, 1, examples(gate=40, full=300), examples(gate=3, full=8), examples(gate=5, full=9)) == []


@pytest.mark.soak
@pytest.mark.parametrize("seed", SOAK_SEEDS)
def test_thousands_of_random_queries_return_the_same_rows_with_skipped_files(
    spark: SparkSession, tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():  # the counts are a result of the run
        assert differences(spark, tmp_path, seed, QUERIES_OF_A_SEED, tables=8, most_inserts=9) == []
