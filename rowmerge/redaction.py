"""Hide secrets in messages. Executors run this module too, so it imports only the standard library."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

HIDDEN = "********"
_SECRET = re.compile(r"secret|password|passwd|token|credential|access.?key|session|signer|authorization|sas", re.IGNORECASE)
"""The names of settings whose values are secrets."""
_SIGNATURE = re.compile(
    r"((?:^|[?&;])(?:sig|X-Amz-Signature|X-Amz-Security-Token|X-Amz-Credential|X-Goog-Signature)=)[^&;'\"\s]+", re.IGNORECASE
)
"""The parameters of a URL that prove the right of access. Clients of stores put the URL of a request into their errors."""


def hide(text: str, secrets: Iterable[str]) -> str:
    """Return a string in which HIDDEN replaces each secret, also in percent-encoding, and the signatures of URLs.

    Args:
        text: The string, such as an error message.
        secrets: The secrets. Empty ones are ignored.
    """
    spellings = {spelling for secret in secrets if secret for spelling in _spellings(secret)}
    for spelling in sorted(spellings, key=len, reverse=True):
        text = text.replace(spelling, HIDDEN)
    return _SIGNATURE.sub(rf"\g<1>{HIDDEN}", text)


def stop_debug_log(library: str) -> None:
    """Stop the debug messages of a library that logs the values of its calls, with secrets. A level that the user has set remains.

    The new level is WARNING, as that of the root logger. With INFO, programs that log only warnings would get more messages than before.

    Args:
        library: The name of the library's logger.
    """
    logger = logging.getLogger(library)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)


def _spellings(secret: str) -> Iterator[str]:
    """Yield a secret as it is, percent-encoded and decoded."""
    for spelling in (secret, unquote(secret)):
        yield from (spelling, quote(spelling), quote(spelling, safe=""))


def secrets_of(configuration: Mapping[str, Any]) -> set[str]:
    """Return the secret values of a catalog's configuration, both as they are and URL-encoded. Messages must not contain them."""
    secrets = set().union(*(_secrets_in(str(key), value) for key, value in configuration.items()))
    return secrets | {quote(secret, safe="") for secret in secrets}


def _secrets_in(key: str, value: Any) -> set[str]:
    """Return the secrets of one setting: the value if the key matches `_SECRET`, or the user and password of a URL."""
    if isinstance(value, Mapping):
        return set().union(*(_secrets_in(str(name), each) for name, each in value.items()))
    text = str(value)
    if _SECRET.search(key):
        return {text, *text.split(":")}
    if key == "ugi":  # user:password, for a Hive metastore
        return set(text.split(":")[1:])
    if "@" not in text or "//" not in text:
        return set()
    url = urlsplit(text)
    password = url.password or ""
    return {password, unquote(password), url.netloc.rpartition("@")[0]}
