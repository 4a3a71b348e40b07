"""Dates and timestamps compared with literals, in an unknown session time zone."""

from __future__ import annotations

from datetime import date, datetime, timezone

import pytest

from tests.unit.plan.listings import between, column, select_files


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x = DATE '2024-01-15'", [0]),
        ("x = '2024-01-15'", [0]),
        ("x >= date('2024-02-01')", [1]),
        ("x >= to_date('2024-02-01')", [1]),
        ("x >= CAST('2024-02-01' AS DATE)", [1]),
        ("x IN ('2024-01-15', '2023-01-01')", [0]),
        ("x BETWEEN '2024-02-28' AND '2024-02-29'", [1]),
        ("x = '2024-02-30'", [0, 1]),
        ("x = '2024-1-5'", [0, 1]),
        ("x = '2023'", [0, 1]),
        ("x = '2024-03-01 00:00:00'", [0, 1]),
        ("x = 'epoch'", [0, 1]),
        ("x > TIMESTAMP '2025-01-01 00:00:00'", []),
        ("x >= TIMESTAMP '2024-02-01 12:00:00'", [0, 1]),
        ("x >= TIMESTAMP_NTZ '2024-02-01 12:00:00'", [1]),
        ("x < TIMESTAMP_NTZ '2024-02-01 00:00:00'", [0]),
        ("x >= to_date('01.02.2024', 'dd.MM.yyyy')", [0, 1]),
        ("x >= current_date()", [0, 1]),
    ],
)
def test_dates_are_compared_only_with_valid_date_literals(condition: str, expected: list[int]) -> None:
    files = between((date(2024, 1, 1), date(2024, 1, 31)), (date(2024, 2, 1), date(2024, 2, 29)))
    assert select_files(column("date"), files, condition) == expected


def hours(day: int, zone: timezone | None) -> tuple[datetime, datetime]:
    return datetime(2024, 1, day, 0, tzinfo=zone), datetime(2024, 1, day, 23, 59, 59, tzinfo=zone)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x >= TIMESTAMP '2024-01-03 00:00:00Z'", [2, 3, 4]),
        ("x < TIMESTAMP '2024-01-03T02:00:00+02:00'", [0, 1]),
        ("x = '2024-01-03T12:00:00Z'", [2]),
        # Without a zone it may be 18 hours earlier or later.
        ("x >= TIMESTAMP '2024-01-04 00:00:00'", [2, 3, 4]),
        ("x >= '2024-01-04'", [2, 3, 4]),
        ("x >= DATE '2024-01-04'", [2, 3, 4]),
        ("x < CAST('2024-01-03' AS TIMESTAMP)", [0, 1, 2]),
        ("x = TIMESTAMP_NTZ '2024-01-03 12:00:00'", [1, 2, 3]),
        ("x <> TIMESTAMP '2024-01-03 12:00:00'", [0, 1, 2, 3, 4]),
        ("x = CAST('2024-01-03T12:00:00Z' AS TIMESTAMP)", [0, 1, 2, 3, 4]),
        ("x = TIMESTAMP '2024-01-03 12:00:00 Europe/Berlin'", [0, 1, 2, 3, 4]),
        ("x = TIMESTAMP '2024-01-03 12:00:00.1234567Z'", [0, 1, 2, 3, 4]),
        ("x = TIMESTAMP '2024-01-03 12:00:00+19:00'", [0, 1, 2, 3, 4]),
        ("x IN ('2024-01-03T12:00:00Z')", [0, 1, 2, 3, 4]),
        ("x IN (TIMESTAMP '2024-01-03 12:00:00Z')", [2]),
        ("x > 1704240000", [0, 1, 2, 3, 4]),
    ],
)
def test_timestamps_are_instants_and_the_session_zone_is_unknown(condition: str, expected: list[int]) -> None:
    files = between(*(hours(day, timezone.utc) for day in range(1, 6)))
    assert select_files(column("timestamp"), files, condition) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x >= TIMESTAMP_NTZ '2024-01-04 00:00:00'", [3, 4]),
        ("x = CAST('2024-01-03 12:00:00' AS TIMESTAMP_NTZ)", [2]),
        ("x < '2024-01-03'", [0, 1]),
        ("x < DATE '2024-01-03'", [0, 1]),
        ("x >= TIMESTAMP '2024-01-04 12:00:00'", [2, 3, 4]),
        ("x >= TIMESTAMP '2024-01-04 00:00:00Z'", [2, 3, 4]),
        ("x = '2024-01-03T12:00:00Z'", [0, 1, 2, 3, 4]),
        ("x IN ('2024-01-03 12:00:00')", [0, 1, 2, 3, 4]),
        ("x IN (TIMESTAMP_NTZ '2024-01-03 12:00:00')", [2]),
        # As instants, a local time that never occurs equals a later one.
        ("x IN (TIMESTAMP_NTZ '2024-01-03 12:00:00', TIMESTAMP '2024-01-03 12:00:00Z')", [0, 1, 2, 3, 4]),
    ],
)
def test_local_timestamps_are_compared_without_a_zone(condition: str, expected: list[int]) -> None:
    files = between(*(hours(day, None) for day in range(1, 6)))
    assert select_files(column("timestamp_ntz"), files, condition) == expected


def test_times_at_the_end_of_the_calendar_are_compared() -> None:
    files = between(hours(1, timezone.utc))
    assert (
        select_files(column("timestamp"), files, "x IN (TIMESTAMP '0001-01-01 00:00:00+14:00', TIMESTAMP '9999-12-31 23:59:59-14:00')")
        == []
    )
    assert select_files(column("timestamp"), files, "x < TIMESTAMP '0001-01-01 00:00:00' OR x > TIMESTAMP '9999-12-31 23:59:59'") == []
    assert select_files(column("date"), between((date(2024, 1, 1), date(2024, 1, 1))), "x = '0000-01-01' OR x = '10000-01-01'") == [0]
