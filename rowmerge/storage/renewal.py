"""Credentials that end during a run: fetched when a request needs them, and renewed before their end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from rowmerge.storage.option_names import is_true

logger = logging.getLogger(__name__)

AWS_SOURCES = (
    *("profile", "role_arn", "web_identity_token_file", "metadata_endpoint"),
    *("container_credentials_full_uri", "container_credentials_relative_uri", "container_authorization_token_file"),
)
"""The settings of S3 that name a source of keys."""
Settings = Mapping[str, Mapping[str, Any]]
"""The settings of each provider (`s3`, `gs`, `azure`), as in `StorageConfiguration.settings`."""
Credentials = tuple[Settings, float | None]
"""Settings with credentials, and the time at which they end, in seconds since the epoch, or None if they do not end or it is unknown."""
CREDENTIALS: Mapping[str, tuple[str, ...]] = {
    "s3": ("access_key_id", "secret_access_key", "session_token", "skip_signature", *AWS_SOURCES),
    "gs": ("bearer_token", "service_account", "service_account_key", "application_credentials", "skip_signature"),
    "azure": ("account_key", "sas_key", "client_id", "client_secret", "tenant_id", "token", "skip_signature"),
}
"""The settings that are credentials, by provider."""
_MIN_SECONDS, _MAX_SECONDS = 60.0, 900.0
"""The bounds of the time before the end at which credentials are renewed. A job of Spark keeps the credentials with which it starts."""


class Renewal:
    """The current credentials of object stores, which are renewed before they end. Thread-safe.

    `ends_at`: the time at which they end, in seconds since the epoch, or None if it is unknown.
    """

    def __init__(self, fetch: Callable[[], Credentials | None], *, is_vended: bool = False, asks_always: bool = False) -> None:
        """Initialize the renewal without credentials.

        Args:
            fetch: A function that returns new credentials, or None if it has passed them to `update`.
            is_vended: Whether a server sends the first credentials, which are passed to `update`.
            asks_always: Whether `fetch` decides by itself when to renew the credentials, and so is called each time.
        """
        self._fetch, self._asks_always = fetch, asks_always
        self._settings: Settings = {}
        self.ends_at: float | None = None
        self._renew_at, self._last_chance = (float("inf"), float("inf")) if is_vended else (0.0, 0.0)
        self._steady: tuple[Settings, float, str] = {}, 0.0, ""
        self._lock = threading.RLock()
        self._fetching_thread: int | None = None

    @property
    def latest(self) -> Settings:
        """The newest credentials, which may have ended. No request is sent."""
        return self._settings

    def settings(self) -> Settings:
        """Return credentials that have not ended, as far as the time of their end is known.

        One thread fetches new credentials. Meanwhile, other threads use the old ones, or wait if there are none or they have ended.
        """
        # The fetch itself may open storages with these credentials.
        if time.time() < self._renew_at or self._fetching_thread == threading.get_ident():
            return self._settings
        have_ended = self.ends_at is not None and time.time() >= self.ends_at
        if self._lock.acquire(blocking=self._asks_always or not self._settings or have_ended):
            try:
                if time.time() >= self._renew_at:
                    self._renew()
            finally:
                self._lock.release()
        return self._settings

    def steady_settings(self) -> Settings:
        """Return credentials that stay the same until shortly before their end, for clients that stay open.

        A server may vend new credentials with each load of a table, although the old ones are still valid.
        """
        settings = self.settings()
        steady_settings, renew_at, _ = self._steady
        return steady_settings if time.time() < renew_at else settings

    def update(self, settings: Settings, ends_at: float | None, scope: str = "") -> None:
        """Use other credentials from now on.

        Args:
            settings: The settings with the credentials.
            ends_at: The time at which they end, in seconds since the epoch, or None if it is unknown.
            scope: The location for which the credentials are valid.
        """
        with self._lock:
            self._settings, self._renew_at, self._last_chance = settings, float("inf"), float("inf")
            self.ends_at = ends_at
            if self._asks_always:
                self._renew_at = 0.0
            elif ends_at is not None:
                margin = min(_MAX_SECONDS, max(_MIN_SECONDS, (ends_at - time.time()) / 4))
                self._renew_at, self._last_chance = ends_at - margin, ends_at - _MIN_SECONDS
                _, steady_until, steady_scope = self._steady
                if time.time() >= steady_until or scope != steady_scope:
                    self._steady = settings, self._renew_at, scope

    def _renew(self) -> None:
        """Fetch credentials. An error is raised if the present credentials are about to end, and otherwise logged."""
        self._fetching_thread, settings = threading.get_ident(), self._settings
        try:
            fetched = self._fetch()
        except Exception as error:
            if time.time() >= self._last_chance:
                raise
            logger.warning("Credentials of an object store cannot be renewed yet, and stay in use: %s", type(error).__name__)
            return
        finally:
            self._fetching_thread = None
        if fetched is not None:
            self.update(*fetched)
        elif self._settings is settings:
            self._renew_at = float("inf")  # the server sends credentials no more


def has_credentials(provider: str, settings: Mapping[str, Any]) -> bool:
    """Return whether the settings of a provider contain credentials, or say that requests are anonymous.

    Args:
        provider: The provider: `s3`, `gs` or `azure`.
        settings: The settings of the provider.
    """
    return any(name in settings and (name != "skip_signature" or is_true(settings[name])) for name in CREDENTIALS[provider])


def without_credentials(provider: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a provider that are not credentials.

    Args:
        provider: The provider: `s3`, `gs` or `azure`.
        settings: The settings of the provider.
    """
    return {name: value for name, value in settings.items() if name not in CREDENTIALS[provider]}


def with_credentials(settings: Settings, renewed: Settings) -> dict[str, Mapping[str, Any]]:
    """Return settings with renewed credentials. Endpoints and regions in `settings` take precedence over those in `renewed`.

    Args:
        settings: The settings of a configuration. They keep their credentials for the providers without credentials in `renewed`.
        renewed: The settings that come with the credentials.
    """
    merged: dict[str, Mapping[str, Any]] = {}
    for provider in {**settings, **renewed}:
        own, new = settings.get(provider, {}), renewed.get(provider, {})
        merged[provider] = {**new, **(without_credentials(provider, own) if has_credentials(provider, new) else own)}
    return merged


def with_defaults(settings: Settings, defaults: Settings) -> dict[str, Mapping[str, Any]]:
    """Return settings, with those in `defaults` that they lack.

    Args:
        settings: The settings of a configuration. If they contain credentials for a provider, those in `defaults` are ignored.
        defaults: The defaults.
    """
    merged: dict[str, Mapping[str, Any]] = {}
    for provider in {**settings, **defaults}:
        own, new = settings.get(provider, {}), defaults.get(provider, {})
        merged[provider] = {**(without_credentials(provider, new) if has_credentials(provider, own) else new), **own}
    return merged
