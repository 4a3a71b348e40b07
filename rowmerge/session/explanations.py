"""EXPLAIN: commands planned on the newest version, and nothing carried out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from rowmerge.commands.definitions import CreateTable
from rowmerge.commands.explain import Explain
from rowmerge.commands.names import TableName
from rowmerge.commands.rows import Delete, Insert, Merge, RowCommand, Truncate, Update
from rowmerge.execution.explanation import explained, explained_create, explained_insert, explained_truncate
from rowmerge.execution.insert import partition_mask
from rowmerge.plan.planner import static_partition
from rowmerge.session.binding import Binder
from rowmerge.session.columns import query_columns
from rowmerge.session.inserts import InsertStatement
from rowmerge.session.rows import RowStatements, source_query
from rowmerge.sql import references
from rowmerge.table.partitioning import identity_columns
from rowmerge.table.schema import backquote
from rowmerge.table.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NOT_EVALUATED = "not evaluated by EXPLAIN, so its rows are not known"


@dataclass(frozen=True)
class Explanations:
    """Tells what statements would do. Queries are analysed, never run."""

    spark: SparkSession
    binder: Binder
    rows: RowStatements

    def lines(self, explain: Explain) -> list[str]:
        """The plan, a line a fact. Raises what planning the command raises."""
        command = explain.command
        lines, query = self._create(command) if isinstance(command, CreateTable) else self._rows(command)
        if explain.mode and query is not None:
            told = self.binder.query(f"explain {explain.mode} {query}").collect()
            lines = [*lines, "", "Spark's plan of the query:", *(line for row in told for line in row[0].splitlines())]
        return lines

    def _rows(self, command: RowCommand) -> tuple[list[str], str | None]:
        snapshot = self.rows.table(command).snapshot()
        match command:
            case Merge():
                planned = self.rows.planned(command, snapshot)
                return explained(self.spark, snapshot, planned, self._source(command.source.text)), source_query(command)
            case Update() | Delete():
                planned = self.rows.planned(command, snapshot)
                return explained(self.spark, snapshot, planned, None), None
            case Truncate():
                partition = [(name, value.text) for name, value in command.partition]
                values = static_partition(snapshot.schema, identity_columns(snapshot.partitioning), partition, snapshot.name)
                return explained_truncate(snapshot, partition_mask(self.spark, snapshot, values)), None
        return self._insert(command, snapshot), command.query.text

    def _insert(self, command: Insert, snapshot: Snapshot) -> list[str]:
        statement, source = InsertStatement(self.spark, self.binder, command), self._source(command.query.text)
        rows = statement.rows(snapshot)
        if statement.replaces:
            lines = explained(self.spark, snapshot, statement.planned(snapshot), source)
            kind = "USING" if command.replace_using else "ON" if command.replace_on is not None else "WHERE"
            lines[0] = f"INSERT INTO {snapshot.name} REPLACE {kind}"
        else:
            how = {"overwrite": command.overwrite, "dynamic": statement.dynamic, "if_not_exists": command.if_not_exists}
            lines = explained_insert(snapshot, rows, source, **how)
        # The query's columns under the names that the user knows.
        for inner, name in zip(rows.side.columns, rows.frame.columns, strict=True):
            if rows.alias is None:
                lines = [line.replace(f"`{inner}`", backquote(name)) for line in lines]
        return lines

    def _create(self, command: CreateTable) -> tuple[list[str], str | None]:
        assert command.query is not None
        schema, name = self.binder.locate(command.name)
        relation = self.binder.relation(schema, name)
        existing = self.binder.table(command.name).snapshot() if relation is not None else None
        frame: DataFrame = self.binder.query(command.query.text, None if existing is None else self.binder.statement(existing))
        how = {"or_replace": command.or_replace, "if_not_exists": command.if_not_exists}
        source = self._source(command.query.text)
        return explained_create(
            f"{schema}.{name}", query_columns(frame), command.partitioned_by, existing, source, **how
        ), command.query.text

    def _source(self, text: str) -> str:
        """What is known of a source without running it: the rows of a table, by its log."""
        text = text.strip()
        text = text[len("table ") :].strip() if text.lower().startswith("table ") else text
        named = references(f"select * from {text}")
        if len(named) == 1 and text.replace("`", "").lower() == ".".join(named[0].name.parts).lower():
            rows = self._rows_by_log(named[0].name)
            if rows is not None:
                return f"{text}, {rows:,} row(s) by its log, not read by EXPLAIN"
        shown = " ".join(text.split())
        return f"{shown if len(shown) <= 200 else f'{shown[:200]}…'}, {_NOT_EVALUATED}"

    def _rows_by_log(self, name: TableName) -> int | None:
        if len(name.parts) == 1 and self.binder.is_temporary(name.parts[0]):
            return None
        relation = self.binder.relation(*self.binder.locate(name))
        if relation is None or relation.kind != "table":
            return None
        files = self.binder.table(name).snapshot().files()
        return None if files["records"].null_count else (pc.sum(files["records"]).as_py() or 0) - (pc.sum(files["deleted"]).as_py() or 0)
