"""Run random queries with and without skipped files, and compare their rows: `python -m tests.reads.differential --seed 7`.

A failure prints the seed and the number of the query, with which `--query` repeats it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from pyspark.sql import SparkSession

from rowmerge.session.names import file_selection
from tests.reads.changes import TARGET, ChangeWriter, can_be_copied, clone_statement, copy_statement
from tests.reads.outcomes import Outcome, difference, is_part, row_difference, run
from tests.reads.queries import QueryWriter
from tests.reads.relations import Query
from tests.reads.replays import Replay, failing_query, with_fewer_statements
from tests.reads.second_opinion import OF_DUCKDB, SecondOpinion
from tests.reads.tables import TableScript
from tests.reads.warehouse import Warehouse, fill, open_warehouse, run_on_both

TABLES, MOST_INSERTS = 8, 9
DYNAMIC_LIMITS = file_selection.MIN_DYNAMIC_COST, file_selection.MAX_KEY_SHARE
CHANGE_EVERY = 12
"""One in so many numbers is a statement that changes a table."""
ZONES = ("UTC", "UTC", "Asia/Tokyo", "America/New_York", "Europe/Berlin", "Asia/Kathmandu")


@dataclass
class Tally:
    """The counts of a run. `skipped`: the queries that read fewer files than all. `files`, `all_files`: the sums over all queries."""

    queries: int = 0
    failed_everywhere: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    skipped: int = 0
    files: int = 0
    all_files: int = 0
    compared_with_duckdb: int = 0
    changes: int = 0
    from_metadata: int = 0

    def __str__(self) -> str:
        errors = ", ".join(f"{count} × {error}" for error, count in self.failed_everywhere.most_common(8))
        return (
            f"{self.queries} queries and {self.changes} changes; "
            f"{self.skipped} read fewer files ({self.files} of {self.all_files} files in all), {self.from_metadata} use metadata; "
            f"{self.compared_with_duckdb} compared with DuckDB; {self.failed_everywhere.total()} fail in Spark ({errors})"
        )


@dataclass(frozen=True)
class Failure:
    """A query whose rows differ."""

    seed: int
    number: int
    text: str
    settings: dict[str, str]
    difference: str
    replay: Replay

    def __str__(self) -> str:
        settings = "".join(f"set {name} = {setting};\n" for name, setting in self.settings.items())
        again = f"python -m tests.reads.differential --seed {self.seed} --query {self.number}"
        return f"seed {self.seed}, query {self.number}: {self.difference}\n{settings}{self.text}\n\nSmaller:\n{self.replay}\n{again}"


class Differential:
    """A warehouse of a seed and its queries."""

    def __init__(self, spark: SparkSession, folder: str, seed: int, *, tables: int = TABLES, most_inserts: int = MOST_INSERTS) -> None:
        self.spark, self.seed, self.tally = spark, seed, Tally()
        self.warehouse: Warehouse = open_warehouse(folder, spark)
        fill(self.warehouse, seed, tables, most_inserts)
        self.opinion = SecondOpinion(self.warehouse)

    def query(self, number: int) -> tuple[Query, dict[str, str]]:
        """Return a query of the seed, and the settings with which it runs."""
        random = Random(f"{self.seed}/query/{number}")
        batch = Random(f"{self.seed}/settings/{number // 10}")
        settings = {
            "spark.sql.session.timeZone": batch.choice(ZONES),
            "spark.sql.adaptive.enabled": batch.choice(["true", "false", "false"]),
            "spark.sql.ansi.enabled": batch.choice(["true", "false"]),
            "spark.sql.caseSensitive": batch.choice(["false", "false", "false", "true"]),
        }
        writer = QueryWriter(random, self.warehouse.sources, case_sensitive=settings["spark.sql.caseSensitive"] == "true")
        return writer.query(), settings

    def change(self, number: int) -> tuple[str, TableScript] | None:
        """Return a statement of the seed and the table that it changes, or None if no table can be copied."""
        random = Random(f"{self.seed}/change/{number}")
        tables = [table for table in self.warehouse.scripts if can_be_copied(table)]
        if not tables:
            return None
        table = random.choice(tables)
        return ChangeWriter(random, self.warehouse.sources, table).statement(), table

    def failures(self, numbers: Iterator[int]) -> Iterator[Failure]:
        """Run queries and statements, and yield those whose rows differ."""
        try:
            yield from self._failures(numbers)
        finally:
            file_selection.MIN_DYNAMIC_COST, file_selection.MAX_KEY_SHARE = DYNAMIC_LIMITS

    def _failures(self, numbers: Iterator[int]) -> Iterator[Failure]:
        for number in numbers:
            query, settings = self.query(number)
            self.warehouse.set(settings)
            # Dynamic filters cost a query, so small tables have them only here.
            is_dynamic = Random(f"{self.seed}/dynamic/{number // 10}").random() < 0.7
            file_selection.MIN_DYNAMIC_COST, file_selection.MAX_KEY_SHARE = (0, 1e9) if is_dynamic else DYNAMIC_LIMITS
            change = self.change(number) if number % CHANGE_EVERY == CHANGE_EVERY - 1 else None
            if change is not None:
                problem = self.check_change(number, *change)
                if problem is not None:
                    replay = Replay([clone_statement(change[1], TARGET)], settings, change[0])
                    yield Failure(self.seed, number, change[0], settings, problem, replay)
                continue
            problem = self.check(query)
            if problem is not None:
                replay = failing_query(self.warehouse, settings, query.text)
                if not problem.startswith(OF_DUCKDB):  # a replay compares only the two ways to read
                    replay = with_fewer_statements(replay, self.spark)
                yield Failure(self.seed, number, query.text, settings, problem, replay)

    def check(self, query: Query) -> str | None:
        """Run a query with and without skipped files. Return how the rows differ, or None."""
        skipping, reading_all = run_on_both(self.warehouse, query.text, query.superset or query.limited_from or query.text, run)
        self._count(skipping, reading_all)
        if query.superset is not None or query.limited_from is not None:
            return _part_difference(query, skipping, reading_all)
        problem = difference(skipping, reading_all)
        if problem is None and reading_all.rows is not None:
            problem = self.opinion.difference(query, reading_all.rows)
            self.tally.compared_with_duckdb = self.opinion.compared
        return problem

    def check_change(self, number: int, statement: str, table: TableScript) -> str | None:
        """Run a statement on a clone of a table, and on a copy in one file. Return how their rows differ, or None."""
        warehouse, clone, copy = self.warehouse, f"clone{number}", f"copy{number}"
        if not statement.startswith("create table"):
            warehouse.skipping.sql(clone_statement(table, clone))
            warehouse.reading_all.sql(copy_statement(table, copy))
        outcomes = run_on_both(warehouse, statement.replace(TARGET, clone), statement.replace(TARGET, copy), run)
        self.tally.changes += 1
        if outcomes[1].error is not None or outcomes[0].error is not None:
            return difference(*outcomes)
        rows = [run(warehouse.reading_all, f"select * from {name}").rows or Counter() for name in (clone, copy)]
        return row_difference(*rows)

    def _count(self, skipping: Outcome, reading_all: Outcome) -> None:
        tally = self.tally
        tally.queries += 1
        if reading_all.error is not None:
            tally.failed_everywhere[reading_all.error] += 1
            tally.errors.append(reading_all.text)
        tally.skipped += skipping.files < skipping.total_files
        tally.from_metadata += skipping.from_metadata
        tally.files += skipping.files
        tally.all_files += skipping.total_files


def _part_difference(query: Query, skipping: Outcome, reading_all: Outcome) -> str | None:
    """Return why the rows cannot be those of a LIMIT without order, or of a random filter, or None."""
    if reading_all.error is not None or reading_all.rows is None:
        return None
    if skipping.error is not None or skipping.rows is None:
        return f"only the query that skips files fails: {skipping.text[:600]}"
    if not is_part(skipping.rows, reading_all.rows):
        return row_difference(skipping.rows, reading_all.rows)
    expected = min(query.limit, reading_all.rows.total())
    if query.limited_from is not None and skipping.rows.total() != expected:
        return f"{skipping.rows.total()} rows instead of {expected}"
    return None


def main(write: Callable[[str], object] = lambda text: sys.stdout.write(f"{text}\n")) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--query", type=int, help="run only this query of the seed")
    parser.add_argument("--queries", type=int, default=300, help="queries of each seed")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    from rowmerge.session.startup.embedded import start_spark
    from tests.support.jvm import SPARK_SETTINGS, remember_java_classes

    remember_java_classes()
    spark = start_spark(SPARK_SETTINGS)
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        with tempfile.TemporaryDirectory() as folder:
            started = time.monotonic()
            differential = Differential(spark, folder, seed)
            built = time.monotonic()
            numbers = iter([arguments.query]) if arguments.query is not None else iter(range(arguments.queries))
            for failure in differential.failures(numbers):
                write(f"{failure}\n")
            write(f"seed {seed}: {built - started:.0f} s + {time.monotonic() - built:.0f} s; {differential.tally}")
            if arguments.verbose:
                write("\n".join(f"rejected: {text}\n   {error[:300]}" for text, error in differential.warehouse.rejected.items()))
                write("\n".join(error[:600] for error in differential.tally.errors))
                write(str(differential.opinion.refused))


if __name__ == "__main__":
    main()
