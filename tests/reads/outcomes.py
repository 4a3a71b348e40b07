"""Outcomes of queries: the types and rows, or the error. Two outcomes are compared as multisets of rows."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa

import rowmerge
from rowmerge.session.answers.results import ScanReason

_ERROR_CLASS = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]")
_SHOWN_ROWS = 5

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Outcome:
    """The types and rows of a query, or the class of its error. `text`: the error's text.

    `files`, `total_files`: the number of files that it reads, and of all files of the versions of its tables. `from_metadata`: whether
    metadata contains the result, or names the files that do.
    """

    types: tuple[str, ...] = ()
    rows: Counter[Row] | None = None
    error: str | None = None
    text: str = ""
    files: int = 0
    total_files: int = 0
    from_metadata: bool = False


def run(session: rowmerge.Session, text: str) -> Outcome:
    """Run a query and fetch its rows."""
    try:
        result = session.execute(text)
        arrow = result.frame.toArrow()
    except Exception as error:  # noqa: BLE001  # every error is an outcome to compare
        return Outcome(error=error_class(error), text=str(error))
    types = tuple(str(field.type) for field in arrow.schema)
    scans = [(scan.files, scan.total_files if scan.total_files is not None else len(scan.snapshot.files())) for scan in result.scans]
    has_reason = any(scan.reason in (ScanReason.METADATA, ScanReason.FEW_FILES) for scan in result.scans)
    return Outcome(types, rows_of(arrow), None, "", sum(files for files, _ in scans), sum(total for _, total in scans), has_reason)


def error_class(error: Exception) -> str:
    """Return the class of Spark's error, such as `DIVIDE_BY_ZERO`, or the name of another error."""
    match = _ERROR_CLASS.search(str(error))
    return match[1] if match else type(error).__name__


def rows_of(arrow: pa.Table) -> Counter[Row]:
    """Return the rows of a table as a multiset of comparable values."""
    columns = [[comparable(value) for value in column.to_pylist()] for column in arrow.columns]
    return Counter(zip(*columns, strict=True)) if columns else Counter({(): arrow.num_rows})


def comparable(value: Any) -> Any:
    """Return a value with which equal values compare equal: NaN as text, -0.0 as 0.0, times in UTC, structs as tuples."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(timezone.utc).isoformat()
    if isinstance(value, dict):
        return tuple((name, comparable(item)) for name, item in value.items())
    if isinstance(value, list):
        return tuple(comparable(item) for item in value)
    return value


def loosely(rows: Counter[Row]) -> Counter[Row]:
    """Return rows for a comparison with another engine: numbers without their types."""
    loose: Counter[Row] = Counter()
    for row, count in rows.items():
        loose[tuple(_loose(value) for value in row)] += count
    return loose


def _loose(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | Decimal):
        return str(Decimal(value).normalize() + 0)
    if isinstance(value, float):
        return f"{value:.9g}"
    return value


def difference(skipping: Outcome, reading_all: Outcome) -> str | None:
    """Return how the outcome of a query that skipped files differs from that of reading all files, or None.

    Spark promises no order in which conditions are evaluated. A source may also skip rows by a pushed filter before another condition
    fails on them. So if a query fails when it reads all files, the other query may do anything: the failing row may be in a skipped file.
    A query that succeeds when it reads all files must succeed.
    """
    if reading_all.error is not None:
        return None
    if skipping.error is not None:
        return f"only the query that skips files fails: {skipping.text[:600]}"
    if skipping.types != reading_all.types:
        return f"the types differ: {skipping.types} instead of {reading_all.types}"
    return row_difference(skipping.rows or Counter(), reading_all.rows or Counter())


def row_difference(actual: Counter[Row], expected: Counter[Row]) -> str | None:
    """Return which rows are missing and which are surplus, or None for equal rows."""
    if actual == expected:
        return None
    missing, surplus = expected - actual, actual - expected
    return f"{missing.total()} rows are missing: {_first_rows(missing)}; {surplus.total()} are surplus: {_first_rows(surplus)}"


def is_part(rows: Counter[Row], of: Counter[Row]) -> bool:
    """Return whether the rows are some of other rows."""
    return not rows - of


def _first_rows(rows: Counter[Row]) -> Sequence[Row]:
    return list(rows)[:_SHOWN_ROWS]
