"""DuckDB as a second opinion on the queries that mean the same in both engines."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import duckdb
import sqlglot
from sqlglot.errors import SqlglotError

from tests.reads.outcomes import Row, loosely, row_difference, rows_of
from tests.reads.relations import Query
from tests.reads.warehouse import Warehouse

OF_DUCKDB = "DuckDB has other rows"


class SecondOpinion:
    """DuckDB with the rows of the tables of a warehouse, and with its views where DuckDB accepts them."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("set threads = 1")
        self.compared = 0
        self.refused: Counter[str] = Counter()
        for table in warehouse.scripts:
            self.connection.register(f"arrow_{table.name}", warehouse.reading_all.table(table.name).toArrow())
            self.connection.execute(f"create table {table.name} as select * from arrow_{table.name}")
        for statement in warehouse.script:
            if statement.startswith(("create view", "create temporary view")):
                self._create_view(statement)

    def _create_view(self, statement: str) -> None:
        """Create a view if DuckDB accepts its query. A query of a view that it rejects has no second opinion."""
        with suppress(SqlglotError, duckdb.Error):
            self.connection.execute(sqlglot.transpile(statement.replace("temporary ", ""), read="spark", write="duckdb")[0])

    def difference(self, query: Query, rows: Counter[Row]) -> str | None:
        """Return how DuckDB's rows differ from the rows of a query, or None if they do not or DuckDB does not run the query."""
        if not query.shared:
            return None
        try:
            text = sqlglot.transpile(query.text, read="spark", write="duckdb")[0]
            expected = rows_of(self.connection.execute(text).to_arrow_table())
        except (SqlglotError, duckdb.Error) as error:
            self.refused[str(error)[:60]] += 1
            return None
        self.compared += 1
        problem = row_difference(loosely(rows), loosely(expected))
        return None if problem is None else f"{OF_DUCKDB}: {problem}\nDuckDB's query: {text}"
