"""Names of storage options, which are those that obstore 0.12 accepts and some of rowmerge, and the collection of their values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from rowmerge.errors import ConfigurationError

PROVIDERS: Final = {"s3": ("s3", "s3a", "s3n"), "gs": ("gs",), "azure": ("az", "azure", "adl", "abfs", "abfss")}
"""The schemes of locations, by provider."""

PREFIXES: Final = {"s3": ("aws_", ""), "gs": ("google_", ""), "azure": ("azure_storage_", "azure_", "")}
"""The prefixes of option names, by provider."""

SETTINGS: Final = {
    "s3": frozenset(
        (
            "access_key_id bucket checksum_algorithm conditional_put container_authorization_token_file container_credentials_full_uri "
            "container_credentials_relative_uri copy_if_not_exists default_region disable_bulk_delete disable_tagging endpoint "
            "endpoint_url_sts imdsv1_fallback metadata_endpoint region request_payer role_arn role_session_name s3_express "
            "secret_access_key server_side_encryption session_token skip_signature sse_bucket_key_enabled sse_customer_key_base64 "
            "sse_kms_key_id unsigned_payload virtual_hosted_style_request web_identity_token_file"
        ).split()
    ),
    "gs": frozenset("application_credentials base_url bearer_token bucket service_account service_account_key skip_signature".split()),
    "azure": frozenset(
        (
            "account_key account_name authority_host client_id client_secret container_name credential_type disable_tagging encryption_key "
            "endpoint fabric_cluster_identifier fabric_session_token fabric_token_service_url fabric_workload_host federated_token_file "
            "msi_endpoint msi_resource_id object_id sas_key skip_signature tenant_id token use_azure_cli use_emulator use_fabric_endpoint"
        ).split()
    ),
}
"""The names of obstore's settings without the provider's prefix, by provider."""

OWN_SETTINGS: Final = {"s3": frozenset(("profile",))}
"""The names of further settings, which obstore does not have, by provider."""
NESTED_OPTIONS: Final = frozenset(("config", "client_options", "retry_config", "credential_provider"))
"""The arguments of obstore's stores. As options, the first three are mappings of settings, and the last one is a function."""

ALIASES: Final = {
    "s3": {
        "token": "session_token",
        "endpoint_url": "endpoint",
        "endpoint_url_s3": "endpoint",
        "sts_endpoint": "endpoint_url_sts",
        "bucket_name": "bucket",
        "profile_name": "profile",
    },
    "gs": {"service_account_path": "service_account", "bucket_name": "bucket"},
    "azure": {
        "access_key": "account_key",
        "master_key": "account_key",
        "sas_token": "sas_key",
        "authority_id": "tenant_id",
        "bearer_token": "token",
        "identity_endpoint": "msi_endpoint",
    },
}
"""The aliases of settings, by provider."""

METADATA_ONLY: Final = frozenset(
    (
        "application_credentials encryption_key federated_token_file request_payer s3_express server_side_encryption service_account "
        "service_account_key sse_bucket_key_enabled sse_customer_key_base64 sse_kms_key_id token use_azure_cli use_emulator"
    ).split()
)
"""Settings of credentials and encryption for which Arrow's file systems, which write data files, have no argument."""

SECRETS: Final = frozenset(
    "access_key_id secret_access_key session_token sse_customer_key_base64 bearer_token service_account_key account_key client_secret "
    "encryption_key fabric_session_token sas_key token".split()
)
"""Settings whose values must not appear in messages."""

CLIENT_OPTIONS: Final = frozenset(
    "allow_http allow_invalid_certificates connect_timeout default_content_type default_headers http1_only http2_keep_alive_interval "
    "http2_keep_alive_timeout http2_keep_alive_while_idle http2_only pool_idle_timeout pool_max_idle_per_host proxy_url "
    "proxy_ca_certificate proxy_excludes root_certificate randomize_addresses read_timeout timeout user_agent".split()
)
RETRY_OPTIONS: Final = frozenset("backoff max_retries retry_timeout".split())
BACKOFF_OPTIONS: Final = frozenset("base init_backoff max_backoff".split())
"""The names in the mapping `backoff` of the retry options."""


def is_true(value: object) -> bool:
    """Return whether the value of a boolean setting is true. Options may spell it as a string (`true`, `1`, `yes`, …)."""
    return str(value).lower() in ("true", "1", "yes", "on", "y", "t")


class OptionSettings:
    """A collection of settings from options. Several option names may mean the same setting."""

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}
        self._names: dict[Any, str] = {}

    def add(self, key: object, name: str, value: object) -> None:
        """Add a setting, unless its value is None or an empty string.

        A profile has such a value for a key without a value, and for an environment variable that is not set: `env_var('X', '')`.

        Args:
            key: The setting.
            name: The name of the option, for messages.
            value: The value.

        Raises:
            ConfigurationError: Another option has given the setting another value.
        """
        if value is None or value == "":
            return
        if key in self.values and str(self.values[key]).lower() != str(value).lower():
            raise ConfigurationError(
                f"storage_options has {self._names[key]!r} and {name!r}, which mean the same setting, with different values. Remove one."
            )
        self.values[key], self._names[key] = value, name

    def add_nested(self, options: Mapping[str, Any], mapping_name: str, valid_names: frozenset[str]) -> None:
        """Add the entries of a nested mapping.

        Args:
            options: The options of the user.
            mapping_name: The name of the mapping in the options.
            valid_names: The names that entries may have.

        Raises:
            ConfigurationError: A name is unknown, or the option is not a mapping.
        """
        for name, value in nested_mapping(options, mapping_name).items():
            if name not in valid_names:
                raise ConfigurationError(_unknown_name_message(name, f"storage_options.{mapping_name}", valid_names))
            self.add(name, name, value)

    def by_provider(self) -> dict[str, dict[str, Any]]:
        """Return the settings of each provider. The keys of the collection must be pairs of provider and setting."""
        return {provider: {key: value for (owner, key), value in self.values.items() if owner == provider} for provider in PROVIDERS}


def add_option(name: str, value: object, settings: OptionSettings, client_options: OptionSettings) -> None:
    """Add a flat option to the settings of each provider that has it, and to the client options if it is one.

    Args:
        name: The name of the option.
        value: Its value.
        settings: The settings of providers.
        client_options: The options of the HTTP client.

    Raises:
        ConfigurationError: The name is unknown.
    """
    client_option = re.sub(r"^(aws|azure|google)_", "", name.lower())
    setting_keys = list(_setting_keys(name.lower()))
    if client_option in CLIENT_OPTIONS:
        client_options.add(client_option, name, value)
    elif not setting_keys:
        raise ConfigurationError(_unknown_name_message(name))
    for key in setting_keys:
        settings.add(key, name, value if value is None or isinstance(value, bool) else str(value))


def _setting_keys(name: str) -> Iterator[tuple[str, str]]:
    """Yield provider and setting for each provider that has an option of this name, which is in lower case."""
    for provider, prefixes in PREFIXES.items():
        bare_names = [name.removeprefix(prefix) for prefix in prefixes if name.startswith(prefix)]
        keys = [ALIASES[provider].get(bare_name, bare_name) for bare_name in bare_names]
        yield from [(provider, key) for key in keys if key in SETTINGS[provider] | OWN_SETTINGS.get(provider, frozenset())][:1]


def nested_mapping(options: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return one of obstore's nested mappings, or an empty one if it is missing.

    Args:
        options: The options of the user.
        name: The name of the mapping.

    Raises:
        ConfigurationError: The option is not a mapping.
    """
    nested = options.get(name) or {}
    if not isinstance(nested, Mapping):
        raise ConfigurationError(f"{name!r} in storage_options must be a mapping of names to values.")
    return nested


def _unknown_name_message(name: str, place: str = "storage_options", names: Iterable[str] | None = None) -> str:
    """Return the message for an unknown option, with similar names."""
    if names is None:
        prefixed = [f"{prefixes[0]}{key}" for provider, prefixes in PREFIXES.items() for key in SETTINGS[provider]]
        names = [*prefixed, *(key for keys in SETTINGS.values() for key in keys), *CLIENT_OPTIONS, *NESTED_OPTIONS]
    similar_names = get_close_matches(name.lower(), sorted(set(names)), n=2, cutoff=0.6)
    advice = "Remove it, or use a name from the documentation of obstore."
    if similar_names:
        advice = f"Did you mean {' or '.join(map(repr, similar_names))}?"
    return f"{place} has the unknown name {name!r}. {advice}"
