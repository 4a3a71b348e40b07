"""Convert column definitions of CREATE TABLE and ALTER TABLE to fields. Spark parses the types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from rowmerge.commands.definitions import ColumnDefinition
from rowmerge.errors import PlanError, UnsupportedStatement
from rowmerge.plan.lengths import Length, lengths
from rowmerge.spark.types import check_collations, schema_of
from rowmerge.table.metadata.rules import DEFAULT, GENERATED
from rowmerge.table.metadata.schema import CHAR_VARCHAR, Struct, backquote


def parse_columns(spark: SparkSession, columns: Sequence[ColumnDefinition]) -> Struct:
    """Return the fields of column definitions, in order. As in Spark, their metadata holds generation expressions and defaults.

    Raises PlanError, UnsupportedStatement, and Spark's ParseException for a bad type.
    """
    _check_definitions(columns)
    if not columns:
        return Struct()
    casts = ", ".join(f"cast(null as {_spark_type(column)}) as {backquote(column.name)}" for column in columns)
    schema = schema_of(spark.sql(f"select {casts}"))
    check_collations(schema)
    pairs = zip(schema, columns, strict=True)
    return Struct(tuple(replace(field, nullable=column.nullable, metadata=_metadata(column)) for field, column in pairs))


def _spark_type(column: ColumnDefinition) -> str:
    """Return the type for Spark to parse: string for char and varchar, whose length only the metadata holds."""
    return "string" if isinstance(lengths(column.type.text), Length) else column.type.text


def _metadata(column: ColumnDefinition) -> dict[str, Any]:
    """Return the metadata of a column: declared lengths, at any depth, as Spark keeps them, and its comment, generation and default."""
    limit = lengths(column.type.text)
    declared = str(limit) if isinstance(limit, Length) else column.type.text
    entries = {
        CHAR_VARCHAR: None if limit is None else declared,
        "comment": column.comment,
        GENERATED: None if column.generated is None else column.generated.text,
        DEFAULT: None if column.default is None else column.default.text,
    }
    return {key: value for key, value in entries.items() if value is not None}


def _check_definitions(columns: Sequence[ColumnDefinition]) -> None:
    """Raise UnsupportedStatement for an identity column, and PlanError for a name that comes twice or a generated column with a default."""
    counts = Counter(column.path.lower() for column in columns)
    for column in columns:
        if counts[column.path.lower()] > 1:
            raise PlanError(f"The column `{column.path}` is defined twice. Define it once.")
        if column.identity:
            raise UnsupportedStatement(
                f"The column `{column.name}` is GENERATED AS IDENTITY, which is not supported. "
                f"Make keys in the query, with row_number() or uuid()",
                text=column.type.text,
            )
        if column.generated is not None and column.default is not None:
            raise PlanError(f"The column `{column.name}` is both GENERATED and has a DEFAULT. Leave one of the two out.")
