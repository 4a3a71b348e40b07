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
        for name, package in _PACKAGES.items():
            connection.execute(f"install '{next(Path(str(package.__file__)).parent.rglob(f'{name}.duckdb_extension'))}'")
            connection.execute(f"load {name}")
        reader = f"delta_scan('{place}')" if format_ == "delta" else f"iceberg_scan('{_newest(place)}')"
        row = connection.execute(f"select count(*), sum(hash({', '.join(columns)})) from {reader}").fetchone()
    assert row is not None
    return f"{row[0]} rows, {row[1]}"


def _newest(place: Path) -> str:
    """Return the newest metadata file of an Iceberg table. The version hint is ignored, because it can be old."""
    metadata_files = {int(m[1]): path for path in (place / "metadata").iterdir() if (m := re.match(r"v(\d+)\..*metadata\.json", path.name))}
    return str(metadata_files[max(metadata_files)])
