"""The keys that a source has, as values to look up in a column: what Arrow can say about equality as Spark would."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from rowmerge.parquet.source_keys import KeyColumn, SourceKeys, _combined
from rowmerge.plan.pruning.bounds import is_padded
from rowmerge.spark.source.source import SourceKey
from rowmerge.table.metadata.schema import DataType, Field, Primitive, arrow_type

_INTEGERS = ("byte", "short", "integer", "long")
_EXACT = (*_INTEGERS, "date", "string", "binary", "boolean", "timestamp", "timestamp_ntz")


def source_keys(keys: Sequence[tuple[SourceKey, Field]]) -> SourceKeys | None:
    """The keys of a source by which rows of a table can be looked up, with the table's columns; None where there is none.

    A key is left out whose values are not here, or whose equality Arrow and Spark might see differently (floats, collations, texts of one
    length, other types than the column has).
    """
    columns, given = [], []
    for key, field in keys:
        held = _as_held(key, field)
        if held is None:
            continue
        columns.append(KeyColumn(field.name, held[0], key.pair.op == "<=>" and key.has_null))
        given.append(held[1])
    if not columns:
        return None
    order = sorted(range(len(columns)), key=lambda index: -len(columns[index].values))
    columns, given = [columns[index] for index in order], [given[index] for index in order]
    combinations = None
    if len(columns) > 1 and np.prod([float(len(column.values) + 1) for column in columns]) < 2**62:
        combinations = _combined([column.codes(values) for column, values in zip(columns, given, strict=True)], columns)
        combinations = np.sort(combinations[combinations >= 0])
    if combinations is not None:
        return SourceKeys(tuple(columns), combinations, tuple(given), not (combinations[1:] == combinations[:-1]).any())
    (first, *others), nulls = columns, given[0].null_count
    once = len(given[0]) - nulls == len(first.values) and not (first.null and nulls > 1)
    return SourceKeys(tuple(columns), None, tuple(given), once and not others)


def can_be_looked_up(op: str, type_: DataType, field: Field) -> bool:
    """Whether Arrow finds what equals a key of this type in a column as Spark would."""
    if op not in ("=", "<=>") or is_padded(field):
        return False
    integers = all(isinstance(held, Primitive) and held.name in _INTEGERS for held in (type_, field.type))
    return integers or (type_ == field.type and (not isinstance(type_, Primitive) or type_.name in _EXACT))


def _as_held(key: SourceKey, field: Field) -> tuple[pa.Array, pa.ChunkedArray] | None:
    """The key's distinct values, and that of each row, in the column's type; None when it cannot be looked up."""
    if key.values is None or key.column is None or not can_be_looked_up(key.pair.op, key.type, field):
        return None
    try:
        return key.values.cast(arrow_type(field.type)), key.column.cast(arrow_type(field.type))
    except pa.ArrowInvalid:
        return None  # a number that the column cannot hold
