"""Verify the demo's tables: DuckDB computes the rows from the feed's CSV files, and two independent readers read the tables.

Delta tables are read by delta-rs and DuckDB's delta extension, Iceberg tables by pyiceberg and DuckDB's iceberg extension.
This module uses neither dbt nor Spark nor rowmerge. The exit code is 1 when a table differs, or when the row counts that dbt reported
differ from the feed's.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import duckdb_extension_avro
import duckdb_extension_delta
import duckdb_extension_iceberg
import duckdb_extension_parquet
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.table import StaticTable

FEED_TYPES = {
    "flight_id": "VARCHAR", "status": "VARCHAR", "sent_at": "TIMESTAMPTZ", "flight_date": "DATE", "carrier": "VARCHAR",
    "flight": "INTEGER", "origin": "VARCHAR", "dest": "VARCHAR", "tailnum": "VARCHAR", "scheduled_departure": "TIMESTAMPTZ",
    "sched_dep_time": "INTEGER", "sched_arr_time": "INTEGER", "distance": "INTEGER", "dep_time": "INTEGER", "dep_delay": "INTEGER",
    "arr_time": "INTEGER", "arr_delay": "INTEGER", "air_time": "INTEGER",
}  # fmt: skip

EXPECTED = {
    "airlines": "SELECT carrier, name FROM read_csv('{feed}/seeds/airlines.csv', all_varchar = true)",
    "airports": """
        SELECT faa, name, lat::DOUBLE AS lat, lon::DOUBLE AS lon, alt::INTEGER AS alt, tzone
        FROM read_csv('{feed}/seeds/airports.csv', all_varchar = true)""",
    "fct_flights": """
        SELECT flight_id, status, sent_at, flight_date, carrier, flight, origin, dest, tailnum, scheduled_departure, distance,
               dep_time, dep_delay, arr_time, arr_delay, air_time, date_trunc('month', flight_date)::DATE AS flight_month
        FROM newest(999)
        WHERE status <> 'cancelled'""",
    "flight_events": "SELECT batch, flight_id, status, sent_at, dep_delay, arr_delay FROM messages",
    "airport_days": """
        SELECT flight_date, origin, count(*) AS flights, count(*) FILTER (status = 'scheduled') AS still_scheduled,
               count(dep_delay) AS departed, sum(dep_delay)::BIGINT AS minutes_of_delay, max(dep_delay) AS longest_delay,
               count(DISTINCT dest) AS destinations
        FROM expected_fct_flights
        GROUP BY flight_date, origin""",
    "airline_summary": """
        SELECT flight_month, carrier, any_value(a.name) AS airline, count(*) AS flights, count(*) FILTER (status = 'landed') AS landed,
               count(*) FILTER (arr_delay <= 15) AS on_time, count(*) FILTER (status = 'diverted') AS diverted,
               sum(distance)::BIGINT AS miles, sum(arr_delay)::DOUBLE / nullif(count(arr_delay), 0) AS average_arrival_delay
        FROM expected_fct_flights LEFT JOIN expected_airlines AS a USING (carrier)
        GROUP BY flight_month, carrier""",
}

MERGE_COUNTS = """
    WITH source AS (FROM newest_of({batch})), target AS (SELECT * FROM newest({batch} - 1) WHERE status <> 'cancelled')
    SELECT count(*) FILTER (t.flight_id IS NULL AND s.status <> 'cancelled'),
           count(*) FILTER (t.flight_id IS NOT NULL AND s.status <> 'cancelled' AND s.sent_at > t.sent_at),
           count(*) FILTER (t.flight_id IS NOT NULL AND s.status = 'cancelled')
    FROM source AS s LEFT JOIN target AS t USING (flight_id)"""


@dataclass(frozen=True)
class TableFormat:
    """The independent readers of a table format.

    Attributes:
        reader: The name of the reader that `read` uses.
        read: A function that takes the folder of a table and returns its version and its rows.
        scan: A function that takes the folder of a table and returns a DuckDB query for its rows.
    """

    reader: str
    read: Callable[[Path], tuple[int, pa.Table]]
    scan: Callable[[Path], str]


def _read_delta(folder: Path) -> tuple[int, pa.Table]:
    table = DeltaTable(str(folder))
    return table.version(), pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())


def _read_iceberg(folder: Path) -> tuple[int, pa.Table]:
    version, metadata = _newest_metadata(folder)
    return version, StaticTable.from_metadata(str(metadata)).scan().to_arrow()


def _newest_metadata(folder: Path) -> tuple[int, Path]:
    """Return the newest `v<N>.metadata.json` and its number."""
    return max((int(file.name.split(".")[0][1:]), file) for file in (folder / "metadata").glob("v*.metadata.json"))


FORMATS = {
    "delta": TableFormat("delta-rs", _read_delta, lambda folder: f"FROM delta_scan('{folder}')"),
    "iceberg": TableFormat("pyiceberg", _read_iceberg, lambda folder: f"FROM iceberg_scan('{_newest_metadata(folder)[1]}')"),
}
EXTENSIONS = {
    "delta": duckdb_extension_delta,
    "parquet": duckdb_extension_parquet,
    "avro": duckdb_extension_avro,
    "iceberg": duckdb_extension_iceberg,
}


def verify(target: Path, format_: str = "delta") -> bool:
    """Compare all tables below `target/warehouse/flights` with `target/feed`, print a line for each, and return whether all are equal."""
    expected = _expectations(target / "feed")
    print(f"\n{'table':<18}{'format':<10}{'version':>8}{'rows':>10}   independent readers agree?")
    agree = [_table_agrees(expected, target / "warehouse/flights" / name, name, format_) for name in EXPECTED]
    counts_agree = _counts_agree(expected, target / "merges.json")
    return all(agree) and counts_agree


def _expectations(feed: Path) -> duckdb.DuckDBPyConnection:
    """Return a database with the feed's messages and the tables that follow from them."""
    database = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name, package in EXTENSIONS.items():
        database.load_extension(str(next(Path(package.__file__).parent.rglob(f"{name}.duckdb_extension"))))
    database.execute("SET TimeZone = 'UTC'")
    types = ", ".join(f"'{name}': '{type_}'" for name, type_ in FEED_TYPES.items())
    database.execute(f"""
        CREATE TABLE messages AS
        SELECT * EXCLUDE (filename), regexp_extract(filename, 'batch_(\\d+)', 1)::INTEGER AS batch
        FROM read_csv('{feed}/flights/*.csv', header = true, columns = {{{types}}}, filename = true)""")
    for name, condition in (("newest", "batch <= n"), ("newest_of", "batch = n")):
        database.execute(f"""
            CREATE MACRO {name}(n) AS TABLE
            SELECT * FROM messages WHERE {condition}
            QUALIFY row_number() OVER (PARTITION BY flight_id ORDER BY sent_at DESC) = 1""")
    for name, query in EXPECTED.items():
        database.execute(f"CREATE TABLE expected_{name} AS {query.format(feed=feed)}")
    return database


def _table_agrees(database: duckdb.DuckDBPyConnection, folder: Path, name: str, format_: str) -> bool:
    how = FORMATS[format_]
    version, rows = how.read(folder)
    differences = _differences(database, name, database.from_arrow(rows), how.reader)
    differences += _differences(database, name, database.sql(how.scan(folder)), "DuckDB")
    print(f"{name:<18}{format_:<10}{version:>8}{rows.num_rows:>10,}   {'NO' if differences else 'yes, row for row'}")
    for difference in differences:
        print(f"    {difference}")
    return not differences


def _differences(database: duckdb.DuckDBPyConnection, name: str, read: duckdb.DuckDBPyRelation, reader: str) -> list[str]:
    """Return lines that describe how the rows of a reader differ from the expected rows."""
    database.execute("DROP TABLE IF EXISTS actual")
    read.create("actual")
    differences = _type_differences(database, name) or _row_differences(database, name)
    return [f"as {reader} reads it:", *differences] if differences else []


def _type_differences(database: duckdb.DuckDBPyConnection, name: str) -> list[str]:
    want, have = (
        [(row[0], row[1]) for row in database.execute(f"DESCRIBE {relation}").fetchall()] for relation in (f"expected_{name}", "actual")
    )
    return [] if want == have else [f"columns of {name} should be {want}", f"columns of {name} are        {have}"]


def _row_differences(database: duckdb.DuckDBPyConnection, name: str) -> list[str]:
    lines = []
    for what, base_table, subtracted_table in (("missing", f"expected_{name}", "actual"), ("surplus", "actual", f"expected_{name}")):
        relation = database.sql(f"FROM {base_table} EXCEPT ALL FROM {subtracted_table}")
        count = relation.count("*").fetchone()[0]
        if count:
            lines.append(f"{count:,} {what} row(s) in {name}, such as")
            lines += [f"  {row}" for row in relation.order("ALL").limit(3).fetchall()]
    return lines


def _counts_agree(database: duckdb.DuckDBPyConnection, path: Path) -> bool:
    """Return whether dbt reported the row counts of each merge that follow from the feed."""
    if not path.exists():
        return True
    right = True
    print(f"\n{'merge of batch':<16}{'inserted':>10}{'updated':>10}{'deleted':>10}   as the feed says?")
    for batch, reported in json.loads(path.read_text()).items():
        want = database.execute(MERGE_COUNTS.format(batch=int(batch))).fetchone()
        have = tuple(reported[key] for key in ("rows_inserted", "rows_updated", "rows_deleted"))
        right &= want == have
        print(f"{batch:<16}{have[0]:>10,}{have[1]:>10,}{have[2]:>10,}   {'yes' if want == have else f'NO, should be {want}'}")
    return right


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parent / "target", help="with feed and warehouse")
    parser.add_argument("--target", choices=list(FORMATS), default="delta", help="the format that the tables must have")
    arguments = parser.parse_args()
    sys.exit(0 if verify(arguments.folder, arguments.target) else 1)
