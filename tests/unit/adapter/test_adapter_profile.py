"""Profiles: what they may say, and what is shown of them."""

from __future__ import annotations

import click
import pytest
import yaml
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.rowmerge import RowmergeCredentials
from dbt.include.rowmerge import PACKAGE_PATH

GOOD = {"warehouse": "/tmp/warehouse", "schema": "main"}


def credentials(**more):
    data = GOOD | more
    RowmergeCredentials.validate(data)
    return RowmergeCredentials.from_dict(data)


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("warehous", "Did you mean `warehouse`?"),
        ("Warehouse", "Did you mean `warehouse`?"),
        ("storage_option", "Did you mean `storage_options`?"),
        ("host", "The keys are: `schema`, `warehouse`, `catalog`, `file_format`, `spark_config`, `storage_options`."),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_ones(key, hint):
    with pytest.raises(DbtRuntimeError) as error:
        RowmergeCredentials.validate(GOOD | {key: "x"})
    assert f"The profile has an unknown key `{key}`. {hint}" in str(error.value)


@pytest.mark.parametrize("key", ["warehouse", "schema"])
def test_a_missing_key_is_named(key):
    with pytest.raises(DbtRuntimeError, match=f"The profile has no `{key}`"):
        RowmergeCredentials.validate({name: value for name, value in GOOD.items() if name != key})


def test_a_database_is_refused():
    with pytest.raises(DbtRuntimeError, match="Remove `database`"):
        RowmergeCredentials.validate(GOOD | {"database": "lake"})


def test_storage_options_that_are_no_mapping_are_refused():
    with pytest.raises(DbtRuntimeError, match="`storage_options` in the profile must be a mapping"):
        RowmergeCredentials.validate(GOOD | {"storage_options": "key=value"})


def test_secrets_are_never_shown():
    made = credentials(
        storage_options={"aws_secret_access_key": "hush-1"},
        spark_config={"spark.hadoop.fs.s3a.secret.key": "hush-2", "spark.ui.enabled": False},
    )
    shown = str(list(made.connection_info())) + str(list(made.connection_info(with_aliases=True))) + repr(made)
    assert "hush" not in shown
    assert dict(made.connection_info())["spark_config"] == {"spark.hadoop.fs.s3a.secret.key": "********", "spark.ui.enabled": "false"}


def test_target_has_what_the_macros_of_dbt_spark_ask_for():
    target = dict(credentials().connection_info(with_aliases=True))
    assert (target["method"], target["endpoint"], target["database"]) == ("session", None, None)


def test_delta_is_the_default_format_and_case_does_not_matter():
    assert credentials().file_format == "delta"
    assert credentials(file_format="Iceberg").file_format == "iceberg"


def test_a_catalog_stands_for_a_warehouse_and_holds_iceberg_tables():
    made = RowmergeCredentials.from_dict({"schema": "main", "catalog": {"type": "sql"}})
    assert (made.warehouse, made.file_format) == (None, "iceberg")
    RowmergeCredentials.validate({"schema": "main", "catalog": {"type": "sql"}, "file_format": "iceberg"})
    with pytest.raises(DbtRuntimeError, match="a `catalog` holds Iceberg tables. Leave it out"):
        RowmergeCredentials.validate({"schema": "main", "catalog": {"type": "sql"}, "file_format": "delta"})
    with pytest.raises(DbtRuntimeError, match="`catalog` in the profile must be a mapping"):
        RowmergeCredentials.validate({"schema": "main", "catalog": "rest"})


def test_of_a_catalog_only_what_is_harmless_is_shown():
    rest = {"type": "rest", "uri": "https://lake/api", "credential": "hush-1", "rest.signing": "hush-2", "auth": {"basic": "hush-3"}}
    sql = {"type": "sql", "uri": "postgresql://me:hush@host/lake"}
    for catalog in (rest, sql):
        made = credentials(catalog=catalog)
        shown = str(list(made.connection_info())) + str(list(made.connection_info(with_aliases=True))) + repr(made)
        assert "hush" not in shown
    assert dict(credentials(catalog=rest).connection_info())["catalog"]["uri"] == "https://lake/api"


def test_a_format_that_is_none_is_refused_with_the_choices():
    with pytest.raises(DbtRuntimeError, match="`file_format` in the profile is 'hudi'. Set it to `delta` or `iceberg`"):
        credentials(file_format="hudi")


def test_the_sample_profile_is_a_good_profile():
    with open(f"{PACKAGE_PATH}/sample_profiles.yml") as file:
        profile = yaml.safe_load(file)["default"]["outputs"]["dev"]
    assert (profile.pop("type"), profile.pop("threads")) == ("rowmerge", 4)
    RowmergeCredentials.validate(profile)


def test_every_answer_to_dbt_init_is_a_key_of_the_profile():
    with open(f"{PACKAGE_PATH}/profile_template.yml") as file:
        template = yaml.safe_load(file)
    answers = {key: prompt["default"] for key, prompt in template["prompts"].items()}
    assert click.types.convert_type(int)(answers.pop("threads")) == 4
    assert template["fixed"] == {"type": "rowmerge"}
    RowmergeCredentials.validate(answers)
