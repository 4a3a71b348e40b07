"""Column definitions of CREATE TABLE and ALTER TABLE to fields: Spark parses the types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from rowmerge.commands.definitions import ColumnDefinition
from rowmerge.errors import PlanError, UnsupportedStatement
from rowmerge.spark.types import schema_of
from rowmerge.table.rules import DEFAULT, GENERATED
from rowmerge.table.schema import CHAR_VARCHAR, Struct, backquote


def fields_of(spark: SparkSession, columns: Sequence[ColumnDefinition]) -> Struct:
    """The fields of column definitions, in order; what a column is generated from and its default go into its metadata, as in Spark.

    Raises PlanError, UnsupportedStatement, and Spark's ParseException for a bad type.
    """
    names = [column.name.lower() for column in columns]
    for column in columns:
        if names.count(column.name.lower()) > 1:
            raise PlanError(f"The column `{column.name}` is defined twice. Define it once.")
        _refuse(column)
    if not columns:
        return Struct()
    types = [_bare(column.type.text) for column in columns]
    casts = ", ".join(f"cast(null as {text}) as {backquote(column.name)}" for (text, _), column in zip(types, columns, strict=True))
    schema = schema_of(spark.sql(f"select {casts}"))
    fields = []
    for field, column, (_, declared) in zip(schema, columns, types, strict=True):
        metadata: dict[str, Any] = {}
        if declared is not None:
            metadata[CHAR_VARCHAR] = declared
        if column.comment is not None:
            metadata["comment"] = column.comment
        if column.generated is not None:
            metadata[GENERATED] = column.generated.text
        if column.default is not None:
            metadata[DEFAULT] = column.default.text
        fields.append(replace(field, nullable=column.nullable, metadata=metadata))
    return Struct(tuple(fields))


def _bare(text: str) -> tuple[str, str | None]:
    """char(n) and varchar(n) are strings that remember their length, as in Spark's own tables."""
    if match := re.fullmatch(r"\s*((?:var)?char)(?:acter)?\s*\(\s*(\d+)\s*\)\s*", text, re.IGNORECASE):
        return "string", f"{match[1].lower()}({match[2]})"
    return text, None


def _refuse(column: ColumnDefinition) -> None:
    if column.identity:
        raise UnsupportedStatement(
            f"The column `{column.name}` is GENERATED AS IDENTITY, which is not supported. "
            f"Make keys in the query, with row_number() or uuid()",
            text=column.type.text,
        )
    if column.generated is not None and column.default is not None:
        raise PlanError(f"The column `{column.name}` is both GENERATED and has a DEFAULT. Leave one of the two out.")
