"""Iceberg's REST catalog server (from its compatibility kit, with a JdbcCatalog on SQLite), if its jars are available."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

JARS = os.environ.get("ROWMERGE_ICEBERG_REST_JARS", "")
"""The folder that `mvn -f tests/iceberg_rest dependency:copy-dependencies` filled."""
needs_jars = pytest.mark.skipif(not JARS, reason="ROWMERGE_ICEBERG_REST_JARS names no folder with the jars of Iceberg's REST server")


@contextmanager
def serving_with_java(folder: Path) -> Iterator[str]:
    """Start a server with its database in a folder and its tables in `elsewhere` below it, and yield its address."""
    hadoop = Path(pyspark.__file__).parent / "jars"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "WAREHOUSE": f"file://{folder}/elsewhere",
        "URI": f"jdbc:sqlite:{folder}/rest.db",
        "JDBC_SCHEMA__VERSION": "V1",
        "REST_PORT": str(port),
    }
    classes = os.pathsep.join([f"{JARS}/*", *map(str, hadoop.glob("hadoop-client-*.jar"))])
    server = subprocess.Popen(
        ["java", "-Xmx256m", "-cp", classes, "org.apache.iceberg.rest.RESTCatalogServer"],
        env={**os.environ, **{f"CATALOG_{name}": value for name, value in settings.items()}},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _await(f"http://127.0.0.1:{port}/v1/config", server)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def _await(address: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            assert server.poll() is None, "the server ended"
            time.sleep(0.1)
    raise AssertionError("the server does not answer")
