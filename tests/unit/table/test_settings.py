"""Settings are parsed when they are needed: an invalid property fails only the statements that need it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rowmerge.delta.metadata.properties import REWRITE_FILE_SIZE, DeltaSettings
from rowmerge.errors import ConfigurationError
from rowmerge.iceberg.metadata.properties import IcebergSettings
from rowmerge.table.metadata.partitioning import Distribution
from rowmerge.table.metadata.settings import ParquetSettings, RetryPolicy, TableSettings, WriteMode

READS: dict[str, Callable[[TableSettings], Any]] = {
    "write mode": lambda settings: settings.write_mode("MERGE"),
    "isolation level": lambda settings: settings.isolation_level("MERGE"),
    "distribution": lambda settings: settings.distribution(is_ordered=False),
    "distribution of UPDATE": lambda settings: settings.operation_distribution("UPDATE"),
    "retries": lambda settings: settings.retry_policy,
    "schema evolution": lambda settings: settings.evolves_schema,
    "file size": lambda settings: settings.target_file_size,
    "Parquet": lambda settings: settings.parquet,
    "auto-compaction": lambda settings: settings.auto_compacts(None),
    "optimized writes": lambda settings: settings.optimizes_write(lambda: None),
}


@pytest.mark.parametrize(
    ("kind", "name", "setting"),
    [
        (DeltaSettings, "rowmerge.write.mode", "write mode"),
        (DeltaSettings, "delta.isolationLevel", "isolation level"),
        (DeltaSettings, "rowmerge.commit.retry.num-retries", "retries"),
        (DeltaSettings, "rowmerge.write.schema-evolution", "schema evolution"),
        (DeltaSettings, "delta.targetFileSize", "file size"),
        (DeltaSettings, "delta.parquet.compression.codec", "Parquet"),
        (DeltaSettings, "delta.autoOptimize.autoCompact", "auto-compaction"),
        (DeltaSettings, "delta.autoOptimize", "auto-compaction"),
        (DeltaSettings, "delta.autoOptimize.optimizeWrite", "optimized writes"),
        (IcebergSettings, "write.merge.mode", "write mode"),
        (IcebergSettings, "write.merge.isolation-level", "isolation level"),
        (IcebergSettings, "write.distribution-mode", "distribution"),
        (IcebergSettings, "write.update.distribution-mode", "distribution of UPDATE"),
        (IcebergSettings, "commit.retry.max-wait-ms", "retries"),
        (IcebergSettings, "rowmerge.write.schema-evolution", "schema evolution"),
        (IcebergSettings, "write.target-file-size-bytes", "file size"),
        (IcebergSettings, "write.parquet.row-group-size-bytes", "Parquet"),
    ],
)
def test_an_invalid_property_fails_only_the_setting_that_needs_it(
    kind: Callable[[dict[str, str]], TableSettings], name: str, setting: str
) -> None:
    settings = kind({name: "nonsense"})
    with pytest.raises(ConfigurationError, match="nonsense"):
        READS[setting](settings)
    for other in READS.keys() - {setting}:
        READS[other](settings)


def test_defaults_are_those_of_each_format() -> None:
    def values(settings: TableSettings) -> list[Any]:
        return [read(settings) for read in READS.values()]

    hash_ = Distribution.HASH
    common = [RetryPolicy(), False, None, ParquetSettings(), False, None]
    assert values(DeltaSettings()) == [WriteMode.AUTO, "WriteSerializable", hash_, None, *common]
    assert values(IcebergSettings()) == [WriteMode.COPY_ON_WRITE, "serializable", hash_, hash_, *common]
    assert IcebergSettings().distribution(is_ordered=True) is Distribution.RANGE
    assert DeltaSettings().distribution(is_ordered=True) is hash_


@pytest.mark.parametrize("setting", [True, False])
def test_settings_of_delta_precede_its_properties_and_ignore_iceberg_tables(setting: bool) -> None:
    other = str(not setting).lower()
    settings = DeltaSettings({"delta.autoOptimize.autoCompact": other, "delta.autoOptimize.optimizeWrite": other})
    assert (settings.auto_compacts(setting), settings.optimizes_write(lambda: setting)) == (setting, setting)
    assert (settings.auto_compacts(None), settings.optimizes_write(lambda: None)) == (not setting, not setting)
    assert (IcebergSettings().auto_compacts(setting), IcebergSettings().optimizes_write(lambda: setting)) == (False, None)


def test_the_size_of_rewritten_files_is_lower_only_if_no_size_is_set() -> None:
    tuned = {"delta.tuneFileSizesForRewrites": "true"}
    sizes = [
        DeltaSettings(properties).for_rewrites.target_file_size
        for properties in ({}, tuned, {**tuned, "delta.targetFileSize": "64mb"}, {"delta.tuneFileSizesForRewrites": "false"})
    ]
    assert sizes == [None, REWRITE_FILE_SIZE, 64 * 2**20, None]
    assert DeltaSettings(tuned).target_file_size is None
