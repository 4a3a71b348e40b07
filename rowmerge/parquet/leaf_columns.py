"""The leaf columns of Parquet files: how the writer encodes them, and their statistics in footers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Path = tuple[str, ...]
NestedValues = dict[str, Any]
"""A value for each column by name, such as its lower bound. A column with fields has a nested dictionary: `{"id": 1, "s": {"a": 2}}`."""


@dataclass(frozen=True)
class Leaf:
    """A leaf column of a Parquet file: a column or field without fields, or the elements of a list or map.

    Attributes:
        path: The names in the table that lead from the top-level column to the leaf. Lists and maps add `element`, `key` or `value`.
        parquet_path: The names in the file's schema that lead to the leaf, joined by dots.
        is_float: Whether the leaf contains floating-point numbers.
        may_have_bloom_filter: Whether PyArrow can write a Bloom filter that readers may use for equality (see `BloomFilter`).
        has_bounds: Whether the bounds in the footer can be used as bounds of the column.
    """

    path: Path
    parquet_path: str
    is_float: bool
    may_have_bloom_filter: bool
    has_bounds: bool


def leaves(type_: pa.DataType, file_type: pa.DataType, path: Path = (), file_path: Path = (), is_repeated: bool = False) -> Iterator[Leaf]:
    """Yield the leaf columns of a type in the order of the column chunks of a file.

    Args:
        type_: The type in the table: a struct of all columns, or the type of a column or field.
        file_type: The same type, with the names and types that the file uses.
        path: The names in the table that lead to the type.
        file_path: The names in the file's schema that lead to the type.
        is_repeated: Whether the type is inside a list or map.
    """
    if not pa.types.is_nested(type_):
        has_bounds = not is_repeated and _has_usable_bounds(type_, file_type, is_top_level=len(path) == 1)
        is_float = pa.types.is_floating(type_)
        may_have_bloom_filter = not is_float and not pa.types.is_boolean(type_)
        yield Leaf(path, ".".join(file_path), is_float, may_have_bloom_filter, has_bounds)
        return
    is_repeated = is_repeated or not pa.types.is_struct(type_)
    for name, file_names, child_type, child_file_type in _children(type_, file_type):
        yield from leaves(child_type, child_file_type, (*path, name), (*file_path, *file_names), is_repeated)


def _has_usable_bounds(type_: pa.DataType, file_type: pa.DataType, *, is_top_level: bool) -> bool:
    """Return whether the bounds in the footer can be used for a leaf of this type in the table, which has `file_type` in the file."""
    if pa.types.is_floating(type_):
        # Bounds in a footer ignore NaN, which Spark sorts above all numbers. The writer omits bounds of top-level columns with NaN
        # (`SpecialFloats`), but does not look for NaN in nested fields.
        return is_top_level
    # Delta's statistics have no bounds of binary values. Binary types of fixed length, such as UUID, occur only in Iceberg.
    return not pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(file_type)


def _children(type_: pa.DataType, file_type: pa.DataType) -> Iterator[tuple[str, Path, pa.DataType, pa.DataType]]:
    """Yield the fields of a struct, or the parts of a list or map, as (name, names in the file, type, type in the file)."""
    if pa.types.is_struct(type_):
        for column, file_column in zip(type_, file_type, strict=True):
            yield column.name, (file_column.name,), column.type, file_column.type
    elif pa.types.is_list(type_):
        yield "element", ("list", "element"), type_.value_type, file_type.value_type
    elif pa.types.is_map(type_):
        yield "key", ("key_value", "key"), type_.key_type, file_type.key_type
        yield "value", ("key_value", "value"), type_.item_type, file_type.item_type


@dataclass(frozen=True)
class SpecialFloats:
    """The names of the float columns that contain NaN or -0.0. Spark's Parquet filters would incorrectly skip their rows.

    Spark passes conditions to Parquet filters, which skip row groups by their statistics and dictionaries. Statistics ignore NaN, which
    Spark sorts above all numbers. A dictionary has different entries for -0.0 and 0.0, which are equal in Spark. So columns with NaN are
    written without statistics, and columns with -0.0 without dictionaries.

    Attributes:
        nan_columns: The names of the columns with NaN.
        negative_zero_columns: The names of the columns with -0.0.
    """

    nan_columns: frozenset[str] = frozenset()
    negative_zero_columns: frozenset[str] = frozenset()

    @staticmethod
    def of(rows: pa.Table) -> SpecialFloats:
        """Return the columns of these rows that contain NaN or -0.0."""
        floats = [column.name for column in rows.schema if pa.types.is_floating(column.type)]
        with_nan = (name for name in floats if pc.any(pc.is_nan(rows[name])).as_py())
        with_minus_zero = (name for name in floats if pc.any(pc.equal(pc.divide(1.0, rows[name]), float("-inf"))).as_py())
        return SpecialFloats(frozenset(with_nan), frozenset(with_minus_zero))

    def __le__(self, other: SpecialFloats) -> bool:
        return self.nan_columns <= other.nan_columns and self.negative_zero_columns <= other.negative_zero_columns


@dataclass(frozen=True)
class BloomFilter:
    """The Bloom filter of a leaf column. Readers skip row groups whose filter excludes the value of an equality.

    Filters contain hashes of stored bytes. Floating-point numbers can be equal although their bytes differ: -0.0 and 0.0, and the NaNs of
    Spark. So their columns have no Bloom filter. PyArrow cannot write Bloom filters of Booleans.

    Attributes:
        false_positive_rate: The probability that the filter does not exclude a value that the row group lacks.
        distinct_values: The number of distinct values for which the filter has this rate. If it is None, the number of rows.
        most_bytes: The maximum size of the filter.
    """

    false_positive_rate: float
    distinct_values: int | None
    most_bytes: int

    def writer_arguments(self, rows: int) -> dict[str, float | int]:
        """Return the arguments of PyArrow for this filter. `rows`: the number of rows in a row group.

        PyArrow derives the size of a filter from the number of distinct values. So a limit of the size is a limit of this number.
        """
        # Sizes are powers of two. With 8 hashes, a rate p needs -8 / ln(1 - p^(1/8)) bits for a value ("Bloom Filter" in Parquet's format).
        size = max(1 << (self.most_bytes.bit_length() - 1), 32)
        most_values = int(-size * math.log(1 - self.false_positive_rate ** (1 / 8)))
        return {"fpp": self.false_positive_rate, "ndv": max(min(self.distinct_values or rows, most_values), 1)}


@dataclass(frozen=True)
class ColumnOptions:
    """The options of the writer for single leaf columns, by their paths in the file's schema (`Leaf.parquet_path`).

    Attributes:
        without_dictionary: The leaves without a dictionary.
        without_statistics: The leaves without statistics in the footer and in page indexes.
        bloom_filters: The Bloom filters of leaves.
    """

    without_dictionary: frozenset[str] = frozenset()
    without_statistics: frozenset[str] = frozenset()
    bloom_filters: dict[str, BloomFilter] = field(default_factory=dict)

    def writer_arguments(
        self, leaves: Sequence[Leaf], special_floats: SpecialFloats, useless_dictionaries: frozenset[str], rows: int
    ) -> dict[str, Any]:
        """Return the arguments of PyArrow's Parquet writer for these options.

        Columns with NaN get no statistics, and columns with -0.0 get no dictionary. See `SpecialFloats` for the reason. PyArrow's arguments
        list the leaves that get them, so they have all leaves except these.

        Args:
            leaves: All leaf columns of the file.
            special_floats: The columns with NaN and -0.0.
            useless_dictionaries: The paths of the leaves for which a dictionary is useless (`columns_without_dictionary`).
            rows: The number of rows in a row group.
        """
        without_dictionary = self.without_dictionary | useless_dictionaries
        arguments: dict[str, Any] = {
            "write_statistics": _parquet_paths_except(leaves, special_floats.nan_columns, self.without_statistics),
            "use_dictionary": _parquet_paths_except(leaves, special_floats.negative_zero_columns, without_dictionary),
        }
        if self.bloom_filters:  # PyArrow before version 24 has no argument for Bloom filters
            filters = self.bloom_filters.items()
            arguments["bloom_filter_options"] = {path: bloom_filter.writer_arguments(rows) for path, bloom_filter in filters}
        return arguments


def _parquet_paths_except(leaves: Sequence[Leaf], excluded_columns: frozenset[str], excluded_paths: frozenset[str]) -> list[str]:
    """Return the paths of leaves in the file's schema, except for excluded leaves and for nested floating-point leaves.

    Args:
        leaves: All leaf columns of the file.
        excluded_columns: The names of the top-level columns to leave out.
        excluded_paths: The paths of the leaves to leave out.
    """
    included_leaves = (leaf for leaf in leaves if leaf.path[0] not in excluded_columns and leaf.parquet_path not in excluded_paths)
    return [leaf.parquet_path for leaf in included_leaves if not (leaf.is_float and "." in leaf.parquet_path)]


def row_group_offsets(footer: pq.FileMetaData) -> tuple[int, ...]:
    """Return the offset of each row group in a Parquet file. A row group starts at the first page of its first column."""
    first_columns = [footer.row_group(index).column(0) for index in range(footer.num_row_groups)]
    return tuple(column.dictionary_page_offset or column.data_page_offset for column in first_columns)


def column_statistics(footer: pq.FileMetaData, leaves: Sequence[Leaf], columns: frozenset[str]) -> dict[str, NestedValues]:
    """Return the bounds, null counts and sizes of a file's columns, computed from the statistics of the row groups.

    A statistic of a column is available only if each row group has it.

    Args:
        footer: The footer of the file.
        leaves: All leaf columns, in the order of the file.
        columns: The names of the top-level columns whose bounds and null counts are returned.

    Returns:
        Four kinds of values, by name of the attribute of `FileMessage`: `lower` and `upper` bounds, `nulls` (null counts), and `sizes`.
        Sizes are compressed, in bytes, and of all leaves. Bounds of UUIDs are bytes.
    """
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    lower, upper, nulls, sizes = NestedValues(), NestedValues(), NestedValues(), NestedValues()
    for index, leaf in enumerate(leaves):
        chunks = [group.column(index) for group in groups]
        _set_at(sizes, leaf.path, sum(chunk.total_compressed_size for chunk in chunks))
        # A leaf without bounds does not get a null count either. Inside a list or map, the count would refer to elements instead of rows.
        if not leaf.has_bounds or leaf.path[0] not in columns:
            continue
        group_statistics = [chunk.statistics for chunk in chunks]
        if any(statistics is None for statistics in group_statistics):
            continue  # the rows of a row group without statistics may have any value, and any number of NULLs
        if all(statistics.has_null_count for statistics in group_statistics):
            _set_at(nulls, leaf.path, sum(statistics.null_count for statistics in group_statistics))
        if min_max := _min_max(groups, group_statistics):
            minimum, maximum = min_max
            _set_at(lower, leaf.path, minimum)
            _set_at(upper, leaf.path, maximum)
    return {"lower": lower, "upper": upper, "nulls": nulls, "sizes": sizes}


def _min_max(groups: Sequence[pq.RowGroupMetaData], statistics: Sequence[pq.Statistics]) -> tuple[Any, Any] | None:
    """Return the minimum and maximum of a leaf. None if a row group that contains values has no bounds."""
    with_bounds = [group_statistics for group_statistics in statistics if group_statistics.has_min_max]
    with_values = [group for group, stats in zip(groups, statistics, strict=True) if stats.null_count != group.num_rows]
    if not with_bounds or len(with_bounds) < len(with_values):
        return None
    return min(stats.min for stats in with_bounds), max(stats.max for stats in with_bounds)


def _set_at(values: NestedValues, path: Path, value: Any) -> None:
    """Set the value of the leaf at `path` in nested dictionaries."""
    for name in path[:-1]:
        values = values.setdefault(name, {})
    values[path[-1]] = value
