"""Dates and timestamps compared with literals, in a known session time zone."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from rowmerge.plan.bounds.time_zones import HOUR, MAX_OFFSET, instants_of, local_time_of, sample_times, zone_of
from tests.unit.plan.listings import between, column, select_files

DAYS = between(
    *((datetime(2024, 1, day, tzinfo=timezone.utc), datetime(2024, 1, day, 23, 59, 59, tzinfo=timezone.utc)) for day in range(1, 6))
)
LOCAL_DAYS = between(*((datetime(2024, 1, day), datetime(2024, 1, day, 23, 59, 59)) for day in range(1, 6)))
ONE_DAY = "x >= '2024-01-03' AND x < '2024-01-04'"


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("UTC", [2]),
        ("Z", [2]),
        ("Etc/UTC", [2]),
        ("+00:00", [2]),
        ("+02:00", [1, 2]),
        ("GMT+8", [1, 2]),
        ("-05:30", [2, 3]),
        ("Europe/Berlin", [1, 2]),
        ("America/New_York", [2, 3]),
        ("Europe/Atlantis", [1, 2, 3]),
        ("+19:00", [1, 2, 3]),
        ("../etc/passwd", [1, 2, 3]),
        ("", [1, 2, 3]),
        (None, [1, 2, 3]),
    ],
)
def test_a_filter_on_a_day_selects_the_files_of_that_day_in_the_session_zone(zone: str | None, expected: list[int]) -> None:
    assert select_files(column("timestamp"), DAYS, ONE_DAY, time_zone=zone) == expected
    typed = "x >= DATE '2024-01-03' AND x < TIMESTAMP '2024-01-04 00:00:00'"
    assert select_files(column("timestamp"), DAYS, typed, time_zone=zone) == expected


@pytest.mark.parametrize(
    ("condition", "zone", "expected"),
    [
        ("x IN (TIMESTAMP '2024-01-03 12:00:00')", "UTC", [2]),
        ("x IN (TIMESTAMP '2024-01-03 12:00:00')", None, [0, 1, 2, 3, 4]),
        ("x = TIMESTAMP '2024-01-03 23:30:00'", "America/New_York", [3]),
        ("x <> TIMESTAMP '2024-01-03 23:30:00'", "America/New_York", [0, 1, 2, 3, 4]),
        ("x >= TIMESTAMP_NTZ '2024-01-03 00:00:00'", "+02:00", [1, 2, 3, 4]),
    ],
)
def test_timestamps_are_compared_in_the_session_zone(condition: str, zone: str | None, expected: list[int]) -> None:
    assert select_files(column("timestamp"), DAYS, condition, time_zone=zone) == expected


@pytest.mark.parametrize(
    ("condition", "zone", "expected"),
    [
        ("x >= TIMESTAMP '2024-01-04 00:00:00'", "Europe/Berlin", [3, 4]),
        ("x >= TIMESTAMP '2024-01-04 00:00:00Z'", "Europe/Berlin", [3, 4]),
        ("x >= TIMESTAMP '2024-01-04 00:00:00Z'", "America/New_York", [2, 3, 4]),
        ("x >= TIMESTAMP '2024-01-04 00:00:00Z'", "-05:00", [2, 3, 4]),
        ("x = TIMESTAMP '2024-01-03 23:30:00Z'", "Europe/Berlin", [3]),
        ("x = TIMESTAMP '2024-01-03 12:00:00'", None, [1, 2, 3, 4]),
    ],
)
def test_local_timestamps_are_compared_with_instants_in_the_session_zone(condition: str, zone: str | None, expected: list[int]) -> None:
    assert select_files(column("timestamp_ntz"), LOCAL_DAYS, condition, time_zone=zone) == expected


def micros(text: str) -> int:
    return (datetime.fromisoformat(text) - datetime(1970, 1, 1)) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("local", "zone", "earliest", "latest"),
    [
        ("2024-07-01", "Europe/Berlin", -2, -2),
        ("2024-03-31T02:30:00", "Europe/Berlin", -2, -1),  # never occurs
        ("2024-03-31T03:00:00", "Europe/Berlin", -2, -2),
        ("2024-10-27T02:30:00", "Europe/Berlin", -2, -1),  # occurs twice
        ("2024-10-27T03:00:00", "Europe/Berlin", -1, -1),
        ("2011-12-30T12:00:00", "Pacific/Apia", -14, 10),  # a day that Samoa left out
        ("2060-07-01", "Europe/Berlin", -2, -2),
        ("1969-12-31", "Europe/Berlin", -18, 18),
        ("1850-01-01", "Europe/Berlin", -18, 18),
        ("9999-12-31", "Europe/Berlin", -18, 18),
        ("0001-01-01", "+01:00", -1, -1),
        ("9999-12-31T23:59:59", "-18:00", 18, 18),
        ("2024-07-01", "-18:01", -18, 18),
    ],
)
def test_a_local_time_stands_for_a_range_of_instants(local: str, zone: str, earliest: int, latest: int) -> None:
    offsets = tuple(instant - micros(local) for instant in instants_of(micros(local), zone_of(zone)))
    assert offsets == (earliest * HOUR, latest * HOUR)


def test_instants_have_a_local_time_if_the_offset_is_constant_for_two_days() -> None:
    berlin = zone_of("Europe/Berlin")
    assert local_time_of(micros("2024-03-28"), berlin) == micros("2024-03-28T01:00:00")
    assert local_time_of(micros("2024-04-03"), berlin) == micros("2024-04-03T02:00:00")
    for instant in ("2024-03-30", "2024-03-31", "2024-04-01", "1969-06-01"):
        assert local_time_of(micros(instant), berlin) is None
    assert local_time_of(micros("2024-03-31"), zone_of("+01:00")) == micros("2024-03-31T01:00:00")
    assert local_time_of(micros("2024-03-31"), None) is None
    assert MAX_OFFSET == 18 * HOUR


def test_rules_are_sampled_at_each_change_of_the_offset() -> None:
    zone = zone_of("Europe/Berlin")
    assert zone is not None
    weeks, changes = sample_times(zone)
    spring = int(datetime(2024, 3, 31, 1, tzinfo=timezone.utc).timestamp())
    assert {spring - 1, spring} <= set(changes)
    assert len(changes) == 2 * 2 * 120  # two changes in each year from 1980
    assert weeks[0] == 0 and weeks[-1] > datetime(2099, 12, 1, tzinfo=timezone.utc).timestamp()
