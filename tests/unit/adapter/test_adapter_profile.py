"""Profiles: their keys, and the values that dbt prints."""

from __future__ import annotations

from datetime import timedelta

import click
import pytest
import yaml
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.rowmerge import RowmergeCredentials
from dbt.include.rowmerge import PACKAGE_PATH
from rowmerge.storage.store import Storage

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
        (
            "cluster",
            "The keys are: `schema`, `method`, `host`, `port`, `token`, `remote`, `warehouse`, `catalog`, `catalogs`, "
            "`file_format`, `spark_config`, "
            "`storage_options`, `durability`, `keep_warm`.",
        ),
    ],
)
def test_an_unknown_key_is_reported_with_similar_keys(key, hint):
    with pytest.raises(DbtRuntimeError) as error:
        RowmergeCredentials.validate(GOOD | {key: "x"})
    assert f"The profile has an unknown key `{key}`. {hint}" in str(error.value)


@pytest.mark.parametrize("key", ["warehouse", "schema"])
def test_a_missing_key_is_reported_by_name(key):
    with pytest.raises(DbtRuntimeError, match=f"The profile has no `{key}`"):
        RowmergeCredentials.validate({name: value for name, value in GOOD.items() if name != key})


def test_a_database_other_than_the_catalog_is_rejected():
    with pytest.raises(DbtRuntimeError, match="the only catalog is called 'rowmerge' or 'spark_catalog'. Remove `database`"):
        RowmergeCredentials.validate(GOOD | {"database": "lake"})
    assert dict(credentials(database="rowmerge").connection_info(with_aliases=True))["database"] == "rowmerge"
    assert credentials(database="lake", catalog={"type": "rest", "name": "lake"}).database == "lake"
    assert credentials(catalog={"type": "rest", "name": "lake"}).database == "lake"


LAKE = {"name": "Lake", "type": "sql", "uri": "postgresql://me:hush@host/x", "token": "hush"}
COLD = {"name": "cold", "warehouse": "/cold"}


@pytest.mark.parametrize(
    ("catalogs", "problem"),
    [
        (LAKE, "`catalogs` in the profile must be a list of mappings"),
        (["lake"], "`catalogs` in the profile must be a list of mappings"),
        ([{"warehouse": "/cold"}], "needs a name without a dot"),
        ([LAKE, {**COLD, "name": "lake"}], "'lake' cannot have this name: another catalog has it"),
        ([{**COLD, "name": "ROWMERGE"}], "'rowmerge' cannot have this name: another catalog has it"),
        ([{**COLD, "token": "hush"}], "'cold' has the key 'token'. A folder has the keys name, warehouse, file_format"),
    ],
)
def test_wrong_further_catalogs_are_rejected_without_their_secrets(catalogs, problem):
    with pytest.raises(DbtRuntimeError, match=problem) as caught:
        RowmergeCredentials.validate(GOOD | {"catalogs": catalogs})
    assert "hush" not in str(caught.value)


def test_each_catalog_has_its_own_default_format_and_secrets_of_catalogs_are_hidden():
    new_credentials = credentials(catalogs=[LAKE, COLD])
    assert [new_credentials.file_format_in(name) for name in (None, "rowmerge", "LAKE", "cold")] == ["delta", "delta", "iceberg", "delta"]
    assert new_credentials.databases == ("rowmerge", "spark_catalog", "lake", "cold")
    assert "hush" not in str(list(new_credentials.connection_info())) + repr(new_credentials)
    assert dict(new_credentials.connection_info())["catalogs"][1] == COLD
    assert "catalogs" not in dict(credentials().connection_info())


def test_storage_options_must_be_a_mapping():
    with pytest.raises(DbtRuntimeError, match="`storage_options` in the profile must be a mapping"):
        RowmergeCredentials.validate(GOOD | {"storage_options": "key=value"})


def test_storage_options_may_be_nested():
    new_credentials = credentials(storage_options={"aws_region": "eu-west-1", "client_options": {"allow_http": True}})
    assert new_credentials.storage_options == {"aws_region": "eu-west-1", "client_options": {"allow_http": "true"}}


def test_storage_options_keep_nested_mappings_and_join_lists():
    options = {
        "retry_config": {"max_retries": 3, "backoff": {"init_backoff": "10ms", "base": 2, "max_backoff": None}},
        "client_options": {"default_headers": {"x-a": True}, "proxy_excludes": ["localhost", "10.0.0.1"]},
    }
    new_options = credentials(storage_options=options).storage_options
    assert new_options == {
        "retry_config": {"max_retries": "3", "backoff": {"init_backoff": "10ms", "base": "2"}},
        "client_options": {"default_headers": {"x-a": "true"}, "proxy_excludes": "localhost,10.0.0.1"},
    }
    assert Storage("s3://lake", new_options).client.retry_config["backoff"]["init_backoff"] == timedelta(milliseconds=10)


def test_keys_without_a_value_are_left_out():
    options = {"aws_session_token": None, "aws_region": "", "client_options": None, "retry_config": {"max_retries": None}}
    new_credentials = credentials(storage_options=options, spark_config={"spark.sql.shuffle.partitions": None, "spark.a": ""})
    assert new_credentials.storage_options == {"aws_region": "", "retry_config": {}}
    assert new_credentials.spark_config == {"spark.a": ""}


def test_secrets_are_never_printed():
    new_credentials = credentials(
        storage_options={"aws_secret_access_key": "hush-1"},
        spark_config={
            "spark.hadoop.fs.s3a.secret.key": "hush-2",
            "spark.hadoop.fs.gs.auth.service.account.private.key": "hush-3",
            "spark.remote": "sc://me@host:15002/;token=hush-4",
            "spark.ui.enabled": False,
        },
    )
    printed = (
        str(list(new_credentials.connection_info())) + str(list(new_credentials.connection_info(with_aliases=True))) + repr(new_credentials)
    )
    assert "hush" not in printed
    assert dict(new_credentials.connection_info())["spark_config"] == {
        "spark.hadoop.fs.s3a.secret.key": "********",
        "spark.hadoop.fs.gs.auth.service.account.private.key": "********",
        "spark.remote": "host:15002",
        "spark.ui.enabled": "false",
    }


@pytest.mark.parametrize("warehouse", ["s3://id:hush@lake/x", "az://lake/x?sig=hush", "https://me:hush@host/x"])
def test_a_warehouse_with_credentials_is_never_printed(warehouse):
    assert "hush" not in str(list(credentials(warehouse=warehouse).connection_info()))


def test_target_has_the_fields_that_macros_of_dbt_spark_read():
    target = dict(credentials().connection_info(with_aliases=True))
    assert (target["method"], target["endpoint"], target["database"]) == ("session", None, "rowmerge")


def test_target_has_the_catalog_name_in_the_field_that_packages_read():
    rest_catalog = {"type": "rest", "uri": "https://lake/api", "name": "lake"}
    for new_credentials, name in ((credentials(), "rowmerge"), (credentials(catalog=rest_catalog), "lake")):
        target = dict(new_credentials.connection_info(with_aliases=True))
        assert target["catalog"] == target["database"] == name


def test_the_default_format_is_delta_and_formats_ignore_case():
    assert credentials().file_format == "delta"
    assert credentials(file_format="Iceberg").file_format == "iceberg"


def test_a_catalog_replaces_the_warehouse_and_contains_iceberg_tables():
    new_credentials = RowmergeCredentials.from_dict({"schema": "main", "catalog": {"type": "sql"}})
    assert (new_credentials.warehouse, new_credentials.file_format) == (None, "iceberg")
    RowmergeCredentials.validate({"schema": "main", "catalog": {"type": "sql"}, "file_format": "iceberg"})
    with pytest.raises(DbtRuntimeError, match="a `catalog` contains only Iceberg tables. Remove it"):
        RowmergeCredentials.validate({"schema": "main", "catalog": {"type": "sql"}, "file_format": "delta"})
    with pytest.raises(DbtRuntimeError, match="`catalog` in the profile must be a mapping"):
        RowmergeCredentials.validate({"schema": "main", "catalog": "rest"})


def test_only_harmless_catalog_settings_are_printed():
    rest_catalog = {
        "type": "rest",
        "uri": "https://lake/api",
        "credential": "hush-1",
        "rest.signing": "hush-2",
        "auth": {"basic": "hush-3"},
    }
    sql = {"type": "sql", "uri": "postgresql://me:hush@host/lake"}
    for catalog in (rest_catalog, sql):
        new_credentials = credentials(catalog=catalog)
        printed = (
            str(list(new_credentials.connection_info()))
            + str(list(new_credentials.connection_info(with_aliases=True)))
            + repr(new_credentials)
        )
        assert "hush" not in printed
    assert dict(credentials(catalog=rest_catalog).connection_info())["catalog"]["uri"] == "https://lake/api"


def test_an_unknown_format_is_rejected_with_the_valid_formats():
    with pytest.raises(DbtRuntimeError, match="`file_format` in the profile is 'hudi'. Set it to `delta` or `iceberg`"):
        credentials(file_format="hudi")


def test_durability_protects_against_power_cuts_by_default():
    assert credentials().durability == "full"
    assert dict(credentials(durability="Process").connection_info())["durability"] == "process"
    with pytest.raises(DbtRuntimeError, match="`durability` in the profile is 'fast'. Set it to full or process"):
        credentials(durability="fast")


def test_the_sample_profile_is_valid():
    with open(f"{PACKAGE_PATH}/sample_profiles.yml") as file:
        profile = yaml.safe_load(file)["default"]["outputs"]["dev"]
    assert (profile.pop("type"), profile.pop("threads")) == ("rowmerge", 4)
    RowmergeCredentials.validate(profile)


def test_every_answer_to_dbt_init_is_a_key_of_the_profile():
    with open(f"{PACKAGE_PATH}/profile_template.yml") as file:
        template = yaml.safe_load(file)
    methods = template["prompts"].pop("_choose_method")
    assert [choice["_fixed_method"] for choice in methods.values()] == ["session", "connect"]
    for choice in methods.values():
        fixed = {"method": choice.pop("_fixed_method")}
        answers = {key: prompt["default"] for key, prompt in (template["prompts"] | choice).items()}
        assert click.types.convert_type(int)(answers.pop("threads")) == 4
        RowmergeCredentials.validate(fixed | answers)
    assert template["fixed"] == {"type": "rowmerge"}


@pytest.mark.parametrize(
    ("profile", "complaint"),
    [
        ({"method": "thrift"}, "`method` in the profile is 'thrift'. Set it to `session`"),
        ({"method": "connect"}, "requires the address of a Spark Connect server: either `host`"),
        ({"method": "connect", "host": "spark", "remote": "sc://spark"}, "either `host`"),
        ({"method": "connect", "remote": "sc://spark", "port": 1}, "`port` in the profile requires `host`"),
        ({"method": "connect", "remote": "spark:15002/;token=hush"}, "Write it as `sc://host:port`"),
        ({"method": "connect", "host": "sc://spark/;token=hush"}, "`host` in the profile must be only a host name"),
        ({"host": "spark"}, "`host` in the profile requires `method: connect`"),
        ({"method": "existing", "spark_config": {"spark.a": 1}}, "`spark_config` has no effect with `method: existing`"),
    ],
)
def test_keys_of_another_method_are_rejected(profile, complaint):
    with pytest.raises(DbtRuntimeError) as error:
        RowmergeCredentials.validate(GOOD | profile)
    assert complaint in str(error.value)
    assert "hush" not in str(error.value)


@pytest.mark.parametrize(
    ("profile", "address"),
    [
        ({"host": "spark"}, "sc://spark:15002"),
        ({"host": "spark", "port": 1, "token": "hush;=1"}, "sc://spark:1/;token=hush%3B%3D1"),
        ({"host": "::1"}, "sc://[::1]:15002"),
        ({"remote": "sc://spark:1/;use_ssl=true;token=hush"}, "sc://spark:1/;use_ssl=true;token=hush"),
        ({"remote": "sc://spark:1;token=hush"}, "sc://spark:1;token=hush"),
    ],
)
def test_the_connect_url_contains_the_token_and_hides_it_in_messages(profile, address):
    new_credentials = credentials(method="connect", **profile)
    assert new_credentials.address == address
    printed = (
        str(list(new_credentials.connection_info())) + str(list(new_credentials.connection_info(with_aliases=True))) + repr(new_credentials)
    )
    assert "hush" not in printed
    assert ("sc://spark:1" in printed) == ("remote" in profile)
