"""An S3 server (moto) behind a proxy that returns faulty responses if a test requests them."""

from __future__ import annotations

import http.client
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from typing import Any

import pytest

needs_moto = pytest.mark.skipif(
    any(find_spec(module) is None for module in ("moto", "flask", "flask_cors")), reason="moto's server, which plays S3, is not installed"
)
BUCKET = "lake"
_NOT_FORWARDED = ("connection", "transfer-encoding", "content-length")


@dataclass(frozen=True)
class Request:
    """A request of a client. Header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Fault(Enum):
    """A fault of the proxy: what happens to a request, other than a status code without the store receiving the request."""

    CUT = "the connection is cut, and the store does not get the request"
    DONE_THEN_CUT = "the store carries the request out, and the connection is cut"
    DONE_THEN_500 = "the store carries the request out, and the answer is 500"
    UNCONDITIONAL = "the store ignores If-None-Match"
    CUT_IN_BODY = "the connection is cut after the first half of the response's body"
    WITHOUT_LISTING = "the store denies a request for a missing object, as S3 does if the client may not list the bucket"
    KEYS_DENIED = "the response to a request that deletes several objects has the status 200, and an error for each of them"


@dataclass(frozen=True)
class Delay:
    """A fault of the proxy: the store gets the request this many seconds later."""

    seconds: float


Response = tuple[int, list[tuple[str, str]], bytes]
"""The status, the headers and the body of a response."""
AnyFault = Fault | Delay | int
Rule = Callable[[Request], AnyFault | None]
"""Returns for a request a fault, the status of an error response, or None for the response of the store."""
_ERROR_CODES = {403: "AccessDenied", 429: "TooManyRequests", 500: "InternalError", 503: "SlowDown"}
"""The codes in error responses of S3, by status. Clients repeat a request if its code is known to be temporary."""


def is_deletion(request: Request) -> bool:
    """Return whether a request deletes objects."""
    return request.method == "DELETE" or (request.method == "POST" and request.path.endswith("?delete"))


def is_listing(request: Request) -> bool:
    """Return whether a request lists objects."""
    return request.method == "GET" and "list-type=2" in request.path


def deny_deletions(request: Request) -> AnyFault | None:
    """Return the fault of a request that deletes objects, as S3 answers without the permission s3:DeleteObject."""
    if not is_deletion(request):
        return None
    return 403 if request.method == "DELETE" else Fault.KEYS_DENIED


def deny_listings(request: Request) -> AnyFault | None:
    """Return the fault of a listing or of a request for a missing object, as S3 answers without the permission s3:ListBucket."""
    if is_listing(request):
        return 403
    return Fault.WITHOUT_LISTING if request.method in ("GET", "HEAD") else None


@dataclass
class FaultyS3:
    """The proxy. `requests` lists the requests that it received."""

    store: int
    rule: Rule | None = None
    requests: list[Request] = field(default_factory=list)
    address: str = ""

    @property
    def location(self) -> str:
        return f"s3://{BUCKET}"

    def options(self, retries: int | None = 0) -> dict[str, Any]:
        """Return storage options for the proxy.

        Args:
            retries: How often the client repeats a failed request. None for the client's default.
        """
        config = {"endpoint": self.address, "access_key_id": "testing", "secret_access_key": "testing", "region": "us-east-1"}
        options: dict[str, Any] = {"config": {**config, "virtual_hosted_style_request": False}, "client_options": {"allow_http": True}}
        return options if retries is None else {**options, "retry_config": {"max_retries": retries}}

    def fail(self, method: str, part: str, fault: AnyFault, times: int = 1) -> None:
        """Fail the first `times` requests of a method whose path contains `part` with this fault."""
        count = iter(range(times))

        def rule(request: Request) -> AnyFault | None:
            return fault if request.method == method and part in request.path and next(count, None) is not None else None

        self.rule = rule

    def forward(self, request: Request) -> Response:
        """Forward a request to the store, and return its response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.store, timeout=30)
        headers = {name: value for name, value in request.headers.items() if name != "connection"}
        connection.request(request.method, request.path, body=request.body, headers=headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, answer.getheaders(), content

    def answer(self, request: Request) -> Response | None:
        """Return the response to a request, or None to cut the connection. A body shorter than its Content-Length is cut."""
        self.requests.append(request)
        fault = None if self.rule is None else self.rule(request)
        if isinstance(fault, Delay):
            time.sleep(fault.seconds)
        if fault is None or isinstance(fault, Delay):
            return self.forward(request)
        return _error_response(fault) if isinstance(fault, int) else self._faulty_response(request, fault)

    def _faulty_response(self, request: Request, fault: Fault) -> Response | None:
        """Return the response to a request that meets a fault, or None to cut the connection."""
        if fault is Fault.CUT:
            return None
        if fault is Fault.KEYS_DENIED:
            keys = re.findall(rb"<Key>.*?</Key>", request.body)
            errors = [b"<Error>%s<Code>AccessDenied</Code><Message>Access Denied</Message></Error>" % key for key in keys]
            return 200, [("Content-Type", "application/xml")], b"<DeleteResult>%s</DeleteResult>" % b"".join(errors)
        if fault is Fault.UNCONDITIONAL:
            headers = {name: value for name, value in request.headers.items() if name != "if-none-match"}
            return self.forward(Request(request.method, request.path, headers, request.body))
        status, headers_, content = self.forward(request)
        if fault is Fault.DONE_THEN_CUT:
            return None
        if fault is Fault.DONE_THEN_500:
            return _error_response(500)
        if fault is Fault.WITHOUT_LISTING:
            return _error_response(403) if status == 404 else (status, headers_, content)
        if request.method == "HEAD":  # its response has no body
            return status, headers_, content
        length = ("Content-Length", str(len(content)))
        return status, [*(header for header in headers_ if header[0].lower() != "content-length"), length], content[: len(content) // 2]


def _error_response(status: int) -> Response:
    code = _ERROR_CODES.get(status, "Injected")
    return status, [("Content-Type", "application/xml")], f"<Error><Code>{code}</Code><Message>Injected</Message></Error>".encode()


@contextmanager
def serving_moto() -> Iterator[int]:
    """Serve S3 and other services of AWS with moto, and yield the port."""
    from moto.server import ThreadedMotoServer  # an optional dependency

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    port: int = server.get_host_and_port()[1]
    yield port
    server.stop()


def create_bucket(port: int) -> None:
    """Create the bucket in the store of moto."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    scope = "Credential=testing/20260101/us-east-1/s3/aws4_request"
    connection.request("PUT", f"/{BUCKET}", headers={"Authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=none"})
    assert connection.getresponse().status == 200
    connection.close()


@pytest.fixture(scope="session")
def moto_port() -> Iterator[int]:
    """Serve S3 with moto and yield the port."""
    with serving_moto() as port:
        yield port


@pytest.fixture
def s3(moto_port: int) -> Iterator[FaultyS3]:
    """Yield a proxy without faults in front of the S3 server.

    Each test creates its bucket: `mock_aws`, with which other tests of the process emulate AWS Glue, deletes all buckets.
    """
    create_bucket(moto_port)
    with serving(FaultyS3(moto_port)) as proxy:
        yield proxy


@contextmanager
def serving(proxy: FaultyS3) -> Iterator[FaultyS3]:
    """Serve a proxy at a local address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def chunks(self) -> Iterator[bytes]:
            """Yield the chunks of a request body without a length, which Arrow's uploads have."""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass

        def forward(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            if headers.pop("transfer-encoding", "") == "chunked":
                body = b"".join(self.chunks())
                headers["content-length"] = str(len(body))
            else:
                body = self.rfile.read(int(headers.get("content-length") or 0))
            answer = proxy.answer(Request(self.command, self.path, headers, body))
            if answer is None:
                self.close_connection = True
                self.connection.close()
                return
            status, answered, content = answer
            lengths = [value for name, value in answered if name.lower() == "content-length"]
            self.send_response_only(status)
            for name, value in answered:
                if name.lower() not in _NOT_FORWARDED:
                    self.send_header(name, value)
            # An answer to HEAD has the length of a content that does not follow.
            length = lengths[0] if lengths else str(len(content))
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)
                self.close_connection |= len(content) < int(length)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = forward

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    proxy.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
