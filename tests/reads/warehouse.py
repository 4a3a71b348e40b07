"""A warehouse of random tables and views, with one session that skips files and one that does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import RowmergeError
from tests.reads.queries import QueryWriter
from tests.reads.relations import Source
from tests.reads.tables import TableScript, TableWriter
from tests.reads.values import name_in_sql

Result = TypeVar("Result")
SKIP_FILES = "spark.rowmerge.read.skipFiles.enabled"
VARIABLES = (
    "declare or replace variable session_number int default 20",
    "declare or replace variable session_text string default 'abc'",
    "declare or replace variable session_day date default date '2024-01-15'",
)
FUNCTION = "create function doubled(x bigint) returns bigint return x * 2"
BUILD_SETTINGS = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true", "spark.sql.caseSensitive": "false"}


@dataclass
class Warehouse:
    """Tables and views of a seed. `skipping` and `reading_all`: two sessions on them. Both can be one session, with one setting switched.

    `script`: the statements that were run. `sources`: the tables and views for queries. `scripts`: the tables with their statements.
    """

    skipping: rowmerge.Session
    reading_all: rowmerge.Session
    script: list[str] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    scripts: list[TableScript] = field(default_factory=list)
    rejected: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)

    def set(self, settings: Mapping[str, str]) -> None:
        """Change settings of Spark in both sessions."""
        for name, setting in settings.items():
            if self.settings.get(name) != setting:
                for session in (self.skipping, self.reading_all):
                    session.spark.conf.set(name, setting)
                self.settings[name] = setting

    def run(self, statement: str) -> None:
        """Run a statement that defines or fills a table, and append it to the script."""
        self.script.append(statement)
        self.skipping.sql(statement)

    def run_everywhere(self, statement: str) -> None:
        """Run a statement on both sessions, such as one that creates a temporary view."""
        self.run(statement)
        if self.reading_all is not self.skipping:
            self.reading_all.sql(statement)


def open_warehouse(folder: str, spark: SparkSession) -> Warehouse:
    """Open an empty warehouse. On Spark Connect, one session serves both purposes."""
    is_classic = type(spark).__module__ == "pyspark.sql.session"
    sparks = [spark.newSession(), spark.newSession()] if is_classic else [spark, spark]
    sessions = [rowmerge.connect(folder, spark=one, durability="process") for one in sparks]
    warehouse = Warehouse(sessions[0], sessions[0] if sparks[0] is sparks[1] else sessions[1])
    if is_classic:
        warehouse.skipping.spark.conf.set(SKIP_FILES, "true")
        warehouse.reading_all.spark.conf.set(SKIP_FILES, "false")
    return warehouse


def run_on_both(
    warehouse: Warehouse, skipping: str, reading_all: str, run: Callable[[rowmerge.Session, str], Result]
) -> tuple[Result, Result]:
    """Run one text with skipped files, and another without, and return both results. On classic Spark, both run at the same time.

    Args:
        warehouse: The warehouse with its sessions.
        skipping: The text to run where files are skipped.
        reading_all: The text to run where all files are read.
        run: The function that runs a text on a session.
    """
    if warehouse.skipping is not warehouse.reading_all:
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(run, warehouse.reading_all, reading_all)
            return run(warehouse.skipping, skipping), answer.result()
    results = []
    for text, skips in ((skipping, "true"), (reading_all, "false")):
        warehouse.skipping.spark.conf.set(SKIP_FILES, skips)
        results.append(run(warehouse.skipping, text))
    return results[0], results[1]


def fill(warehouse: Warehouse, seed: int, tables: int, most_inserts: int) -> None:
    """Create the tables and views of a seed."""
    warehouse.set(BUILD_SETTINGS)
    for statement in VARIABLES:
        warehouse.run_everywhere(statement)
    warehouse.run(FUNCTION)
    for number in range(tables):
        random = Random(f"{seed}/table/{number}")
        script = TableWriter(random).table(f"t{number}", random.choice(["delta", "iceberg"]), most_inserts)
        warehouse.scripts.append(script)
        warehouse.sources.append(_create_table(warehouse, script))
    for number in range(tables // 2):
        _create_view(warehouse, Random(f"{seed}/view/{number}"), number)


def _create_table(warehouse: Warehouse, script: TableScript) -> Source:
    versions, changes = [], None
    for statement in script.statements:
        if not statement.startswith("-- mark "):
            warehouse.run(statement)
            continue
        mark = statement.removeprefix("-- mark ")
        if script.format == "iceberg":
            warehouse.run(f"alter table {script.name} create tag {mark}")
            versions.append(f" version as of '{mark}'")
        else:
            version = warehouse.skipping.sql(f"describe history {script.name}").limit(1).collect()[0]["version"]
            versions += [f" version as of {version}", f"@v{version}"]
            if script.has_change_feed:
                changes = f"table_changes('{script.name}', {version})"
    return Source(script.name, script.columns, versions, changes=changes)


def _create_view(warehouse: Warehouse, random: Random, number: int) -> None:
    """Create a view over the sources so far, in the catalog or a temporary one, with or without a column list."""
    writer = QueryWriter(random, warehouse.sources, case_sensitive=True)  # queries read the view also in case-sensitive sessions
    query = writer.body(1)
    name, columns, column_list = f"view{number}", list(query.columns), ""
    if random.random() < 0.4:
        columns = [type(column)(f"z{place}", column.type) for place, column in enumerate(columns)]
        column_list = f" ({', '.join(name_in_sql(column.name) for column in columns)})"
    kind = random.choice(["temporary view", "view"])
    statement = f"create {kind} {name}{column_list} as {query.text}"
    try:
        if kind == "view":
            warehouse.run(statement)
        else:
            warehouse.run_everywhere(statement)
        warehouse.reading_all.sql(f"select * from {name}").schema  # noqa: B018  # analyses the view
    except RowmergeError as error:
        warehouse.script.pop()
        warehouse.rejected[statement] = str(error)
    else:
        warehouse.sources.append(Source(name, columns, shared=writer.conditions.shared and not re.search(r"@v|version as of", query.text)))
