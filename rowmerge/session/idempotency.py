"""Idempotency keys of statements, which the caller, a hint in the text or Spark's settings give."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rowmerge.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IdempotencyKey = str | tuple[str, int]
"""A unique key for each statement, or an application's id with a version that rises from statement to statement."""

APPLICATION = "spark.databricks.delta.write.txnAppId"
VERSION = "spark.databricks.delta.write.txnVersion"
_AUTO_RESET = "spark.databricks.delta.write.txnVersion.autoReset.enabled"
_MAX_VERSION = (1 << 63) - 1


def transaction_of(key: IdempotencyKey) -> tuple[str, int]:
    """Return (application id, version) as Delta stores it in a commit. A key without a version is an application with the version 0.

    Another engine with the same two settings (`txnAppId`, `txnVersion`) skips the statement, too. Raises ConfigurationError.
    """
    application, version = (key, 0) if isinstance(key, str) else key
    if not isinstance(application, str) or not application.strip():
        raise ConfigurationError(f"The idempotency key {key!r} has no text. Give a text, or a text and a whole number.")
    if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version <= _MAX_VERSION:
        raise ConfigurationError(f"The version of the idempotency key {key!r} is no whole number from 0 to 2^63 - 1. Give one.")
    return application, version


def take_key_from_settings(spark: SparkSession) -> IdempotencyKey | None:
    """Return the key in Delta's settings of the Spark session, or None. Unset the version afterwards if Delta's autoReset is on.

    Raises ConfigurationError if only one of the two settings is set, or the version is no number.
    """
    application = spark.conf.get(APPLICATION, None)
    version = spark.conf.get(VERSION, None)
    if application is None and version is None:
        return None
    if application is None or version is None:
        missing_key = APPLICATION if application is None else VERSION
        raise ConfigurationError(f"{missing_key} is not set, and the other one of the two is. Set both, or neither.")
    if not re.fullmatch(r"\s*\d+\s*", version):
        raise ConfigurationError(f"{VERSION} is {version!r}. Set it to a whole number, 0 or more.")
    if str(spark.conf.get(_AUTO_RESET, "false")).strip().lower() == "true":
        spark.conf.unset(VERSION)
    return application, int(version)
