"""Divide rows by partition, and build the names of partition folders."""

from __future__ import annotations

import hashlib
import re
import secrets
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.parquet.fitting import has_fixed_size_binary, to_file_type
from rowmerge.parquet.transforms import bucket_hashes, folder_text, transformed

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_PREFIX_CHARACTERS = string.ascii_letters + string.digits


@dataclass(frozen=True)
class PartitionKey:
    """A partition field, and the information that the writer needs to compute its values.

    Attributes:
        name: The name of the field in the table's metadata.
        folder: The name of the field in folder names.
        source: The names that lead to the source column. The path is empty if the column was dropped: all values are then NULL.
        type: The type to which the source column is cast before the transform is applied.
        transform: The transform as a string of the Iceberg specification, such as `bucket[16]`.
    """

    name: str
    folder: str
    source: tuple[str, ...]
    type: pa.DataType
    transform: str = "identity"


@dataclass(frozen=True)
class HashedPaths:
    """Paths of data files that begin with a hash of the path, as Iceberg's ObjectStoreLocationProvider builds them.

    Object stores distribute requests by the first characters of paths. Hashes spread the files of a table over many such prefixes.

    Attributes:
        context: The path that names the table below the hash, or an empty string if all files in the root belong to one table.
        with_partitions: Whether the paths contain the folders of partitions.
    """

    context: str
    with_partitions: bool

    def path(self, folder: str, name: str) -> str:
        """Return the path of a file relative to the root, such as `0101/0110/1001/10110010/day=2024-02-01/a.parquet`.

        Args:
            folder: The folder of the partition, which is empty for a table without partitions.
            name: The name of the file.
        """
        file_path = f"{folder}/{name}" if folder and self.with_partitions else name
        bits = f"{int(bucket_hashes(pa.array([file_path]))[0]) & 0xFFFFF:020b}"
        hash_folders = "/".join((bits[:4], bits[4:8], bits[8:12], bits[12:]))
        if self.context:
            return f"{hash_folders}/{self.context}/{file_path}"
        # Without partitions, Iceberg saves one level of folders.
        return f"{hash_folders}/{file_path}" if self.with_partitions else f"{hash_folders}-{file_path}"


def split_by_partition(rows: pa.Table, keys: Sequence[PartitionKey], *, empty_is_null: bool) -> Iterator[tuple[dict[str, Any], pa.Table]]:
    """Yield the partition values, by name of the field, and the rows of each partition. The rows keep their order.

    Args:
        rows: Rows with the source columns of all partition fields.
        keys: The partition fields. There must be at least one.
        empty_is_null: Whether an empty string becomes NULL, as in Delta ("Partition Value Serialization" in the Delta protocol).
    """
    columns = [_partition_values(rows, key, empty_is_null) for key in keys]
    partition_numbers = _partition_numbers(columns, rows.num_rows)
    # Sort the rows by the number of their partition, and divide the result at the last row of each partition.
    order = np.argsort(partition_numbers, kind="stable")
    ends = np.cumsum(np.bincount(partition_numbers)).tolist()
    for start, end in pairwise([0, *ends]):
        first_row = int(order[start])
        values = {key.name: column[first_row].as_py() for key, column in zip(keys, columns, strict=True)}
        yield values, rows.take(pa.array(order[start:end]))


def comparable_partition(values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the values of a partition as a key of dictionaries and sets, in which NaN equals NaN."""
    return tuple("NaN" if value != value else value for value in values.values())


def _partition_numbers(columns: Sequence[pa.Array], row_count: int) -> np.ndarray[Any, Any]:
    """Return the number of the partition of each row, starting at 0. Rows with equal values in all columns have the same number."""
    partitions = np.zeros(row_count, dtype=np.int64)
    for column in columns:
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        codes = partitions * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy(zero_copy_only=False)
        # Partitions are numbered again after each key: the product of many dictionaries' sizes would not fit into an integer.
        partitions = np.unique(codes, return_inverse=True)[1]
    return partitions


def _partition_values(rows: pa.Table, key: PartitionKey, empty_is_null: bool) -> pa.Array:
    """Return the value of one partition field for each row."""
    if not key.source:
        return pa.nulls(rows.num_rows, key.type)
    column = rows[key.source[0]].combine_chunks()
    if len(key.source) > 1:
        column = pc.struct_field(column, list(key.source[1:]))
    column = to_file_type(column, key.type) if has_fixed_size_binary(key.type) else column.cast(key.type)
    if empty_is_null and pa.types.is_string(key.type):
        column = pc.if_else(pc.equal(column, ""), pa.scalar(None, key.type), column)
    return transformed(column, key.transform)


def bucket_function(transform: str, type_: pa.DataType) -> Callable[[pd.Series], pd.Series]:
    """Return a function for a pandas UDF that applies a bucket transform.

    Args:
        transform: The transform as a string, such as `bucket[16]`.
        type_: The Arrow type to which the function converts the values of its argument.
    """
    import pandas  # takes 0.4 s, and few tables have bucket transforms

    def buckets(values: pd.Series) -> pd.Series:
        return transformed(pa.Array.from_pandas(values, type=type_), transform).to_pandas()

    # PySpark reads the annotations, which are strings in this module.
    buckets.__annotations__ = {"values": pandas.Series, "return": pandas.Series}
    return buckets


def partition_path(keys: Sequence[PartitionKey], values: Mapping[str, Any], *, as_hive: bool) -> str:
    """Return the path of a partition's folder, relative to the folder of the table's data files.

    For example, the field `place` has the value `a b:c`. In Hive's style, the path is `place=a b%3Ac`. In Iceberg's style, it is
    `place=a+b%3Ac`. The path of several fields has one folder for each, such as `place=x/day=2024-02-01`.

    Args:
        keys: The partition fields. A folder has the name `key.folder`. In Delta, this is the physical name of the column (column mapping).
        values: The partition values by `key.name`.
        as_hive: Whether names and values are escaped as in Hive and Spark instead of the Java implementation of Iceberg.
    """
    folder_of = _hive_folder if as_hive else _iceberg_folder
    return "/".join(_shortened_name(folder_of(key, values[key.name])) for key in keys)


def random_prefix(length: int) -> str:
    """Return a random folder name of letters and digits. Object stores spread files with different prefixes over their servers."""
    # The workers of Spark are forks of one process, in which the module `random` would have the same state.
    return "".join(secrets.choice(_PREFIX_CHARACTERS) for _ in range(length))


def _hive_folder(key: PartitionKey, value: Any) -> str:
    return partition_folder(key.folder, value)


def _iceberg_folder(key: PartitionKey, value: Any) -> str:
    """Return the folder name that the Java implementation of Iceberg writes. It escapes the name of the field like a string value."""
    return f"{folder_text(key.folder, transform='identity')}={folder_text(value, key.transform)}"


def partition_folder(column: str, value: Any) -> str:
    """Return the folder name `column=value`, escaped as in Hive and Spark. Readers take the value from the log, not from this name.

    Args:
        column: The name that the partition column has in files.
        value: The partition value, None for NULL.
    """
    if value is None:
        text = HIVE_NULL
    elif isinstance(value, bool):
        text = _escaped("true" if value else "false")
    elif isinstance(value, bytes):
        text = value.hex() or HIVE_NULL  # Delta has no empty partition value: it means NULL
    else:
        text = _escaped(str(value))
    return f"{_escaped(column)}={text}"


def partition_text(field: str, value: str | None) -> str:
    """Return `field=value`, escaped as in the rows of SHOW PARTITIONS for Spark's data sources.

    Args:
        field: The name of the partition field.
        value: The text of the partition value, None for NULL.
    """
    return f"{_escaped(field)}={_escaped('null' if value is None else value)}"


def hive_folders(column: str, values: pa.Array) -> pa.Array:
    """Return the folder name of each partition value in Hive's style (`column=value`). Each distinct value is encoded only once.

    Args:
        column: The name that the partition column has in files.
        values: The partition values as strings.
    """
    encoded = pc.dictionary_encode(values)
    folders = pa.array([partition_folder(column, value) for value in encoded.dictionary.to_pylist()], pa.string())
    return pc.fill_null(folders.take(encoded.indices), partition_folder(column, None))


def _shortened_name(folder: str) -> str:
    """Return the name of a folder. Replace it with a digest if it is longer than 255 bytes, because file systems reject such names."""
    return folder if len(folder.encode()) <= 255 else hashlib.sha256(folder.encode()).hexdigest()


def _escaped(text: str) -> str:
    """Percent-encode the characters that Spark does not allow in the name of a folder (ExternalCatalogUtils.charToEscape)."""
    return re.sub(r'[\x00-\x1f\x7f"#%\'*/:=?\\{\[\]^]', lambda match: f"%{ord(match[0]):02X}", text)
