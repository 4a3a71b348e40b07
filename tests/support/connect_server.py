"""Spark Connect servers for tests, as `sbin/start-connect-server.sh` of a Spark distribution starts them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pyspark
import pytest

from rowmerge.session.startup.class_archive import java_options
from tests.support.jvm import JAVA_OPTIONS

_SECONDS_TO_START = 120


class ConnectServer:
    """A Spark Connect server in another process. `python`: the Python of its workers, and `path` their PYTHONPATH."""

    def __init__(self, folder: Path, *, python: str = sys.executable, path: str = "", settings: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._folder, self._settings = folder, settings or {}
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK", "PYSPARK"))}
        self._environment |= {"SPARK_HOME": str(Path(pyspark.__file__).parent), "PYSPARK_PYTHON": python, "PYTHONPATH": path}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"sc://localhost:{self.port}"

    def start(self) -> ConnectServer:
        """Start the server, and return it when it answers. Fail the test with the end of its log otherwise."""
        log_path = self._folder / "log"
        with open(log_path, "w") as log:
            self._process = subprocess.Popen(self._command(), cwd=self._folder, env=self._environment, stdout=log, stderr=log)
        until = time.monotonic() + _SECONDS_TO_START
        while self._process.poll() is None and time.monotonic() < until:
            if "Spark Connect server started" in log_path.read_text():
                return self
            time.sleep(0.2)
        self.stop()
        pytest.fail(log_path.read_text()[-2000:])

    def stop(self) -> None:
        """Stop the server, which loses all its sessions."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
            self._process = None

    def __enter__(self) -> ConnectServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _command(self) -> list[str]:
        settings = {
            "spark.ui.enabled": "false",
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.shuffle.partitions": "2",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "localhost",
            **self._settings,
        }
        command = [
            f"{self._environment['SPARK_HOME']}/bin/spark-submit",
            "--class",
            "org.apache.spark.sql.connect.service.SparkConnectServer",
        ]
        command += ["--master", "local[2]", "--driver-memory", "1g", "--driver-java-options", f"{JAVA_OPTIONS} {java_options({})}"]
        return [*command, *(argument for key, value in settings.items() for argument in ("--conf", f"{key}={value}")), "spark-internal"]


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
