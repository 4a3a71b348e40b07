"""Settings from the properties of Iceberg tables, and refused values."""

from __future__ import annotations

import pytest

from rowmerge.errors import ConfigurationError
from rowmerge.iceberg.metadata.properties import IcebergSettings, check_properties
from rowmerge.table.metadata.parquet_settings import PageSettings
from rowmerge.table.metadata.partitioning import Distribution
from rowmerge.table.metadata.settings import ParquetSettings, SplitSettings


@pytest.mark.parametrize(
    ("properties", "merge", "update"),
    [
        ({}, None, "hash"),
        ({"write.distribution-mode": "none"}, None, "hash"),
        ({"write.merge.distribution-mode": "RANGE", "write.update.distribution-mode": "none"}, "range", "none"),
        ({"write.update.distribution-mode": " range "}, None, "range"),
    ],
)
def test_each_operation_has_its_own_distribution_mode(properties: dict[str, str], merge: str | None, update: str) -> None:
    check_properties(properties, {})
    distributions = [IcebergSettings(properties).operation_distribution(operation) for operation in ("MERGE", "UPDATE")]
    assert distributions == [None if value is None else Distribution(value) for value in (merge, update)]


@pytest.mark.parametrize(
    ("properties", "settings"),
    [
        ({}, ParquetSettings()),
        ({"write.parquet.compression-level": "19"}, ParquetSettings(level=19)),
        ({"write.parquet.compression-codec": "gzip", "write.parquet.compression-level": "9"}, ParquetSettings("gzip", 9)),
        ({"write.parquet.compression-codec": "snappy", "write.parquet.compression-level": "3"}, ParquetSettings("snappy")),
        ({"write.parquet.row-group-size-bytes": "1048576"}, ParquetSettings(row_group_size=1048576)),
        (
            {"write.parquet.page-version": " V2 ", "write.parquet.page-size-bytes": "9"},
            ParquetSettings(pages=PageSettings(9, version="2.0")),
        ),
        ({"write.parquet.stats-enabled.column.a": "true", "write.parquet.bloom-filter-enabled.column.a": "FALSE"}, ParquetSettings()),
        ({"write.parquet.bloom-filter-fpp.column.a": "0.1"}, ParquetSettings()),
    ],
)
def test_table_properties_determine_parquet_settings(properties: dict[str, str], settings: ParquetSettings) -> None:
    check_properties(properties, {})
    assert IcebergSettings(properties).parquet == settings


def test_table_properties_determine_the_size_of_splits() -> None:
    properties = {"read.split.target-size": "1000", "read.split.open-file-cost": "20", "read.split.planning-lookback": "3"}
    check_properties(properties, {})
    assert IcebergSettings(properties).splits == SplitSettings(1000, 20, 3)
    assert IcebergSettings({}).splits == SplitSettings()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("read.split.target-size", "0", "Set it to a number of bytes"),
        ("read.split.open-file-cost", "4mb", "Set it to a number of bytes"),
        ("read.split.planning-lookback", "0", "Set it to a whole number, 1 or more"),
        ("write.merge.distribution-mode", "random", "Set it to none, hash or range"),
        ("write.parquet.compression-level", "23", "Set it to a whole number from 1 to 22"),
        ("write.parquet.compression-level", "high", "Set it to a whole number from 1 to 22"),
        ("write.parquet.row-group-size-bytes", "0", "Set it to a number of bytes"),
        ("write.parquet.page-size-bytes", "1mb", "Set it to a whole number from 1 to 2147483647"),
        ("write.parquet.page-row-limit", "2147483648", "Set it to a whole number from 1 to 2147483647"),
        ("write.parquet.page-version", "2.0", "Set it to v1 or v2"),
        ("write.parquet.dict-size-bytes", "0", "Set it to a whole number from 1"),
        ("write.parquet.dict-encoding-enabled.column.a", "no", "Set it to true or false"),
        ("write.parquet.stats-enabled.column.a", "1", "Set it to true or false"),
        ("write.parquet.bloom-filter-enabled.column.a", "yes", "Set it to true or false"),
        ("write.parquet.bloom-filter-fpp.column.a", "1.0", "Set it to a number between 0 and 1"),
        ("write.parquet.bloom-filter-fpp.column.a", "nan", "Set it to a number between 0 and 1"),
        ("write.parquet.bloom-filter-ndv.column.a", "many", "Set it to a whole number, 1 or more"),
        ("write.parquet.bloom-filter-max-bytes", "0", "Set it to a whole number from 1"),
        ("write.metadata.previous-versions-max", "ten", "Set it to a whole number"),
        ("write.metadata.compression-codec", "zstd", "Set it to none or gzip"),
        ("write.summary.partition-limit", "-1", "Set it to a whole number, 0 or more"),
    ],
)
def test_invalid_property_values_are_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}.*{message}"):
        check_properties({name: value}, {})
