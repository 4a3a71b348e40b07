"""Statements that run once: their key, as the caller, a hint in the text or Spark's settings give it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rowmerge.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IdempotencyKey = str | tuple[str, int]
"""A key of its own for each statement, or an application's id with a version that rises from statement to statement."""

APPLICATION = "spark.databricks.delta.write.txnAppId"
VERSION = "spark.databricks.delta.write.txnVersion"
_RESET = "spark.databricks.delta.write.txnVersion.autoReset.enabled"
_LONGEST = (1 << 63) - 1


def transaction_of(key: IdempotencyKey) -> tuple[str, int]:
    """(application id, version) as Delta keeps it: a key of its own is an application with the version 0.

    Another engine that is told the same two (`txnAppId`, `txnVersion`) skips the statement as well. Raises ConfigurationError.
    """
    application, version = (key, 0) if isinstance(key, str) else key
    if not isinstance(application, str) or not application.strip():
        raise ConfigurationError(f"The idempotency key {key!r} has no text. Give a text, or a text and a whole number.")
    if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version <= _LONGEST:
        raise ConfigurationError(f"The version of the idempotency key {key!r} is no whole number from 0 to 2^63 - 1. Give one.")
    return application, version


def key_in_settings(spark: SparkSession) -> IdempotencyKey | None:
    """The key in Spark's settings, which Delta has for this; the version is unset where Delta would.

    Raises ConfigurationError when only one of the two is set, or the version is no number.
    """
    application, version = spark.conf.get(APPLICATION, None), spark.conf.get(VERSION, None)
    if application is None and version is None:
        return None
    if application is None or version is None:
        missing = APPLICATION if application is None else VERSION
        raise ConfigurationError(f"{missing} is not set, and the other one of the two is. Set both, or neither.")
    if not re.fullmatch(r"\s*\d+\s*", version):
        raise ConfigurationError(f"{VERSION} is {version!r}. Set it to a whole number, 0 or more.")
    if str(spark.conf.get(_RESET, "false")).strip().lower() == "true":
        spark.conf.unset(VERSION)
    return application, int(version)
