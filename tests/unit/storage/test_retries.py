"""Timeouts and retries in `storage_options`, and requests whose response is cut."""

from __future__ import annotations

import re
import uuid
from datetime import timedelta
from typing import Any

import pytest
import yaml

from rowmerge.errors import ConfigurationError, StorageError
from rowmerge.storage.configuration import StorageConfiguration
from rowmerge.storage.hadoop import hadoop_settings
from rowmerge.storage.listing import list_page
from rowmerge.storage.store import Put, Storage, get_if_exists
from tests.support.examples import examples_of
from tests.support.faulty_s3 import Fault, FaultyS3, needs_moto

KEYS = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}


def parse(**options: Any) -> StorageConfiguration:
    return StorageConfiguration.parse({**KEYS, **options})


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("30s", 30), ("500ms", 0.5), ("1m 30s", 90), ("2 hours", 7200), (20, 20), ("1.5", 1.5), (timedelta(minutes=1), 60)],
)
def test_timeouts_reach_every_library(value: Any, seconds: float) -> None:
    configuration = parse(client_options={"timeout": value, "connect_timeout": "3s"}, retry_config={"max_retries": 4})
    assert configuration.obstore_arguments("s3://lake")["client_options"]["timeout"] == timedelta(seconds=seconds)
    arrow = configuration.filesystem_options()["s3"]
    assert (arrow["request_timeout"], arrow["connect_timeout"]) == (seconds, 3)
    assert arrow["retry_strategy"].max_attempts == 5
    hadoop = hadoop_settings(configuration)
    assert (hadoop["fs.s3a.connection.timeout"], hadoop["fs.s3a.connection.establish.timeout"]) == (f"{seconds * 1000:.0f}ms", "3000ms")
    assert {hadoop[f"fs.s3a.{name}"] for name in ("attempts.maximum", "retry.limit", "retry.throttle.limit")} == {"4"}


def test_durations_of_retries_are_strings_in_a_profile() -> None:
    retries = parse(
        retry_config={"retry_timeout": "1m", "backoff": {"init_backoff": "10ms", "max_backoff": "1s", "base": "2"}}
    ).retry_config
    backoff = {"init_backoff": timedelta(milliseconds=10), "max_backoff": timedelta(seconds=1), "base": 2}
    assert retries == {"retry_timeout": timedelta(minutes=1), "backoff": backoff}
    assert Storage("s3://lake", parse(retry_config=retries)).client is not None


def test_the_options_of_the_page_are_accepted() -> None:
    (block,) = examples_of("test_the_options_of_the_page_are_accepted")
    configuration = parse(**yaml.safe_load(block.text)["storage_options"])
    assert configuration.retry_config == {"max_retries": 10, "retry_timeout": timedelta(minutes=3)}
    assert Storage("s3://lake", configuration).client is not None


@pytest.mark.parametrize("value", ["soon", "30 parsecs", "-1s"])
def test_other_values_are_no_durations(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="timeout = .* is not a duration. Write a number with a unit, such as '30s'"):
        parse(client_options={"timeout": value})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retry_config": {"backoff": "10ms"}}, "'backoff' in storage_options must be a mapping"),
        ({"retry_config": {"backoff": {"bass": 2}}}, "storage_options.backoff has the unknown name 'bass'. Did you mean 'base'"),
        ({"retry_config": {"backoff": {"base": "many"}}}, "base = 'many' is not a number greater than 1. Write a number such as 2"),
        ({"retry_config": {"backoff": {"base": 1}}}, "base = 1 is not a number greater than 1"),
        ({"retry_config": {"backoff": {"base": "inf"}}}, "base = 'inf' is not a number greater than 1"),
        ({"retry_config": {"backoff": {"init_backoff": "0s"}}}, "init_backoff = 0s, max_backoff = 15s. Set init_backoff to more than 0s"),
        ({"retry_config": {"backoff": {"max_backoff": "10ms"}}}, "init_backoff = 0.1s, max_backoff = 0.01s. Set"),
        ({"client_options": {"default_headers": "x-a: b"}}, "'default_headers' in storage_options must be a mapping"),
        ({"default_headers": "x-a: b"}, "'default_headers' in storage_options must be a mapping"),
    ],
)
def test_wrong_values_of_nested_options_are_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        parse(**options)


@pytest.mark.parametrize("value", ["many", -1, "-1", 63, "1.5", 2.5, True, "9" * 5000])
def test_other_numbers_of_retries_are_errors(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="retry_config: max_retries = .* is not a whole number from 0 to 62. Write such a number"):
        parse(retry_config={"max_retries": value})


@pytest.mark.parametrize("value", [0, "0", 62, " 62 "])
def test_zero_to_62_retries_are_accepted(value: Any) -> None:
    configuration = parse(retry_config={"max_retries": value})
    assert configuration.retry_config == {"max_retries": int(value)}
    assert Storage("s3://lake", configuration).client is not None


def test_headers_are_strings_and_headers_without_a_value_are_left_out() -> None:
    configuration = parse(client_options={"default_headers": {"x-a": 1, "x-b": b"2", "x-c": None, "x-d": ""}})
    assert configuration.client_options == {"default_headers": {"x-a": "1", "x-b": b"2"}}
    assert Storage("s3://lake", configuration).client is not None


REQUESTS = {
    "listing": lambda storage: [object_.path for object_ in storage.list()],
    "page": lambda storage: [object_.path for object_ in list_page(storage, "", "")],
    "folders": lambda storage: storage.folders(),
    "object": lambda storage: storage.get("a"),
    "missing object": lambda storage: get_if_exists(storage, "b"),
    "existing object": lambda storage: storage.put_if_absent("a", b"2"),
    "deletion": lambda storage: storage.delete(["a"]),
}
RESULTS = {
    "listing": ["a"],
    "page": ["a"],
    "folders": [],
    "object": b"1",
    "missing object": None,
    "existing object": Put.EXISTED,
    "deletion": None,
}


@needs_moto
@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_is_repeated_if_its_response_is_cut(s3: FaultyS3, name: str) -> None:
    location = f"{s3.location}/{uuid.uuid4()}"
    Storage(location, s3.options()).put("a", b"1")
    storage = Storage(location, s3.options(retries=2))
    count = iter(range(2))
    s3.rule = lambda request: Fault.CUT_IN_BODY if next(count, None) is not None else None
    s3.requests.clear()
    assert REQUESTS[name](storage) == RESULTS[name]
    assert len(s3.requests) == 3


@needs_moto
def test_a_cut_listing_is_not_repeated_without_retries(s3: FaultyS3) -> None:
    storage = Storage(f"{s3.location}/{uuid.uuid4()}", s3.options())
    storage.put("a", b"1")
    s3.rule = lambda request: Fault.CUT_IN_BODY
    s3.requests.clear()
    with pytest.raises(StorageError, match="Check that the store runs"):
        storage.list()
    assert len(s3.requests) == 1
