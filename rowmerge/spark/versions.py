"""Check that Spark is new enough, for rowmerge as a whole and for features that need a newer version."""

from __future__ import annotations

import pyspark
from pyspark.sql import SparkSession

from rowmerge.errors import SparkTooOld

OLDEST_SPARK = "4.0"
_UPGRADE = f"Install PySpark with pip install 'pyspark>={OLDEST_SPARK},<5'. A Spark Connect server needs Spark {OLDEST_SPARK} or newer too."


def check_pyspark() -> None:
    """Raise SparkTooOld if the PySpark of this process is older than rowmerge supports."""
    _check_version("PySpark", pyspark.__version__, OLDEST_SPARK, "rowmerge", _UPGRADE)


def check_session(spark: SparkSession) -> None:
    """Raise SparkTooOld if PySpark or the session's Spark is older than rowmerge supports."""
    require_spark(spark, OLDEST_SPARK, "rowmerge", _UPGRADE)


def require_spark(spark: SparkSession, oldest: str, feature: str, advice: str) -> None:
    """Raise SparkTooOld if PySpark or the session's Spark is older than `feature` needs.

    The two versions differ where the session belongs to a Spark Connect server. `advice` says what to do instead.
    """
    _check_version("PySpark", pyspark.__version__, oldest, feature, advice)
    _check_version("Spark", spark.version, oldest, feature, advice)


def _check_version(component: str, version: str, oldest: str, feature: str, advice: str) -> None:
    if _major_minor(version) < _major_minor(oldest):
        raise SparkTooOld(component, version, oldest, feature, advice)


def _major_minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)
