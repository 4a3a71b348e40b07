"""The size of the tasks with which Spark's own reader reads the tables of a statement: Iceberg's `read.split.*` as settings of Spark.

Spark uses these settings when a query runs, so a DataFrame that runs after another statement can have the task size of that statement. Only
the speed depends on it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable

from pyspark.sql import SparkSession

from rowmerge.table.metadata.settings import SplitSettings
from rowmerge.table.snapshots.snapshot import Snapshot

logger = logging.getLogger(__name__)

TARGET_SIZE, OPEN_FILE_COST = "spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes"


class TaskSizes:
    """The settings of one Spark session for the size of its tasks. It is thread-safe."""

    def __init__(self, spark: SparkSession, *, may_set: bool) -> None:
        """Store the session. `may_set`: whether its settings may change, because no other application uses the session."""
        self._spark, self._may_set = spark, may_set
        self._applied: dict[str, str] = {}
        self._warned_tables: set[str] = set()
        self._lock = threading.Lock()

    def apply(self, snapshots: Iterable[Snapshot]) -> None:
        """Set the settings for a statement that reads these tables, or remove those of an earlier statement. Log a warning if it cannot.

        Raises:
            ConfigurationError: A property `read.split.*` has an invalid value.
        """
        splits_by_table = {snapshot.name: snapshot.settings.splits for snapshot in snapshots}
        with self._lock:
            settings = [_settings(splits) for splits in splits_by_table.values()]
            agree = all(other == settings[0] for other in settings)
            new_settings = settings[0] if agree and settings and self._may_set else {}
            self._replace(new_settings)
            for table, splits in splits_by_table.items():
                if _settings(splits).items() - self._applied.items():
                    self._warn(table, agree=agree)

    def _replace(self, new_settings: dict[str, str]) -> None:
        """Set these settings, and remove the others that this object has set. A setting of the user stays."""
        for key in {*new_settings, *self._applied}:
            value = self._spark.conf.get(key, None)
            if value != self._applied.pop(key, None):
                continue  # the user has set it
            if key in new_settings:
                self._spark.conf.set(key, new_settings[key])
                self._applied[key] = new_settings[key]
            else:
                self._spark.conf.unset(key)

    def _warn(self, table: str, *, agree: bool) -> None:
        """Warn once that the properties of a table have no effect on Spark's reader. `agree`: whether the tables have the same ones."""
        if table in self._warned_tables:
            return
        self._warned_tables.add(table)
        if not self._may_set:
            reason = "rowmerge does not change the settings of a Spark session that it did not start"
        elif agree:
            reason = "the session has settings of its own"
        else:
            reason = "the tables of the statement differ in them"
        settings = f"{TARGET_SIZE} and {OPEN_FILE_COST}"
        logger.warning("The properties read.split.* of %s apply only to small files, because %s: %s.", table, reason, settings)


def _settings(splits: SplitSettings) -> dict[str, str]:
    """Return the settings of Spark that correspond to the properties of a table."""
    settings = {}
    if splits.target_size != SplitSettings.target_size:
        settings[TARGET_SIZE] = str(splits.target_size)
    if splits.open_file_cost is not None:
        settings[OPEN_FILE_COST] = str(splits.open_file_cost)
    return settings
