"""Failing queries with everything that repeats them: the statements of their tables, the settings, and a smaller form."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from rowmerge.errors import RowmergeError
from tests.reads.outcomes import difference, run
from tests.reads.shrinking import shrink_query, shrink_script, tables_in
from tests.reads.warehouse import BUILD_SETTINGS, Warehouse, open_warehouse, run_on_both

_CREATED = re.compile(r"create (table|view|temporary view) (\w+)")


@dataclass(frozen=True)
class Replay:
    """A query that fails on tables. `statements`: the statements that create these tables, and the views over them."""

    statements: Sequence[str]
    settings: Mapping[str, str]
    text: str

    def __str__(self) -> str:
        settings = [f"set {name} = {setting}" for name, setting in self.settings.items()]
        return "".join(f"{statement};\n" for statement in [*self.statements, *settings, self.text])


def failing_query(warehouse: Warehouse, settings: Mapping[str, str], text: str) -> Replay:
    """Return a smaller form of a query that fails in a warehouse, with the statements of the tables and views that it reads."""
    smaller = shrink_query(text, lambda candidate: _problem(warehouse, candidate) is not None)
    return Replay(_needed_statements(warehouse.script, smaller), settings, smaller)


def with_fewer_statements(replay: Replay, spark: SparkSession) -> Replay:
    """Return a replay with fewer statements that still fails."""

    def fails(statements: Sequence[str]) -> bool:
        return problem_of(replace(replay, statements=statements), spark) is not None

    return replace(replay, statements=shrink_script(replay.statements, fails)) if fails(replay.statements) else replay


def problem_of(replay: Replay, spark: SparkSession) -> str | None:
    """Run a replay in a new warehouse. Return how the rows of its query differ, or None, also if a statement fails."""
    with tempfile.TemporaryDirectory() as folder:
        warehouse = open_warehouse(folder, spark)
        warehouse.set(BUILD_SETTINGS)
        try:
            for statement in replay.statements:
                runs_twice = statement.startswith(("create temporary view", "declare"))
                (warehouse.run_everywhere if runs_twice else warehouse.run)(statement)
        except RowmergeError:
            return None
        warehouse.set(replay.settings)
        return _problem(warehouse, replay.text)


def _problem(warehouse: Warehouse, text: str) -> str | None:
    return difference(*run_on_both(warehouse, text, text, run))


def _needed_statements(script: Sequence[str], text: str) -> list[str]:
    """Return the statements about the tables and views of a query, also about those that its views read, and about variables."""
    created = [_CREATED.match(statement) for statement in script]
    all_names = [match[2] for match in created if match]
    names, size = set(tables_in(text, all_names)), -1
    while size < len(names):
        size = len(names)
        for statement, match in zip(script, created, strict=True):
            if match and match[1] != "table" and match[2] in names:
                names |= set(tables_in(statement, all_names))
    subjects = [match[2] if match else statement[:60] for statement, match in zip(script, created, strict=True)]
    return [
        statement
        for statement, subject in zip(script, subjects, strict=True)
        if statement.startswith(("declare", "create function")) or tables_in(subject, sorted(names))
    ]
