"""The error for a connector that Spark misses: the jars with which it opens files in an object store. PySpark comes without them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyspark

from rowmerge.errors import ConfigurationError

_COORDINATES = {
    "s3": "org.apache.hadoop:hadoop-aws:{}",
    "azure": "org.apache.hadoop:hadoop-azure:{}",
    "gs": "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26",
}
_MISSING = {
    "s3": r'No FileSystem for scheme "?s3|ClassNotFoundException: Class org\.apache\.hadoop\.fs\.s3a\.',
    "azure": r'No FileSystem for scheme "?abfs|ClassNotFoundException: Class org\.apache\.hadoop\.fs\.azurebfs\.',
    "gs": r'No FileSystem for scheme "?gs\b|ClassNotFoundException: Class com\.google\.cloud\.hadoop\.fs\.gcs\.',
}
"""The messages of Hadoop for files in a store without a connector, by provider."""


def spark_home() -> Path:
    """Return the folder of the Spark that this process starts."""
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def connector_coordinate(provider: str) -> str | None:
    """Return the Maven coordinate of the connector for a store (`s3`, `azure`, `gs`), or None if the version of Hadoop is unknown."""
    names = (re.fullmatch(r"hadoop-client-api-(.+)\.jar", jar.name) for jar in (spark_home() / "jars").glob("hadoop-client-api-*.jar"))
    version = next((name[1] for name in names if name), None)
    return None if version is None else _COORDINATES[provider].format(version)


def missing_connector(provider: str, location: str) -> ConfigurationError:
    """Return the error for a store whose files Spark cannot open, because the jars of its connector are missing.

    Args:
        provider: The provider of the store.
        location: The location, for the message.
    """
    coordinate = connector_coordinate(provider) or _COORDINATES[provider].format("<version of hadoop-client-api in Spark's jars>")
    advice = f"Start Spark with spark.jars.packages = {coordinate} (in spark_config, or where the session or the server is started)"
    return ConfigurationError(f"Spark has no connector for the store of {location}. {advice}, or with these jars in spark.jars.")


def missing_connector_error(message: str) -> ConfigurationError | None:
    """Return the error for a scan of files in a store without a connector, or None for any other message of Spark.

    A session checks the connector for the locations that it knows. But the server of a catalog may choose any location for a table.
    """
    provider = next((provider for provider, pattern in _MISSING.items() if re.search(pattern, message)), None)
    if provider is None:
        return None
    error = missing_connector(provider, "this table")
    hint = "Spark in dbt's process gets them if storage_options have a setting of S3, such as aws_region."
    return ConfigurationError(f"{error.message} {hint}") if provider == "s3" else error
