"""Parse the timeouts of requests to object stores, and repeat requests whose response is cut."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final, TypeVar

from obstore.exceptions import BaseError

from rowmerge.errors import ConfigurationError

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
_UNITS: Final = {
    **dict.fromkeys(("ms", "msec", "millis", "milliseconds"), 0.001),
    **dict.fromkeys(("", "s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hours", "hour"), 3600.0),
}
_PART: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")


def with_durations(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in which each duration is a `timedelta`, which obstore accepts for all of them.

    Raises:
        ConfigurationError: The value of such an option is not a duration.
    """
    return {name: _with_duration(name, value) for name, value in options.items()}


def _with_duration(name: str, value: Any) -> Any:
    """Return the value of an option, as a `timedelta` if it is a duration."""
    if name == "backoff" and isinstance(value, Mapping):
        return with_durations(value)
    return parse_duration(f"storage_options: {name}", value) if name in _DURATIONS else value


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
    """Return the seconds of a duration in options of `with_durations`, or None if the option is missing.

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
