"""Configuration of object stores: `storage_options` parsed once, for obstore, for Arrow's file systems and for Hadoop's file systems."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, NoReturn
from urllib.parse import urlsplit

from pyarrow.fs import AwsStandardS3RetryStrategy

from rowmerge.errors import ConfigurationError
from rowmerge.redaction import HIDDEN, hide
from rowmerge.storage.option_names import ALIASES, CLIENT_OPTIONS, METADATA_ONLY, PREFIXES, PROVIDERS, RETRY_OPTIONS, SECRETS, SETTINGS
from rowmerge.storage.retries import seconds_of, with_durations

logger = logging.getLogger(__name__)

DEFAULT_REGION = "us-east-1"
"""The region that obstore assumes."""
_NESTED_OPTIONS = {"config", "client_options", "retry_config", "credential_provider"}
"""The arguments of obstore's stores. As options, the first three are mappings of settings, and the last one is an object."""
_PROVIDER_OF_HOST = {
    ".amazonaws.com": "s3",
    ".r2.cloudflarestorage.com": "s3",
    ".core.windows.net": "azure",
    ".fabric.microsoft.com": "azure",
}


class FilesystemOptions(dict[str, dict[str, Any]]):
    """Arguments of Arrow's file systems, by provider (`s3`, `gs`, `azure`).

    Its repr hides all values. It is pickled as a plain dictionary, because executors do not have this class.

    `reader_options`: the options with which Spark's reader opens these stores, or nothing if the settings of the session apply.
    """

    reader_options: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return repr({provider: dict.fromkeys(arguments, HIDDEN) for provider, arguments in self.items()})

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (dict(self),)


@dataclass(frozen=True, repr=False)
class StorageConfiguration:
    """The credentials, endpoints, regions and client options of object stores.

    `settings` maps each provider (`s3`, `gs`, `azure`) to its settings, by obstore's names without the provider's prefix. `client_options`,
    `retry_config` and `credential_provider` have the form that obstore accepts.
    """

    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    client_options: Mapping[str, Any] = field(default_factory=dict)
    retry_config: Mapping[str, Any] = field(default_factory=dict)
    credential_provider: Any = None

    @staticmethod
    def parse(options: Mapping[str, Any]) -> StorageConfiguration:
        """Parse the option `storage_options` of a session: flat names with or without the provider's prefix, and obstore's nested mappings.

        `{"aws_region": "eu-west-1", "client_options": {"timeout": "30s"}}` has a flat name and a nested mapping. Names may have any case.
        A name with a prefix is a setting of one provider. A name without a prefix is a setting of every provider that has it. Options have
        three targets: the settings of providers, the options of the HTTP client, and the options of retries.

        Raises:
            ConfigurationError: A name is unknown, or two names of one setting have different values.
        """
        provider_settings, client_options, retry_options = _Settings(), _Settings(), _Settings()
        flat_options = {name: value for name, value in options.items() if name not in _NESTED_OPTIONS}
        # A flat name may mean a provider's setting or an option of the client, and so may a name in the mapping `config`.
        for name, value in (*flat_options.items(), *_nested_mapping(options, "config").items()):
            _add_option(name, value, provider_settings, client_options)
        # The other two mappings have only names of their own target.
        client_options.add_nested(options, "client_options", CLIENT_OPTIONS)
        retry_options.add_nested(options, "retry_config", RETRY_OPTIONS)
        retry_config = retry_options.values
        if "max_retries" in retry_config:
            retry_config["max_retries"] = int(retry_config["max_retries"])
        credential_provider = options.get("credential_provider")
        settings = provider_settings.by_provider()
        client, retries = with_durations(client_options.values), with_durations(retry_config)
        configuration = StorageConfiguration(settings, client, retries, credential_provider)
        configuration._warn_of_options_for_metadata_only()
        return configuration

    def __repr__(self) -> str:
        names = {provider: dict.fromkeys(settings, HIDDEN) for provider, settings in self.settings.items() if settings}
        return f"StorageConfiguration({names})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A StorageConfiguration holds credentials and cannot be pickled. Send `filesystem_options` instead.")

    @property
    def fingerprint(self) -> str:
        """A digest that differs between two configurations. It reveals no settings."""
        settings = [sorted(settings.items()) for _, settings in sorted(self.settings.items())]
        client = sorted(self.client_options.items()), sorted(self.retry_config.items(), key=str), id(self.credential_provider)
        return hashlib.sha256(repr((settings, client)).encode()).hexdigest()

    def without_secrets(self, text: str) -> str:
        """Return a string, such as an error message, with each secret of the configuration hidden."""
        return hide(text, (value for settings in self.settings.values() for key, value in settings.items() if key in SECRETS))

    def obstore_arguments(self, location: str) -> dict[str, Any]:
        """Return the keyword arguments of `obstore.store.from_url` for a location."""
        provider = provider_of(location)
        arguments: dict[str, Any] = {
            "config": dict(self.settings.get(provider or "", {})),
            "client_options": dict(self.client_options),
            "retry_config": dict(self.retry_config),
            "credential_provider": self.credential_provider if provider else None,
        }
        return {name: argument for name, argument in arguments.items() if argument}

    def filesystem_options(self) -> FilesystemOptions:
        """Return the arguments of Arrow's file systems that open the same stores.

        The environment supplies the region and endpoint of S3 if the configuration does not.
        """
        options = FilesystemOptions(s3=self._s3_arguments(), gs=self._gcs_arguments(), azure=self._azure_arguments())
        for provider in PROVIDERS:
            options[provider] = {name: argument for name, argument in options[provider].items() if argument is not None}
        return options

    def s3_endpoint(self) -> str | None:
        """Return the URL of the S3 service, or None for Amazon's own service."""
        return self.settings.get("s3", {}).get("endpoint") or _environment("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")

    def s3_region(self) -> str:
        """Return the region of the S3 service."""
        s3 = self.settings.get("s3", {})
        return s3.get("region") or s3.get("default_region") or _environment("AWS_REGION", "AWS_DEFAULT_REGION") or DEFAULT_REGION

    def is_true(self, provider: str, key: str) -> bool:
        """Return whether a boolean setting is true. Options may spell it as a string (`true`, `1`, `yes`, …).

        Args:
            provider: The provider of the setting: `s3`, `gs` or `azure`.
            key: The name of the setting in obstore, without the provider's prefix.
        """
        return str(self.settings.get(provider, {}).get(key, "")).lower() in ("true", "1", "yes", "on", "y", "t")

    def _warn_of_options_for_metadata_only(self) -> None:
        """Log a warning with the options that have no effect on data files.

        obstore reads and writes the metadata files of tables, and supports all options. Arrow and Spark read and write the data files, and
        have no argument for some of them.
        """
        names = {key for settings in self.settings.values() for key in settings} & METADATA_ONLY
        if self.credential_provider is not None:
            names.add("credential_provider")
        if names:
            logger.warning(
                "These storage options apply only to the metadata of tables: %s. For data files, set them in the environment of this "
                "process and of Spark's executors, or in the bucket.",
                ", ".join(sorted(names)),
            )

    def _s3_arguments(self) -> dict[str, Any]:
        """Return the arguments of `pyarrow.fs.S3FileSystem`. A value of None stands for the default of the argument."""
        s3 = self.settings.get("s3", {})
        scheme, host = _split_endpoint(self.s3_endpoint())
        retries = self.retry_config.get("max_retries")
        return {
            "access_key": s3.get("access_key_id"),
            "secret_key": s3.get("secret_access_key"),
            "session_token": s3.get("session_token"),
            "anonymous": self.is_true("s3", "skip_signature") or None,
            "region": self.s3_region(),
            "scheme": scheme,
            "endpoint_override": host,
            "force_virtual_addressing": (host is not None and self.is_true("s3", "virtual_hosted_style_request")) or None,
            "proxy_options": self.client_options.get("proxy_url"),
            "request_timeout": seconds_of(self.client_options, "timeout"),
            "connect_timeout": seconds_of(self.client_options, "connect_timeout"),
            "retry_strategy": None if retries is None else AwsStandardS3RetryStrategy(max_attempts=retries + 1),
        }

    def _gcs_arguments(self) -> dict[str, Any]:
        """Return the arguments of `pyarrow.fs.GcsFileSystem`."""
        gcs = self.settings.get("gs", {})
        scheme, host = _split_endpoint(gcs.get("base_url"))
        return {
            "anonymous": self.is_true("gs", "skip_signature") or None,
            "access_token": gcs.get("bearer_token"),
            "scheme": scheme,
            "endpoint_override": host,
        }

    def _azure_arguments(self) -> dict[str, Any]:
        """Return the arguments of `pyarrow.fs.AzureFileSystem`."""
        azure = self.settings.get("azure", {})
        account = azure.get("account_name") or _environment("AZURE_STORAGE_ACCOUNT_NAME")
        scheme, host = _split_endpoint(azure.get("endpoint"))
        # Arrow adds the account to an authority that begins with a dot: `acc.blob.core.windows.net` becomes `.blob.core.windows.net`.
        # It adds the account to the path of any other authority, such as `127.0.0.1:10000` of an emulator.
        authority = None if host is None else host.removeprefix(account or "")
        sas_token = azure.get("sas_key")
        if sas_token:
            sas_token = f"?{sas_token.removeprefix('?')}"  # Arrow appends the token to URLs unchanged
        return {
            "account_name": account,
            "account_key": azure.get("account_key"),
            "sas_token": sas_token,
            **{name: azure.get(name) for name in ("client_id", "client_secret", "tenant_id")},
            "blob_storage_authority": authority,
            "dfs_storage_authority": authority and authority.replace(".blob.", ".dfs."),
            "blob_storage_scheme": scheme,
            "dfs_storage_scheme": scheme,
        }


def provider_of(location: str) -> str | None:
    """Return the provider (`s3`, `gs`, `azure`) of a location, or None for a local disk and for other HTTP servers."""
    scheme, _, host_and_path = location.partition("://")
    if scheme.lower() in ("http", "https"):
        host = host_and_path.partition("/")[0].partition(":")[0].lower()
        return next((provider for suffix, provider in _PROVIDER_OF_HOST.items() if host.endswith(suffix)), None)
    return next((provider for provider, schemes in PROVIDERS.items() if scheme.lower() in schemes), None)


class _Settings:
    """A collection of settings from options. Several option names may mean the same setting."""

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}
        self._names: dict[Any, str] = {}

    def add(self, key: object, name: str, value: object) -> None:
        """Add the setting `key`. Raises ConfigurationError if another option name gave it another value."""
        if key in self.values and str(self.values[key]).lower() != str(value).lower():
            raise ConfigurationError(
                f"storage_options has {self._names[key]!r} and {name!r}, which mean the same setting, with different values. Remove one."
            )
        self.values[key], self._names[key] = value, name

    def add_nested(self, options: Mapping[str, Any], mapping_name: str, valid_names: frozenset[str]) -> None:
        """Add the entries of a nested mapping. Raises ConfigurationError for an unknown name."""
        for name, value in _nested_mapping(options, mapping_name).items():
            if name not in valid_names:
                raise ConfigurationError(_unknown_name_message(name, f"storage_options.{mapping_name}", valid_names))
            self.add(name, name, value)

    def by_provider(self) -> dict[str, dict[str, Any]]:
        """Return the settings of each provider. The keys of the collection must be pairs of provider and setting."""
        return {provider: {key: value for (owner, key), value in self.values.items() if owner == provider} for provider in PROVIDERS}


def _add_option(name: str, value: object, settings: _Settings, client_options: _Settings) -> None:
    """Add a flat option to the settings of each provider that has it, and to the client options if it is one."""
    client_option = re.sub(r"^(aws|azure|google)_", "", name.lower())
    setting_keys = list(_setting_keys(name.lower()))
    if client_option in CLIENT_OPTIONS:
        client_options.add(client_option, name, value)
    elif not setting_keys:
        raise ConfigurationError(_unknown_name_message(name))
    for key in setting_keys:
        settings.add(key, name, value if isinstance(value, bool) else str(value))


def _setting_keys(name: str) -> Iterator[tuple[str, str]]:
    """Yield provider and setting for each provider that has an option of this name, which is in lower case."""
    for provider, prefixes in PREFIXES.items():
        bare_names = [name.removeprefix(prefix) for prefix in prefixes if name.startswith(prefix)]
        keys = [ALIASES[provider].get(bare_name, bare_name) for bare_name in bare_names]
        yield from [(provider, key) for key in keys if key in SETTINGS[provider]][:1]


def _nested_mapping(options: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return one of obstore's nested mappings, or an empty one if it is missing.

    Raises ConfigurationError if the option is not a mapping.
    """
    nested = options.get(name) or {}
    if not isinstance(nested, Mapping):
        raise ConfigurationError(f"{name!r} in storage_options must be a mapping of names to values.")
    return nested


def _unknown_name_message(name: str, place: str = "storage_options", names: Iterable[str] | None = None) -> str:
    """Return the message for an unknown option, with similar names."""
    if names is None:
        prefixed = [f"{prefixes[0]}{key}" for provider, prefixes in PREFIXES.items() for key in SETTINGS[provider]]
        names = [*prefixed, *(key for keys in SETTINGS.values() for key in keys), *CLIENT_OPTIONS, *_NESTED_OPTIONS]
    similar_names = get_close_matches(name.lower(), sorted(set(names)), n=2, cutoff=0.6)
    advice = "Remove it, or use a name from the documentation of obstore."
    if similar_names:
        advice = f"Did you mean {' or '.join(map(repr, similar_names))}?"
    return f"{place} has the unknown name {name!r}. {advice}"


def _split_endpoint(url: str | None) -> tuple[str | None, str | None]:
    """Return the scheme of an endpoint, and its host with port and path."""
    if not url:
        return None, None
    parts = urlsplit(url if "://" in url else f"https://{url}")
    return parts.scheme, f"{parts.netloc}{parts.path.rstrip('/')}"


def _environment(*names: str) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)
