"""Column definitions of CREATE TABLE and ALTER TABLE to fields: Spark parses the types."""

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


def fields_of(spark: SparkSession, columns: Sequence[ColumnDefinition]) -> Struct:
    """The fields of column definitions, in order; what a column is generated from and its default go into its metadata, as in Spark.

    Raises PlanError, UnsupportedStatement, and Spark's ParseException for a bad type.
    """
    times = Counter(column.path.lower() for column in columns)
    for column in columns:
        if times[column.path.lower()] > 1:
            raise PlanError(f"The column `{column.path}` is defined twice. Define it once.")
        _refuse(column)
    if not columns:
        return Struct()
    limits = [lengths(column.type.text) for column in columns]
    types = ["string" if isinstance(limit, Length) else column.type.text for limit, column in zip(limits, columns, strict=True)]
    casts = ", ".join(f"cast(null as {type_}) as {backquote(column.name)}" for type_, column in zip(types, columns, strict=True))
    schema = schema_of(spark.sql(f"select {casts}"))
    check_collations(schema)
    fields = []
    for field, column, limit in zip(schema, columns, limits, strict=True):
        metadata: dict[str, Any] = {}
        if limit is not None:
            # Texts remember their lengths as in Spark's own tables, inside other types too.
            metadata[CHAR_VARCHAR] = str(limit) if isinstance(limit, Length) else column.type.text
        if column.comment is not None:
            metadata["comment"] = column.comment
        if column.generated is not None:
            metadata[GENERATED] = column.generated.text
        if column.default is not None:
            metadata[DEFAULT] = column.default.text
        fields.append(replace(field, nullable=column.nullable, metadata=metadata))
    return Struct(tuple(fields))


def _refuse(column: ColumnDefinition) -> None:
    if column.identity:
        raise UnsupportedStatement(
            f"The column `{column.name}` is GENERATED AS IDENTITY, which is not supported. "
            f"Make keys in the query, with row_number() or uuid()",
            text=column.type.text,
        )
    if column.generated is not None and column.default is not None:
        raise PlanError(f"The column `{column.name}` is both GENERATED and has a DEFAULT. Leave one of the two out.")
