"""The session's time zone, as far as Python and Spark have the same rules for it."""

from __future__ import annotations

import hashlib
from datetime import tzinfo
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkException

from rowmerge.plan.bounds.time_zones import has_fixed_offset, offset_at, sample_times, zone_of
from rowmerge.table.metadata.schema import string_literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_comparisons: WeakKeyDictionary[SparkSession, dict[str, bool]] = WeakKeyDictionary()
"""For each session, whether Spark and Python have the same rules, by the name of the zone."""


def session_time_zone(spark: SparkSession) -> str | None:
    """Return the name of the session's time zone, or None if Python does not know the zone or has other rules for it than Spark.

    Conditions with local times exclude data files by Python's rules. So a difference could lose rows, for example if the JVM is older than
    the end of daylight saving time in Mexico. The rules of a zone are compared once per session, in one query without a job.
    """
    name = spark.conf.get("spark.sql.session.timeZone", None)
    zone = zone_of(name)
    if name is None or zone is None:
        return None
    if has_fixed_offset(zone):
        return name
    comparisons = _comparisons.setdefault(spark, {})
    if name not in comparisons:
        comparisons[name] = _has_same_rules(spark, name, zone)
    return name if comparisons[name] else None


def _has_same_rules(spark: SparkSession, name: str, zone: tzinfo) -> bool:
    """Return whether Spark has the same offsets for a zone as Python, from 1970 to 2099."""
    weeks, changes = sample_times(zone)
    offsets = ",".join(str(offset_at(instant, zone)) for instant in (*weeks, *changes))
    return _digest_of_offsets(spark, name, weeks, changes) == hashlib.md5(offsets.encode(), usedforsecurity=False).hexdigest()


def _digest_of_offsets(spark: SparkSession, name: str, weeks: range, changes: list[int]) -> str | None:
    """Return the MD5 digest of Spark's offsets from UTC, or None if Spark does not know the zone.

    `weeks`, `changes`: the instants in seconds since the epoch.
    """
    instants = f"sequence({weeks[0]}L, {weeks[-1]}L, {weeks.step}L)"
    if changes:
        # One string is parsed faster than hundreds of literals.
        numbers = string_literal(",".join(map(str, changes)))
        instants = f"concat({instants}, transform(split({numbers}, ','), number -> bigint(number)))"
    # `from_utc_timestamp` moves an instant by the zone's offset.
    offset = f"unix_seconds(from_utc_timestamp(timestamp_seconds(instant), {string_literal(name)})) - instant"
    # Spark evaluates a query over VALUES in its optimizer, without a job.
    query = f"select md5(array_join(transform({instants}, instant -> {offset}), ',')) as digest from values (1)"
    try:
        rows = spark.sql(query).collect()
    except PySparkException:
        return None
    return str(rows[0]["digest"])
