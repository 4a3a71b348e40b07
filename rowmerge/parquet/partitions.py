"""Divide rows by partition, and name the folders of partitions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.parquet.fitting import as_stored, holds_fixed
from rowmerge.parquet.transforms import folder_text, transformed

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class PartitionKey:
    """A partition field. `name` is its name in messages, `folder` its name in folders.

    `source`: the path of its column, empty for a dropped column, whose values are all NULL; `type`: the type that the transform takes;
    `transform`: the text of the Iceberg spec.
    """

    name: str
    folder: str
    source: tuple[str, ...]
    type: pa.DataType
    transform: str = "identity"


def split_by_partition(rows: pa.Table, keys: Sequence[PartitionKey], *, empty_is_null: bool) -> Iterator[tuple[dict[str, Any], pa.Table]]:
    """Yield the values of each partition by key name, and its rows in their order.

    `empty_is_null`: an empty string and NULL are one partition value, as in Delta's log.
    """
    columns = [_partition_values(rows, key, empty_is_null) for key in keys]
    partitions = _partition_numbers(columns, rows.num_rows)
    order = np.argsort(partitions, kind="stable")
    ends = np.cumsum(np.bincount(partitions)).tolist()
    for start, end in pairwise([0, *ends]):
        first_row = int(order[start])
        values = {key.name: column[first_row].as_py() for key, column in zip(keys, columns, strict=True)}
        yield values, rows.take(pa.array(order[start:end]))


def _partition_numbers(columns: Sequence[pa.Array], row_count: int) -> np.ndarray[Any, Any]:
    """Return the number of each row's partition, counted from 0. Rows with equal values in all columns have one number."""
    partitions = np.zeros(row_count, dtype=np.int64)
    for column in columns:
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        codes = partitions * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy(zero_copy_only=False)
        # Partitions are numbered again after each key: the product of many dictionaries' sizes would not fit into an integer.
        partitions = np.unique(codes, return_inverse=True)[1]
    return partitions


def _partition_values(rows: pa.Table, key: PartitionKey, empty_is_null: bool) -> pa.Array:
    if not key.source:
        return pa.nulls(rows.num_rows, key.type)
    column = rows[key.source[0]].combine_chunks()
    if len(key.source) > 1:
        column = pc.struct_field(column, list(key.source[1:]))
    column = as_stored(column, key.type) if holds_fixed(key.type) else column.cast(key.type)
    if empty_is_null and pa.types.is_string(key.type):
        column = pc.if_else(pc.equal(column, ""), pa.scalar(None, key.type), column)
    return transformed(column, key.transform)


def bucket_function(transform: str, type_: pa.DataType) -> Callable[[pd.Series], pd.Series]:
    """Return a bucket transform over columns of pandas, for a pandas UDF."""

    def buckets(values: pd.Series) -> pd.Series:
        return transformed(pa.Array.from_pandas(values, type=type_), transform).to_pandas()

    return buckets


def partition_path(keys: Sequence[PartitionKey], values: Mapping[str, Any], *, as_hive: bool) -> str:
    """Return the path of a partition's folder below the table's: as in Hive and Spark, or as in Iceberg."""
    if as_hive:
        folders = [partition_folder(key.folder, values[key.name]) for key in keys]
    else:
        folders = [f"{folder_text(key.folder, 'identity')}={folder_text(values[key.name], key.transform)}" for key in keys]
    return "/".join(map(_storable_name, folders))


def partition_folder(column: str, value: Any) -> str:
    """Return `column=value` as in Hive and Spark. The name has no meaning: the log holds the value."""
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
    """Return the folder's name, or a digest of a name of more than 255 bytes, which file systems reject. The log holds the value."""
    return folder if len(folder.encode()) <= 255 else hashlib.sha256(folder.encode()).hexdigest()


def _escaped(text: str) -> str:
    """Percent-encode what Spark does not allow in a partition's folder (ExternalCatalogUtils.charToEscape)."""
    return re.sub(r'[\x00-\x1f\x7f"#%\'*/:=?\\{\[\]^]', lambda match: f"%{ord(match[0]):02X}", text)
