"""Independent readers of Delta tables, for tests: delta-rs and DuckDB's delta extension. Both apply deletion vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import duckdb_extension_delta
import pyarrow as pa
import pyarrow.compute as pc


def read_with_delta_rs(location: str, order_by: Sequence[str] | str = (), *, version: int | None = None) -> pa.Table:
    """The rows of a table, sorted by these columns (by all of them when none is given)."""
    table = deltalake.DeltaTable(_folder(location), version=version)
    result = deltalake.QueryBuilder().register("t", table).execute("select * from t")
    return _sorted(pa.table(result.read_all()), order_by)


def read_with_duckdb(location: str, order_by: Sequence[str] | str = ()) -> pa.Table:
    """The rows of a table, sorted by these columns (by all of them when none is given)."""
    connection = _duckdb()
    try:
        connection.execute("set timezone = 'UTC'")
        result = connection.execute("select * from delta_scan(?)", [_folder(location)])
        return _sorted(result.to_arrow_table(), order_by)
    finally:
        connection.close()


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows as plain values, for comparing tables whose Arrow types differ in what does not matter (string views, time zones' names)."""
    return [tuple(row.values()) for row in table.to_pylist()]


def _duckdb() -> Any:
    extension = next(Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension"))
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"install '{extension}'")
    connection.execute("load delta")
    return connection


def _folder(location: str) -> str:
    return location[len("file://") :] if location.startswith("file://") else location


def _sorted(table: pa.Table, order_by: Sequence[str] | str) -> pa.Table:
    # Views and dictionaries cannot be sorted or compared everywhere.
    table = table.cast(pa.schema([pa.field(f.name, _plain(f.type)) for f in table.schema]))
    names = [order_by] if isinstance(order_by, str) else list(order_by)
    simple = [f.name for f in table.schema if not pa.types.is_nested(f.type)]
    # By position: Arrow takes a dot in a column's name for a path.
    positions = [str(table.schema.names.index(name)) for name in names or simple]
    order = pc.sort_indices(table.rename_columns([str(i) for i in range(table.num_columns)]), [(p, "ascending") for p in positions])
    return table.take(order)


def _plain(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f.name, _plain(f.type)) for f in type_])
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(_plain(type_.value_type))
    if pa.types.is_map(type_):
        return pa.map_(_plain(type_.key_type), _plain(type_.item_type))
    if pa.types.is_dictionary(type_):
        return _plain(type_.value_type)
    if pa.types.is_string_view(type_) or pa.types.is_large_string(type_):
        return pa.string()
    if pa.types.is_binary_view(type_) or pa.types.is_large_binary(type_):
        return pa.binary()
    return type_
