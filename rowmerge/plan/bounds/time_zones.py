"""The session's time zone: the instants for which a local time stands, with the rules of Python's `zoneinfo`.

Spark uses the rules of its JVM, which can be older or newer. So `session_time_zone` in `rowmerge.spark` compares both sets of rules at the
times in `sample_times`, and uses no zone in which they differ. The comparison covers the years 1970 to 2099. Rules for other years differ
between versions, because Java and Python merge zones with the same rules since 1970 in different ways. Times outside these years therefore
are uncertain by the maximum offset, except in zones with a fixed offset from UTC.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

Micros = NDArray[np.int64]
"""Times in microseconds since the epoch, or differences between times."""
HOUR = 3_600_000_000
"""One hour in microseconds."""
MAX_OFFSET = 18 * HOUR
"""The maximum offset of a time zone from UTC in microseconds: 18 hours (java.time.ZoneOffset)."""
_EPOCH = datetime(1970, 1, 1)
_WEEK = 7 * 86_400
_FIRST_SAMPLE, _LAST_SAMPLE = 0, 4_102_444_800
"""The first and the last instant of the compared rules in seconds since the epoch: 1970-01-01 and 2100-01-01 in UTC."""
_FIRST_LOCAL, _LAST_LOCAL = (_FIRST_SAMPLE + _WEEK) * 1_000_000, (_LAST_SAMPLE - _WEEK) * 1_000_000
"""The local times in microseconds within which the rules of zones are used. Times nearer to the ends can have instants beyond them."""
_UTC = re.compile(r"(?:Etc/)?(?:UTC|GMT|UCT|Greenwich|Zulu)|UT|Z|GMT0")
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::([0-9]{2}))?")


@lru_cache
def zone_of(name: str | None) -> tzinfo | None:
    """Return the zone with a name such as `Europe/Berlin`, `UTC`, `+02:00` or `GMT+8`, or None if it is unknown."""
    if name is None:
        return None
    if _UTC.fullmatch(name):
        return timezone.utc
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        sign, hours, minutes = offset.groups()
        return _fixed_zone(-1 if sign == "-" else 1, int(hours), int(minutes or 0))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _fixed_zone(sign: int, hours: int, minutes: int) -> tzinfo | None:
    """Return the zone with a fixed offset from UTC, or None if Java has no such offset."""
    if minutes > 59 or hours * 60 + minutes > 18 * 60:
        return None
    return timezone(sign * timedelta(hours=hours, minutes=minutes))


def has_fixed_offset(zone: tzinfo) -> bool:
    """Return whether the zone is UTC or an offset such as `+02:00`. Its rules are the same in all versions of time zone data."""
    return isinstance(zone, timezone)


def instants_of(local_micros: int, zone: tzinfo | None) -> tuple[int, int]:
    """Return the earliest and the latest instant for which a local time may stand. They are equal if the instant is certain.

    A local time between two offsets occurs twice or never, because clocks are put back or forward. Spark then chooses an instant by the
    kind of literal, but always one in this range.

    Args:
        local_micros: The local time in microseconds since the epoch, interpreted as UTC.
        zone: The session's time zone, or None if it is unknown.
    """
    offsets = _offsets_at(local_micros, zone)
    return (
        (local_micros - MAX_OFFSET, local_micros + MAX_OFFSET)
        if offsets is None
        else (local_micros - max(offsets), local_micros - min(offsets))
    )


def local_time_of(instant_micros: int, zone: tzinfo | None) -> int | None:
    """Return the local time of an instant, if comparisons of local times with it have the same results as comparisons of instants.

    Around a change of the offset, a later local time can stand for an earlier instant. The result is None if the offset changes within two
    days, because no two local times of one instant differ by more. It is also None for an unknown zone.

    Args:
        instant_micros: The instant in microseconds since the epoch.
        zone: The session's time zone, or None if it is unknown.
    """
    offsets = _offsets_at(instant_micros, zone)  # a first estimate, as if the instant were a local time
    if zone is None or offsets is None:
        return None
    local_micros = instant_micros + offsets[0]
    nearby_offsets = {offset for hours in range(-48, 49, 6) for offset in _offsets_at(local_micros + hours * HOUR, zone) or (None,)}
    return local_micros if nearby_offsets == {offsets[0]} else None


def _offsets_at(local_micros: int, zone: tzinfo | None) -> tuple[int, int] | None:
    """Return the offsets from UTC in microseconds before and after a change at a local time. They are equal at any other time.

    Returns None if the offset is uncertain.
    """
    if zone is None:
        return None
    if isinstance(zone, timezone):
        offset = _micros(zone.utcoffset(None))
        return offset, offset
    if not _FIRST_LOCAL <= local_micros <= _LAST_LOCAL:
        return None
    local = _EPOCH.replace(tzinfo=zone) + timedelta(microseconds=local_micros)
    return _micros(local.utcoffset()), _micros(local.replace(fold=1).utcoffset())


def _micros(offset: timedelta | None) -> int:
    assert offset is not None  # a zone returns an offset for each local time
    return offset // timedelta(microseconds=1)


@lru_cache
def sample_times(zone: tzinfo) -> tuple[range, list[int]]:
    """Return the instants, in seconds since the epoch, at which other rules of the same zone must have the same offsets.

    They are one instant per week, and each change of the offset with the second before it. No zone since 1970 has changed its offset for
    less than a week. So rules with the same offsets at these instants have the same changes.
    """
    weeks = range(_FIRST_SAMPLE, _LAST_SAMPLE, _WEEK)
    changes = []
    for start in weeks[:-1]:
        if offset_at(start, zone) != offset_at(start + _WEEK, zone):
            change = _change_between(start, start + _WEEK, zone)
            changes += [change - 1, change]
    return weeks, changes


def offset_at(instant: int, zone: tzinfo) -> int:
    """Return the offset from UTC in seconds at an instant.

    Args:
        instant: The instant in seconds since the epoch.
        zone: The time zone.
    """
    offset = datetime.fromtimestamp(instant, zone).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def _change_between(start: int, end: int, zone: tzinfo) -> int:
    """Return the first second with the offset at `end`, by bisection between two instants with different offsets."""
    old_offset = offset_at(start, zone)
    while end - start > 1:
        middle = (start + end) // 2
        start, end = (middle, end) if offset_at(middle, zone) == old_offset else (start, middle)
    return end


def local_range(lower: Micros, upper: Micros, zone: tzinfo | None) -> tuple[Micros, Micros]:
    """Return bounds of the local times of all instants between two bounds, for many pairs of bounds.

    Args:
        lower: The lower bounds of instants in microseconds since the epoch.
        upper: The upper bounds.
        zone: The session's time zone, or None if it is unknown.
    """
    # A later instant can have an earlier local time, but only if clocks are put back within the next two days.
    least = np.minimum(_offsets(lower, zone, -1), _offsets(lower + 48 * HOUR, zone, -1))
    greatest = np.maximum(_offsets(upper, zone, 1), _offsets(upper - 48 * HOUR, zone, 1))
    return lower + least, upper + greatest


def instant_range(lower: Micros, upper: Micros, zone: tzinfo | None) -> tuple[Micros, Micros]:
    """Return bounds of the instants of all local times between two bounds, for many pairs of bounds.

    Args:
        lower: The lower bounds of local times in microseconds since the epoch.
        upper: The upper bounds.
        zone: The session's time zone, or None if it is unknown.
    """
    # All instants of a local time, and of later local times with an earlier instant, lie within three days.
    days = (-72 * HOUR, 0, 72 * HOUR)
    greatest = np.maximum.reduce([_offsets(lower + distance, zone, 1) for distance in days])
    least = np.minimum.reduce([_offsets(upper + distance, zone, -1) for distance in days])
    return lower - greatest, upper - least


def _offsets(instants: Micros, zone: tzinfo | None, sign: int) -> Micros:
    """Return the offset from UTC at each instant in microseconds, or the maximum offset with this sign if it is uncertain."""
    if isinstance(zone, timezone):
        return np.full(len(instants), _micros(zone.utcoffset(None)))
    extreme = np.full(len(instants), sign * MAX_OFFSET)
    if zone is None:
        return extreme
    changes, offsets = _offset_table(zone)
    is_known = (instants >= _FIRST_LOCAL) & (instants <= _LAST_LOCAL)
    return np.where(is_known, offsets[np.searchsorted(changes, instants, side="right")], extreme)


@lru_cache
def _offset_table(zone: tzinfo) -> tuple[Micros, Micros]:
    """Return the instants at which the offset changes, and the offsets before the first change and from each change on."""
    changes = sample_times(zone)[1][1::2]
    offsets = [offset_at(_FIRST_SAMPLE, zone), *(offset_at(change, zone) for change in changes)]
    return np.array(changes, np.int64) * 1_000_000, np.array(offsets, np.int64) * 1_000_000
