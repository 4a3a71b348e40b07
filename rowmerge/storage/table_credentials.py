"""Credentials that a catalog vends for the files of one table, and renews before they expire."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rowmerge.storage.configuration import FilesystemOptions, StorageConfiguration
from rowmerge.storage.hadoop import hadoop_settings

Settings = Mapping[str, Mapping[str, Any]]
"""The settings of each provider (`s3`, `gs`, `azure`), as in `StorageConfiguration.settings`."""
_CREDENTIALS = {
    "s3": ("access_key_id", "secret_access_key", "session_token", "skip_signature"),
    "gs": ("bearer_token", "service_account", "service_account_key", "application_credentials", "skip_signature"),
    "azure": ("account_key", "sas_key", "client_id", "client_secret", "tenant_id", "skip_signature"),
}
_RENEWED_BEFORE = 60.0
"""The number of seconds before the end of credentials at which they are renewed."""
_UNCACHED = {f"fs.{scheme}.impl.disable.cache": "true" for scheme in ("s3", "s3a", "s3n", "gs", "abfs", "abfss")}
"""Settings with which Hadoop opens a file system for each job. Otherwise, the first credentials for a bucket stay in use."""


class TableCredentials:
    """The configuration of one table's storage, with credentials that change. Thread-safe."""

    def __init__(self, session: StorageConfiguration, defaults: Settings, reload: Callable[[], object] = lambda: None) -> None:
        """Initialize the credentials.

        Args:
            session: The configuration of the session.
            defaults: The settings for which the session has none of its own.
            reload: A function that loads the table again, and passes its credentials to `update`.
        """
        self._base = with_defaults(session, defaults)
        self._current, self._reload = self._base, reload
        self._expires_at = float("inf")
        self._lock = threading.Lock()
        self._filesystem_options = FilesystemOptions()
        self._fill_options()

    def update(self, settings: Settings, expires_at: float | None) -> None:
        """Use other credentials from now on.

        Args:
            settings: The settings that the catalog vends. Without credentials for a provider, those of the session apply.
            expires_at: The time at which they expire, in seconds since the epoch, or None if it is unknown.
        """
        with self._lock:
            self._expires_at = float("inf") if expires_at is None else expires_at
            updated = with_credentials(self._base, settings)
            if updated.fingerprint != self._current.fingerprint:
                self._current = updated
                self._fill_options()

    @property
    def configuration(self) -> StorageConfiguration:
        """The configuration with credentials that have not expired, as far as the time of their end is known."""
        if time.time() > self._expires_at - _RENEWED_BEFORE:
            # While the table is loaded, neither the load itself nor another thread loads it again.
            expires_at, self._expires_at = self._expires_at, float("inf")
            try:
                self._reload()
            except BaseException:
                self._expires_at = expires_at
                raise
        return self._current

    @property
    def filesystem_options(self) -> FilesystemOptions:
        """The arguments of Arrow's file systems. The object is always the same one, and `update` changes its content."""
        return self._filesystem_options

    def _fill_options(self) -> None:
        self._filesystem_options.update(self._current.filesystem_options())
        self._filesystem_options.reader_options = {**hadoop_settings(self._current), **_UNCACHED}


def with_credentials(configuration: StorageConfiguration, settings: Settings) -> StorageConfiguration:
    """Return a configuration with the credentials in `settings`. Its own endpoints and regions take precedence over those in `settings`.

    Args:
        configuration: The configuration. It keeps its credentials for the providers without credentials in `settings`.
        settings: The settings of providers.
    """
    merged: dict[str, Mapping[str, Any]] = {}
    for provider, own in _pairs(configuration, settings):
        new = settings.get(provider, {})
        merged[provider] = {**new, **(_without_credentials(provider, own) if _has_credentials(provider, new) else own)}
    return replace(_with_settings(configuration, merged), credential_provider=None)


def with_defaults(configuration: StorageConfiguration, settings: Settings) -> StorageConfiguration:
    """Return a configuration that has settings of providers if it has no such settings of its own.

    Args:
        configuration: The configuration. If it has credentials for a provider, those in `settings` are ignored.
        settings: The settings of providers.
    """
    merged: dict[str, Mapping[str, Any]] = {}
    for provider, own in _pairs(configuration, settings):
        new = settings.get(provider, {})
        merged[provider] = {**(_without_credentials(provider, new) if _has_credentials(provider, own) else new), **own}
    return _with_settings(configuration, merged)


def _pairs(configuration: StorageConfiguration, settings: Settings) -> list[tuple[str, Mapping[str, Any]]]:
    """Return each provider that either of the two has, with its settings in the configuration."""
    return [(provider, configuration.settings.get(provider, {})) for provider in {**configuration.settings, **settings}]


def _with_settings(configuration: StorageConfiguration, settings: Settings) -> StorageConfiguration:
    is_http = any(str(values.get("endpoint", "")).startswith("http://") for values in settings.values())
    client_options = {**configuration.client_options, **({"allow_http": True} if is_http else {})}
    return replace(configuration, settings=settings, client_options=client_options)


def _has_credentials(provider: str, settings: Mapping[str, Any]) -> bool:
    return any(name in settings for name in _CREDENTIALS[provider])


def _without_credentials(provider: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in _CREDENTIALS[provider]}
