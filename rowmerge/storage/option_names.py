"""Names of storage options that obstore 0.12 accepts, by provider."""

from typing import Final

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

ALIASES: Final = {
    "s3": {
        "token": "session_token",
        "endpoint_url": "endpoint",
        "endpoint_url_s3": "endpoint",
        "sts_endpoint": "endpoint_url_sts",
        "bucket_name": "bucket",
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
        "application_credentials container_authorization_token_file container_credentials_full_uri container_credentials_relative_uri "
        "encryption_key federated_token_file request_payer role_arn s3_express server_side_encryption service_account service_account_key "
        "sse_bucket_key_enabled sse_customer_key_base64 sse_kms_key_id token use_azure_cli use_emulator web_identity_token_file"
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
