"""Settings of Hadoop's file systems for Spark, from the same configuration as obstore's stores and Arrow's file systems."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from rowmerge.storage.configuration import StorageConfiguration, is_true, region_of
from rowmerge.storage.option_names import PROVIDERS

_S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_S3_CREDENTIALS = "org.apache.hadoop.fs.s3a."
_AUTHORITY = "https://login.microsoftonline.com"


def hadoop_settings(configuration: StorageConfiguration, used_providers: Collection[str] = ()) -> dict[str, str]:
    """Return Hadoop's settings (`fs.s3a.access.key`, …) for each provider that has settings, or that is used.

    Sources: the documentation of hadoop-aws, of hadoop-azure (ABFS) and of Google's Cloud Storage connector.

    Args:
        configuration: The configuration of the session.
        used_providers: The providers of the session's warehouses. They get their settings also without any option.
    """
    settings: dict[str, str] = {}
    for provider in PROVIDERS:
        # Without options, Hadoop itself looks for the keys of files that do not belong to tables.
        provider_settings = configuration.current(provider, is_used=False)
        if provider_settings or provider in used_providers:
            settings |= provider_hadoop_settings(provider, provider_settings)
    return settings


def provider_hadoop_settings(provider: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return Hadoop's settings for one provider.

    Args:
        provider: The provider: `s3`, `gs` or `azure`.
        settings: The settings of the provider, from `StorageConfiguration.current`.
    """
    values = {"s3": _s3_settings, "gs": _gcs_settings, "azure": _azure_settings}[provider](settings)
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in values.items() if value is not None}


def _s3_settings(s3: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of hadoop-aws. A value of None stands for the default of the setting."""
    endpoint = s3.get("endpoint")
    # A custom endpoint usually has no host name for each bucket, so the bucket is part of the path.
    path_style = None if endpoint is None else not is_true(s3.get("virtual_hosted_style_request"))
    uses_tls = None if endpoint is None else not endpoint.startswith("http://")
    return {
        # Tables are at s3://, and Hadoop has no file system for this scheme.
        "fs.s3.impl": _S3A,
        "fs.s3n.impl": _S3A,
        "fs.s3a.aws.credentials.provider": _s3_credentials_provider(s3),
        "fs.s3a.access.key": s3.get("access_key_id"),
        "fs.s3a.secret.key": s3.get("secret_access_key"),
        "fs.s3a.session.token": s3.get("session_token"),
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.endpoint.region": region_of(s3),
        "fs.s3a.path.style.access": path_style,
        "fs.s3a.connection.ssl.enabled": uses_tls,
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
