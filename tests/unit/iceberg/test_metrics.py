"""Metrics modes follow Java's MetricsConfig and determine the metrics of a file."""

from __future__ import annotations

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, ListType, LongType, MapType, NestedField, StringType, StructType

from rowmerge.errors import ConfigurationError
from rowmerge.iceberg.manifests.metrics import file_metrics, metrics_modes
from rowmerge.iceberg.metadata.registry import MetricsMode
from rowmerge.table.snapshots.files import AddedFile

POINT = StructType(NestedField(11, "x", LongType()), NestedField(12, "label", StringType()))
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "point", POINT),
    NestedField(3, "tags", ListType(31, StringType())),
    NestedField(4, "by_name", MapType(41, StringType(), 42, LongType())),
    NestedField(5, "price", DoubleType()),
    NestedField(6, "name", StringType()),
)
EMPTY: dict[str, dict[int, object]] = {name: {} for name in ("column_sizes", "value_counts", "null_counts", "nan_counts", "lower", "upper")}
NONE, COUNTS, CUT, FULL = MetricsMode(False, False), MetricsMode(True, False), MetricsMode(truncate=16), MetricsMode()


@pytest.mark.parametrize(("text", "mode"), [("none", NONE), ("COUNTS", COUNTS), ("Truncate(16)", CUT), ("full", FULL)])
def test_metrics_modes_are_case_insensitive(text: str, mode: MetricsMode) -> None:
    assert MetricsMode.parse(text) == mode


def test_every_column_of_a_narrow_table_has_truncated_bounds() -> None:
    assert metrics_modes(SCHEMA, {}) == dict.fromkeys([1, 11, 12, 31, 41, 42, 5, 6], CUT)


def test_in_a_wide_table_top_level_columns_get_metrics_before_nested_columns() -> None:
    modes = metrics_modes(SCHEMA, {"write.metadata.metrics.max-inferred-column-defaults": "4"})
    assert {id_ for id_, mode in modes.items() if mode == CUT} == {1, 5, 6, 11}
    assert modes[12] == NONE


def test_a_column_mode_overrides_the_default_mode() -> None:
    properties = {
        "write.metadata.metrics.default": "counts",
        "write.metadata.metrics.max-inferred-column-defaults": "1",
        "write.metadata.metrics.column.point.label": "full",
        "write.metadata.metrics.column.price": "none",
        "write.metadata.metrics.column.gone": "full",
    }
    modes = metrics_modes(SCHEMA, properties, sorted_by=[6, 5])
    assert modes == {**dict.fromkeys([1, 11, 31, 41, 42], COUNTS), 12: FULL, 5: NONE, 6: CUT}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("write.metadata.metrics.default", "some"),
        ("write.metadata.metrics.column.id", "truncate(0)"),
        ("write.metadata.metrics.max-inferred-column-defaults", "-1"),
    ],
)
def test_an_invalid_metrics_mode_is_refused_with_its_property(key: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=key):
        metrics_modes(SCHEMA, {key: value})


def test_file_metrics_are_keyed_by_field_id() -> None:
    file = AddedFile(
        "file:///t/a.parquet",
        100,
        7,
        lower={"id": 1, "point": {"x": -1, "label": "a" * 20}, "price": 0.5, "name": None},
        upper={"id": 9, "point": {"x": 3, "label": "b" * 20}, "price": 1.5},
        nulls={"id": 0, "point": {"x": 2, "label": 3}, "price": 0},
    )
    metrics = file_metrics(file, SCHEMA, metrics_modes(SCHEMA, {}))
    assert metrics["value_counts"] == dict.fromkeys([1, 11, 12, 5, 6], 7)
    assert metrics["null_counts"] == {1: 0, 11: 2, 12: 3, 5: 0}
    assert metrics["nan_counts"] == {5: 0}
    assert metrics["lower"][12] == b"a" * 16 and metrics["upper"][12] == b"b" * 15 + b"c"
    assert set(metrics["lower"]) == set(metrics["upper"]) == {1, 11, 12, 5}


def test_counts_and_none_modes_omit_bounds() -> None:
    file = AddedFile("file:///t/a.parquet", 100, 7, lower={"id": 1, "name": "x"}, upper={"id": 9, "name": "y"}, nulls={"id": 0, "name": 1})
    assert file_metrics(file, SCHEMA, {1: COUNTS, 6: NONE}) == {**EMPTY, "value_counts": {1: 7}, "null_counts": {1: 0}}


def test_a_float_column_without_bounds_has_no_nan_count() -> None:
    metrics = file_metrics(AddedFile("file:///t/a.parquet", 100, 7, nulls={"price": 0}), SCHEMA, {5: FULL})
    assert metrics == {**EMPTY, "value_counts": {5: 7}, "null_counts": {5: 0}}


def test_a_struct_with_null_bounds_has_no_bounds() -> None:
    metrics = file_metrics(AddedFile("file:///t/a.parquet", 100, 7, lower={"point": None}), SCHEMA, {11: FULL})
    assert metrics == {**EMPTY, "value_counts": {11: 7}}


def test_column_sizes_are_written_in_every_mode() -> None:
    sizes = {"id": 1, "point": {"x": 2, "label": 3}, "tags": {"element": 4}, "by_name": {"key": 5, "value": 6}}
    metrics = file_metrics(AddedFile("file:///t/a.parquet", 100, 7, sizes=sizes), SCHEMA, {31: FULL, 41: FULL})
    assert metrics == {**EMPTY, "column_sizes": {1: 1, 11: 2, 12: 3, 31: 4, 41: 5, 42: 6}}
