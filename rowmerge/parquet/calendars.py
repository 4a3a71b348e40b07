"""Convert old dates of data files that Spark 2 wrote. It counted days before 15 October 1582 in the Julian calendar.

Spark converts such dates when it reads a file, by the metadata of the file. Arrow does not, so rows that Arrow reads are converted here.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_DATES_KEY, _INT96_KEY = b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"
_FIRST_GREGORIAN_DAY, _FIRST_DAY_OF_TIME_ZONES = datetime.date(1582, 10, 15), datetime.date(1900, 1, 1)
_EPOCH = 2_440_588
"""The Julian day number of 1 January 1970."""
_REASON = (
    "it has old timestamps, or old dates inside nested columns, in the Julian calendar of Spark 2, which only Spark converts. "
    "Set spark.rowmerge.read.smallFilesWithArrow.enabled to false, and replace the table with CREATE OR REPLACE TABLE … AS SELECT"
)
_Days = np.ndarray[tuple[int], np.dtype[np.int64]]


def to_gregorian(rows: pa.Table, file_metadata: Mapping[bytes, bytes] | None) -> pa.Table:
    """Return rows of a file in which old dates have the same year, month and day in the Gregorian calendar.

    Like Spark, convert files of Spark 2, files of later versions with the key `legacyDateTime`, and no files of other writers. Files of
    Spark 3.0, or with the key `legacyINT96`, can have old INT96 timestamps.

    Args:
        rows: Rows of a data file, as Arrow reads them.
        file_metadata: The metadata of the file by key.

    Raises:
        ArrowNotImplementedError: The rows have old timestamps, or old dates inside nested columns.
    """
    metadata = file_metadata or {}
    version = metadata.get(b"org.apache.spark.version")
    if version is None:
        return rows
    has_julian_dates = version < b"3" or _DATES_KEY in metadata
    if not (has_julian_dates or version < b"3.1" or _INT96_KEY in metadata):
        return rows
    for index, field in enumerate(rows.schema):
        values = rows.column(index).combine_chunks()
        if not _has_old_times(values):
            continue
        if not pa.types.is_date32(field.type):
            raise pa.ArrowNotImplementedError(_REASON)
        if has_julian_dates:
            rows = rows.set_column(index, field, _gregorian_dates(values))
    return rows


def _has_old_times(values: pa.Array) -> bool:
    """Return whether an array contains dates or times that differ between the calendars, or between old and new rules of time zones."""
    if pa.types.is_date(values.type) or pa.types.is_timestamp(values.type):
        first_day = _FIRST_GREGORIAN_DAY if pa.types.is_date(values.type) else _FIRST_DAY_OF_TIME_ZONES
        return bool(pc.any(pc.less(values, pa.scalar(first_day, pa.date32()).cast(values.type))).as_py())
    if pa.types.is_map(values.type):
        return _has_old_times(values.keys) or _has_old_times(values.items)
    if pa.types.is_struct(values.type) or pa.types.is_list(values.type):
        children = values.flatten()
        return any(map(_has_old_times, children if isinstance(children, list) else [children]))
    return False


def _gregorian_dates(values: pa.Array) -> pa.Array:
    """Convert the dates before 15 October 1582 from the Julian calendar, and return all dates."""
    days: _Days = values.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    first = _FIRST_GREGORIAN_DAY.toordinal() - datetime.date(1970, 1, 1).toordinal()
    converted = np.where(days < first, _days_of_gregorian_date(*_julian_date(days)), days)
    mask = values.is_null().to_numpy(zero_copy_only=False)
    return pa.array(converted.astype(np.int32), pa.int32(), mask=mask).cast(values.type)


def _julian_date(days: _Days) -> tuple[_Days, _Days, _Days]:
    """Return the year, month and day in the Julian calendar of days since 1970 (Richards, "Mapping Time", algorithm E)."""
    shifted = days + _EPOCH + 32_082
    year = (4 * shifted + 3) // 1461
    day_of_year = shifted - 1461 * year // 4
    month = (5 * day_of_year + 2) // 153
    return year - 4800 + month // 10, month + 3 - 12 * (month // 10), day_of_year - (153 * month + 2) // 5 + 1


def _days_of_gregorian_date(year: _Days, month: _Days, day: _Days) -> _Days:
    """Return the days since 1970 of dates in the Gregorian calendar. A 29 February that it lacks becomes 1 March, as in Spark."""
    shift = (14 - month) // 12
    years = year + 4800 - shift
    months = month + 12 * shift - 3
    days: _Days = day + (153 * months + 2) // 5 + 365 * years + years // 4 - years // 100 + years // 400 - 32_045 - _EPOCH
    return days
