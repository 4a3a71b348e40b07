"""Security of the REST test server: OAuth2 client credentials, signed requests (SigV4), and credentials that it vends for tables."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, urlsplit
from uuid import uuid4

Answer = tuple[int, Any]
TOKEN_PATH = "/oauth/tokens"


@dataclass(frozen=True)
class RestRequest:
    """A request to the server. Header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path


@dataclass
class Security:
    """What the server requires, and what it adds to tables.

    `secrets`: the secret of each OAuth2 client. `token_uses`: the number of requests for which a token is valid. `signing_keys`: the secret
    of each access key that may sign requests. `vend`: returns the properties and storage credentials for a table at a location.
    """

    secrets: Mapping[str, str] = field(default_factory=dict)
    token_uses: int = 1_000_000
    signing_keys: Mapping[str, str] = field(default_factory=dict)
    vend: Callable[[str], dict[str, Any]] | None = None
    scopes: list[str] = field(default_factory=list)
    signed: list[str] = field(default_factory=list)
    _uses: dict[str, int] = field(default_factory=dict)

    def issue(self) -> str:
        """Return a new token, which occurs in no other text."""
        token = f"token-{len(self._uses) + 1}-{uuid4().hex}"
        self._uses[token] = 0
        return token

    @property
    def tokens(self) -> list[str]:
        """The tokens that the server has issued."""
        return list(self._uses)

    def answer(self, request: RestRequest, proceed: Callable[[], Answer]) -> Answer:
        """Return the answer of the server, which `proceed` makes, if the request is allowed."""
        if request.path == TOKEN_PATH:
            return self._token(request)
        if self.secrets and not self._has_token(request):
            return _denial(401, "the token is missing or has expired")
        if self.signing_keys:
            if not is_signed(request, self.signing_keys):
                return _denial(403, "the signature does not match")
            self.signed.append(f"{request.method} {request.path}")
        status, content = proceed()
        if self.vend is not None and isinstance(content, dict) and "metadata" in content and "config" in content:
            content = {**content, **self.vend(content["metadata"]["location"])}
        return status, content

    def _token(self, request: RestRequest) -> Answer:
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        if self.secrets.get(form.get("client_id", "")) != form.get("client_secret"):
            return 400, {"error": "invalid_client", "error_description": "unknown client"}
        self.scopes.append(form.get("scope", ""))
        return 200, {"access_token": self.issue(), "token_type": "bearer", "expires_in": 3600}

    def _has_token(self, request: RestRequest) -> bool:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self._uses.get(token, self.token_uses) >= self.token_uses:
            return False
        self._uses[token] += 1
        return True


def is_signed(request: RestRequest, keys: Mapping[str, str]) -> bool:
    """Return whether one of the keys has signed a request (AWS Signature Version 4)."""
    scheme, _, parameters = request.headers.get("authorization", "").partition(" ")
    if scheme != "AWS4-HMAC-SHA256":
        return False
    parts = dict(part.strip().split("=", 1) for part in parameters.split(","))
    key, *scope = parts["Credential"].split("/")
    headers = parts["SignedHeaders"].split(";")
    query = "&".join(
        f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in sorted(parse_qsl(urlsplit(request.target).query))
    )
    lines = [f"{name}:{' '.join(request.headers.get(name, '').split())}" for name in headers]
    content = hashlib.sha256(request.body).hexdigest()
    canonical = "\n".join([request.method, quote(request.path, safe="/-_.~"), query, *lines, "", parts["SignedHeaders"], content])
    text = "\n".join([scheme, request.headers["x-amz-date"], "/".join(scope), hashlib.sha256(canonical.encode()).hexdigest()])
    signing_key = f"AWS4{keys.get(key, '')}".encode()
    for part in scope:
        signing_key = hmac.digest(signing_key, part.encode(), "sha256")
    return hmac.compare_digest(hmac.digest(signing_key, text.encode(), "sha256").hex(), parts["Signature"])


def _denial(status: int, message: str) -> Answer:
    return status, {"error": {"message": message, "type": "NotAuthorizedException", "code": status}}
