"""Sources of credentials and their renewal."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from rowmerge.errors import ConfigurationError
from rowmerge.errors.base import reports_ended_credentials
from rowmerge.errors.environment import StorageError
from rowmerge.parquet.filesystems import safe_reason
from rowmerge.storage.configuration import StorageConfiguration
from rowmerge.storage.hadoop import ReaderAccess, reader_access, register_session, without_reader_scheme
from rowmerge.storage.renewal import Renewal
from rowmerge.storage.store import Storage
from tests.support.faulty_s3 import needs_moto, serving_moto

parse = StorageConfiguration.parse
STATIC = {"aws_access_key_id": "AKIA1", "aws_secret_access_key": "hush"}


@pytest.fixture(autouse=True)
def profiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Remove the variables of AWS, and return the file of profiles."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "config"
    for name, value in {"CONFIG_FILE": str(path), "SHARED_CREDENTIALS_FILE": "/missing", "EC2_METADATA_DISABLED": "true"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    path.write_text("[profile lake]\naws_access_key_id = AKIALAKE\naws_secret_access_key = hush\nregion = eu-west-3\n")
    return path


def keys_in(configuration: StorageConfiguration, location: str = "s3://lake/t") -> tuple[Any, Any, Any]:
    """Return the access keys for obstore, Arrow, and executors."""
    options = configuration.filesystem_options(location)
    config = configuration.obstore_arguments("s3://lake").get("config", {})
    return config.get("access_key_id"), options["s3"].get("access_key"), pickle.loads(pickle.dumps(options))["s3"].get("access_key")


# ------------------------------------------------------------------ sources


def test_a_profile_gives_keys_and_a_region() -> None:
    configuration = parse({"aws_profile": "lake"})
    assert keys_in(configuration) == ("AKIALAKE",) * 3
    assert configuration.filesystem_options()["s3"]["region"] == "eu-west-3"
    assert "profile" not in configuration.obstore_arguments("s3://lake")["config"]
    assert "hush" not in configuration.without_secrets("the key is hush")


def test_the_profile_of_the_environment_applies_to_locations_in_s3_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "lake")
    assert keys_in(parse({})) == ("AKIALAKE",) * 3
    assert keys_in(parse({}), "file:///t")[1:] == (None, None), "a table on a disk needs no keys"
    assert keys_in(parse(STATIC)) == ("AKIA1",) * 3


@needs_moto
def test_keys_that_a_role_gets_are_not_in_debug_logs(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("botocore").setLevel(logging.NOTSET)  # the level of a new process
    with serving_moto() as port, caplog.at_level(logging.DEBUG):
        role = {"aws_role_arn": "arn:aws:iam::123456789012:role/dbt", "aws_endpoint_url_sts": f"http://127.0.0.1:{port}"}
        keys = parse({**STATIC, **role, "aws_region": "eu-west-3"}).filesystem_options("s3://lake/t")["s3"]
    assert keys["secret_key"] != "hush" and keys["secret_key"] not in caplog.text and keys["session_token"] not in caplog.text
    # A program that logs only warnings gets no further messages.
    assert not logging.getLogger("botocore.credentials").isEnabledFor(logging.INFO)


@pytest.mark.parametrize("is_option", [True, False])
def test_an_unknown_profile_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch, is_option: bool) -> None:
    monkeypatch.setenv("AWS_PROFILE", "" if is_option else "laek")
    with pytest.raises(ConfigurationError, match=r"profile.*laek"):
        Storage("s3://lake", {"aws_profile": "laek"} if is_option else {}).list()


def test_the_keys_of_the_environment_reach_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    assert keys_in(parse({})) == ("AKIAENV",) * 3
    assert keys_in(parse({"aws_skip_signature": "true"})) == (None,) * 3


def test_a_missing_botocore_is_an_error_for_profiles_alone(profiles: Path) -> None:
    code = (
        "import sys; sys.modules['botocore'] = None; sys.modules['botocore.exceptions'] = None\n"
        "from rowmerge.storage.configuration import StorageConfiguration\n"
        "print(StorageConfiguration.parse({}).obstore_arguments('s3://lake'))\n"
        "StorageConfiguration.parse({'aws_profile': 'lake'}).obstore_arguments('s3://lake')"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stdout == "{}\n" and "aws_profile 'lake' need botocore. Install it with pip install 'dbt-rowmerge[aws]'" in result.stderr


@pytest.mark.parametrize(
    ("answer", "provider", "name", "value"),
    [
        ({"access_key_id": "AKIA2", "secret_access_key": "hush", "token": "t"}, "s3", "access_key", "AKIA2"),
        ({"access_key_id": "AKIA2", "secret_access_key": "hush", "token": "t"}, "s3", "session_token", "t"),
        ({"token": "t"}, "gs", "access_token", "t"),
        ({"access_key": "k"}, "azure", "account_key", "k"),
        ({"sas_token": "sv=1"}, "azure", "sas_token", "?sv=1"),
    ],
)
@pytest.mark.parametrize("is_coroutine", [True, False])
def test_a_credential_provider_reaches_data_files(answer: dict[str, str], provider: str, name: str, value: str, is_coroutine: bool) -> None:
    async def answer_later() -> dict[str, str]:
        return answer

    configuration = parse({"credential_provider": answer_later if is_coroutine else lambda: answer})
    assert configuration.filesystem_options()[provider][name] == value


def test_another_answer_of_a_credential_provider_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="must return a dictionary with access_key_id"):
        parse({"credential_provider": lambda: {"key": "hush"}}).obstore_arguments("s3://lake")


# ------------------------------------------------------------------ renewal


def provided_keys(seconds: float) -> tuple[StorageConfiguration, list[str]]:
    """Return a configuration whose keys end after some seconds, and the keys that it has got so far."""
    fetched_keys: list[str] = []

    def provide() -> dict[str, Any]:
        fetched_keys.append(f"AKIA{len(fetched_keys)}")
        end = datetime.fromtimestamp(time.time() + seconds, timezone.utc)
        return {"access_key_id": fetched_keys[-1], "secret_access_key": "hush", "token": "t", "expires_at": end}

    return parse({"credential_provider": provide}), fetched_keys


def test_keys_are_renewed_before_their_end_and_reach_open_storages() -> None:
    configuration, fetched_keys = provided_keys(30)  # less than the minute before their end at which keys are renewed
    storage, options = Storage("s3://lake", configuration), configuration.filesystem_options()
    clients = {id(client): client for client in (storage.client, storage.client)}
    assert [client.config["access_key_id"] for client in clients.values()] == ["AKIA0", "AKIA1"]
    assert options["s3"]["access_key"] == fetched_keys[2] and len(fetched_keys) == 3
    assert pickle.loads(pickle.dumps(options))["s3"]["access_key"] == fetched_keys[3]


def test_keys_with_a_later_end_are_shared() -> None:
    configuration, fetched_keys = provided_keys(3600)
    threads = [threading.Thread(target=configuration.obstore_arguments, args=("s3://lake",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fetched_keys == ["AKIA0"]


@pytest.mark.parametrize("seconds", [None, 5, -5])
def test_other_threads_wait_for_new_keys_only_if_the_old_ones_have_ended(seconds: float | None) -> None:
    is_fetching, may_end = threading.Event(), threading.Event()

    def fetch() -> tuple[dict[str, dict[str, str]], float]:
        is_fetching.set()
        assert may_end.wait(10)
        return {"s3": {"access_key_id": "new"}}, time.time() + 3600

    renewal = Renewal(fetch)
    if seconds is not None:
        renewal.update({"s3": {"access_key_id": "old"}}, time.time() + seconds)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(renewal.settings)
        assert is_fetching.wait(10)
        second = pool.submit(renewal.settings)
        wait([second], 0.5)
        assert second.done() is (seconds == 5)
        may_end.set()
        expected = "old" if seconds == 5 else "new"
        assert (first.result()["s3"]["access_key_id"], second.result()["s3"]["access_key_id"]) == ("new", expected)


def test_a_server_that_sends_no_more_keys_is_asked_once() -> None:
    requests: list[int] = []
    renewal = Renewal(lambda: requests.append(1), is_vended=True)
    renewal.update({"s3": {"access_key_id": "old"}}, time.time() - 5)
    assert renewal.settings() == renewal.settings() == {"s3": {"access_key_id": "old"}} and requests == [1]


def test_a_server_that_sends_the_same_keys_is_asked_again() -> None:
    requests, end = [], time.time() + 30  # within the last minute, in which the time of the next renewal does not change

    def fetch() -> None:
        requests.append(1)
        renewal.update({"s3": {"access_key_id": "same"}}, end)

    renewal = Renewal(fetch, is_vended=True)
    fetch()
    assert renewal.settings() == renewal.settings() == {"s3": {"access_key_id": "same"}} and len(requests) == 3


def test_a_failed_renewal_is_an_error_only_when_the_keys_are_about_to_end(caplog: pytest.LogCaptureFixture) -> None:
    failures: list[int] = []

    def fetch() -> None:
        failures.append(1)
        raise ConnectionError("no answer")

    renewal = Renewal(fetch, is_vended=True)
    renewal.update({"s3": {"access_key_id": "AKIA1"}}, time.time() + 70)  # within the last quarter of an hour
    renewal._renew_at = 0
    assert renewal.settings()["s3"] == {"access_key_id": "AKIA1"} and "cannot be renewed yet" in caplog.text
    renewal.update({"s3": {"access_key_id": "AKIA1"}}, time.time() + 10)
    with pytest.raises(ConnectionError):
        renewal.settings()
    assert len(failures) == 2


def test_sparks_reader_keeps_vended_keys_until_shortly_before_their_end() -> None:
    renewal = Renewal(lambda: None, is_vended=True)
    options = replace(parse({}), vended=renewal).filesystem_options("s3://lake/t")

    def vend(number: int, seconds: float | None, location: str = "s3://lake/t") -> tuple[str, str]:
        keys = {"access_key_id": f"AKIA{number}", "secret_access_key": "hush"}
        renewal.update({"s3": keys}, None if seconds is None else time.time() + seconds, location)
        reader = reader_access(options, ["s3://lake/t/x"], is_shared=False).options["fs.s3a.access.key"]
        return options["s3"]["access_key"], reader

    assert vend(1, 3600) == ("AKIA1", "AKIA1") and vend(2, 3600) == ("AKIA2", "AKIA1")
    assert vend(3, 3600, "s3://lake/other") == ("AKIA3", "AKIA3"), "keys are valid for one location"
    renewal._steady = (*renewal._steady[:1], 0.0, *renewal._steady[2:])  # they are about to end
    assert vend(4, 3600, "s3://lake/other") == ("AKIA4", "AKIA4")


def test_an_executor_reports_that_its_keys_have_ended() -> None:
    configuration, _ = provided_keys(-5)
    options = pickle.loads(pickle.dumps(configuration.filesystem_options()))
    reason = safe_reason("AWS Error ACCESS_DENIED during HeadObject operation: No response body. hush", options)
    assert "hush" not in reason and reports_ended_credentials(reason)
    assert "new ones, which must live longer" in str(StorageError("s3://lake/x", reason))
    assert not reports_ended_credentials(safe_reason("denied", pickle.loads(pickle.dumps(provided_keys(900)[0].filesystem_options()))))


# ------------------------------------------------------------------ Spark's reader


def test_each_set_of_keys_has_a_scheme_of_its_own() -> None:
    configuration, _ = provided_keys(30)
    options = configuration.filesystem_options("s3://lake")
    first, second = (reader_access(options, ["s3://lake/a", "s3a://lake/b"], is_shared=False) for _ in range(2))
    assert first.suffix != second.suffix and "hush" not in repr(first)
    path = first.reader_path("s3a://lake/b=1/x.parquet")
    assert path == f"s3a{first.suffix}://lake/b=1/x.parquet" and without_reader_scheme(path) == "s3a://lake/b=1/x.parquet"
    assert first.options[f"fs.s3a{first.suffix}.impl"] == "org.apache.hadoop.fs.s3a.S3AFileSystem"
    assert first.original_sql("_metadata.file_path as f") == f"replace(_metadata.file_path, '{first.suffix}:', ':') as f"
    assert first.original_sql("_metadata.row_index as p") == "_metadata.row_index as p"


def test_the_only_session_uses_its_settings_and_two_sessions_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowmerge.storage.hadoop._session_digests", {"s3": set(), "gs": set(), "azure": set()})
    one, other = parse(STATIC), parse(STATIC | {"aws_access_key_id": "AKIA2"})

    def suffix(configuration: StorageConfiguration, *, is_shared: bool = False) -> str:
        return reader_access(configuration.filesystem_options("s3://lake"), ["s3://lake/x"], is_shared=is_shared).suffix

    register_session(one)
    assert suffix(one) == "" and suffix(one, is_shared=True) != "" and suffix(other) != ""
    register_session(other)
    assert suffix(one) != suffix(other) and "" not in (suffix(one), suffix(other))
    assert reader_access(one.filesystem_options(), ["file:///x"], is_shared=True).options == {}


def test_options_of_the_reader_replace_the_settings_of_other_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_session_digests", "_session_names"):
        monkeypatch.setattr(f"rowmerge.storage.hadoop.{name}", {"s3": set(), "gs": set(), "azure": set()})
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    client_options = {"proxy_url": "http://me:hush%21@proxy:3128"}
    store = parse(STATIC | {"aws_endpoint_url": "http://store:9000", "aws_session_token": "t", "client_options": client_options})
    aws, without_options = parse(STATIC | {"aws_access_key_id": "AKIA2"}), parse({})

    def access(configuration: StorageConfiguration) -> ReaderAccess:
        return reader_access(configuration.filesystem_options("s3://lake"), ["s3://lake/x"], is_shared=False)

    assert access(without_options).options == {}
    register_session(store)
    register_session(aws)
    of_store, of_aws, of_hadoop = (access(configuration).options for configuration in (store, aws, without_options))
    names = ("fs.s3a.endpoint", "fs.s3a.connection.ssl.enabled", "fs.s3a.session.token", "fs.s3a.access.key", "fs.s3a.proxy.host")
    assert [of_store[name] for name in names] == ["http://store:9000", "false", "t", "AKIA1", "proxy"]
    assert (of_store["fs.s3a.proxy.port"], of_store["fs.s3a.proxy.password"]) == ("3128", "hush!")
    assert [of_aws[name] for name in names] == ["", "true", "", "AKIA2", ""]
    assert [of_hadoop[name] for name in names] == ["", "true", "", "", ""]
    assert "IAMInstanceCredentialsProvider" in of_hadoop["fs.s3a.aws.credentials.provider"]
