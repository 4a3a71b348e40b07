"""Names and folders correspond one to one, and folders are always inside the warehouse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

import rowmerge
from rowmerge.catalog.names import folder_of, is_valid_name, lower_case, name_of, normalize_location
from rowmerge.errors import ConfigurationError, TableError

SPECIAL_NAMES = [
    "a b",
    "a.b",
    "a/b",
    "..",
    ".",
    "../../etc",
    "_tmp",
    "__dbt_tmp",
    ".hidden",
    "50%",
    "%2e%2e",
    "a\\b",
    'quo"te',
    "quo'te",
    "back`tick",
    "größe",
    "表",
    "tab\tnew\nline",
    "\x00",
    "{a,b}",
    "[x]",
    "a*",
    "a?",
    "k=v",
    "a#b",
    "a~",
    "a:b",
    "nul.",
    " ",
]


@pytest.mark.parametrize("name", SPECIAL_NAMES)
def test_folders_of_special_names_contain_only_safe_characters(name: str) -> None:
    folder = folder_of(name)
    assert set(folder) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-~ABCDEF")
    assert not folder.startswith(("_", "."))
    assert name_of(folder) == lower_case(name)


@pytest.mark.parametrize("name", ["orders", "orders_2024", "my-table", "x", "0", "stg_orders__dbt_tmp"])
def test_ordinary_names_equal_their_folders(name: str) -> None:
    assert folder_of(name) == name


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=16))
@example("İ")
@example("_")
@example("~5Fa")
def test_names_round_trip_through_folders(name: str) -> None:
    assert name_of(folder_of(name)) == lower_case(name)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8), st.text(min_size=1, max_size=8))
def test_names_share_a_folder_only_if_they_differ_in_case(one: str, other: str) -> None:
    if is_valid_name(other):
        assert (folder_of(one) == folder_of(other)) == (lower_case(one) == lower_case(other))


@given(st.text(max_size=12))
@example("a~2Fb~")
@example("~c3~a9")
@example("~FF")
def test_folders_without_a_corresponding_name_are_ignored(folder: str) -> None:
    name = name_of(folder)
    assert name is None or folder_of(name) == folder


def test_folders_of_names_are_lower_case() -> None:
    assert folder_of("Orders") == folder_of("ORDERS") == "orders"


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(TableError, match="cannot be empty"):
        folder_of("")


def test_names_with_folders_above_200_bytes_are_refused() -> None:
    assert len(folder_of("x" * 200)) == 200
    with pytest.raises(TableError, match="201 bytes.*limit is 200"):
        folder_of("x" * 201)
    with pytest.raises(TableError, match="limit is 200"):
        folder_of("ä" * 40)


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(TableError, match="not valid Unicode"):
        folder_of("a\ud800")


@pytest.mark.parametrize(
    ("location", "problem"),
    [
        ("hdfs://namenode:8020/warehouse", "does not support locations at hdfs://.*s3://, gs:// or abfss://"),
        ("az://data/lake", "cannot read locations at az://.*Use abfss://"),
        ("https://shop.blob.core.windows.net/data", "cannot read locations at https://.*or abfss://"),
        ("wasbs://data@shop.blob.core.windows.net/lake", "does not support locations at wasbs://"),
        ("dbfs:/lake", "begins with dbfs:/ needs two slashes"),
        ("s3:/lake/warehouse", "begins with s3:/ needs two slashes"),
    ],
)
def test_locations_in_stores_without_conditional_puts_are_rejected(location: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as error:
        normalize_location(location)
    assert "namenode" not in str(error.value) and "shop" not in str(error.value)


LOCATION = "hdfs://namenode/lake"
ICEBERG = {"name": "lake", "type": "sql", "uri": "sqlite:///catalog.db"}


@pytest.mark.parametrize(
    "arguments",
    [
        {"location": LOCATION},
        {"location": LOCATION, "catalog": ICEBERG},
        {"catalog": {**ICEBERG, "warehouse": LOCATION}},
        {"location": "lake", "catalogs": [{"name": "cold", "warehouse": LOCATION}]},
        {"location": "lake", "catalogs": [{**ICEBERG, "warehouse": LOCATION}]},
    ],
)
def test_a_session_in_hdfs_is_rejected_before_spark_starts(
    arguments: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # No Spark starts without Java. The error would be another one.
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match="does not support locations at hdfs://"):
        rowmerge.connect(**arguments)


def test_a_folder_may_have_a_colon_in_its_name() -> None:
    assert normalize_location("./dbfs:/lake").endswith("/dbfs:/lake")


def test_schemes_are_in_lower_case() -> None:
    assert normalize_location("S3A://Lake/Warehouse/") == "s3a://Lake/Warehouse"
