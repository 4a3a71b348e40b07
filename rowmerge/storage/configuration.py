"""Configuration of object stores: `storage_options` parsed once, for obstore, for Arrow's file systems and for Hadoop's file systems."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn
from urllib.parse import urlsplit

from pyarrow.fs import AwsStandardS3RetryStrategy

from rowmerge.errors import ConfigurationError
from rowmerge.redaction import HIDDEN, hide
from rowmerge.storage.credentials import AwsSource, KeysWithoutToken, aws_renewal, environment, fetch_provided, with_environment
from rowmerge.storage.option_names import (
    CLIENT_OPTIONS,
    METADATA_ONLY,
    NESTED_OPTIONS,
    OWN_SETTINGS,
    PROVIDERS,
    RETRY_OPTIONS,
    SECRETS,
    OptionSettings,
    add_option,
    is_true,
    nested_mapping,
)
from rowmerge.storage.renewal import Renewal, has_credentials, with_credentials, without_credentials
from rowmerge.storage.retries import parse_client_options, parse_retry_options, seconds_of

logger = logging.getLogger(__name__)

ENDS = "ends_at"
"""The key of pickled options under which executors find the time at which credentials end, by provider."""
DEFAULT_REGION = "us-east-1"
"""The region that obstore assumes."""
_NOT_OF_OBSTORE = frozenset().union(*OWN_SETTINGS.values())
_TIMEOUTS = {"request": "timeout", "connect": "connect_timeout"}
"""The option of the HTTP client that sets each timeout of Arrow's file system for S3. Arrow's names end with `_timeout`."""
_PROVIDER_OF_HOST = {
    ".amazonaws.com": "s3",
    ".r2.cloudflarestorage.com": "s3",
    ".core.windows.net": "azure",
    ".fabric.microsoft.com": "azure",
}


_CLIENT_METADATA_ONLY = {"allow_invalid_certificates", "default_headers", "proxy_ca_certificate", "proxy_excludes", "root_certificate"}
"""The options of the HTTP client that obstore has, but neither Arrow nor hadoop-aws."""


@dataclass(frozen=True, repr=False)
class StorageConfiguration:
    """The credentials, endpoints, regions and client options of object stores.

    `settings` maps each provider (`s3`, `gs`, `azure`) to its settings, by obstore's names without the provider's prefix. `client_options`
    and `retry_config` have the form that obstore accepts. `provided`: the credentials of the `credential_provider` in the options.
    `vended`: the credentials that a catalog sends for one table.
    """

    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    client_options: Mapping[str, Any] = field(default_factory=dict)
    retry_config: Mapping[str, Any] = field(default_factory=dict)
    provided: Renewal | None = None
    vended: Renewal | None = None

    @staticmethod
    def parse(options: Mapping[str, Any]) -> StorageConfiguration:
        """Parse the option `storage_options` of a session: flat names with or without the provider's prefix, and obstore's nested mappings.

        `{"aws_region": "eu-west-1", "client_options": {"timeout": "30s"}}` has a flat name and a nested mapping. Names may have any case.
        Options without a value (None or an empty string) count as missing.
        A name with a prefix is a setting of one provider. A name without a prefix is a setting of every provider that has it. Options have
        three targets: the settings of providers, the options of the HTTP client, and the options of retries.

        Raises:
            ConfigurationError: A name is unknown, a value is invalid, or two names of one setting have different values.
        """
        provider_settings, client_options, retry_options = OptionSettings(), OptionSettings(), OptionSettings()
        flat_options = {name: value for name, value in options.items() if name not in NESTED_OPTIONS}
        # A flat name may mean a provider's setting or an option of the client, and so may a name in the mapping `config`.
        for name, value in (*flat_options.items(), *nested_mapping(options, "config").items()):
            add_option(name, value, provider_settings, client_options)
        # The other two mappings have only names of their own target.
        client_options.add_nested(options, "client_options", CLIENT_OPTIONS)
        retry_options.add_nested(options, "retry_config", RETRY_OPTIONS)
        client, retries = parse_client_options(client_options.values), parse_retry_options(retry_options.values)
        provider = options.get("credential_provider")
        provided = Renewal(partial(fetch_provided, provider)) if provider else None
        configuration = StorageConfiguration(provider_settings.by_provider(), client, retries, provided)
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
        client = sorted(self.client_options.items()), sorted(self.retry_config.items(), key=str), id(self.provided), id(self.vended)
        return hashlib.sha256(repr((settings, client)).encode()).hexdigest()

    def without_secrets(self, text: str) -> str:
        """Return a string, such as an error message, with each secret of the configuration hidden."""
        renewals = (self.vended, self._own_renewal("s3", is_used=True))
        sources = [self.settings, *(renewal.latest for renewal in renewals if renewal is not None)]
        values = (value for source in sources for settings in source.values() for key, value in settings.items() if key in SECRETS)
        return hide(text, values)

    def current(self, provider: str, *, is_used: bool, is_steady: bool = False) -> dict[str, Any]:
        """Return the settings of a provider with credentials that have not ended. For S3, the environment supplies what is missing.

        Args:
            provider: The provider: `s3`, `gs` or `azure`.
            is_used: Whether files of the provider are used for certain. Otherwise, only options and variables with keys count, and no
                further source of keys is searched.
            is_steady: Whether vended credentials stay the same until shortly before their end (see `Renewal.steady_settings`).

        Raises:
            ConfigurationError: The source of credentials that the options name gives none.
        """
        settings = self.settings.get(provider, {})
        renewed = {} if self.vended is None else self.vended.steady_settings() if is_steady else self.vended.settings()
        vended = renewed.get(provider, {})
        is_vended = has_credentials(provider, vended)
        settings = {**vended, **(without_credentials(provider, settings) if is_vended else settings)}
        if provider == "s3":
            settings = with_environment(settings)
        renewal = None if is_vended else self._own_renewal(provider, is_used=is_used)
        return settings if renewal is None else dict(with_credentials({provider: settings}, renewal.settings()).get(provider, {}))

    def ends_at(self, provider: str, *, is_used: bool) -> float | None:
        """Return the time at which the present credentials for a provider end, in seconds since the epoch, or None if it is unknown.

        Args:
            provider: The provider: `s3`, `gs` or `azure`.
            is_used: See `current`.
        """
        is_vended = self.vended is not None and has_credentials(provider, self.vended.latest.get(provider, {}))
        renewal = self.vended if is_vended else self._own_renewal(provider, is_used=is_used)
        return None if renewal is None else renewal.ends_at

    def _own_renewal(self, provider: str, *, is_used: bool) -> Renewal | None:
        """Return the source of credentials that the options or the environment name, or None."""
        source = self._aws_source(provider)
        if self.provided is not None or source is None:
            return self.provided
        return aws_renewal(source) if is_used or not source.is_implicit else None

    def _aws_source(self, provider: str) -> AwsSource | None:
        return AwsSource.of(with_environment(self.settings.get("s3", {}))) if provider == "s3" else None

    def is_left_to_hadoop(self, provider: str) -> bool:
        """Return whether nothing configures a provider, so that Hadoop finds the same keys itself: those of the instance or container."""
        source = self._aws_source(provider)
        has_options = self.settings.get(provider) or self.provided or self.vended
        return not has_options and source is not None and source.is_implicit and not source.is_named

    def has_changing_credentials(self, provider: str) -> bool:
        """Return whether the credentials for a provider may be renewed."""
        return self.vended is not None or self.provided is not None or self._aws_source(provider) is not None

    def obstore_arguments(self, location: str) -> dict[str, Any]:
        """Return the keyword arguments of `obstore.store.from_url` for a location. They are equal as long as the keys are.

        Raises:
            ConfigurationError: The location is in HDFS or in another store that obstore does not support.
        """
        provider = provider_of(location)
        if provider is None:
            check_scheme(location)
        settings = {} if provider is None else self.current(provider, is_used=True)
        client_options = dict(self.client_options)
        endpoint = settings.get("endpoint") or settings.get("base_url")
        if endpoint and endpoint.startswith("http://"):
            client_options.setdefault("allow_http", True)
        if provider == "s3" and endpoint and is_true(settings.get("virtual_hosted_style_request")):
            settings["endpoint"] = _bucket_endpoint(endpoint, location)
        is_signed = provider == "s3" and "access_key_id" in settings and not is_true(settings.get("skip_signature"))
        if is_signed:
            settings["skip_signature"] = "false"  # obstore reads each missing setting from the environment
        arguments = {
            "config": {name: value for name, value in settings.items() if name not in _NOT_OF_OBSTORE},
            "client_options": client_options,
            "retry_config": dict(self.retry_config),
            "credential_provider": KeysWithoutToken.of(settings) if is_signed else None,
        }
        return {name: argument for name, argument in arguments.items() if argument}

    def filesystem_options(self, location: str = "") -> FilesystemOptions:
        """Return the arguments of Arrow's file systems that open the same stores.

        `location`: A location in the store that is used for certain.
        """
        return FilesystemOptions(self, location)

    def _warn_of_options_for_metadata_only(self) -> None:
        """Log a warning with the options that have no effect on data files.

        obstore reads and writes the metadata files of tables, and supports all options. Arrow and Spark read and write the data files, and
        have no argument for some of them.
        """
        names = {key for settings in self.settings.values() for key in settings} & METADATA_ONLY
        names |= self.client_options.keys() & _CLIENT_METADATA_ONLY
        if names:
            logger.warning(
                "These storage options apply only to the metadata of tables: %s. For data files, set them in the environment of this "
                "process and of Spark's executors, or in the bucket.",
                ", ".join(sorted(names)),
            )


class FilesystemOptions(Mapping[str, dict[str, Any]]):
    """Arguments of Arrow's file systems, by provider (`s3`, `gs`, `azure`). Each access returns credentials that have not ended.

    Its repr hides all values. It is pickled as a dictionary with the present credentials, because executors do not have this class.
    """

    def __init__(self, configuration: StorageConfiguration | None = None, location: str = "") -> None:
        """Initialize the options. `location`: A location in the store that is used for certain."""
        self.configuration = StorageConfiguration() if configuration is None else configuration
        self._used_provider = provider_of(location)

    def settings_of(self, provider: str, *, is_steady: bool = False) -> dict[str, Any]:
        """Return the present settings of a provider (see `StorageConfiguration.current`)."""
        return self.configuration.current(provider, is_used=provider == self._used_provider, is_steady=is_steady)

    @property
    def identity(self) -> tuple[str, ...]:
        """The identity of the present credentials, if they may change. It reveals none of them."""
        provider = self._used_provider
        if provider is None or not self.configuration.has_changing_credentials(provider):
            return ()
        settings = self.settings_of(provider, is_steady=True)
        return (hashlib.sha256(repr(sorted(settings.items())).encode()).hexdigest(),)

    def __getitem__(self, provider: str) -> dict[str, Any]:
        arguments = _ARGUMENTS[provider](self.settings_of(provider))
        if provider == "s3":
            client, retries = self.configuration.client_options, self.configuration.retry_config.get("max_retries")
            arguments["proxy_options"] = client.get("proxy_url")
            arguments |= {f"{name}_timeout": seconds_of(client, option) for name, option in _TIMEOUTS.items()}
            arguments["retry_strategy"] = None if retries is None else AwsStandardS3RetryStrategy(max_attempts=retries + 1)
        return {name: argument for name, argument in arguments.items() if argument is not None}

    def __iter__(self) -> Iterator[str]:
        return iter(PROVIDERS)

    def __len__(self) -> int:
        return len(PROVIDERS)

    def __repr__(self) -> str:
        return f"FilesystemOptions({self.configuration!r})"

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        arguments = dict(self)
        ends = {provider: self.configuration.ends_at(provider, is_used=provider == self._used_provider) for provider in self}
        known_ends = {provider: end for provider, end in ends.items() if end is not None}
        return dict, ({**arguments, **({ENDS: known_ends} if known_ends else {})},)


def provider_of(location: str) -> str | None:
    """Return the provider (`s3`, `gs`, `azure`) of a location, or None for a local disk and for other HTTP servers."""
    scheme, _, host_and_path = location.partition("://")
    if scheme.lower() in ("http", "https"):
        host = host_and_path.partition("/")[0].partition(":")[0].lower()
        return next((provider for suffix, provider in _PROVIDER_OF_HOST.items() if host.endswith(suffix)), None)
    return next((provider for provider, schemes in PROVIDERS.items() if scheme.lower() in schemes), None)


def _split_endpoint(url: str | None) -> tuple[str | None, str | None]:
    """Return the scheme of an endpoint, and its host with port and path."""
    if not url:
        return None, None
    parts = urlsplit(url if "://" in url else f"https://{url}")
    return parts.scheme, f"{parts.netloc}{parts.path.rstrip('/')}"


def region_of(s3: Mapping[str, Any]) -> str:
    """Return the region in settings of S3, or the one that obstore assumes."""
    return str(s3.get("region") or s3.get("default_region") or DEFAULT_REGION)


def _bucket_endpoint(endpoint: str, location: str) -> str:
    """Return the address of a bucket with an own host name, as obstore expects it: `https://lake.store` for `https://store`."""
    bucket = location.partition("://")[2].partition("/")[0]
    scheme, _, host = endpoint.partition("://")
    return endpoint if host.startswith(f"{bucket}.") else f"{scheme}://{bucket}.{host}"


def _s3_arguments(s3: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `pyarrow.fs.S3FileSystem`. A value of None stands for the default of the argument."""
    scheme, host = _split_endpoint(s3.get("endpoint"))
    return {
        "access_key": s3.get("access_key_id"),
        "secret_key": s3.get("secret_access_key"),
        "session_token": s3.get("session_token"),
        "anonymous": is_true(s3.get("skip_signature")) or None,
        "region": region_of(s3),
        "scheme": scheme,
        "endpoint_override": host,
        "force_virtual_addressing": (host is not None and is_true(s3.get("virtual_hosted_style_request"))) or None,
    }


def _gcs_arguments(gcs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `pyarrow.fs.GcsFileSystem`."""
    scheme, host = _split_endpoint(gcs.get("base_url"))
    return {
        "anonymous": is_true(gcs.get("skip_signature")) or None,
        "access_token": gcs.get("bearer_token"),
        "scheme": scheme,
        "endpoint_override": host,
    }


def _azure_arguments(azure: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `pyarrow.fs.AzureFileSystem`."""
    account = azure.get("account_name") or environment("AZURE_STORAGE_ACCOUNT_NAME")
    scheme, host = _split_endpoint(azure.get("endpoint"))
    # Arrow adds the account to an authority that begins with a dot: `acc.blob.core.windows.net` becomes `.blob.core.windows.net`.
    # It adds the account to the path of any other authority: `127.0.0.1:10000` for `127.0.0.1:10000/acc` of an emulator.
    authority = None if host is None else host.removeprefix(account or "").removesuffix(f"/{account}")
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


_ARGUMENTS = {"s3": _s3_arguments, "gs": _gcs_arguments, "azure": _azure_arguments}


def check_scheme(location: str) -> None:
    """Check that obstore has a client for the scheme of a location that is not on a disk.

    Raises:
        ConfigurationError: It has none, as for HDFS. The message does not repeat the location, which may contain credentials.
    """
    scheme = location.partition("://")[0].lower()
    if provider_of(location) is None and scheme not in ("http", "https"):
        problem = f"rowmerge does not support locations at {scheme}://, because its commits need conditional puts or atomic links"
        alternatives = "a folder on a disk, s3://, gs:// or abfss://, or an Iceberg catalog whose tables are there"
        raise ConfigurationError(f"{problem}. Use {alternatives}. Models can read files in other stores with Spark's own formats.")
