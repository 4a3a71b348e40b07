"""Metadata tables: the snapshots, files, partitions and branches of a table as rows that SQL reads, as in `orders.files`.

Names, columns and types are those of Iceberg's metadata tables ("Inspecting tables" in Iceberg's documentation for Spark). Delta tables
have those that make sense for them, with the same columns, so that one query serves both formats.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, Protocol

import pyarrow as pa

from rowmerge.table.metadata.schema import Array, DataType, Field, Map, Primitive, Struct, arrow_type, as_nullable
from rowmerge.table.snapshots.snapshot import Snapshot

OF_ONE_VERSION = ("files", "data_files", "delete_files", "entries", "manifests", "partitions", "position_deletes")
"""The metadata tables that describe one version, so that VERSION AS OF applies to them."""
OF_ALL_VERSIONS = (
    *("snapshots", "history", "refs", "metadata_log_entries"),
    *(f"all_{name}" for name in ("files", "data_files", "delete_files", "entries", "manifests")),
)
"""The metadata tables that describe all versions."""

INT, LONG, STRING, BINARY, TIME, BOOLEAN = map(Primitive, ("integer", "long", "string", "binary", "timestamp", "boolean"))
_SIZES, _BOUNDS = Map(INT, LONG), Map(INT, BINARY)
_METRICS = ("column_size", "value_count", "null_value_count", "nan_value_count")

SNAPSHOTS: Mapping[str, DataType] = {
    "committed_at": TIME,
    "snapshot_id": LONG,
    "parent_id": LONG,
    "operation": STRING,
    "manifest_list": STRING,
    "summary": Map(STRING, STRING),
}
HISTORY: Mapping[str, DataType] = {"made_current_at": TIME, "snapshot_id": LONG, "parent_id": LONG, "is_current_ancestor": BOOLEAN}
REFS: Mapping[str, DataType] = {
    "name": STRING,
    "type": STRING,
    "snapshot_id": LONG,
    "max_reference_age_in_ms": LONG,
    "min_snapshots_to_keep": INT,
    "max_snapshot_age_in_ms": LONG,
}
PARTITIONS: Mapping[str, DataType] = {
    "spec_id": INT,
    "record_count": LONG,
    "file_count": INT,
    "total_data_file_size_in_bytes": LONG,
    "position_delete_record_count": LONG,
    "position_delete_file_count": INT,
    "equality_delete_record_count": LONG,
    "equality_delete_file_count": INT,
    "last_updated_at": TIME,
    "last_updated_snapshot_id": LONG,
}
"""The columns after `partition`. A table without partition fields has neither `partition` nor `spec_id`."""


@dataclass(frozen=True)
class MetadataRows:
    """The rows of a metadata table, with its columns in the engine's types."""

    columns: Struct
    rows: pa.Table

    @classmethod
    def of(cls, types: Mapping[str, DataType], values: Mapping[str, pa.Array | Sequence[Any]]) -> MetadataRows:
        """Return rows from the values of each column. A column without values is NULL in all rows.

        Args:
            types: The types of the columns by name, in their order.
            values: The values of columns, of which at least one is known. Sequences contain Python values.
        """
        columns = as_struct(types)
        count = len(next(iter(values.values())))
        arrays = [_array(values.get(field.name), arrow_type(field.type), count) for field in columns]
        return cls(columns, pa.Table.from_arrays(arrays, columns.names))

    def as_column(self) -> pa.StructArray:
        """Return the rows as the values of one struct column."""
        arrays = [column.combine_chunks() for column in self.rows.columns]
        return pa.StructArray.from_arrays(arrays, fields=list(arrow_type(self.columns)))


class MetadataTables(Protocol):
    """The metadata tables of a table. Each format implements this interface."""

    @property
    def names(self) -> Collection[str]:
        """The metadata tables that the format has, from OF_ONE_VERSION and OF_ALL_VERSIONS."""

    def partition_transforms(self, snapshot: Snapshot) -> Mapping[str, str]:
        """Return the transform of each field in the column `partition` of the metadata table `partitions`, by the name of the field."""

    def read(self, name: str, snapshot: Snapshot, columns: Collection[str] | None = None) -> MetadataRows:
        """Return the rows of a metadata table, with at least one column.

        Args:
            name: One of `names`.
            snapshot: The version of the table that the rows describe. A table of OF_ALL_VERSIONS describes all versions up to it.
            columns: Names in the form of `str.casefold` that include those of the needed columns, or None for all columns. The result may
                have more columns.

        Raises:
            CorruptLog: The metadata of the table are damaged or missing.
            StorageError: The metadata cannot be read.
        """


def needed_types(types: Mapping[str, DataType], columns: Collection[str] | None) -> dict[str, DataType]:
    """Return the columns that a query needs: at least one, because rows without columns would have no number.

    Args:
        types: The types of all columns by name.
        columns: Names in the form of `str.casefold`, or None for all columns.
    """
    needed = {name: type_ for name, type_ in types.items() if columns is None or name in columns}
    return needed or dict([next(iter(types.items()))])


def as_struct(types: Mapping[str, DataType]) -> Struct:
    """Return nullable fields with these names and types."""
    return Struct(tuple(Field(name, as_nullable(type_)) for name, type_ in types.items()))


def file_types(partition: Struct, metrics: Struct) -> dict[str, DataType]:
    """Return the columns of the metadata tables of files.

    Args:
        partition: The partition fields of all specs. Without fields, there is no column `partition`.
        metrics: The type of the column `readable_metrics` (see `metrics_type`).
    """
    return {
        "content": INT,
        "file_path": STRING,
        "file_format": STRING,
        "spec_id": INT,
        **({"partition": partition} if partition.fields else {}),
        "record_count": LONG,
        "file_size_in_bytes": LONG,
        **dict.fromkeys(("column_sizes", "value_counts", "null_value_counts", "nan_value_counts"), _SIZES),
        **dict.fromkeys(("lower_bounds", "upper_bounds"), _BOUNDS),
        "key_metadata": BINARY,
        "split_offsets": Array(LONG),
        "equality_ids": Array(INT),
        "sort_order_id": INT,
        "first_row_id": LONG,
        "referenced_data_file": STRING,
        "content_offset": LONG,
        "content_size_in_bytes": LONG,
        "readable_metrics": metrics,
    }


def partition_types(partition: Struct) -> dict[str, DataType]:
    """Return the columns of the metadata table `partitions`. `partition`: the partition fields of all specs."""
    columns = {"partition": partition, **PARTITIONS}
    return columns if partition.fields else {name: type_ for name, type_ in PARTITIONS.items() if name != "spec_id"}


def metrics_type(leaves: Iterable[Field]) -> Struct:
    """Return the type of `readable_metrics`: for each leaf column, in the order of names, a struct of its counts and bounds.

    Args:
        leaves: The leaf columns. The names of nested ones are their paths, such as `place.city`.
    """
    sorted_leaves = sorted(leaves, key=lambda leaf: leaf.name)
    return Struct(tuple(replace(leaf, type=_metrics_of(leaf.type), nullable=True, metadata={}) for leaf in sorted_leaves))


def _metrics_of(type_: DataType) -> Struct:
    return as_struct({**dict.fromkeys(_METRICS, LONG), "lower_bound": type_, "upper_bound": type_})


def _array(values: pa.Array | Sequence[Any] | None, type_: pa.DataType, count: int) -> pa.Array:
    if values is None:
        return pa.nulls(count, type_)
    return values if isinstance(values, pa.Array) else pa.array(values, type_)


def utc_time(milliseconds: int) -> datetime:
    """Return a time in milliseconds since the epoch as a datetime in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, tz=timezone.utc)
