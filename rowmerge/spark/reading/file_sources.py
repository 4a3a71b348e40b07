"""Read files that do not belong to a table, with Spark's own readers."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, functions as F

from rowmerge.commands.names import FileSource
from rowmerge.errors import FilesNotFound, UnsupportedStatement
from rowmerge.spark.reading.data_files import escape_patterns

SELECTING_OPTIONS = frozenset({"pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter"})
"""The options of Spark's readers that select files, in lower case."""
_COLUMNS_OF_LISTING = frozenset({"path", "modificationTime", "length", "content"})
_HAS_SCHEME = re.compile(r"^[A-Za-z][\w+.-]*:")


def read_file_source(spark: SparkSession, source: FileSource, paths: Sequence[str] = ()) -> DataFrame:
    """Return the rows of the files that a call of `read_files(…)` names.

    Args:
        spark: The session that reads the files.
        source: The path and the format of the files, and the options and the schema for Spark's reader.
        paths: The absolute paths of the files to read. If there are none, all files at the path of the source are read.

    Raises:
        FilesNotFound: The path contains no files, or Spark cannot infer a schema from them.
        UnsupportedStatement: Spark has no reader for the format.
        AnalysisException: Spark reports any other error.
    """
    reader = spark.read.format(source.format).options(**source.options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    try:
        frame = reader.load([escape_patterns(path) for path in paths] or absolute(source.path))
        frame.columns  # noqa: B018  Spark Connect looks for the files only when the columns are read
    except AnalysisException as error:
        source_error = _source_error(error, source, spark.version)
        if source_error is None:
            raise
        raise source_error from error
    return frame


def _source_error(error: AnalysisException, source: FileSource, spark_version: str) -> FilesNotFound | UnsupportedStatement | None:
    """Return the error for missing files or for a missing reader, or None for any other Spark error."""
    condition = error.getCondition() or ""
    if condition.startswith("PATH_NOT_FOUND"):
        return FilesNotFound(source.display_name, "file", "Check the path.")
    if condition.startswith("UNABLE_TO_INFER_SCHEMA"):
        return FilesNotFound(source.display_name, f"{source.format} file", "Check the path and the format, or specify a schema.")
    if source.format == "avro" and "avro" in str(error).lower():
        advice = f"Add the package to Spark's configuration: spark.jars.packages = org.apache.spark:spark-avro_2.13:{spark_version}"
        return UnsupportedStatement(f"Spark has no reader for the format avro of {source.display_name}. {advice}")
    return None


def list_source_files(spark: SparkSession, source: FileSource, paths: Sequence[str]) -> list[str]:
    """Return the sorted absolute paths of the files that Spark's reader would read.

    Args:
        spark: The session that lists the files.
        source: The format, the name and the options of the files. The options that select files apply.
        paths: The paths or glob patterns of files and folders.

    Raises:
        FilesNotFound: A path does not exist.
        UnsupportedStatement: The folder has partition folders, such as `day=2024-01-01`.
        AnalysisException: Spark reports any other error.
    """
    options = {name: value for name, value in source.options.items() if name.lower() in SELECTING_OPTIONS}
    try:
        listing = spark.read.format("binaryFile").options(**options).load([absolute(path) for path in paths])
        _reject_partition_folders(source, listing.columns)
        return sorted(listing.select("path").toArrow()["path"].to_pylist())
    except AnalysisException as error:
        missing_path = (error.getMessageParameters() or {}).get("path", source.path)
        source_error = _source_error(error, replace(source, path=missing_path), spark.version)
        if source_error is None:
            raise
        raise source_error from error


def _reject_partition_folders(source: FileSource, columns: Sequence[str]) -> None:
    """Raise UnsupportedStatement if Spark found partition folders: it then leaves out the files beside them, without an error.

    Args:
        source: The folder.
        columns: The columns of Spark's listing. Those after the columns of `binaryFile` are partition columns.
    """
    partition_columns = [name for name in columns if name not in _COLUMNS_OF_LISTING]
    if partition_columns:
        names = ", ".join(f"{name}=…" for name in partition_columns)
        problem = f"{source.display_name} has partition folders {names}, whose values would be lost."
        advice = "Set the option 'recursiveFileLookup' = 'true' to read files without these columns, or insert the rows of read_files(…)."
        raise UnsupportedStatement(f"{problem} {advice}")


def size_and_age(spark: SparkSession, source: FileSource) -> tuple[int, int]:
    """Return the total size of all files in bytes, and the modification time of the newest file in milliseconds since the epoch.

    Args:
        spark: The session that lists the files.
        source: The path of the files. If there are no files, both numbers are 0.
    """
    totals = spark.read.format("binaryFile").load(absolute(source.path)).agg(F.sum("length"), F.max("modificationTime"))
    size, newest = totals.select(F.col("sum(length)"), F.expr("unix_millis(`max(modificationTime)`)")).collect()[0]
    return size or 0, newest or 0


def absolute(path: str) -> str:
    """Return the absolute form of a local path, because Spark's JVM may have a different working directory. URLs stay unchanged."""
    return path if _HAS_SCHEME.match(path) else os.path.abspath(os.path.expanduser(path))
