"""Which rows go to which partition when they are written, and the folders of partitions.

Runs on executors, sent there by value (see spark/writing/executors.py), so nothing here may import rowmerge.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.parquet.fitting import as_held, holds_fixed
from rowmerge.parquet.transforms import folder_text, transformed

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class PartitionKey:
    """One part of what divides rows: `name` in messages, `folder` in the names of folders; the column it is made of by its path (empty
    where that is gone: then all values are null) and the type that the transform takes, which is given in the Iceberg spec's text."""

    name: str
    folder: str
    source: tuple[str, ...]
    type: pa.DataType
    transform: str = "identity"


def split_by_partition(rows: pa.Table, keys: Sequence[PartitionKey], *, empty_is_null: bool) -> Iterator[tuple[dict[str, Any], pa.Table]]:
    """The rows of each partition, with its typed values by key; the order of rows inside a partition is kept.

    `empty_is_null`: an empty string and NULL are one partition value, as in Delta's log.
    """
    columns = [_values(rows, key, empty_is_null) for key in keys]
    group = np.zeros(rows.num_rows, dtype=np.int64)
    for column in columns:
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        codes = group * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy(zero_copy_only=False)
        # Numbered anew after each key: the product of many dictionaries' sizes would not fit.
        group = np.unique(codes, return_inverse=True)[1]
    order = np.argsort(group, kind="stable")
    ends = np.cumsum(np.bincount(group))
    start = 0
    for end in ends.tolist():
        first = int(order[start])
        yield {key.name: column[first].as_py() for key, column in zip(keys, columns, strict=True)}, rows.take(pa.array(order[start:end]))
        start = end


def _values(rows: pa.Table, key: PartitionKey, empty_is_null: bool) -> pa.Array:
    if not key.source:
        return pa.nulls(rows.num_rows, key.type)
    column = rows[key.source[0]].combine_chunks()
    if len(key.source) > 1:
        column = pc.struct_field(column, list(key.source[1:]))
    column = as_held(column, key.type) if holds_fixed(key.type) else column.cast(key.type)
    if empty_is_null and pa.types.is_string(key.type):
        column = pc.if_else(pc.equal(column, ""), pa.scalar(None, key.type), column)
    return transformed(column, key.transform)


def bucket_function(transform: str, type_: pa.DataType) -> Callable[[pd.Series], pd.Series]:
    """A bucket transform over columns of pandas, for a pandas UDF."""

    def buckets(values: pd.Series) -> pd.Series:
        return transformed(pa.Array.from_pandas(values, type=type_), transform).to_pandas()

    return buckets


def partition_path(keys: Sequence[PartitionKey], values: Mapping[str, Any], *, as_hive: bool) -> str:
    """The folders of a partition below the table's, named as Hive and Spark do it, or as Iceberg does."""
    if as_hive:
        return "/".join(_storable_name(partition_folder(key.folder, values[key.name])) for key in keys)
    return "/".join(_storable_name(f"{folder_text(key.folder, 'identity')}={folder_text(values[key.name], key.transform)}") for key in keys)


def partition_folder(column: str, value: Any) -> str:
    """`column=value` as Hive and Spark name folders; only a habit, the log holds the value."""
    if value is None:
        text = HIVE_NULL
    elif isinstance(value, bool):
        text = _escaped("true" if value else "false")
    elif isinstance(value, bytes):
        text = value.hex() or HIVE_NULL
    else:
        text = _escaped(str(value))
    return f"{_escaped(column)}={text}"


def _storable_name(folder: str) -> str:
    """The folder's name, or a digest where it is longer than the 255 bytes that file systems take; the log holds the value."""
    return folder if len(folder.encode()) <= 255 else hashlib.sha256(folder.encode()).hexdigest()


def _escaped(text: str) -> str:
    """Percent-encode what Spark does not allow in a partition's folder (ExternalCatalogUtils.charToEscape)."""
    return re.sub(r'[\x00-\x1f\x7f"#%\'*/:=?\\{\[\]^]', lambda match: f"%{ord(match[0]):02X}", text)
