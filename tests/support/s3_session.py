"""A session in another process, whose Spark has the S3 connector, so that the Spark of the tests needs no jars.

As a script, it reads one message per line as JSON, and writes one line of JSON for each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

S3_JARS = os.environ.get("ROWMERGE_S3_JARS", "")
"""The folder with the jars of hadoop-aws for this PySpark."""
_MARK = "answer: "


class S3Session:
    """A process with an embedded Spark, in which statements run in sessions."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """Start Spark. Raises AssertionError if it does not start.

        `environment`: Further environment variables of the driver. Java and executors do not get them.
        """
        self.ended = 0.0
        """When the last statement ended, by the monotonic clock, which all processes share."""
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - `close` closes it
        command = [sys.executable, "-m", "tests.support.s3_session"]
        own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_") or name == "AWS_CA_BUNDLE"}
        own |= {"AWS_EC2_METADATA_DISABLED": "true", "AWS_SHARED_CREDENTIALS_FILE": "/missing", "AWS_CONFIG_FILE": "/missing"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._log}
        self._process = subprocess.Popen(command, text=True, env=own, **pipes)  # type: ignore[call-overload]
        self.set_environment(environment or {})

    def connect(self, warehouse: str, options: dict[str, Any], name: str = "", **arguments: Any) -> None:
        """Connect to a warehouse. The next statements with this name run in this session, whose caches are empty."""
        self._send({"name": name, "warehouse": warehouse, "storage_options": options, **arguments})

    def sql(self, statement: str, name: str = "") -> list[list[Any]]:
        """Run a statement and return its rows. Raises AssertionError with the message if it fails."""
        answer = self._send({"name": name, "sql": statement})
        self.ended = answer["ended"]
        rows: list[list[Any]] = answer["rows"]
        return rows

    def set_environment(self, environment: Mapping[str, str | None]) -> None:
        """Set or remove (None) environment variables of the driver, which Java and executors do not get."""
        self._send({"environment": dict(environment)})

    def threads(self) -> int:
        """Return the number of threads of the process and of its JVM."""
        return int(self._send({"threads": True})["threads"])

    def error(self, statement: str, name: str = "") -> str:
        """Run a statement that must fail, and return the class and the message of its error."""
        answer = self._answer({"name": name, "sql": statement})
        assert "error" in answer, f"{statement} succeeded"
        error: str = answer["summary"]
        return error

    def _send(self, message: dict[str, Any]) -> dict[str, Any]:
        answer = self._answer(message)
        assert "error" not in answer, f"{message}\n{answer.get('error')}"
        return answer

    def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith(_MARK):
                answer: dict[str, Any] = json.loads(line[len(_MARK) :])
                return answer
        self._log.seek(0)
        raise AssertionError(f"The process ended at {message}: {self._log.read()[-3000:]}")

    def close(self) -> None:
        self._process.communicate("")
        self._log.close()


def _serve() -> None:
    import traceback

    from pyspark.sql import SparkSession

    import rowmerge
    from rowmerge.concurrency import wait_for_background

    jars = ",".join(str(jar) for jar in sorted(Path(S3_JARS).glob("*.jar")))
    settings = {"spark.jars": jars, "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}
    builder = SparkSession.builder.master("local[2]").config(map=settings)
    spark = builder.getOrCreate()
    sessions: dict[str, rowmerge.Session] = {}
    for line in sys.stdin:
        message = json.loads(line)
        answer: dict[str, Any] = {}
        try:
            if "environment" in message:
                for name, value in message["environment"].items():
                    os.environ.pop(name, None)
                    if value is not None:
                        os.environ[name] = value
            elif "threads" in message:
                answer = {"threads": sum(map(_threads, _processes()))}
            elif "sql" in message:
                rows = [[*map(str, row)] for row in sessions[message["name"]].sql(message["sql"]).collect()]
                answer = {"rows": rows, "ended": time.monotonic()}
                wait_for_background(10)
            else:
                name = message.pop("name")
                sessions[name] = rowmerge.connect(message.pop("warehouse"), spark=spark, **message)
        except Exception as error:  # noqa: BLE001 - the other process shows the error
            answer = {"error": traceback.format_exc(), "summary": f"{type(error).__name__}: {error}"}
        sys.stdout.write(f"{_MARK}{json.dumps(answer)}\n")
        sys.stdout.flush()


def _processes() -> list[int]:
    """Return this process and its children, among which is the JVM."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [os.getpid(), *map(int, children)]


def _threads(process: int) -> int:
    return len(list(Path(f"/proc/{process}/task").iterdir()))


if __name__ == "__main__":
    _serve()
