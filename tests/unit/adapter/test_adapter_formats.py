"""The table format of a model, and the configs that contradict it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from dbt_common.exceptions import CompilationError

from dbt.adapters.rowmerge import RowmergeAdapter
from dbt.adapters.rowmerge.configs.table_format import table_format
from dbt.adapters.rowmerge.incremental.plan import has_transforms


@pytest.mark.parametrize(
    ("config", "default", "chosen"),
    [
        ({}, "delta", "delta"),
        ({}, "iceberg", "iceberg"),
        ({"file_format": "Iceberg"}, "delta", "iceberg"),
        ({"file_format": "delta"}, "iceberg", "delta"),
        ({"file_format": ""}, "iceberg", "iceberg"),
        ({"file_format": None}, "delta", "delta"),
    ],
)
def test_the_file_format_of_a_model_overrides_the_profile(config, default, chosen):
    assert table_format(config, default) == chosen


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"file_format": "parquet"}, "file_format is 'parquet'. Set it to `delta` or `iceberg`."),
        ({"partition_by": {"field": "day", "granularity": "day"}}, "partition_by is a mapping, as in BigQuery. Set it to a column name"),
        ({"table_type": "iceberg"}, "table_type is a config of dbt-athena, and the table's format is delta. Set file_format instead."),
        ({"table_format": "iceberg"}, "table_format is a config of other adapters. Set file_format instead."),
        (
            {"file_format": "iceberg", "tblproperties": {"delta.appendOnly": True, "team": "x", "delta.a": 1}},
            "tblproperties: delta.a, delta.appendOnly apply only to Delta tables",
        ),
    ],
)
def test_contradictory_format_configs_are_rejected_by_name(config, message):
    with pytest.raises(CompilationError) as error:
        table_format(config, "delta")
    assert message in str(error.value)


def test_delta_properties_are_not_set_on_iceberg_tables():
    assert table_format({"tblproperties": {"delta.appendOnly": True}}, "delta") == "delta"


@pytest.mark.parametrize(
    ("partition_by", "transforms"),
    [
        ([], False),
        (["day", "`bucket(2, id)`"], False),
        (["day", "bucket(16, id)"], True),
        (["days(`a``(b`)"], True),
        (["`a``(b`"], False),
        (["odd(name)"], False),
    ],
)
def test_partition_transforms_are_distinguished_from_columns(partition_by, transforms):
    assert has_transforms(partition_by, ["day", "Odd(Name)"]) == transforms


@pytest.mark.parametrize(("said", "clause"), [("", ""), (None, ""), ("/lake", "location '/lake/")])
def test_an_empty_location_root_counts_as_absent(render, said, clause):
    assert render("location_clause", config={"location_root": said}).rstrip("'") == clause


def test_the_catalog_sets_the_format_of_models_without_one(adapter):
    class Lake:
        name, catalog_name, table_format, external_volume, file_format = "lake", "tables", "Iceberg", "/data/lake", None
        catalog_type, adapter_properties = "warehouse", {}

    adapter.add_catalog_integration(Lake())
    assert adapter.table_format({"catalog_name": "lake"}) == "iceberg"
    assert adapter.table_format({"catalog_name": "lake", "file_format": "delta"}) == "delta"
    assert adapter.location_root({"catalog_name": "lake"}) == "/data/lake"
    assert adapter.location_root({"catalog_name": "lake", "location_root": "/data/own"}) == "/data/own"
    assert adapter.table_format({}) == "delta" and adapter.location_root({}) is None


def test_usage_statistics_contain_the_adapter_and_the_format():
    information = RowmergeAdapter.get_adapter_run_info(SimpleNamespace(_extra={"file_format": "iceberg"}))
    assert information.adapter_name == "rowmerge"
    assert information.model_adapter_details == {"adapter_type": "rowmerge", "table_format": "iceberg"}
