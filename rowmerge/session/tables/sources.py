"""Sources of statements of the Python API: rows as temporary views of Spark, names of tables, and queries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

from rowmerge.spark.failures import translated
from rowmerge.spark.source.local_rows import rows_frame
from rowmerge.spark.spark_session import drop_view, register_view
from rowmerge.sql import parse_source
from rowmerge.table.metadata.schema import backquote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rowmerge.spark.source.local_rows import Rows

    Source: TypeAlias = Rows | str
    """Rows, the name of a table or view, or the text of a query."""


@contextmanager
def source_relation(spark: SparkSession, source: Source) -> Iterator[str]:
    """Yield the SQL text of a relation with the rows of a source. Rows are a temporary view inside the `with` block.

    Args:
        spark: The session of the view.
        source: Rows, the name of a table or view, or the text of a query.

    Raises:
        ConfigurationError: The source has another type.
        TypeMismatch: The rows have a column that Arrow or Spark cannot represent.
        Unparsable: The text is neither the name of a table nor a query.
    """
    if isinstance(source, str):
        yield parse_source(source)
        return
    name = f"__rowmerge_source_{uuid4().hex}"
    with translated(name):
        register_view(rows_frame(spark, source), name)
    try:
        yield backquote(name)
    finally:
        drop_view(spark, name)
