"""The versions of PySpark that have the parts of its data source API which streams need."""

from __future__ import annotations

import pyspark

from rowmerge.errors import SparkTooOld

_OLDEST, _OLDEST_WITH_LIMITS = "4.1", "4.2"


def check_pyspark(version: str = pyspark.__version__) -> None:
    """Raise SparkTooOld if a version of PySpark has no Arrow writer for streams."""
    _check(
        version, _OLDEST, "The format rowmerge", "Install it, or read and write with rowmerge.connect(…), in a stream with foreachBatch."
    )


def check_read_limit(option: str, version: str = pyspark.__version__) -> None:
    """Raise SparkTooOld if PySpark does not tell a stream where a batch begins, so that its size cannot be limited.

    `option`: the name of the option that limits the size. `version`: the version of PySpark.
    """
    _check(version, _OLDEST_WITH_LIMITS, f"The option {option}", "Install it, or leave the option out.")


def _check(version: str, oldest: str, feature: str, advice: str) -> None:
    if tuple(map(int, version.split(".")[:2])) < tuple(map(int, oldest.split("."))):
        raise SparkTooOld("PySpark", version, oldest, feature, advice)
