"""Parse the timeouts and retries of requests to object stores, and repeat requests whose response is cut."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, TypeVar

from obstore.exceptions import BaseError

from rowmerge.errors import ConfigurationError
from rowmerge.storage.option_names import BACKOFF_OPTIONS, OptionSettings, nested_mapping

_WAITS = (0.1, 0.4, 1.6)
"""The times in seconds to wait before a request is repeated, at most as often as `max_retries` allows."""
_CUT_RESPONSE = "response body"
"""A part of obstore's messages about a response whose body ended too early."""
_Response = TypeVar("_Response")

_DURATIONS: Final = frozenset(
    "connect_timeout http2_keep_alive_interval http2_keep_alive_timeout init_backoff max_backoff pool_idle_timeout read_timeout "
    "retry_timeout timeout".split()
)
"""The options whose values are durations, in the mappings `client_options` and `retry_config`, and in `backoff` of the latter."""
_BACKOFF_DEFAULTS: Final = {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=15)}
"""The first and the longest wait that obstore assumes."""
MAX_RETRIES: Final = 62
"""The largest number of retries. hadoop-aws doubles the wait after each one, and rejects more."""
_UNITS: Final = {
    **dict.fromkeys(("ms", "msec", "millis", "milliseconds"), 0.001),
    **dict.fromkeys(("", "s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hours", "hour"), 3600.0),
}
_PART: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")


def parse_client_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the HTTP client as obstore accepts them.

    Raises:
        ConfigurationError: A value is not a duration, or `default_headers` is not a mapping.
    """
    client_options = _with_durations(options)
    if "default_headers" in options:
        headers = {name: value for name, value in nested_mapping(options, "default_headers").items() if value is not None and value != ""}
        client_options["default_headers"] = {name: value if isinstance(value, bytes) else str(value) for name, value in headers.items()}
    return client_options


def parse_retry_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of retries as obstore accepts them.

    Raises:
        ConfigurationError: A value is invalid, `backoff` is not a mapping, or it has an unknown name.
    """
    retry_options = _with_durations(options)
    if "max_retries" in options:
        retry_options["max_retries"] = _parse_max_retries(options["max_retries"])
    if "backoff" in options:
        retry_options["backoff"] = _parse_backoff(options)
    return retry_options


def _parse_max_retries(value: object) -> int:
    """Parse the number of retries. Raises ConfigurationError if one of the libraries rejects it."""
    text = str(value).strip()
    if re.fullmatch(r"[0-9]{1,2}", text) and int(text) <= MAX_RETRIES:
        return int(text)
    problem = f"storage_options.retry_config: max_retries = {value!r} is not a whole number from 0 to {MAX_RETRIES}"
    raise ConfigurationError(f"{problem}. Write such a number, or remove the option.")


def _parse_backoff(retry_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mapping `backoff` of retry options. Raises ConfigurationError for values with which obstore cannot choose a wait."""
    settings = OptionSettings()
    settings.add_nested(retry_options, "backoff", BACKOFF_OPTIONS)
    backoff = _with_durations(settings.values)
    if "base" in backoff:
        backoff["base"] = _parse_base(backoff["base"])
    complete = {**_BACKOFF_DEFAULTS, **backoff}
    if not timedelta(0) < complete["init_backoff"] <= complete["max_backoff"]:
        times = ", ".join(f"{name} = {complete[name].total_seconds():g}s" for name in _BACKOFF_DEFAULTS)
        raise ConfigurationError(
            f"storage_options.backoff: {times}. Set init_backoff to more than 0s, and max_backoff to at least as much."
        )
    return backoff


def _parse_base(value: object) -> float:
    """Return the factor between the waits of retries. Raises ConfigurationError if the waits would not grow."""
    with suppress(ValueError):
        base = float(str(value))
        if 1 < base < float("inf"):
            return base
    raise ConfigurationError(f"storage_options.backoff: base = {value!r} is not a number greater than 1. Write a number such as 2.")


def _with_durations(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in which each duration is a `timedelta`. Raises ConfigurationError if the value of such an option is no duration."""
    durations = {name: parse_duration(f"storage_options: {name}", value) for name, value in options.items() if name in _DURATIONS}
    return {**options, **durations}


def parse_duration(name: str, value: object) -> timedelta:
    """Parse the value of an option that is a duration.

    Args:
        name: The name of the option in the message.
        value: A `timedelta`, seconds, or a string such as `30s` or `1m 500ms`.

    Raises:
        ConfigurationError: The value is not a duration.
    """
    if isinstance(value, timedelta):
        return value
    text = str(value).lower()
    if re.fullmatch(rf"(?:{_PART.pattern})+", text):
        parts = [(float(number), _UNITS.get(unit)) for number, unit in _PART.findall(text)]
        if all(unit is not None for _, unit in parts):
            return timedelta(seconds=sum(number * (unit or 0) for number, unit in parts))
    advice = "Write a number with a unit, such as '30s' or '500ms'."
    raise ConfigurationError(f"{name} = {value!r} is not a duration. {advice}")


def seconds_of(options: Mapping[str, Any], name: str) -> float | None:
    """Return the seconds of a duration in parsed options, or None if the option is missing.

    Args:
        options: The options.
        name: The name of the option.
    """
    duration: timedelta | None = options.get(name)
    return None if duration is None else duration.total_seconds()


def repeat_if_cut(retry_config: Mapping[str, Any], request: Callable[[], _Response]) -> _Response:
    """Return the response to a request. If the connection is cut within the response, send the request again.

    obstore repeats a request if it gets no response, or a part of an object. It does not repeat a request whose response is a part of a
    listing, of a result, or of an error such as 404.

    Args:
        retry_config: The options of retries.
        request: A function that sends a request with obstore. A repetition must not change the result.

    Raises:
        BaseError: The store does not send a complete response.
    """
    for wait in _WAITS[: retry_config.get("max_retries")]:
        try:
            return request()
        except BaseError as error:
            if _CUT_RESPONSE not in str(error):
                raise
        time.sleep(wait)
    return request()
