"""Write the rows of a cell with DuckDB: those of its table, of its source, and of the 20 small merges before.

Row `i` of a table of N rows has the key that `layout` derives from `i`. Rows from N are new. A hash of `i` selects the rows that a source
changes, so they are scattered over the keys.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from benchmarks.shapes.design import Cell
from benchmarks.shapes.layout import ROWS_OF_SMALL_MERGE, columns, expressions, key_columns, partition_count

FILES, SMALL_FILES = 8, 1_000
"""The number of files of a table without partitions: of a fresh one, and of one with small files."""
_NEW_OF_TEN = 2
"""Of ten rows of a source of an upsert, so many are new."""


def write_table(cell: Cell, folder: Path) -> list[Path]:
    """Write the rows of the table as Parquet files, each of which becomes the file of one task. Return the files."""
    count = SMALL_FILES if cell.state == "small files" and cell.partitions == "none" else FILES
    order = ", ".join(key_columns(cell)) if cell.order == "sorted" else "hash(i, 7)"
    # A partitioned table has few files for each partition, unless it has small files.
    partitioned = cell.partitions in ("30", "1000") and cell.state != "small files"
    rows = f"select {_select(cell, 0)}, i from range({cell.rows}) numbers(i)"
    names = ", ".join(columns(cell))
    with duckdb.connect() as connection:
        connection.execute(f"set temp_directory = '{folder}/spill'")
        connection.execute(f"create table ordered as select {names} from ({rows}) order by {'p, ' if partitioned else ''}{order}")
        size = -(-cell.rows // count)
        files = [folder / f"table-{number:04}.parquet" for number in range(count)]
        for number, file in enumerate(files):
            selection = f"select * from ordered where rowid >= {number * size} and rowid < {(number + 1) * size}"
            connection.execute(f"copy ({selection}) to '{file}' (format parquet, compression zstd)")
    return files


def write_source(cell: Cell, file: Path) -> None:
    """Write the rows of the statement's source."""
    with duckdb.connect() as connection:
        connection.execute(f"copy ({_source(cell)}) to '{file}' (format parquet, compression zstd)")


def write_small_source(cell: Cell, number: int, file: Path) -> None:
    """Write the source of one of the small merges before the statement: an upsert of rows that are scattered over the table.

    Args:
        cell: The cell, whose table gets the merges.
        number: The number of the merge.
        file: The Parquet file to write.
    """
    selection = f"hash(i, 3) % {cell.rows // ROWS_OF_SMALL_MERGE} = {number}{_not_null(cell)}"
    with duckdb.connect() as connection:
        rows = f"select {_select(cell, 2 + number)} from range({cell.rows}) numbers(i) where {selection}"
        connection.execute(f"copy ({rows}) to '{file}' (format parquet, compression zstd)")


def _source(cell: Cell) -> str:
    """Return the SQL of the source of a cell's statement."""
    total, changed = cell.rows, round(cell.rows * float(cell.share) / 100)
    parts = round(1_000_000 * float(cell.share) / 100)
    is_changed = f"hash(i, 5) % 1000000 < {parts}"
    match cell.statement:
        case "upsert" | "delete+insert":
            return _rows(cell, f"i < {total} and {is_changed} and hash(i, 6) % 10 >= {_NEW_OF_TEN}", new=changed * _NEW_OF_TEN // 10)
        case "insert-only":
            return _rows(cell, f"i < {total} and {is_changed} and hash(i, 6) % 2 = 0", new=changed // 2)
        case "update" | "delete":
            return _rows(cell, f"i < {total} and {is_changed}", new=0)
        case "cdc":
            operation = f"case when i >= {total} then 'I' when hash(i, 8) % 4 = 0 then 'D' else 'U' end as op"
            return _rows(cell, f"i < {total} and {is_changed}", new=changed // 10, more=operation)
        case "mirror":
            same = f"select {_select(cell, 0)} from range({total}) numbers(i) where not ({is_changed})"
            updated = _rows(cell, f"i < {total} and {is_changed} and hash(i, 6) % 5 > 0", new=changed // 5)
            return f"{same} union all {updated}"
        case "insert_overwrite":
            # The source has all rows of as few partitions as have the share of changed rows.
            replaced = max(1, round(partition_count(cell) * float(cell.share) / 100))
            if cell.partitions in ("30", "1000"):
                return f"select * from ({_rows(cell, 'true', new=0)}) where p < {replaced}"
            return _rows(cell, is_changed, new=0)
        case _:  # scd2: an ended row and its next version, or a new row
            ended = _rows(cell, f"i < {total} and {is_changed}{_not_null(cell)}", new=0, more="'update' as change_type", version=0)
            started = f"select {_select(cell, 1)}, 'insert' as change_type from range({total}, {total + changed}) numbers(i)"
            ended = f"select * replace (date '2024-01-01' as valid_to) from ({ended})"
            return f"{ended} union all select * replace (date '2024-01-01' as valid_from) from ({started})"


def _rows(cell: Cell, condition: str, *, new: int, more: str = "", version: int = 1) -> str:
    """Return the rows with new values: the existing ones that a condition selects, and a number of new ones."""
    total, column = cell.rows, f", {more}" if more else ""
    return f"select {_select(cell, version)}{column} from range({total + new}) numbers(i) where {condition}" + (
        f" or i >= {total}" if new else ""
    )


def _select(cell: Cell, version: int) -> str:
    return ", ".join(f"{expression} as {name}" for name, expression in expressions(cell, version).items())


def _not_null(cell: Cell) -> str:
    return " and i % 1000 <> 999" if cell.key == "nullable" else ""
