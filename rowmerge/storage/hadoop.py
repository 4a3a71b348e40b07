"""Settings of Hadoop's file systems for Spark, from the same configuration as obstore's stores and Arrow's file systems."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from rowmerge.storage.configuration import FilesystemOptions, StorageConfiguration, region_of
from rowmerge.storage.option_names import PROVIDERS, is_true
from rowmerge.storage.renewal import has_credentials
from rowmerge.storage.retries import seconds_of

_S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_S3_CREDENTIALS = "org.apache.hadoop.fs.s3a."
_FEW_THREADS = {"fs.s3a.threads.keepalivetime": "5s", "fs.s3a.input.stream.type": "classic"}
"""The file system of earlier keys stays open in the JVM, so it has few threads. The default stream starts twelve, which never end."""
S3_SCHEMES = {"fs.s3.impl": _S3A, "fs.s3n.impl": _S3A}
"""The settings with which Spark opens s3:// and s3n://. Hadoop itself has file systems for s3a:// only."""
READER_MARK = "-rowmerge-"
_READER_SCHEME = re.compile(rf"{READER_MARK}[0-9a-f]{{16}}(?=:)")
_session_digests: dict[str, set[str]] = {provider: set() for provider in PROVIDERS}
"""The digests of the settings of all sessions of this process, by provider."""
_session_names: dict[str, set[str]] = {provider: set() for provider in PROVIDERS}
"""The names of the settings of all sessions of this process, by provider."""
_DEFAULTS = {
    "fs.azure.account.auth.type": "SharedKey",
    "fs.gs.storage.root.url": "https://storage.googleapis.com/",
    "fs.s3a.attempts.maximum": "5",
    "fs.s3a.aws.credentials.provider": (
        "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,"
        "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider,"
        "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"
    ),
    "fs.s3a.connection.establish.timeout": "30s",
    "fs.s3a.connection.ssl.enabled": "true",
    "fs.s3a.connection.timeout": "200s",
    "fs.s3a.path.style.access": "false",
    "fs.s3a.proxy.port": "-1",
    "fs.s3a.proxy.ssl.enabled": "false",
    "fs.s3a.retry.limit": "7",
    "fs.s3a.retry.throttle.limit": "20",
}
"""The defaults of Hadoop 3.5 (`core-default.xml`). The default of the other settings is an empty string."""
_AUTHORITY = "https://login.microsoftonline.com"


def hadoop_settings(configuration: StorageConfiguration) -> dict[str, str]:
    """Return Hadoop's settings (`fs.s3a.access.key`, …) for each provider that has options, or variables in the environment.

    Timeouts, retries and the proxy are settings of S3 alone, also without any other option.

    Sources: the documentation of hadoop-aws, of hadoop-azure (ABFS) and of Google's Cloud Storage connector.
    """
    settings = _texts(_limits(configuration))
    for provider in PROVIDERS:
        # Without options, Hadoop itself looks for the keys of files that do not belong to tables.
        if provider_settings := configuration.current(provider, is_used=False):
            settings |= provider_hadoop_settings(provider, provider_settings, configuration)
    if not configuration.settings.get("s3"):  # a managed Spark may have another file system for s3://
        return {name: value for name, value in settings.items() if name not in S3_SCHEMES}
    return settings


@dataclass(frozen=True, repr=False)
class ReaderAccess:
    """The options with which Spark's reader opens files, and the paths under which it does.

    Hadoop keeps one open file system for each scheme, bucket and user in a JVM, with the keys of its first use. So each set of keys for S3
    that is not that of the session gets a scheme of its own, such as `s3-rowmerge-0123456789abcdef`.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    suffix: str = ""

    def reader_path(self, path: str) -> str:
        """Return the path under which Spark's reader opens a file."""
        scheme, separator, bucket_and_key = path.partition("://")
        return f"{scheme}{self.suffix}{separator}{bucket_and_key}" if scheme in PROVIDERS["s3"] else path

    def original_sql(self, sql: str) -> str:
        """Return SQL whose result has the scheme of the table. `sql`: SQL that has a path of Spark's reader at its beginning."""
        path, _, name = sql.partition(" as ")
        return f"replace({path}, '{self.suffix}:', ':') as {name}" if self.suffix and path.endswith(".file_path") else sql


def without_reader_scheme(text: str) -> str:
    """Return a text in which paths have the scheme of their table instead of one of Spark's reader."""
    return _READER_SCHEME.sub("", text)


def register_session(configuration: StorageConfiguration) -> None:
    """Remember the settings of a session, which Spark's reader uses without options as long as all sessions have the same ones."""
    for provider in PROVIDERS:
        if settings := configuration.current(provider, is_used=False):
            session_settings = provider_hadoop_settings(provider, settings, configuration)
            _session_digests[provider].add(_digest(session_settings))
            _session_names[provider] |= session_settings.keys()


def reader_access(options: FilesystemOptions, paths: Iterable[str], *, is_shared: bool) -> ReaderAccess:
    """Return the access of Spark's reader to files: that of the session, or options with the credentials of a table.

    Args:
        options: The arguments of Arrow's file systems for the same files.
        paths: The absolute paths of the files.
        is_shared: Whether other processes use the same JVM, with settings that this process does not know.
    """
    schemes = {path.partition("://")[0].lower() for path in paths}
    reader_options: dict[str, str] = {}
    suffix = ""
    for provider in (provider for provider, names in PROVIDERS.items() if not schemes.isdisjoint(names)):
        settings = options.settings_of(provider, is_steady=True)
        is_left_to_hadoop = not settings or options.configuration.is_left_to_hadoop(provider)
        if is_left_to_hadoop and not _session_names[provider]:
            continue
        own = {} if is_left_to_hadoop else provider_hadoop_settings(provider, settings, options.configuration)
        digest = _digest(own)
        is_constant = not options.configuration.has_changing_credentials(provider) or not has_credentials(provider, settings)
        if is_constant and _session_digests[provider] == {digest} and not is_shared:
            continue
        # Spark's session may have settings of another session of this process, such as its endpoint.
        other_names = _session_names[provider] - own.keys() - S3_SCHEMES.keys()
        reader_options |= {name: _DEFAULTS.get(name, "") for name in other_names} | own
        if provider == "s3":
            suffix = f"{READER_MARK}{digest}"
            reader_options |= {f"fs.{scheme}{suffix}.impl": _S3A for scheme in PROVIDERS["s3"]} | _FEW_THREADS
        else:  # their file systems do not accept other schemes
            reader_options |= {f"fs.{scheme}.impl.disable.cache": "true" for scheme in PROVIDERS[provider]}
    return ReaderAccess(reader_options, suffix)


def _digest(settings: Mapping[str, str]) -> str:
    return hashlib.sha256(repr(sorted(settings.items())).encode()).hexdigest()[:16]


def provider_hadoop_settings(provider: str, settings: Mapping[str, Any], configuration: StorageConfiguration) -> dict[str, str]:
    """Return Hadoop's settings for one provider.

    Args:
        provider: The provider: `s3`, `gs` or `azure`.
        settings: The settings of the provider, from `StorageConfiguration.current`.
        configuration: The configuration, with the timeouts and retries of all providers.
    """
    values = {"s3": _s3_settings, "gs": _gcs_settings, "azure": _azure_settings}[provider](settings)
    if provider == "s3":
        values |= _limits(configuration)
    return _texts(values)


def _texts(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return settings without those that are None, in Hadoop's spelling of booleans and numbers."""
    return {name: value if isinstance(value, str) else str(value).lower() for name, value in settings.items() if value is not None}


def _s3_settings(s3: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of hadoop-aws. A value of None stands for the default of the setting."""
    endpoint = s3.get("endpoint")
    # A custom endpoint usually has no host name for each bucket, so the bucket is part of the path.
    path_style = None if endpoint is None else not is_true(s3.get("virtual_hosted_style_request"))
    uses_tls = None if endpoint is None else not endpoint.startswith("http://")
    return {
        **S3_SCHEMES,
        "fs.s3a.aws.credentials.provider": _s3_credentials_provider(s3),
        "fs.s3a.access.key": s3.get("access_key_id"),
        "fs.s3a.secret.key": s3.get("secret_access_key"),
        "fs.s3a.session.token": s3.get("session_token"),
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.endpoint.region": region_of(s3),
        "fs.s3a.path.style.access": path_style,
        "fs.s3a.connection.ssl.enabled": uses_tls,
    }


def _limits(configuration: StorageConfiguration) -> dict[str, Any]:
    """Return the timeouts, the retries and the proxy of hadoop-aws. A value of None stands for the default of the setting."""
    timeouts = {name: seconds_of(configuration.client_options, name) for name in ("timeout", "connect_timeout")}
    timeout, connect_timeout = (None if seconds is None else f"{seconds * 1000:.0f}ms" for seconds in timeouts.values())
    retries = configuration.retry_config.get("max_retries")
    return {
        "fs.s3a.connection.timeout": timeout,
        "fs.s3a.connection.establish.timeout": connect_timeout,
        "fs.s3a.attempts.maximum": retries,
        "fs.s3a.retry.limit": retries,
        "fs.s3a.retry.throttle.limit": retries,
        **_proxy(configuration.client_options.get("proxy_url")),
    }


def _proxy(url: str | None) -> dict[str, Any]:
    """Return the settings of hadoop-aws for a proxy, such as `http://user:password@proxy:3128`."""
    if not url:
        return {}
    proxy = urlsplit(url)
    return {
        "fs.s3a.proxy.host": proxy.hostname,
        "fs.s3a.proxy.port": proxy.port,
        "fs.s3a.proxy.username": proxy.username and unquote(proxy.username),
        "fs.s3a.proxy.password": proxy.password and unquote(proxy.password),
        "fs.s3a.proxy.ssl.enabled": True if proxy.scheme == "https" else None,
    }


def _s3_credentials_provider(s3: Mapping[str, Any]) -> str | None:
    """Return the name of the class that provides the credentials for hadoop-aws, or None for the default chain."""
    if is_true(s3.get("skip_signature")):
        return f"{_S3_CREDENTIALS}AnonymousAWSCredentialsProvider"
    if "access_key_id" not in s3:
        return None
    return f"{_S3_CREDENTIALS}{'Temporary' if 'session_token' in s3 else 'Simple'}AWSCredentialsProvider"


def _gcs_settings(gcs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of Google's Cloud Storage connector. A value of None stands for the default of the setting.

    The key of a service account is in a file, or is JSON text in the configuration itself. The connector reads a file only with the
    authentication type SERVICE_ACCOUNT_JSON_KEYFILE. It has no authentication type for JSON text, but a setting for each field of the key.
    """
    key_file = gcs.get("service_account") or gcs.get("application_credentials")
    auth_type: str | None = key_file  # without a key file, None for the default; an empty path sets an empty type
    if is_true(gcs.get("skip_signature")):
        auth_type = "UNAUTHENTICATED"
    elif key_file:
        auth_type = "SERVICE_ACCOUNT_JSON_KEYFILE"
    key = json.loads(gcs["service_account_key"]) if "service_account_key" in gcs else {}
    return {
        "fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "fs.gs.auth.type": auth_type,
        "fs.gs.auth.service.account.json.keyfile": key_file,
        "fs.gs.auth.service.account.email": key.get("client_email"),
        "fs.gs.auth.service.account.private.key.id": key.get("private_key_id"),
        "fs.gs.auth.service.account.private.key": key.get("private_key"),
        "fs.gs.storage.root.url": gcs.get("base_url"),
    }


def _azure_settings(azure: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of hadoop-azure. Their names contain no account, so they apply to every account without its own settings."""
    if "account_key" in azure:
        return {"fs.azure.account.auth.type": "SharedKey", "fs.azure.account.key": azure["account_key"]}
    if "sas_key" in azure:
        return {
            "fs.azure.account.auth.type": "SAS",
            "fs.azure.sas.token.provider.type": "org.apache.hadoop.fs.azurebfs.sas.FixedSASTokenProvider",
            "fs.azure.sas.fixed.token": azure["sas_key"].removeprefix("?"),
        }
    if "client_secret" not in azure:
        return {}
    return {
        "fs.azure.account.auth.type": "OAuth",
        "fs.azure.account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
        "fs.azure.account.oauth2.client.id": azure.get("client_id"),
        "fs.azure.account.oauth2.client.secret": azure["client_secret"],
        "fs.azure.account.oauth2.client.endpoint": f"{azure.get('authority_host', _AUTHORITY)}/{azure.get('tenant_id')}/oauth2/token",
    }
