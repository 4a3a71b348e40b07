"""A REST catalog over S3 that vends new keys with each answer, of which the store accepts only the last ones."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests.support.faulty_s3 import BUCKET, FaultyS3, Request
from tests.support.rest_catalog import serving
from tests.support.rest_security import Answer, Security


class VendingServer:
    """A catalog server that vends keys. `valid_keys`: the keys that the store accepts."""

    def __init__(self, s3: FaultyS3, folder: Path, *, as_credentials: bool = True, expires_in: float | None = None) -> None:
        self.s3, self.folder, self.as_credentials, self.expires_in = s3, folder, as_credentials, expires_in
        self.keys = (f"VENDED{number}" for number in itertools.count())
        self.valid_keys = {"server"}
        self.denied: list[str] = []
        s3.rule = self._check
        self.security = Security(vend=self._vend)

    def _check(self, request: Request) -> int | None:
        match = re.search(r"Credential=(\w+)/", request.headers.get("authorization", ""))
        key = match[1] if match else "none"
        if key in self.valid_keys:
            return None
        self.denied.append(f"{key} {request.method} {request.path}")
        return 403

    def _vend(self, location: str) -> dict[str, Any]:
        key = next(self.keys)
        self.valid_keys = {"server", key}  # earlier keys have expired
        properties = {"s3.access-key-id": key, "s3.secret-access-key": "hush", "s3.session-token": "token-of-" + key}
        properties |= {"s3.endpoint": self.s3.address, "s3.region": "us-east-1", "s3.path-style-access": "true"}
        if self.expires_in is not None:
            properties["s3.session-token-expires-at-ms"] = str(int((time.time() + self.expires_in) * 1000))
        if self.as_credentials:
            return {"config": {"s3.access-key-id": "worse"}, "storage-credentials": [{"prefix": f"s3://{BUCKET}", "config": properties}]}
        return {"config": properties}

    def serve(self, defaults: Mapping[str, str] | None = None) -> AbstractContextManager[str]:
        """Return a context that serves the catalog, and yields its address. `defaults`: properties that the server sends to each client."""

        def send_defaults(request: str, answer: Callable[[], Answer]) -> Answer:
            status, content = answer()
            return (status, {**content, "defaults": dict(defaults or {})}) if request.startswith("GET /v1/config") else (status, content)

        keys = {"s3.access-key-id": "server", "s3.secret-access-key": "testing"}
        store = {**keys, "s3.endpoint": self.s3.address, "s3.region": "us-east-1"}
        sql = {"type": "sql", "uri": f"sqlite:///{self.folder}/catalog.db"}
        return serving({**sql, "warehouse": f"s3://{BUCKET}/{self.folder.name}", **store}, send_defaults, self.security)
