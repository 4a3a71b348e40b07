"""Storage options: accepted names, and the settings for obstore, Arrow and Hadoop."""

from __future__ import annotations

import copy
import os
import pickle
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from obstore.exceptions import GenericError
from obstore.store import S3Store, from_url

from rowmerge.errors import ConfigurationError
from rowmerge.parquet.filesystems import azure_arguments, filesystem_of, safe_reason
from rowmerge.storage.configuration import StorageConfiguration
from rowmerge.storage.credentials import KeysWithoutToken
from rowmerge.storage.hadoop import hadoop_settings
from rowmerge.storage.option_names import SETTINGS
from rowmerge.storage.renewal import Renewal, has_credentials
from rowmerge.storage.store import Storage
from tests.support.faulty_s3 import FaultyS3, needs_moto

parse = StorageConfiguration.parse
S3 = {"access_key_id": "AKIA1", "secret_access_key": "hush", "region": "eu-west-1", "endpoint": "http://store:9000"}
LOCATIONS = {"s3": "s3://lake/w", "gs": "gs://lake/w", "azure": "abfss://lake@account.dfs.core.windows.net/w"}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_") and name != "AWS_CA_BUNDLE"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/missing")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/missing")


# ------------------------------------------------------------------ names


@pytest.mark.parametrize(
    "options",
    [
        S3,
        {f"aws_{name}": value for name, value in S3.items()},
        {f"AWS_{name}".upper(): value for name, value in S3.items()},
        {"config": S3},
        {"config": {name: S3[name] for name in ("region", "endpoint")}, "aws_access_key_id": "AKIA1", "aws_secret_access_key": "hush"},
        {**{f"aws_{name}": S3[name] for name in ("access_key_id", "secret_access_key", "region")}, "aws_endpoint_url": S3["endpoint"]},
        {**S3, "aws_endpoint_url_s3": S3["endpoint"]},
    ],
    ids=["plain", "prefixed", "upper case", "nested", "nested and flat", "alias", "twice the same"],
)
def test_all_option_spellings_give_the_same_settings(options: dict[str, Any]) -> None:
    assert parse(options).settings["s3"] == S3
    assert parse(options).obstore_arguments("s3a://lake/w") == {
        "config": S3 | {"skip_signature": "false"},
        "client_options": {"allow_http": True},
        "credential_provider": KeysWithoutToken("AKIA1", "hush"),
    }


@pytest.mark.parametrize("provider", list(SETTINGS))
def test_obstore_accepts_each_setting(provider: str) -> None:
    settings = parse(dict.fromkeys(SETTINGS[provider], "true")).settings[provider]
    assert settings.keys() == SETTINGS[provider]
    for key, value in settings.items():
        with suppress(GenericError, ValueError):  # "true" is not a valid value of some settings
            from_url(LOCATIONS[provider], config={key: value})


@pytest.mark.parametrize("name", ["allow_http", "aws_allow_http", "AWS_ALLOW_HTTP"])
def test_client_options_may_be_top_level(name: str) -> None:
    arguments = parse({"aws_region": "eu-west-1", name: "true"}).obstore_arguments("s3://lake")
    assert arguments == {"config": {"region": "eu-west-1"}, "client_options": {"allow_http": "true"}}
    assert isinstance(from_url("s3://lake", **arguments), S3Store)


def test_nested_client_options_and_retries_reach_obstore() -> None:
    arguments = parse({"client_options": {"allow_http": True}, "retry_config": {"max_retries": "3"}}).obstore_arguments("s3://lake")
    assert arguments == {"client_options": {"allow_http": True}, "retry_config": {"max_retries": 3}}


def test_a_store_gets_only_settings_of_its_provider() -> None:
    configuration = parse({"aws_region": "eu-west-1", "azure_storage_account_key": "aHVzaA==", "google_bearer_token": "hush"})
    assert configuration.obstore_arguments(LOCATIONS["azure"]) == {"config": {"account_key": "aHVzaA=="}}
    assert configuration.obstore_arguments(LOCATIONS["gs"]) == {"config": {"bearer_token": "hush"}}
    assert configuration.obstore_arguments("https://lake.s3.eu-west-1.amazonaws.com") == {"config": {"region": "eu-west-1"}}
    assert configuration.obstore_arguments("https://example.com") == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aws_acces_key_id": "hush"}, "'aws_acces_key_id'. Did you mean 'aws_access_key_id'"),
        ({"config": {"regoin": "hush"}}, "'regoin'. Did you mean 'region'"),
        (
            {"client_options": {"allow_htp": "hush"}},
            "storage_options.client_options has the unknown name 'allow_htp'. Did you mean 'allow_http'",
        ),
        ({"retry_config": {"retries": "hush"}}, "Did you mean 'max_retries'"),
        ({"qqq": "hush"}, "Remove it"),
        ({"config": "hush"}, "'config' in storage_options must be a mapping"),
    ],
)
def test_unknown_options_are_rejected_with_suggestions(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        Storage("s3://lake", options)
    assert message in str(error.value) and "hush" not in str(error.value)


def test_two_names_of_one_setting_with_different_values_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="'aws_secret_access_key' and 'secret_access_key'.* different values") as error:
        parse({"aws_secret_access_key": "hush", "config": {"secret_access_key": "hush2"}})
    assert "hush" not in str(error.value)


def test_options_without_effect_on_data_files_cause_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    parse(S3)
    assert not caplog.records
    parse({"aws_sse_kms_key_id": "hush", "google_service_account": "hush", "region": "eu-west-1"})
    (record,) = caplog.records
    assert "only to the metadata of tables: service_account, sse_kms_key_id." in record.getMessage() and "hush" not in record.getMessage()


@pytest.mark.parametrize("value", [None, ""])
def test_options_without_a_value_count_as_missing(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    names = (
        "aws_endpoint_url aws_access_key_id aws_session_token aws_region aws_skip_signature azure_sas_key user_agent credential_provider"
    )
    nested = {"client_options": {"proxy_url": value, "timeout": value}, "retry_config": {"max_retries": value}}
    configuration = parse({**dict.fromkeys(names.split(), value), "config": {"bucket": value, "region": "eu-west-1"}, **nested})
    assert configuration.obstore_arguments("s3://lake") == {"config": {"region": "eu-west-1"}} and configuration.settings["azure"] == {}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENV")
    assert configuration.filesystem_options()["s3"] == {"access_key": "AKIAENV", "region": "eu-west-1"}
    with pytest.raises(ConfigurationError, match="'regoin'"):
        parse({"regoin": value})


@pytest.mark.parametrize("endpoint", ["http://store:9000", "https://store:9000"])
def test_the_address_of_the_endpoint_says_whether_http_is_allowed(endpoint: str) -> None:
    arguments = parse({"aws_endpoint_url": endpoint}).obstore_arguments("s3://lake")
    assert arguments.get("client_options") == ({"allow_http": True} if endpoint.startswith("http:") else None)
    assert parse({"aws_endpoint_url": endpoint, "allow_http": "false"}).obstore_arguments("s3://lake")["client_options"] == {
        "allow_http": "false"
    }


def test_one_endpoint_serves_all_libraries_if_buckets_have_host_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://store:9000")
    configuration = parse({"aws_virtual_hosted_style_request": "true"})
    assert configuration.obstore_arguments("s3://lake/w")["config"]["endpoint"] == "https://lake.store:9000"
    assert configuration.filesystem_options()["s3"]["endpoint_override"] == "store:9000"
    hadoop = hadoop_settings(configuration)
    assert (hadoop["fs.s3a.endpoint"], hadoop["fs.s3a.path.style.access"]) == ("https://store:9000", "false")


def test_the_environment_alone_does_not_replace_the_file_system_of_a_managed_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    settings = hadoop_settings(parse({}))
    assert settings["fs.s3a.endpoint.region"] == "eu-north-1" and "fs.s3.impl" not in settings
    assert "fs.s3.impl" in hadoop_settings(parse({"aws_region": "eu-north-1"}))


@needs_moto
@pytest.mark.parametrize("token", [None, "of the options"])
@pytest.mark.parametrize("variable", ["AWS_SESSION_TOKEN", "AWS_SKIP_SIGNATURE"])
def test_requests_are_signed_with_the_keys_of_the_options_alone(
    s3: FaultyS3, monkeypatch: pytest.MonkeyPatch, variable: str, token: str | None
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", variable):
        monkeypatch.setenv(name, "true")
    options = S3 | {"endpoint": s3.address} | ({} if token is None else {"session_token": token})
    storage = Storage(s3.location, options)
    assert not storage.exists("missing") and storage.client is storage.client
    headers = s3.requests[-1].headers
    assert "Credential=AKIA1/" in headers["authorization"] and headers.get("x-amz-security-token") == token


@pytest.mark.parametrize("value", ["false", "0", False])
def test_signatures_that_are_not_skipped_leave_the_search_for_keys_on(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    vended = Renewal(lambda: None, is_vended=True)
    vended.update({"s3": {"skip_signature": value}}, None)
    assert replace(parse(S3), vended=vended).obstore_arguments("s3://lake") == parse(S3).obstore_arguments("s3://lake")
    assert parse({"aws_skip_signature": value}).has_changing_credentials("s3"), "botocore may find keys"
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", str(value))
    assert parse({}).has_changing_credentials("s3")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    assert not parse({}).has_changing_credentials("s3")
    assert parse({"aws_skip_signature": value}).has_changing_credentials("s3")


@pytest.mark.parametrize("provider", list(SETTINGS))
def test_anonymous_requests_count_as_credentials(provider: str) -> None:
    assert has_credentials(provider, {"skip_signature": "true"}) and not has_credentials(provider, {"skip_signature": "false"})


def test_new_keys_without_a_token_make_a_new_client() -> None:
    arguments = [parse(S3 | {"access_key_id": key}).obstore_arguments("s3://lake") for key in ("AKIA1", "AKIA1", "AKIA2")]
    assert arguments[0] == arguments[1] != arguments[2] and "hush" not in repr(arguments[0]["credential_provider"])


# ------------------------------------------------------------------ secrets


def test_configurations_hide_secrets_in_repr_and_refuse_pickling() -> None:
    configuration = parse(S3)
    options = configuration.filesystem_options()
    assert "hush" not in f"{configuration!r} {options!r} {configuration.fingerprint}" and "secret_access_key" in repr(configuration)
    with pytest.raises(TypeError, match="credentials"):
        pickle.dumps(configuration)
    copied = copy.copy(Storage("s3://lake", S3))
    assert copied.configuration.fingerprint == configuration.fingerprint != parse(S3 | {"secret_access_key": "x"}).fingerprint


def test_error_texts_hide_secrets() -> None:
    configuration = parse({"azure_storage_sas_key": "sv=1&sig=hush"})
    text = "GET https://account.blob.core.windows.net/lake?sv=1&sig=hush failed"
    for hidden in (configuration.without_secrets(text), safe_reason(text, configuration.filesystem_options())):
        assert "hush" not in hidden and hidden.endswith("failed")


@pytest.mark.parametrize(
    "text",
    [
        "GET https://account.blob.core.windows.net/lake?se=2030&sig=hu%2Fsh%3D&sv=1 failed",  # Azure's SDK sorts the parameters
        "no access with hu/sh=",
        "no access with hu%2Fsh%3D",
        "GET https://lake.s3.amazonaws.com/x?X-Amz-Security-Token=hu%2Fsh&X-Amz-Signature=hu%2Fsh failed",
    ],
)
def test_secrets_are_hidden_in_each_spelling(text: str) -> None:
    configuration = parse({"azure_storage_sas_key": "sv=1&sig=hu%2Fsh%3D&se=2030", "azure_client_secret": "hu/sh="})
    for hidden in (configuration.without_secrets(text), safe_reason(text, configuration.filesystem_options())):
        assert "hu%2Fsh" not in hidden and "hu/sh" not in hidden and "********" in hidden


# ------------------------------------------------------------------ Arrow


def test_arrow_file_systems_get_credentials_endpoint_and_region() -> None:
    options = parse(S3).filesystem_options()
    assert options["s3"] == {
        "access_key": "AKIA1",
        "secret_key": "hush",
        "region": "eu-west-1",
        "scheme": "http",
        "endpoint_override": "store:9000",
    }
    filesystem, inner = filesystem_of("s3a://lake/w/part-0.parquet", options)
    assert filesystem.type_name == "s3" and inner == "lake/w/part-0.parquet" and filesystem.region == "eu-west-1"


def test_the_region_comes_from_the_environment_or_obstore_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse({}).filesystem_options()["s3"] == {"region": "us-east-1"}
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://store/")
    assert parse({}).filesystem_options()["s3"] == {"region": "eu-north-1", "scheme": "https", "endpoint_override": "store"}
    assert parse(S3).filesystem_options()["s3"]["endpoint_override"] == "store:9000"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"skip_signature": True}, {"anonymous": True, "region": "us-east-1"}),
        (S3 | {"aws_token": "t"}, parse(S3).filesystem_options()["s3"] | {"session_token": "t"}),
        ({"proxy_url": "http://proxy:1"}, {"proxy_options": "http://proxy:1", "region": "us-east-1"}),
        (
            {"aws_endpoint": "https://store", "virtual_hosted_style_request": "true"},
            {"scheme": "https", "endpoint_override": "store", "force_virtual_addressing": True, "region": "us-east-1"},
        ),
    ],
)
def test_arrow_arguments_for_s3(options: dict[str, Any], expected: dict[str, Any]) -> None:
    arguments = parse(options).filesystem_options()
    assert arguments["s3"] == expected
    filesystem_of("s3://lake/x", arguments)


def test_arrow_arguments_for_azure_and_google() -> None:
    options = parse(
        {
            "azure_storage_account_name": "account",
            "azure_storage_sas_token": "sv=1",
            "azure_endpoint": "https://account.blob.core.usgovcloudapi.net",
            "google_bearer_token": "hush",
        }
    ).filesystem_options()
    assert options["azure"] == {
        "account_name": "account",
        "sas_token": "?sv=1",
        "blob_storage_authority": ".blob.core.usgovcloudapi.net",
        "dfs_storage_authority": ".dfs.core.usgovcloudapi.net",
        "blob_storage_scheme": "https",
        "dfs_storage_scheme": "https",
    }
    assert filesystem_of("az://lake/w/x", options)[1] == "lake/w/x"
    assert filesystem_of(f"{LOCATIONS['azure']}/x", options)[1] == "lake/w/x"
    assert filesystem_of("gs://lake/w/x", options)[1] == "lake/w/x"


@pytest.mark.parametrize(
    ("endpoint", "host", "authority"),
    [
        (None, "shop.dfs.core.windows.net", ".blob.core.windows.net"),
        (None, "onelake.dfs.fabric.microsoft.com", ".blob.fabric.microsoft.com"),
        (None, "onelake.blob.fabric.microsoft.com", ".blob.fabric.microsoft.com"),
        ("https://shop.blob.core.windows.net", "shop.dfs.core.windows.net", ".blob.core.windows.net"),
        ("http://127.0.0.1:10000/shop", "shop.dfs.core.windows.net", "127.0.0.1:10000"),
    ],
)
def test_the_host_of_a_location_chooses_the_account_and_the_service_of_azure(endpoint: str | None, host: str, authority: str) -> None:
    options = {"azure_storage_account_key": "a2V5"} | ({} if endpoint is None else {"azure_endpoint": endpoint})
    arguments = azure_arguments(parse(options).filesystem_options()["azure"], host)
    assert (arguments["account_name"], arguments["blob_storage_authority"]) == (host.partition(".")[0], authority)
    assert arguments["dfs_storage_authority"] == authority.replace(".blob.", ".dfs.")
    assert filesystem_of(f"abfss://lake@{host}/w/x", {"azure": arguments})[1] == "lake/w/x"


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n", "S3"])
def test_each_scheme_of_s3_opens_a_client(scheme: str) -> None:
    storage = Storage(f"{scheme}://lake/w", {"aws_access_key_id": "AKIA", "aws_secret_access_key": "hush"})
    assert storage.client.config["bucket"] == "lake"
    assert filesystem_of(f"{storage.location}/x", storage.filesystem_options)[1] == "lake/w/x"


# ------------------------------------------------------------------ Hadoop


def test_hadoop_settings_for_s3() -> None:
    assert hadoop_settings(parse(S3)) == {
        "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "fs.s3n.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "fs.s3a.access.key": "AKIA1",
        "fs.s3a.secret.key": "hush",
        "fs.s3a.endpoint": "http://store:9000",
        "fs.s3a.endpoint.region": "eu-west-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
    }
    temporary = hadoop_settings(parse(S3 | {"session_token": "t"}))
    assert temporary["fs.s3a.aws.credentials.provider"].endswith("TemporaryAWSCredentialsProvider")
    assert hadoop_settings(parse({"aws_skip_signature": "true"}))["fs.s3a.aws.credentials.provider"].endswith(
        "AnonymousAWSCredentialsProvider"
    )


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ({"azure_storage_account_key": "k"}, "fs.azure.account.key", "k"),
        ({"azure_storage_sas_key": "?sv=1"}, "fs.azure.sas.fixed.token", "sv=1"),
        (
            {"azure_client_id": "c", "azure_client_secret": "s", "azure_tenant_id": "t"},
            "fs.azure.account.oauth2.client.endpoint",
            "https://login.microsoftonline.com/t/oauth2/token",
        ),
        ({"google_service_account": "/key.json"}, "fs.gs.auth.service.account.json.keyfile", "/key.json"),
        ({"google_skip_signature": True}, "fs.gs.auth.type", "UNAUTHENTICATED"),
    ],
)
def test_hadoop_settings_for_azure_and_google(options: dict[str, Any], name: str, value: str) -> None:
    assert hadoop_settings(parse(options))[name] == value


def test_hadoop_settings_are_empty_without_options() -> None:
    assert hadoop_settings(parse({})) == {}


def test_timeouts_reach_hadoop_without_any_other_option() -> None:
    assert hadoop_settings(parse({"client_options": {"timeout": "5s"}})) == {"fs.s3a.connection.timeout": "5000ms"}
