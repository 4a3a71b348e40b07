"""SQL text of values that data files hold as bytes of one length: the form that users see, and the test of values to store."""

from __future__ import annotations

from rowmerge.parquet.uuids import CANONICAL
from rowmerge.spark.values.nested import with_parts
from rowmerge.table.metadata.schema import DataType, Fixed

_GROUPS = "(.{8})(.{4})(.{4})(.{4})(.{12})"


def readable(text: str, held: DataType, depth: int = 0) -> str:
    """Return SQL for the value `text` with each UUID as canonical text. Spark's Parquet reader returns values of type `held` as binary."""
    if isinstance(held, Fixed):
        return f"lower(regexp_replace(hex({text}), '{_GROUPS}', '$1-$2-$3-$4-$5'))" if held.uuid else text
    return with_parts(text, held, lambda _, part, type_: readable(part, type_, depth + 1), depth)


def fits(text: str, held: Fixed) -> str:
    """Return a SQL condition: a value other than NULL fits into these bytes."""
    return f"char_length({text}) = 36 and {text} rlike '{CANONICAL}'" if held.uuid else f"octet_length({text}) = {held.length}"


def octets(text: str) -> str:
    """Return SQL for the bytes of a UUID's canonical text."""
    return f"unhex(replace({text}, '-', ''))"
