"""Set the settings of Hadoop's file systems in a Spark session."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

_REDACTION = "spark.sql.redaction.options.regex"
_SECRETS = r"fs[.](azure|gs)[.].*[.]key"
"""Names that Spark's own pattern of secrets (`spark.redaction.regex`) does not match."""


def set_hadoop_settings(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """Set Hadoop's settings (`fs.s3a.access.key`, …) in the configuration of a session: embedded, existing or of Spark Connect.

    Spark copies all settings of a session into the Hadoop configuration of each query (`SessionState.newHadoopConf`), under their own
    names. A prefix `spark.hadoop.` has an effect only before Spark starts, and there it is an argument of a process that others can list.
    A setting that Spark was started with under that prefix stays. If the session rejects such settings, one warning names them.
    """
    missing = {name: value for name, value in settings.items() if spark.conf.get(f"spark.hadoop.{name}", None) is None}
    if not missing:
        return
    try:
        _redact_secrets(spark)
        for name, value in missing.items():
            spark.conf.set(name, value)
    except PySparkException:
        logger.warning(
            "The Spark session does not accept settings of Hadoop's file systems. Start its Spark with these settings, which the storage "
            "options correspond to: %s.",
            ", ".join(f"spark.hadoop.{name}" for name in missing),
        )


def _redact_secrets(spark: SparkSession) -> None:
    """Add names of secrets to the session's pattern of options whose values Spark hides."""
    pattern = spark.conf.get(_REDACTION, None) or ""
    if _SECRETS not in pattern:
        spark.conf.set(_REDACTION, f"{pattern}|{_SECRETS}" if pattern else f"(?i){_SECRETS}")
