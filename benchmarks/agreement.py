"""Compare the final rows of all engines: DuckDB, which is not one of them, reads each table and adds up hashes of its rows."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import duckdb_extension_avro
import duckdb_extension_delta
import duckdb_extension_iceberg
import duckdb_extension_parquet

_PACKAGES = {
    "delta": duckdb_extension_delta,
    "parquet": duckdb_extension_parquet,
    "avro": duckdb_extension_avro,
    "iceberg": duckdb_extension_iceberg,
}


def fingerprint(place: Path, format_: str, columns: tuple[str, ...]) -> str:
    """Return the number of a table's rows and the sum of their hashes."""
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        load_extensions(connection)
        row = connection.execute(f"select count(*), sum(hash({', '.join(columns)})) from {table_function(place, format_)}").fetchone()
    assert row is not None
    return f"{row[0]} rows, {row[1]}"


def load_extensions(connection: duckdb.DuckDBPyConnection) -> None:
    """Load DuckDB's readers of both formats from their Python packages, without the network."""
    for name, package in _PACKAGES.items():
        connection.execute(f"install '{next(Path(str(package.__file__)).parent.rglob(f'{name}.duckdb_extension'))}'")
        connection.execute(f"load {name}")


def table_function(place: Path, format_: str) -> str:
    """Return the table function that reads the newest version of a table."""
    return f"delta_scan('{place}')" if format_ == "delta" else f"iceberg_scan('{_newest(place)}')"


def _newest(place: Path) -> str:
    """Return the newest metadata file of an Iceberg table. The version hint is ignored, because it can be old."""
    metadata_files = {int(m[1]): path for path in (place / "metadata").iterdir() if (m := re.match(r"v(\d+)\..*metadata\.json", path.name))}
    return str(metadata_files[max(metadata_files)])
