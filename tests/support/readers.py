"""Independent readers of tables for tests: delta-rs and DuckDB's extension for Delta, pyiceberg and DuckDB's extension for Iceberg.

All of them apply every kind of deleted rows, except that pyiceberg rejects Iceberg's equality deletes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import deltalake
import duckdb
import duckdb_extension_avro
import duckdb_extension_delta
import duckdb_extension_iceberg
import duckdb_extension_parquet
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import StaticTable

_PACKAGES: Mapping[str, ModuleType] = {
    "delta": duckdb_extension_delta,
    "parquet": duckdb_extension_parquet,
    "avro": duckdb_extension_avro,
    "iceberg": duckdb_extension_iceberg,
}
_DELTA = ("delta",)
_VERSION = re.compile(r"v(\d+)\..*metadata\.json(\.gz)?")
_ICEBERG = ("parquet", "avro", "iceberg")


def read_with_delta_rs(location: str, order_by: Sequence[str] | str = (), *, version: int | None = None) -> pa.Table:
    """Return the rows of a Delta table, sorted by these columns (by all columns if none is given)."""
    table = deltalake.DeltaTable(_folder(location), version=version)
    result = deltalake.QueryBuilder().register("t", table).execute("select * from t")
    return _sorted(pa.table(result.read_all()), order_by)


def read_with_duckdb(location: str, order_by: Sequence[str] | str = ()) -> pa.Table:
    """Return the rows of a Delta table, sorted by these columns (by all columns if none is given)."""
    return _query_duckdb(_DELTA, "select * from delta_scan(?)", _folder(location), order_by)


def read_with_pyiceberg(location: str, order_by: Sequence[str] | str = (), *, snapshot_id: int | None = None) -> pa.Table:
    """Return the rows of an Iceberg table, sorted by these columns (by all columns if none is given).

    `location` is a metadata file, or the folder of a table in a directory catalog. A `uuid` is returned as 16 bytes. A list or map that
    is NULL is returned empty if a file stores its elements with other fields or ids. Raises ValueError if the table has equality deletes.
    """
    return _sorted(StaticTable.from_metadata(newest_metadata(location)).scan(snapshot_id=snapshot_id).to_arrow(), order_by)


def read_with_duckdb_iceberg(location: str, order_by: Sequence[str] | str = (), *, snapshot_id: int | None = None) -> pa.Table:
    """Return the rows of an Iceberg table, sorted by these columns (by all columns if none is given).

    `location` is a metadata file, or the folder of a table in a directory catalog. DuckDB stops at equality deletes with a NULL key in a
    partition, and crashes at equality deletes on a column that was widened later.
    """
    metadata = _folder(newest_metadata(location))
    options = "" if snapshot_id is None else f", snapshot_from_id => {snapshot_id}"
    options += ", metadata_compression_codec => 'gzip'" if metadata.endswith(".gz.metadata.json") else ""
    return _query_duckdb(_ICEBERG, f"select * from iceberg_scan(?{options})", metadata, order_by)


def read_lineage_with_duckdb(location: str) -> pa.Table:
    """Return the rows of an Iceberg table of format version 3 with `_row_id` and `_last_updated_sequence_number`."""
    return _query_duckdb(_ICEBERG, "select *, _row_id, _last_updated_sequence_number from iceberg_scan(?)", newest_metadata(location), ())


def newest_metadata(location: str) -> str:
    """Return the newest `v<N>.metadata.json`, compressed or not, in the folder of a table. A metadata file is returned unchanged.

    The version hint is ignored, because it can be old. DuckDB's own guess takes v9 for newer than v10.
    """
    if location.endswith(".json"):
        return location
    files = {int(m[1]): f for f in (Path(_folder(location)) / "metadata").iterdir() if (m := _VERSION.fullmatch(f.name))}
    return str(files[max(files)])


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows as Python values, to compare tables whose Arrow types differ only in string views or names of time zones."""
    return [tuple(row.values()) for row in table.to_pylist()]


def _query_duckdb(extensions: tuple[str, ...], query: str, location: str, order_by: Sequence[str] | str) -> pa.Table:
    cursor = _duckdb_with(extensions).cursor()
    try:
        return _sorted(cursor.execute(query, [location]).to_arrow_table(), order_by)
    except (duckdb.FatalException, duckdb.InternalException):
        # DuckDB rejects every later query of a database in which one query failed like that.
        _duckdb_with.cache_clear()
        raise
    finally:
        cursor.close()


@cache
def _duckdb_with(extensions: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
    """Return the database of this process with these extensions, whose loading takes longer than most queries."""
    # Tests replace files in place, so DuckDB must not keep what it read.
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "enable_external_file_cache": "false"})
    for name in extensions:
        package = Path(str(_PACKAGES[name].__file__)).parent
        connection.execute(f"load '{next(package.rglob(f'{name}.duckdb_extension'))}'")
    connection.execute("set global timezone = 'UTC'")
    return connection


def _folder(location: str) -> str:
    return location[len("file://") :] if location.startswith("file://") else location


def _sorted(table: pa.Table, order_by: Sequence[str] | str) -> pa.Table:
    # Views and dictionaries cannot be sorted or compared everywhere.
    table = table.cast(pa.schema([pa.field(f.name, _simplify_type(f.type)) for f in table.schema]))
    names = [order_by] if isinstance(order_by, str) else list(order_by)
    simple = [f.name for f in table.schema if not pa.types.is_nested(f.type)]
    # By position: Arrow takes a dot in a column's name for a path.
    positions = [str(table.schema.names.index(name)) for name in names or simple]
    if not positions:
        return table.take(sorted(range(table.num_rows), key=lambda row: repr(table.slice(row, 1).to_pylist())))
    order = pc.sort_indices(table.rename_columns([str(i) for i in range(table.num_columns)]), [(p, "ascending") for p in positions])
    return table.take(order)


def _simplify_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f.name, _simplify_type(f.type)) for f in type_])
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(_simplify_type(type_.value_type))
    if pa.types.is_map(type_):
        return pa.map_(_simplify_type(type_.key_type), _simplify_type(type_.item_type))
    if pa.types.is_dictionary(type_):
        return _simplify_type(type_.value_type)
    if pa.types.is_string_view(type_) or pa.types.is_large_string(type_):
        return pa.string()
    if pa.types.is_binary_view(type_) or pa.types.is_large_binary(type_):
        return pa.binary()
    if isinstance(type_, pa.BaseExtensionType):
        return type_.storage_type
    return type_
