"""The temporary views that users create, by CREATE TEMPORARY VIEW or through the DataFrame API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowmerge.spark.spark_session import drop_view, is_temporary_view, register_view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class TemporaryViews:
    """Keeps the query text of each CREATE TEMPORARY VIEW, because Spark would bind the view to the table versions of its creation.

    A statement that reads such a view binds the text again, so that it reads the newest versions. Names are not case-sensitive.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._queries: dict[str, str] = {}

    def create(self, name: str, query: str, frame: DataFrame) -> None:
        """Create or replace a view. `frame`: the rows of `query` now, which Spark shows to the DataFrame API."""
        self._queries[name.lower()] = query
        register_view(frame, name)

    def drop(self, name: str) -> bool:
        """Drop a view. Return whether it existed."""
        has_query = self._queries.pop(name.lower(), None) is not None
        return drop_view(self._spark, name) or has_query

    def exists(self, name: str) -> bool:
        """Return whether a view of this name exists, whoever created it."""
        return name.lower() in self._queries or is_temporary_view(self._spark, name)

    def query(self, name: str) -> str | None:
        """Return the text of a view, or None if the view was created through the DataFrame API."""
        return self._queries.get(name.lower())
