"""Read data files with Spark's own Parquet reader: names, types and metadata of columns, paths, and the addresses of rows."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from urllib.parse import quote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.types import StructType

from rowmerge.errors import MissingDataFile, UnsupportedTableFeature
from rowmerge.parquet.data_files import CHANGED_IN, ROW_ID
from rowmerge.spark.spark_session import FIELD_IDS, analyses_later, hadoop_settings_of_user
from rowmerge.spark.types import to_spark
from rowmerge.spark.values.nested import with_uuid_texts
from rowmerge.storage.configuration import FilesystemOptions
from rowmerge.storage.hadoop import ReaderAccess, reader_access, without_reader_scheme
from rowmerge.table.metadata.engine_columns import FILE, POSITION
from rowmerge.table.metadata.rules import INITIAL
from rowmerge.table.metadata.schema import FIELD_ID, Field, Primitive, Struct, backquote, sql_name
from rowmerge.table.metadata.shape import Lineage
from rowmerge.table.snapshots.files import FileLayout, FileListing
from rowmerge.table.snapshots.snapshot import Snapshot

# java.net.URI keeps these characters in a path, as well as letters, digits and characters outside ASCII except spaces and controls.
_ENCODED = re.compile(r"[^\w\-!.~'()*,;:$&+=@/\x80-\U0010ffff]|[\x80-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]", re.ASCII)
# Spark's reader takes files with these names for temporary files, and skips them without an error (HadoopFSUtils).
_HIDDEN = re.compile(r"/(?:_[^/=]*|\.[^/]*|[^/]*\._COPYING_)$")

ADDRESS_FIELDS = (Field(FILE, Primitive("string")), Field(POSITION, Primitive("long")))
ADDRESS_COLUMNS = (f"_metadata.file_path as {FILE}", f"_metadata.row_index as {POSITION}")
"""SQL for the address of a row that Spark reads from a file: the path of the file, and the row's index in the file."""
ColumnPair = tuple[Field, Field]
"""A column of the table, and the same column with its name and type in data files."""


def spark_path(path: str) -> str:
    """Return a path as Spark's `_metadata.file_path` spells it: percent-encoded as by `java.net.URI`; a local path begins with `file:/`."""
    if path.startswith("file://"):
        path = "file:" + path[len("file://") :]
    return _ENCODED.sub(lambda match: quote(match[0], safe=""), path)


def with_short_file_names(rows: DataFrame, files: FileListing) -> tuple[DataFrame, dict[str, str]]:
    """Return rows with a short name instead of the path in FILE, and the path of each file by this name.

    The name is the CRC-32 of the path. If two files have the same name, the rows are returned unchanged, and there are no names.

    Args:
        rows: The rows of the files, with their addresses.
        files: The files.
    """
    paths = [spark_path(path) for path in files.paths]
    path_by_name = {str(zlib.crc32(path.encode())): path for path in paths}
    if len(path_by_name) < len(paths):
        return rows, {}
    return rows.withColumn(FILE, F.crc32(F.col(FILE)).cast("string")), path_by_name


def lineage_columns(lineage: Lineage | None, layout: FileLayout) -> list[ColumnPair]:
    """Return the row lineage columns (the id of a row, the version of its last change), each paired with its column in data files.

    `lineage`: The lineage columns of the table; None to return an empty list. `layout`: How the data files identify their columns.
    """
    if lineage is None:
        return []
    row_id, changed_in = Field(ROW_ID, lineage.row_id.type), Field(CHANGED_IN, lineage.changed_in.type)
    is_iceberg = FIELD_ID in lineage.row_id.metadata  # only Iceberg identifies these columns by field ids
    if is_iceberg and not layout.by_field_id:
        # Files without field ids lack both columns. Our names do not occur in files, so Spark finds no such column and reads NULL.
        return [(row_id, row_id), (changed_in, changed_in)]
    return [(row_id, lineage.row_id), (changed_in, lineage.changed_in)]


def read_files(
    spark: SparkSession,
    snapshot: Snapshot,
    layout: FileLayout,
    columns: Sequence[ColumnPair],
    metadata_columns: Sequence[str],
    *,
    partition_folder: str | None = None,
) -> DataFrame:
    """Read all rows of the files of a layout, including deleted rows, under the table's column names.

    For files with field ids, this permanently changes a setting of the session, because Spark uses the setting later, when the query runs.

    Args:
        spark: The session that reads the files.
        snapshot: The snapshot of the table.
        layout: The paths of the files, and how the files identify columns.
        columns: The columns to read, each paired with the same column in the files.
        metadata_columns: SQL for columns that describe a row's file or position, such as ADDRESS_COLUMNS.
        partition_folder: The folder below which folder names contain partition values (`day=2024-01-31`); None to ignore folder names.

    Raises:
        MissingDataFile: Spark does not find one of the files while it lists them.
        UnsupportedTableFeature: Spark would skip one of the files because of its name.
    """
    _check_names(snapshot.name, layout.paths)
    if layout.by_field_id:
        spark.conf.set(FIELD_IDS, "true")
    # Spark's Parquet reader uses this metadata of fields: the default for files without the field, and the id that finds the field.
    used_metadata = {INITIAL: snapshot.shape.supports_initial_defaults, FIELD_ID: layout.by_field_id}
    reader_metadata = [key for key, is_used in used_metadata.items() if is_used]
    file_schema = to_spark(Struct(tuple(file_column for _, file_column in columns)), reader_metadata)
    access = access_of(spark, snapshot.shape.filesystem_options, layout.paths)
    frame = _read_parquet(spark, snapshot.name, access, layout.paths, file_schema, partition_folder)
    # Each term of a Column object would be a call to the JVM, and tables may have a thousand columns. So columns are SQL strings.
    column_sqls = (_column_sql(column, file_column) for column, file_column in columns)
    metadata_sqls = map(access.original_sql, _with_hidden_name(metadata_columns, file_schema.names))
    return frame.selectExpr(*column_sqls, *metadata_sqls)


def access_of(spark: SparkSession, options: FilesystemOptions, paths: Sequence[str]) -> ReaderAccess:
    """Return the access of Spark's reader to files. Settings with which the user has started Spark take precedence.

    Args:
        spark: The session that reads the files.
        options: The arguments of Arrow's file systems for the same files.
        paths: The absolute paths of the files.
    """
    access = reader_access(options, paths, is_shared=analyses_later(spark))
    if not access.options:
        return access
    chosen = hadoop_settings_of_user(spark, access.options)
    suffix = "" if "fs.s3.impl" in chosen else access.suffix  # another connector, which may know no other schemes
    return ReaderAccess({name: value for name, value in access.options.items() if name not in chosen}, suffix)


def _with_hidden_name(metadata_columns: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return SQL of metadata columns with the name that Spark gives its struct `_metadata`, because a column of the files has this name."""
    name, names = "_metadata", {column.lower() for column in columns}
    while name in names:
        name = f"_{name}"
    return [sql.replace("_metadata.", f"{name}.", 1) for sql in metadata_columns]


def _check_names(table: str, paths: Sequence[str]) -> None:
    """Raise UnsupportedTableFeature if Spark's reader would skip one of the files because of its name, such as `_a.parquet`."""
    hidden = next(filter(_HIDDEN.search, paths), None)
    if hidden is not None:
        feature = f"data file {hidden.rpartition('/')[2]}, whose name Spark takes for that of a temporary file"
        advice = "Rewrite the data files with the engine that wrote them, under other names."
        raise UnsupportedTableFeature(table, feature, action="read", advice=advice)


def _read_parquet(
    spark: SparkSession, table: str, access: ReaderAccess, paths: Sequence[str], schema: StructType, partition_folder: str | None
) -> DataFrame:
    """Return the rows of Parquet files. `partition_folder`: see `read_files`. Raises MissingDataFile if a file does not exist."""
    # CORRECTED: dates and timestamps are in the Gregorian calendar, not in the hybrid calendar of Spark 2.
    options = {"mergeSchema": "false", "datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}
    options |= access.options  # Spark adds the options of a reader to the Hadoop configuration of its jobs
    if partition_folder is not None:
        # Without this option, names of folders have no meaning, and files may be elsewhere, such as the files of a shallow clone.
        options["basePath"] = access.reader_path(partition_folder)
    try:
        return spark.read.schema(schema).options(**options).parquet(*(escape_patterns(access.reader_path(path)) for path in paths))
    except AnalysisException as error:
        if not (error.getCondition() or "").startswith("PATH_NOT_FOUND"):
            raise
        escaped_path = without_reader_scheme((error.getMessageParameters() or {}).get("path", ""))
        raise MissingDataFile(table, re.sub(r"\\(.)", r"\1", escaped_path)) from error  # undoes `escape_patterns`


def escape_patterns(path: str) -> str:
    """Return the path with its special characters escaped, so that Hadoop does not treat it as a pattern."""
    # With Spark's own switch, `__globPaths__` = false, each path that looks like a pattern reads all other paths again: rows appear twice.
    return re.sub(r"[{}\[\]*?\\]", r"\\\g<0>", path)


def _column_sql(field: Field, file_column: Field) -> str:
    """Return SQL that reads a column of files under the column's name in the table, with the table's names of struct fields."""
    column = with_uuid_texts(backquote(file_column.name), file_column.type)
    if file_column.metadata or field.type != file_column.type:
        # The cast drops the metadata of the files' column, which must not become the table's.
        column = f"cast({column} as {sql_name(field.type)})"
    return f"{column} as {backquote(field.name)}"
