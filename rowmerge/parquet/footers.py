"""Existing Parquet files that become data files of a table: the check of their columns, and the statistics in their footers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rowmerge.errors import ConstraintViolated, TypeMismatch
from rowmerge.parquet.leaf_columns import Leaf, column_statistics, row_group_offsets

FIELD_ID = b"PARQUET:field_id"
_FIRST_CERTAIN_YEAR = 1900
"""The first year in which the calendars of Spark 2 and of later releases agree on every date and time, in all time zones."""
_OTHER = "\0"
"""Stands for a column that the table lacks. No column has this name."""
_WIDER_INTEGERS = {pa.int16(): (pa.int8(),), pa.int32(): (pa.int8(), pa.int16()), pa.int64(): (pa.int8(), pa.int16(), pa.int32())}


@dataclass(frozen=True)
class ExpectedColumns:
    """The columns that a table expects in a data file.

    `names`: the name of each column in the table, by its name in files. `schema`: the columns with their names and types in files.
    `field_ids`: the field id of each column by its name in files; empty if readers find columns by name. `requires_ids`: whether a file
    without field ids is rejected. `partition_columns`: the names of columns that files may lack, because they are partition values.
    `required`: the names in the table of the columns and struct fields that must not be NULL, as paths. `can_widen`: returns whether values
    of the second Arrow type are readable as values of the first.
    """

    names: Mapping[str, str]
    schema: pa.Schema
    field_ids: Mapping[str, int]
    requires_ids: bool
    partition_columns: frozenset[str]
    required: frozenset[tuple[str, ...]]
    can_widen: Callable[[pa.DataType, pa.DataType], bool]


@dataclass(frozen=True)
class FileDescription:
    """What a footer tells about a file. `statistics`: the statistics of its columns, as `column_statistics` returns them."""

    records: int
    statistics: Mapping[str, dict[str, Any]]
    split_offsets: tuple[int, ...]


@dataclass(frozen=True)
class _FileLeaf:
    """A leaf column of a file. `path`: its names in the table, or None if the table lacks it. `is_exact`: whether the types are equal."""

    path: tuple[str, ...] | None
    type: pa.DataType
    is_exact: bool
    is_repeated: bool


def describe_file(path: str, footer: pq.FileMetaData, columns: ExpectedColumns) -> FileDescription:
    """Check that a table can read the columns of a Parquet file, and return what its footer tells about its rows.

    Bounds of floating-point columns are left out, because footers do not tell whether a column has NaN. So are those of old times, which
    Spark 2 wrote in another calendar.

    Args:
        path: The absolute path of the file, for messages.
        footer: The footer of the file.
        columns: The columns that the table expects.

    Raises:
        TypeMismatch: A column has another type or another field id, or the file lacks a column that must not be NULL.
        ConstraintViolated: A column that must not be NULL has NULLs.
    """
    schema = footer.schema.to_arrow_schema()
    _check_names(path, schema, columns)
    leaves = [leaf for field in schema for leaf in _leaves_of_column(path, field, footer, columns)]
    _check_required(path, footer, leaves, columns)
    statistics_leaves = [Leaf(leaf.path or (_OTHER,), "", False, False, _has_bounds(leaf)) for leaf in leaves]
    statistics = column_statistics(footer, statistics_leaves, frozenset(columns.names.values()))
    statistics["sizes"].pop(_OTHER, None)
    _remove_old_times(statistics["lower"], statistics["upper"])
    return FileDescription(footer.num_rows, statistics, row_group_offsets(footer))


def _check_names(path: str, schema: pa.Schema, columns: ExpectedColumns) -> None:
    """Raise TypeMismatch if readers would not find the columns of a file, or would find others."""
    has_ids = any(FIELD_ID in (field.metadata or {}) for field in schema)
    if columns.requires_ids and not has_ids:
        raise TypeMismatch(f"{path} has no field ids, by which the table finds its columns. {_INSERT}")
    by_lower_name = {name.lower(): name for name in columns.names}
    for field in schema:
        expected_name = by_lower_name.get(field.name.lower())
        if expected_name is not None and expected_name != field.name and not has_ids:
            raise TypeMismatch(f"{path} has the column {field.name}, and the table spells it {expected_name}. {_INSERT}")
        expected_id = columns.field_ids.get(field.name)
        if has_ids and columns.field_ids:
            file_id = int((field.metadata or {}).get(FIELD_ID, -1))
            if file_id != expected_id and (expected_id is not None or file_id in columns.field_ids.values()):
                raise TypeMismatch(f"{path} has the column {field.name} with the field id {file_id} of another table. {_INSERT}")


_INSERT = "Copy its rows instead: INSERT INTO … SELECT * FROM parquet.`…`."


def _leaves_of_column(path: str, field: pa.Field, footer: pq.FileMetaData, columns: ExpectedColumns) -> Iterator[_FileLeaf]:
    """Yield the leaves of a top-level column of a file. Raise TypeMismatch if the table cannot read its type."""
    index = columns.schema.get_field_index(field.name)
    if index < 0:
        yield from _unknown_leaves(field.type)
        return
    expected = columns.schema.field(index).type
    file_type = _with_int96(field.type, expected, footer)
    leaves = list(_leaves(file_type, expected, (columns.names[field.name],), columns.can_widen))
    if any(leaf is None for leaf in leaves):
        raise TypeMismatch(f"{path} has the column {field.name} of the type {field.type}, and the table needs {expected}. {_INSERT}")
    yield from (leaf for leaf in leaves if leaf is not None)


def _with_int96(file_type: pa.DataType, expected: pa.DataType, footer: pq.FileMetaData) -> pa.DataType:
    """Return the expected type for a column of INT96, the times of old writers, which Arrow shows as nanoseconds without a time zone."""
    has_int96 = any(footer.schema.column(index).physical_type == "INT96" for index in range(footer.num_columns))
    is_time = pa.types.is_timestamp(file_type) and file_type.unit == "ns" and file_type.tz is None
    return expected if has_int96 and is_time and pa.types.is_timestamp(expected) and expected.tz is not None else file_type


def _unknown_leaves(file_type: pa.DataType) -> Iterator[_FileLeaf]:
    """Yield a leaf without a path for each leaf of a type."""
    children = _children(file_type)
    if not children:
        yield _FileLeaf(None, file_type, is_exact=False, is_repeated=False)
    for child in children:
        yield from _unknown_leaves(child.type)


def _children(type_: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    if pa.types.is_struct(type_):
        return list(type_)
    return [type_.value_field] if pa.types.is_list(type_) or pa.types.is_large_list(type_) else []


def _leaves(
    file_type: pa.DataType, expected: pa.DataType, path: tuple[str, ...], can_widen: Callable[[pa.DataType, pa.DataType], bool]
) -> Iterator[_FileLeaf | None]:
    """Yield the leaves of a type in a file, with None for a part that the table cannot read as the type that it expects."""
    if pa.types.is_struct(expected) and pa.types.is_struct(file_type):
        for field in file_type:
            index = expected.get_field_index(field.name)
            if index < 0:
                yield from _unknown_leaves(field.type)
            else:
                yield from _leaves(field.type, expected.field(index).type, (*path, field.name), can_widen)
        return
    children, expected_children = _children(file_type), _children(expected)
    if children and len(children) == len(expected_children) and pa.types.is_map(file_type) == pa.types.is_map(expected):
        names = ("key", "value") if pa.types.is_map(expected) else ("element",)
        for name, child, expected_child in zip(names, children, expected_children, strict=True):
            for leaf in _leaves(child.type, expected_child.type, (*path, name), can_widen):
                yield None if leaf is None else _FileLeaf(leaf.path, leaf.type, leaf.is_exact, is_repeated=True)
        return
    if children or expected_children:
        yield None
        return
    is_exact = _plain(file_type) == _plain(expected)
    yield _FileLeaf(path, expected, is_exact, is_repeated=False) if is_exact or can_widen(expected, _plain(file_type)) else None


def _plain(type_: pa.DataType) -> pa.DataType:
    """Return a type without differences that do not matter to readers: large offsets, dictionaries, and the unit and zone of times."""
    if pa.types.is_dictionary(type_):
        return _plain(type_.value_type)
    if pa.types.is_large_string(type_):
        return pa.string()
    if pa.types.is_large_binary(type_):
        return pa.binary()
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", None if type_.tz is None else "UTC")
    return type_


def widens_number(expected: pa.DataType, actual: pa.DataType) -> bool:
    """Return whether a file of an older type has numbers that every reader converts: integers, floats, and decimals of one scale.

    Args:
        expected: The type in the table.
        actual: The type in the file.
    """
    if pa.types.is_decimal(expected) and pa.types.is_decimal(actual):
        return bool(expected.scale == actual.scale and expected.precision >= actual.precision)
    return (expected == pa.float64() and actual == pa.float32()) or actual in _WIDER_INTEGERS.get(expected, ())


def _has_bounds(leaf: _FileLeaf) -> bool:
    """Return whether the bounds and null counts in a footer apply to the column of the table."""
    is_comparable = not pa.types.is_floating(leaf.type) and not pa.types.is_binary(leaf.type)
    is_in_nanoseconds = pa.types.is_timestamp(leaf.type) and leaf.type.unit == "ns"
    return leaf.path is not None and leaf.is_exact and is_comparable and not leaf.is_repeated and not is_in_nanoseconds


def _check_required(path: str, footer: pq.FileMetaData, leaves: list[_FileLeaf], columns: ExpectedColumns) -> None:
    """Raise TypeMismatch or ConstraintViolated if a column or field that must not be NULL is missing or has NULLs."""
    for required in columns.required:
        if required[0] in columns.partition_columns:
            continue
        indexes = [index for index, leaf in enumerate(leaves) if leaf.path is not None and leaf.path[: len(required)] == required]
        if not indexes:
            raise TypeMismatch(f"{path} lacks the column {'.'.join(required)}, which must not be NULL. {_INSERT}")
        if footer.num_rows and not any(_is_without_nulls(footer, index) for index in indexes):
            raise ConstraintViolated(path, f"NOT NULL of column `{'.'.join(required)}`")


def _is_without_nulls(footer: pq.FileMetaData, index: int) -> bool:
    """Return whether a leaf certainly has no NULLs, according to the statistics of all row groups or its own definition."""
    if footer.schema.column(index).max_definition_level == 0:
        return True
    statistics = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
    return all(group is not None and group.has_null_count and group.null_count == 0 for group in statistics)


def _remove_old_times(lower: dict[str, Any], upper: dict[str, Any]) -> None:
    """Remove the bounds of dates and times before 1900, at any depth."""
    for name, value in list(lower.items()):
        if isinstance(value, dict):
            _remove_old_times(value, upper.get(name, {}))
        elif isinstance(value, date | datetime) and value.year < _FIRST_CERTAIN_YEAR:
            del lower[name]
            upper.pop(name, None)
