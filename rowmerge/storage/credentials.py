"""Sources of credentials: profiles, roles and web identities of AWS, which botocore resolves, and the `credential_provider` of a user.

One process resolves them, and all libraries get the resulting keys: obstore, Arrow on the driver and on executors, and Spark's reader.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from rowmerge.errors import ConfigurationError
from rowmerge.redaction import stop_debug_log
from rowmerge.storage.renewal import AWS_SOURCES, Credentials, Renewal, has_credentials

_STATIC = ("access_key_id", "secret_access_key", "session_token")
_OPTIONS = (*AWS_SOURCES, *_STATIC, "role_session_name", "endpoint_url_sts", "region")
_CHAIN = (
    *("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME"),
    *("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_EC2_METADATA_DISABLED"),
    *("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
)
"""The environment variables from which botocore finds credentials. The first two name a profile, the third one a web identity."""
_ENVIRONMENT: Mapping[str, tuple[str, ...]] = {
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "virtual_hosted_style_request": ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST",),
}
_KEYS_IN_ENVIRONMENT = {
    "access_key_id": "AWS_ACCESS_KEY_ID",
    "secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "session_token": "AWS_SESSION_TOKEN",
    "skip_signature": "AWS_SKIP_SIGNATURE",
}
_INSTALL = "Install it with pip install 'dbt-rowmerge[aws]', or set aws_access_key_id and aws_secret_access_key."


def environment(*names: str) -> str | None:
    """Return the value of the first environment variable that is set and not empty, or None."""
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def with_environment(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of S3, with the endpoint, the region and the keys in the environment of this process where they have none."""
    defaults = {key: environment(*names) for key, names in _ENVIRONMENT.items()}
    if "default_region" in settings:
        defaults["region"] = None
    if not has_credentials("s3", settings):
        defaults |= {key: environment(name) for key, name in _KEYS_IN_ENVIRONMENT.items()}
    return {**{key: value for key, value in defaults.items() if value is not None}, **settings}


@dataclass(frozen=True, repr=False)
class KeysWithoutToken:
    """Keys for S3 without a session token, as a `credential_provider` of obstore. Equal keys make equal providers.

    If keys without a token are settings of obstore, it adds the token of other keys from AWS_SESSION_TOKEN.
    """

    access_key_id: str
    secret_access_key: str

    @staticmethod
    def of(settings: Mapping[str, Any]) -> KeysWithoutToken | None:
        """Return the keys in settings of S3, or None if the settings lack a key or have a session token."""
        access_key, secret_key, token = (settings.get(name) for name in _STATIC)
        return KeysWithoutToken(access_key, secret_key) if access_key and secret_key and not token else None

    def __call__(self) -> dict[str, str | None]:
        return {"access_key_id": self.access_key_id, "secret_access_key": self.secret_access_key, "token": None, "expires_at": None}


@dataclass(frozen=True, repr=False)
class AwsSource:
    """A source of keys for S3. Equal sources share their keys.

    `options`: the settings that describe the source. `chain`: the values of the environment variables that botocore reads.
    """

    options: tuple[tuple[str, str], ...]
    chain: tuple[str | None, ...]

    @staticmethod
    def of(settings: Mapping[str, Any]) -> AwsSource | None:
        """Return the source of the keys for settings of S3, or None if the settings contain keys, or requests are anonymous."""
        chain = tuple(os.environ.get(name) for name in _CHAIN)
        if not has_credentials("s3", settings):
            return AwsSource((), chain)
        if not any(name in settings for name in AWS_SOURCES):
            return None
        return AwsSource(tuple((name, str(settings[name])) for name in _OPTIONS if name in settings), chain)

    @property
    def is_implicit(self) -> bool:
        """Whether no setting names the source, so that it is the first one that botocore finds."""
        return not self.options

    @property
    def needs_botocore(self) -> bool:
        """Whether no library could find the keys without botocore: a setting or AWS_PROFILE names the source."""
        return bool(self.options) or any(self.chain[:2])

    @property
    def is_named(self) -> bool:
        """Whether a setting or the environment names the source, rather than the machine."""
        return bool(self.options) or any(self.chain[:3])

    def __str__(self) -> str:
        names = [f"aws_{name} {value!r}" for name, value in self.options if name in ("profile", "role_arn")]
        return " and ".join(names) or (f"AWS_PROFILE {self.chain[0]!r}" if self.chain[0] else "its environment")


@lru_cache(maxsize=256)
def aws_renewal(source: AwsSource) -> Renewal:
    """Return the keys of a source. All configurations of the process with this source share them."""
    return Renewal(_BotocoreKeys(source).fetch, asks_always=True)


class _BotocoreKeys:
    """The keys of a source, which botocore resolves and renews."""

    def __init__(self, source: AwsSource) -> None:
        self._source = source
        self._settings: dict[str, Any] = {}
        self._credentials: Any = None
        self._is_resolved = False

    def fetch(self) -> Credentials:
        """Return the present keys. The result is empty if no setting names a source and botocore finds no keys.

        With an empty result, obstore, Arrow and Hadoop each look for keys themselves.

        Raises:
            ConfigurationError: botocore is missing, or the source yields no keys.
        """
        try:
            from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]
        except ImportError as error:
            if not self._source.needs_botocore:
                return {}, None
            raise ConfigurationError(f"The keys for {self._source} need botocore. {_INSTALL}") from error
        try:
            if not self._is_resolved:
                self._resolve()
            if self._credentials is None:
                return {}, None
            keys = self._credentials.get_frozen_credentials()
        except (BotoCoreError, ClientError, OSError) as error:
            advice = "Check the options, the files in ~/.aws, and the time of this machine. For SSO, run aws sso login."
            raise ConfigurationError(f"AWS gives no keys for {self._source}: {error}. {advice}") from None
        named_keys = zip(_STATIC, (keys.access_key, keys.secret_key, keys.token), strict=True)
        # botocore renews keys 10 to 15 minutes before their end. It has no public name for the time of the end.
        end = getattr(self._credentials, "_expiry_time", None)
        return {"s3": {**self._settings, **{name: key for name, key in named_keys if key}}}, None if end is None else end.timestamp()

    def _resolve(self) -> None:
        """Look up the credentials with botocore, and read the region and the endpoint from the profile."""
        import botocore.session  # type: ignore[import-untyped]

        stop_debug_log("botocore")  # it logs the keys that a role gets
        options = dict(self._source.options)
        session = botocore.session.Session(profile=options.get("profile"))
        self._credentials = _credentials_of(session, options)
        if self._credentials is None and not self._source.is_implicit:
            raise ConfigurationError(f"AWS gives no keys for {self._source}: it names none. Add keys or a role to it in ~/.aws.")
        if self._credentials is not None:
            profile = session.get_scoped_config()
            values = {"region": profile.get("region"), "endpoint": profile.get("endpoint_url")}
            self._settings = {name: value for name, value in values.items() if value}
        self._is_resolved = True


def _credentials_of(session: Any, options: Mapping[str, str]) -> Any:
    """Return botocore's credentials for options, or None if there are none.

    Args:
        session: The session of botocore, with the profile of the options.
        options: The settings of S3 that describe the source of keys.
    """
    from botocore import credentials, utils

    if "access_key_id" in options:
        session.set_credentials(*(options.get(name) for name in _STATIC))
    role, token_file = (options.get(name) or environment(f"AWS_{name.upper()}") for name in ("role_arn", "web_identity_token_file"))
    name = options.get("role_session_name") or environment("AWS_ROLE_SESSION_NAME") or "rowmerge"
    create_client = partial(session.create_client, region_name=options.get("region"), endpoint_url=options.get("endpoint_url_sts"))
    if "web_identity_token_file" in options or ("role_arn" in options and token_file and "access_key_id" not in options):
        load_token = utils.FileWebIdentityTokenLoader(token_file)
        fetcher = credentials.AssumeRoleWithWebIdentityCredentialFetcher(create_client, load_token, role, {"RoleSessionName": name})
        return credentials.DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role-with-web-identity")
    if "role_arn" in options:
        base = session.get_credentials()
        fetcher = credentials.AssumeRoleCredentialFetcher(create_client, base, role, {"RoleSessionName": name})
        return credentials.DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")
    container = {f"AWS_{name.upper()}": value for name, value in options.items() if name.startswith("container_")}
    if container:
        return credentials.ContainerProvider(environ=container).load()
    if "metadata_endpoint" in options:
        fetcher = utils.InstanceMetadataFetcher(base_url=options["metadata_endpoint"])
        return credentials.InstanceMetadataProvider(fetcher).load()
    return session.get_credentials()


def fetch_provided(provider: Callable[[], Any]) -> Credentials:
    """Return the credentials that a user's `credential_provider` gives. Its answer has the form that obstore accepts.

    Args:
        provider: The function, which may be a coroutine function.

    Raises:
        ConfigurationError: The answer has another form.
    """
    answer = provider()
    if inspect.isawaitable(answer):
        # An event loop may already run in this thread, such as that of a notebook.
        with ThreadPoolExecutor(1) as executor:
            answer = executor.submit(asyncio.run, _awaited(answer)).result()
    end = answer.get("expires_at")
    ends_at = None if end is None else end.timestamp()
    token = answer.get("token")
    if "access_key_id" in answer:
        keys = {**{name: answer[name] for name in _STATIC[:2]}, **({"session_token": token} if token else {})}
        return {"s3": keys}, ends_at
    if "access_key" in answer:
        return {"azure": {"account_key": answer["access_key"]}}, ends_at
    if isinstance(answer.get("sas_token"), str):
        return {"azure": {"sas_key": answer["sas_token"]}}, ends_at
    if token:
        return {"gs": {"bearer_token": token}, "azure": {"token": token}}, ends_at
    names = "access_key_id and secret_access_key (S3), token (Google, Azure), or access_key or sas_token (Azure)"
    raise ConfigurationError(f"The credential_provider in storage_options must return a dictionary with {names}.")


async def _awaited(answer: Any) -> Any:
    return await answer
