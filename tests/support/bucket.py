"""An S3 bucket in this process that implements DeleteObjects, with which obstore deletes, and counts the keys of each request."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.etree import ElementTree
from xml.sax.saxutils import escape

NAME = "lake"
_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"


@dataclass
class Bucket:
    """An S3 bucket. `requests` has the number of keys of each request. Keys in `locked` cannot be deleted."""

    locked: frozenset[str] = frozenset()
    objects: dict[str, bytes] = field(default_factory=dict)
    requests: list[int] = field(default_factory=list)
    address: str = ""

    @property
    def location(self) -> str:
        return f"s3://{NAME}"

    @property
    def options(self) -> dict[str, object]:
        """Return storage options for the bucket, without retries."""
        return {
            "config": {
                "endpoint": self.address,
                "access_key_id": "testing",
                "secret_access_key": "testing",
                "region": "us-east-1",
                "virtual_hosted_style_request": False,
            },
            "client_options": {"allow_http": True},
            "retry_config": {"max_retries": 0},
        }

    def delete(self, key: str) -> bool:
        """Delete a key and return whether it was deleted. A locked key is not; a missing key is, as in S3."""
        if key in self.locked:
            return False
        self.objects.pop(key, None)
        return True

    def delete_all(self, body: bytes) -> str:
        """Return the response to a DeleteObjects request."""
        keys = [element.text or "" for element in ElementTree.fromstring(body).iter() if element.tag.endswith("Key")]
        self.requests.append(len(keys))
        results = [
            f"<Deleted><Key>{escape(key)}</Key></Deleted>"
            if self.delete(key)
            else f"<Error><Key>{escape(key)}</Key><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
            for key in keys
        ]
        return f'<?xml version="1.0" encoding="UTF-8"?><DeleteResult xmlns="{_NAMESPACE}">{"".join(results)}</DeleteResult>'


@contextmanager
def serving(bucket: Bucket) -> Iterator[Bucket]:
    """Serve the bucket at a local address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            answer = bucket.delete_all(self.rfile.read(int(self.headers["Content-Length"]))).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    bucket.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield bucket
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
