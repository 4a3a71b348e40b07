"""Helpers for the Spark session: version checks, settings of Hadoop file systems, temporary views, and the evaluation of timestamps."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from weakref import WeakKeyDictionary

import pyspark
from pyspark import StorageLevel
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from rowmerge.errors import ConfigurationError, SparkTooOld, TypeMismatch
from rowmerge.spark.peer_settings import report_ignored_set
from rowmerge.storage.hadoop import READER_MARK
from rowmerge.table.metadata.schema import backquote

logger = logging.getLogger(__name__)

OLDEST_SPARK = "4.0"
_UPGRADE = f"Install PySpark with pip install 'pyspark>={OLDEST_SPARK},<5'. A Spark Connect server must also run {OLDEST_SPARK} or later."

SKIP_FILES = "spark.rowmerge.read.skipFiles.enabled"
FIELD_IDS = "spark.sql.parquet.fieldId.read.enabled"
"""The setting with which Spark finds columns in Parquet files by field id. It applies when a query runs, also to earlier DataFrames."""
_CHANGES_SETTINGS = re.compile(r"(?:\s|--[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)*(?:SET|RESET)\b", re.IGNORECASE)
"""A pattern for statements that begin with SET or RESET, also after comments. A line comment includes its end, so that a line of hyphens is
one comment: if it could be several, the match would take exponential time."""
_settings_of_user: WeakKeyDictionary[SparkSession, dict[str, bool]] = WeakKeyDictionary()
"""Whether the user has started Spark with a setting of Hadoop, by session and name."""
_REDACTION = "spark.sql.redaction.options.regex"
_SECRETS = r"fs[.](azure|gs)[.].*[.]key"
"""A pattern for the names of secret settings that Spark's own pattern (`spark.redaction.regex`) does not match."""


def check_pyspark() -> None:
    """Raise SparkTooOld if the PySpark version of this process is older than the versions that rowmerge supports."""
    _check_version("PySpark", pyspark.__version__, OLDEST_SPARK, "rowmerge", _UPGRADE)


def check_session(spark: SparkSession) -> None:
    """Raise SparkTooOld if PySpark or the session's Spark is older than the versions that rowmerge supports."""
    require_spark(spark, OLDEST_SPARK, "rowmerge", _UPGRADE)


def require_spark(spark: SparkSession, oldest: str, feature: str, advice: str) -> None:
    """Check the versions of PySpark and of the session's Spark. The two may differ if the session belongs to a Spark Connect server.

    Args:
        spark: The Spark session.
        oldest: The oldest version that has the feature, such as `4.1`.
        feature: The feature, for the message.
        advice: What to do instead, as a sentence.

    Raises:
        SparkTooOld: One of the two versions is older than `oldest`.
    """
    _check_version("PySpark", pyspark.__version__, oldest, feature, advice)
    _check_version("Spark", spark.version, oldest, feature, advice)


def _check_version(component: str, version: str, oldest: str, feature: str, advice: str) -> None:
    """Raise SparkTooOld if the version of a component is older than `oldest`. The comparison ignores patch versions."""
    major_minor, oldest_major_minor = ([int(number) for number in text.split(".")[:2]] for text in (version, oldest))
    if major_minor < oldest_major_minor:
        raise SparkTooOld(component, version, oldest, feature, advice)


def is_local_mode(spark: SparkSession) -> bool:
    """Return whether Spark runs in local mode: this process and its JVM are the whole cluster."""
    return hasattr(spark, "sparkContext") and str(spark.conf.get("spark.master", "")).startswith("local")


def analyses_later(spark: SparkSession) -> bool:
    """Return whether Spark analyses a query only when its rows are fetched, as Spark Connect does, rather than in `spark.sql`."""
    return not hasattr(spark, "sparkContext")


def is_alive(spark: SparkSession) -> bool:
    """Return whether the Spark of a session still runs: neither its Java nor its context has ended."""
    try:
        if hasattr(spark, "sparkContext"):
            return spark.sparkContext.defaultParallelism > 0  # an error if the context is stopped
        return bool(spark.conf.get("spark.app.id"))
    except Exception:  # noqa: BLE001 - py4j raises many errors if Java has ended
        return False


def is_case_sensitive(spark: SparkSession) -> bool:
    """Return whether names that differ only in case are different names."""
    return setting(spark, "spark.sql.caseSensitive", "false") == "true"


def double_quotes_are_names(spark: SparkSession) -> bool:
    """Return whether a text in double quotes is a name rather than a string."""
    is_set = setting(spark, "spark.sql.ansi.doubleQuotedIdentifiers", "false") == "true"
    return is_set and setting(spark, "spark.sql.ansi.enabled", "true") == "true"


def skips_files(spark: SparkSession) -> bool:
    """Return whether queries may skip data files, or answer from metadata. `spark.rowmerge.read.skipFiles.enabled` = false forbids both."""
    return setting(spark, SKIP_FILES, "true") != "false"


def setting(spark: SparkSession, key: str, default: str) -> str:
    """Return a setting of the session in lower case.

    Args:
        spark: The session.
        key: The key of the setting.
        default: The value of a setting that is not set.
    """
    return str(spark.conf.get(key, default)).strip().lower()


def run_sql(spark: SparkSession, text: str) -> DataFrame:
    """Run a statement and return its rows. Keep the setting FIELD_IDS on after SET and RESET, because earlier DataFrames need it.

    Args:
        spark: The session.
        text: The statement in Spark's SQL.
    """
    match = _CHANGES_SETTINGS.match(text)
    finds_by_id = match is not None and setting(spark, FIELD_IDS, "false") == "true"
    if match is not None:
        report_ignored_set(text[match.end() - len("SET") :])
    frame = spark.sql(text)
    if finds_by_id:
        spark.conf.set(FIELD_IDS, "true")
    return frame


def set_hadoop_settings(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """Set Hadoop settings in the configuration of a session, which may be embedded, existing or provided by Spark Connect.

    Spark copies all settings of a session into the Hadoop configuration of each query (`SessionState.newHadoopConf`). If the session
    rejects settings, one warning lists their names.

    The alternative, settings with the prefix `spark.hadoop.`, must be known when Spark starts. Spark passes them to its process as
    command-line arguments, and other users can list these arguments. So secrets would leak. But a user may have started the session with
    such a setting, which then takes precedence.

    Args:
        spark: The Spark session.
        settings: The values of the settings by name. The names lack the prefix, such as `fs.s3a.access.key`. Values may be secret.
    """
    missing = {name: value for name, value in settings.items() if spark.conf.get(f"spark.hadoop.{name}", None) is None}
    if not missing:
        return
    try:
        _redact_secrets(spark)
        for name, value in missing.items():
            spark.conf.set(name, value)
    except PySparkException:
        advice = "Start Spark with these settings, which correspond to the storage options"
        names = ", ".join(f"spark.hadoop.{name}" for name in missing)
        logger.warning("The Spark session does not accept settings for Hadoop's file systems. %s: %s.", advice, names)


def hadoop_settings_of_user(spark: SparkSession, names: Iterable[str]) -> set[str]:
    """Return those of some settings of Hadoop with which the user has started Spark. The session is asked once for each name.

    Args:
        spark: The Spark session.
        names: The names of the settings, without the prefix `spark.hadoop.`.
    """
    answers = _settings_of_user.setdefault(spark, {})
    # Names of schemes with a digest would accumulate, and no user sets them.
    for name in names:
        if name not in answers and READER_MARK not in name:
            answers[name] = spark.conf.get(f"spark.hadoop.{name}", None) is not None
    return {name for name in names if answers.get(name)}


def _redact_secrets(spark: SparkSession) -> None:
    """Add the names of secret settings to the pattern of options whose values Spark hides."""
    pattern = spark.conf.get(_REDACTION, None) or ""
    if _SECRETS not in pattern:
        spark.conf.set(_REDACTION, f"{pattern}|{_SECRETS}" if pattern else f"(?i){_SECRETS}")


def detects_other_rows(spark: SparkSession) -> bool:
    """Return whether a job fails if Spark evaluates lost rows again, gets other rows, and a task has read the first ones.

    In local mode, no rows are lost. On a cluster, Spark 4.3 compares checksums of shuffled rows. In 4.1 and 4.2, a setting enables this.
    """
    if is_local_mode(spark):
        return True
    try:
        # Without an argument for the default, Spark returns its own, which depends on its version.
        return str(spark.conf.get("spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch")).lower() == "true"
    except PySparkException:  # Spark 4.0 does not know the setting
        return False


def local_checkpoint(frame: DataFrame, *, eager: bool) -> DataFrame:
    """Return the rows of a frame, which executors keep (`DataFrame.localCheckpoint`).

    Spark Connect assigns the result to the session that is active in the process, which may be another session than that of `frame`.
    This session then does not find the rows (DATAFRAME_NOT_FOUND). So a query of the right session reads the result.

    Args:
        frame: The rows.
        eager: Whether a job evaluates the rows now. Otherwise, the first job that reads them does.
    """
    spark, checkpoint = frame.sparkSession, frame.localCheckpoint(eager=eager)
    # Classic sessions of one process share their Spark, so each of them finds the rows.
    is_in_session = not analyses_later(spark) or checkpoint.sparkSession is spark
    return checkpoint if is_in_session else spark.sql("select * from {checkpoint}", checkpoint=checkpoint)


def register_view(frame: DataFrame, name: str) -> None:
    """Register a DataFrame as a temporary view, or replace the view.

    Args:
        frame: The DataFrame to register.
        name: The name of the view, without backquotes.
    """
    frame.createOrReplaceTempView(backquote(name))


def drop_view(spark: SparkSession, name: str) -> bool:
    """Drop a temporary view, and return whether it existed.

    Args:
        spark: The session with the view.
        name: The name of the view, without backquotes.
    """
    return bool(spark.catalog.dropTempView(name))


def cache_view(spark: SparkSession, name: str, storage_level: str | None) -> None:
    """Let Spark cache the rows of a temporary view when they are read for the first time.

    Args:
        spark: The session with the view.
        name: The name of the view, without backquotes.
        storage_level: The name of a storage level of Spark, such as `DISK_ONLY`, or None for MEMORY_AND_DISK.

    Raises:
        ConfigurationError: Spark has no such storage level.
    """
    spark.catalog.cacheTable(backquote(name), _storage_level(storage_level or "MEMORY_AND_DISK"))


def _storage_level(name: str) -> StorageLevel:
    levels = {each: level for each, level in vars(StorageLevel).items() if isinstance(level, StorageLevel)}
    if name.upper() not in levels:
        raise ConfigurationError(f"The storage level {name} is unknown. Use one of {', '.join(sorted(levels))}.")
    return levels[name.upper()]


def uncache_view(spark: SparkSession, name: str) -> None:
    """Remove the rows of a temporary view from the cache.

    Args:
        spark: The session with the view.
        name: The name of the view, without backquotes.
    """
    spark.catalog.uncacheTable(backquote(name))


def is_temporary_view(spark: SparkSession, name: str) -> bool:
    """Return whether a temporary view with this name exists.

    Args:
        spark: The Spark session.
        name: The name of the view, without backquotes.
    """
    try:
        return spark.catalog.tableExists(backquote(name)) and bool(spark.catalog.getTable(backquote(name)).isTemporary)
    except AnalysisException:
        return False


def evaluate_timestamp_millis(spark: SparkSession, expression: str) -> int:
    """Evaluate a SQL timestamp expression with a Spark query, and return its value in milliseconds since the epoch.

    Args:
        spark: The session that evaluates the expression, in its time zone.
        expression: A SQL expression that Spark can cast to a timestamp.

    Raises:
        TypeMismatch: The value is NULL. Spark's errors for an invalid expression pass through.
    """
    value = spark.sql(f"select unix_millis(cast({expression} as timestamp)) as at").collect()[0]["at"]
    if value is None:
        raise TypeMismatch(f"The time {expression} is NULL. Specify a time such as '2024-01-31 12:00:00'.")
    return int(value)
