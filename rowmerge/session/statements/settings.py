"""Settings of the Spark session that change the effect of statements, and the idempotency keys of statements."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rowmerge.catalog import Catalog, Catalogs, DirectoryCatalog, TablesByPath
from rowmerge.commands.definitions import CreateTable
from rowmerge.commands.rows import CopyInto, RowCommand
from rowmerge.errors import ConfigurationError, UnsupportedStatement
from rowmerge.execution.auto_compaction import AutoCompaction
from rowmerge.execution.commit import CommitOptions
from rowmerge.plan.row_plan import Cardinality
from rowmerge.spark.peer_settings import begin_snapshot_properties, user_metadata
from rowmerge.spark.spark_session import setting
from rowmerge.sql import Statement, idempotency_key as hinted_key
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IdempotencyKey = str | tuple[str, int]
"""A key that is unique to a statement, or an application id with a version that increases with each statement."""

APPLICATION_SETTING = "spark.databricks.delta.write.txnAppId"
VERSION_SETTING = "spark.databricks.delta.write.txnVersion"
CARDINALITY_SETTING = "spark.rowmerge.merge.cardinality"


def overwrites_dynamically(spark: SparkSession) -> bool:
    """Return whether INSERT OVERWRITE replaces only the partitions of its rows. Otherwise it replaces all partitions, as in Spark."""
    return setting(spark, "spark.sql.sources.partitionOverwriteMode", "static") == "dynamic"


def may_evolve(spark: SparkSession, snapshot: Snapshot) -> bool:
    """Return whether Delta's setting of the session, or the table's property, lets statements add columns to the table.

    Args:
        spark: The Spark session with the setting `spark.databricks.delta.schema.autoMerge.enabled`.
        snapshot: The version of the table, with its properties.
    """
    return snapshot.settings.evolves_schema or setting(spark, "spark.databricks.delta.schema.autoMerge.enabled", "false") == "true"


def merge_cardinality(spark: SparkSession) -> Cardinality:
    """Return the rule by which a MERGE rejects target rows that match several source rows.

    Raises:
        ConfigurationError: The setting has another value than `conditions`, `delta` or `iceberg`.
    """
    value = setting(spark, CARDINALITY_SETTING, Cardinality.CONDITIONS.value)
    try:
        return Cardinality(value)
    except ValueError:
        values = ", ".join(rule.value for rule in Cardinality)
        raise ConfigurationError(f"{CARDINALITY_SETTING} = {value} is not a rule of MERGE. Set one of: {values}.") from None


def is_checksum_mismatch_fatal(spark: SparkSession) -> bool:
    """Return whether, according to Delta's setting, a table version that differs from its checksum file is an error, not a warning."""
    return setting(spark, "spark.databricks.delta.checksum.mismatch.fatal", "true") != "false"


def apply_checksum_setting(spark: SparkSession, catalog: Catalog, tables_by_path: TablesByPath) -> None:
    """Let tables apply the Spark setting `is_checksum_mismatch_fatal`.

    Args:
        spark: The Spark session with the setting.
        catalog: The catalog, whose Delta tables apply the setting.
        tables_by_path: The tables that queries read by their paths.
    """
    tables_by_path.is_mismatch_fatal = partial(is_checksum_mismatch_fatal, spark)
    for each in catalog.members if isinstance(catalog, Catalogs) else (catalog,):
        if isinstance(each, DirectoryCatalog):  # other catalogs have no Delta tables
            each.is_mismatch_fatal = tables_by_path.is_mismatch_fatal


def writes_rows(command: Statement) -> bool:
    """Return whether a statement writes rows, so that it accepts an idempotency key."""
    return isinstance(command, RowCommand | CopyInto) or (isinstance(command, CreateTable) and command.query is not None)


def key_of_statement(command: Statement, text: str, key: IdempotencyKey | None) -> IdempotencyKey | None:
    """Return the idempotency key of a statement: the argument, or the key in its hint. None if it has neither.

    Args:
        command: The parsed statement.
        text: The text of the statement, which can have a hint.
        key: The key that the caller passes, or None.

    Raises:
        ConfigurationError: The statement has two keys.
        UnsupportedStatement: The statement writes no rows, so it accepts no key.
    """
    key_in_hint = hinted_key(text)
    if key is not None and key_in_hint is not None:
        raise ConfigurationError("The statement has two idempotency keys, one in an argument and one in a hint. Specify only one.")
    statement_key = key_in_hint if key is None else key
    if statement_key is not None and not writes_rows(command):
        statements = "MERGE, UPDATE, DELETE, INSERT, TRUNCATE and CREATE TABLE … AS"
        raise UnsupportedStatement(f"Only statements that write rows accept an idempotency key: {statements}. Omit the key", text=text)
    return statement_key


def transaction_of(spark: SparkSession, key: IdempotencyKey | None) -> tuple[str, int] | None:
    """Return the application id and version of a key, as a commit stores them ("Transaction Identifiers" in the Delta protocol).

    A table that has a commit with this application id, and this version or a later one, skips the statement. Delta on Spark does so, too.

    Args:
        spark: The Spark session, whose settings `txnAppId` and `txnVersion` of Delta apply without a key.
        key: The key of the statement, or None if it has none. A key without a version is an application id with the version 0.

    Returns:
        The application id and the version, or None if there is no key and neither setting is set.

    Raises:
        ConfigurationError: The key is empty, its version is not a whole number from 0 to 2^63 - 1, or only one setting is set.
    """
    key = _take_key_from_settings(spark) if key is None else key
    if key is None:
        return None
    application_id, version = (key, 0) if isinstance(key, str) else key
    if not isinstance(application_id, str) or not application_id.strip():
        raise ConfigurationError(f"The idempotency key {key!r} is empty. Specify a string, or a string and a whole number.")
    is_whole_number = isinstance(version, int) and not isinstance(version, bool)
    if not is_whole_number or not 0 <= version < 2**63:
        raise ConfigurationError(f"The version of the idempotency key {key!r} is not a whole number from 0 to 2^63 - 1. Change it.")
    return application_id, version


def with_settings(
    spark: SparkSession, options: CommitOptions, key: IdempotencyKey | None, command: Statement | None = None
) -> CommitOptions:
    """Return the commit options of a statement: those of the session, with user metadata, the transaction and auto-compaction.

    Args:
        spark: The Spark session with the settings.
        options: The options of the session.
        key: The idempotency key of the statement, or None.
        command: The parsed statement, or None for a write of a DataFrame.
    """
    begin = partial(begin_snapshot_properties, spark)
    options = replace(options, user_metadata=user_metadata(spark), begin_snapshot_properties=begin)
    if command is not None and not writes_rows(command):
        return options
    after_commit = AutoCompaction(spark, options.user_metadata).run
    return replace(options, transaction=transaction_of(spark, key), after_commit=after_commit)


def _take_key_from_settings(spark: SparkSession) -> IdempotencyKey | None:
    """Return the application id and version in Delta's settings `txnAppId` and `txnVersion` of the session, or None if both are unset.

    If Delta's setting `autoReset` is on, a version applies to only one statement, so it is unset. Raise ConfigurationError if only one of
    the two settings is set, or if the version is not a number.
    """
    application, version = spark.conf.get(APPLICATION_SETTING, None), spark.conf.get(VERSION_SETTING, None)
    if application is None and version is None:
        return None
    if application is None or version is None:
        missing_setting = APPLICATION_SETTING if application is None else VERSION_SETTING
        raise ConfigurationError(f"Only one of {APPLICATION_SETTING} and {VERSION_SETTING} is set. Set {missing_setting} too, or neither.")
    if not re.fullmatch(r"\s*\d+\s*", version):
        raise ConfigurationError(f"{VERSION_SETTING} is {version!r}. Set it to a whole number, 0 or greater.")
    if setting(spark, f"{VERSION_SETTING}.autoReset.enabled", "false") == "true":
        spark.conf.unset(VERSION_SETTING)
    return application, int(version)
