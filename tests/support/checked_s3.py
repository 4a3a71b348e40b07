"""S3 and STS (moto) behind a proxy that accepts only the keys of the test, and records which library has sent a request."""

from __future__ import annotations

import http.client
import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from tests.support.faulty_s3 import FaultyS3, Request

ANONYMOUS = ("", "")
KEYS = ("AKIAOPTIONS", "")
TOKENS = ("AKIATEMPORARY", "token-of-the-session")
LIBRARIES = ("metadata", "driver", "executor", "spark")
DRIVER = {"AWS_EXECUTION_ENV": "driver"}
"""The environment of the driver, by which requests of its Arrow differ from those of executors."""
_KEYS = ("AccessKeyId", "SessionToken")


@dataclass
class CheckedS3(FaultyS3):
    """The proxy. `valid`: the accepted pairs of access key and session token. `issued`: the pairs that STS has given."""

    valid: set[tuple[str, str]] = field(default_factory=set)
    issued: list[tuple[str, str]] = field(default_factory=list)
    used: set[tuple[str, tuple[str, str]]] = field(default_factory=set)
    denied: list[str] = field(default_factory=list)

    def answer(self, request: Request) -> tuple[int, list[tuple[str, str]], bytes] | None:
        """Return the answer of the store, or status 403 if the keys of a request are not valid."""
        if b"Action=AssumeRole" in request.body:
            return self._issue(request)
        keys = keys_of(request)
        library = library_of(request)
        if keys not in self.valid:
            self.denied.append(f"{library} {keys} {request.method} {request.path}")
            code = "ExpiredToken" if keys[1] else "InvalidAccessKeyId"
            return 403, [("Content-Type", "application/xml")], f"<Error><Code>{code}</Code><Message>denied</Message></Error>".encode()
        self.used.add((library, keys))
        if keys == ANONYMOUS:
            request = Request(request.method, request.path, {**request.headers, "authorization": _SIGNED}, request.body)
        return super().answer(request)

    def libraries(self, keys: tuple[str, str]) -> set[str]:
        """Return the libraries that have used a pair of keys."""
        return {library for library, used in self.used if used == keys}

    def _issue(self, request: Request) -> tuple[int, list[tuple[str, str]], bytes]:
        """Forward a request for keys to STS, whose signature names the service, and accept only the keys of its answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.store, timeout=30)
        scope = "Credential=testing/20260101/us-east-1/sts/aws4_request"
        headers = {name: value for name, value in request.headers.items() if name != "connection"}
        headers.setdefault("authorization", f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=none")
        connection.request(request.method, request.path, body=request.body, headers=headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        if answer.status == 200:
            values = {element.tag.rpartition("}")[2]: element.text or "" for element in ElementTree.fromstring(content).iter()}
            self.issued.append((values[_KEYS[0]], values[_KEYS[1]]))
            self.valid = {self.issued[-1]}
        return answer.status, answer.getheaders(), content


_SIGNED = "AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=none"


def keys_of(request: Request) -> tuple[str, str]:
    """Return the access key and the session token of a request, which are empty for an anonymous one."""
    match = re.search(r"Credential=(\w+)/", request.headers.get("authorization", ""))
    return match[1] if match else "", request.headers.get("x-amz-security-token", "")


def library_of(request: Request) -> str:
    """Return which library has sent a request: obstore (metadata), Arrow (driver or executor) or Hadoop (spark)."""
    agent = request.headers.get("user-agent", "").lower()
    if "java" in agent or "hadoop" in agent:
        return "spark"
    if "aws-sdk-cpp" not in agent:
        return "metadata"
    return "driver" if "driver" in agent else "executor"


def static_keys(store: CheckedS3, keys: tuple[str, str] = KEYS) -> dict[str, Any]:
    """Return options with keys. There is no `allow_http`: the address of the endpoint says it."""
    store.valid = {keys}
    options = {"aws_access_key_id": keys[0], "aws_secret_access_key": "hush", "aws_endpoint_url": store.address}
    return options | ({"aws_session_token": keys[1]} if keys[1] else {})


class RotatingProfile:
    """A named profile of AWS whose keys a process gives, and which end soon, so that they are renewed at each use."""

    def __init__(self, folder: Path, store: CheckedS3) -> None:
        self._store, self._keys = store, folder / "keys.json"
        self._number = 0
        config = folder / "config"
        command = f"{sys.executable} -c \"print(open('{self._keys}').read())\""
        config.write_text(f"[profile lake]\ncredential_process = {command}\nregion = eu-west-1\nendpoint_url = {store.address}\n")
        self.environment = {"AWS_CONFIG_FILE": str(config)}

    def rotate(self, *, keeps_old: bool = False) -> tuple[str, str]:
        """Give new keys from now on, and return them. The store accepts the old ones only if `keeps_old`."""
        self._number += 1
        keys = (f"AKIAPROFILE{self._number}", f"token-{self._number}")
        end = (datetime.now(timezone.utc) + timedelta(minutes=5)).isoformat()
        content = {"Version": 1, "AccessKeyId": keys[0], "SecretAccessKey": "hush", "SessionToken": keys[1], "Expiration": end}
        self._keys.write_text(json.dumps(content))
        self._store.valid = {keys, *(self._store.valid if keeps_old else ())}
        return keys
