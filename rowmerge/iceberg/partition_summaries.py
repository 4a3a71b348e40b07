"""What a manifest list says of the partitions in a manifest (Iceberg spec, Manifest Lists: field_summary)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import PrimitiveType

from rowmerge.iceberg.content import PartitionSummary


def summaries(partitions: Sequence[tuple[Any, ...]], spec: PartitionSpec, schema: Schema) -> tuple[PartitionSummary, ...]:
    """One summary for each field of a spec, over the partition values of files (as `ContentFile.partition` has them)."""
    types = [field.field_type for field in spec.partition_type(schema).fields]
    return tuple(_summary([values[at] for values in partitions], type_) for at, type_ in enumerate(types))


def _summary(values: Iterable[Any], type_: Any) -> PartitionSummary:
    assert isinstance(type_, PrimitiveType), "partition values are primitive"
    distinct = {_key(value): value for value in values}
    nan = any(value != value for value in distinct.values())
    there = sorted(key for key, value in distinct.items() if value is not None and value == value)
    bounds = (to_bytes(type_, distinct[there[0]]), to_bytes(type_, distinct[there[-1]])) if there else (None, None)
    return PartitionSummary(None in distinct, nan, *bounds)


def _key(value: Any) -> Any:
    """By which values are told apart and ordered: -0.0 is another value than 0.0, and comes first."""
    return (value, math.copysign(1.0, value)) if isinstance(value, float) else value
