"""File listings of one column `x`, for tests of masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from rowmerge.plan.expressions.sides import Side
from rowmerge.plan.pruning.file_pruning import file_mask
from rowmerge.table.metadata.schema import Field, Primitive, Struct, arrow_type
from rowmerge.table.snapshots.files import FileListing, listing_schema

_COUNT = pa.int64()
MISSING: dict[str, Any] = {"lower": None, "upper": None, "nulls": None}


def listing(field: Field, files: Sequence[Mapping[str, Any]], nulls: pa.DataType = _COUNT) -> FileListing:
    """Return files of ten records with `lower`, `upper` and `nulls` (default 0) of one column. `nulls`: the type of its null counts."""
    type_ = arrow_type(field.type)
    rows = [
        {
            "path": f"file:///t/{index}",
            "size": 1,
            "records": file.get("records", 10),
            "deleted": 0,
            "partition": {},
            "lower": {field.name: file["lower"]},
            "upper": {field.name: file["upper"]},
            "nulls": {field.name: file.get("nulls", 0)},
        }
        for index, file in enumerate(files)
    ]
    bounds = pa.struct([(field.name, type_)])
    return FileListing(pa.Table.from_pylist(rows, listing_schema(pa.struct([]), bounds, pa.struct([(field.name, nulls)]))))


def partitions(field: Field, values: Sequence[Any]) -> FileListing:
    """Return one file for each value of a partition column."""
    rows = [
        {"path": f"file:///t/{index}", "size": 1, "records": 1, "deleted": 0, "partition": {field.name: value}}
        for index, value in enumerate(values)
    ]
    empty = pa.struct([])
    return FileListing(pa.Table.from_pylist(rows, listing_schema(pa.struct([(field.name, arrow_type(field.type))]), empty, empty)))


def column(type_: Any, **metadata: Any) -> Field:
    return Field("x", Primitive(type_) if isinstance(type_, str) else type_, True, metadata)


def select_files(field: Field, files: Sequence[Mapping[str, Any]], condition: str, time_zone: str | None = None) -> list[int]:
    """Return the indexes of the files that a condition on `x` does not prune."""
    schema = Struct((field,))
    mask, _ = file_mask([condition], Side("t", (), ("x",)), schema, (), time_zone=time_zone)
    return [index for index, keep in enumerate(mask(listing(field, files)).to_pylist()) if keep]


def between(*pairs: tuple[Any, Any]) -> list[dict[str, Any]]:
    return [{"lower": low, "upper": high} for low, high in pairs]


INTEGERS = between((0, 9), (10, 19), (20, 29))
NULLS = [
    {"lower": 1, "upper": 5, "nulls": 0},
    {"lower": 1, "upper": 5, "nulls": 3},
    {**MISSING, "nulls": 10},
    MISSING,
    {"lower": 1, "upper": 5, "nulls": None},
    {**MISSING, "nulls": 10, "records": None},
    {**MISSING, "nulls": 0, "records": 0},
]
