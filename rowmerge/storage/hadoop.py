"""Settings of Hadoop's file systems for Spark, from the same configuration as obstore's stores and Arrow's file systems."""

from __future__ import annotations

import json
from typing import Any

from rowmerge.storage.configuration import StorageConfiguration
from rowmerge.storage.retries import seconds_of

_S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_S3_CREDENTIALS = "org.apache.hadoop.fs.s3a."
_AUTHORITY = "https://login.microsoftonline.com"


def hadoop_settings(configuration: StorageConfiguration) -> dict[str, str]:
    """Return Hadoop's settings (`fs.s3a.access.key`, …) for each provider that has settings in the configuration.

    Sources: the documentation of hadoop-aws, of hadoop-azure (ABFS) and of Google's Cloud Storage connector.
    """
    settings: dict[str, Any] = {}
    for provider, provider_settings in (("s3", _s3_settings), ("gs", _gcs_settings), ("azure", _azure_settings)):
        if configuration.settings.get(provider):
            settings |= provider_settings(configuration)
    return {name: value if isinstance(value, str) else str(value).lower() for name, value in settings.items() if value is not None}


def _s3_settings(configuration: StorageConfiguration) -> dict[str, Any]:
    """Return the settings of hadoop-aws. A value of None stands for the default of the setting."""
    s3, endpoint = configuration.settings["s3"], configuration.s3_endpoint()
    # A custom endpoint usually has no host name for each bucket, so the bucket is part of the path.
    path_style = None if endpoint is None else not configuration.is_true("s3", "virtual_hosted_style_request")
    uses_tls = None if endpoint is None else not endpoint.startswith("http://")
    retries = configuration.retry_config.get("max_retries")
    return {
        # Tables are at s3://, and Hadoop has no file system for this scheme.
        "fs.s3.impl": _S3A,
        "fs.s3n.impl": _S3A,
        "fs.s3a.aws.credentials.provider": _s3_credentials_provider(configuration),
        "fs.s3a.access.key": s3.get("access_key_id"),
        "fs.s3a.secret.key": s3.get("secret_access_key"),
        "fs.s3a.session.token": s3.get("session_token"),
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.endpoint.region": configuration.s3_region(),
        "fs.s3a.path.style.access": path_style,
        "fs.s3a.connection.ssl.enabled": uses_tls,
        "fs.s3a.connection.timeout": _milliseconds(configuration, "timeout"),
        "fs.s3a.connection.establish.timeout": _milliseconds(configuration, "connect_timeout"),
        "fs.s3a.attempts.maximum": retries,
        "fs.s3a.retry.limit": retries,
        "fs.s3a.retry.throttle.limit": retries,
    }


def _milliseconds(configuration: StorageConfiguration, name: str) -> str | None:
    """Return a duration of the HTTP client in Hadoop's format, or None if the configuration has none of this name."""
    seconds = seconds_of(configuration.client_options, name)
    return None if seconds is None else f"{seconds * 1000:.0f}ms"


def _s3_credentials_provider(configuration: StorageConfiguration) -> str | None:
    """Return the name of the class that provides the credentials for hadoop-aws, or None for the default chain."""
    s3 = configuration.settings["s3"]
    if configuration.is_true("s3", "skip_signature"):
        return f"{_S3_CREDENTIALS}AnonymousAWSCredentialsProvider"
    if "access_key_id" not in s3:
        return None
    return f"{_S3_CREDENTIALS}{'Temporary' if 'session_token' in s3 else 'Simple'}AWSCredentialsProvider"


def _gcs_settings(configuration: StorageConfiguration) -> dict[str, Any]:
    """Return the settings of Google's Cloud Storage connector. A value of None stands for the default of the setting.

    The key of a service account is in a file, or is JSON text in the configuration itself. The connector reads a file only with the
    authentication type SERVICE_ACCOUNT_JSON_KEYFILE. It has no authentication type for JSON text, but a setting for each field of the key.
    """
    gcs = configuration.settings["gs"]
    key_file = gcs.get("service_account") or gcs.get("application_credentials")
    auth_type: str | None = key_file  # without a key file, None for the default; an empty path sets an empty type
    if configuration.is_true("gs", "skip_signature"):
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


def _azure_settings(configuration: StorageConfiguration) -> dict[str, Any]:
    """Return the settings of hadoop-azure. Their names contain no account, so they apply to every account without its own settings."""
    azure = configuration.settings["azure"]
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
