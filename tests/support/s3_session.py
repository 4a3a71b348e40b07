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
from pathlib import Path
from typing import Any

S3_JARS = os.environ.get("ROWMERGE_S3_JARS", "")
"""The folder with the jars of hadoop-aws for this PySpark."""
_MARK = "answer: "


class S3Session:
    """A process with an embedded Spark, in which statements run in sessions."""

    def __init__(self) -> None:
        """Start Spark. Raises AssertionError if it does not start."""
        self.ended = 0.0
        """When the last statement ended, by the monotonic clock, which all processes share."""
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - `close` closes it
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.s3_session"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )

    def connect(self, warehouse: str, options: dict[str, Any], **arguments: Any) -> None:
        """Connect to a warehouse. The next statements run in this session, whose caches are empty."""
        self._send({"warehouse": warehouse, "storage_options": options, **arguments})

    def sql(self, statement: str) -> list[list[Any]]:
        """Run a statement and return its rows. Raises AssertionError with the message if it fails."""
        answer = self._send({"sql": statement})
        self.ended = answer["ended"]
        rows: list[list[Any]] = answer["rows"]
        return rows

    def error(self, statement: str) -> str:
        """Run a statement that must fail, and return the class and the message of its error."""
        answer = self._answer({"sql": statement})
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
    # Otherwise, the first endpoint and options of a bucket stay in use until Spark ends.
    settings |= {f"spark.hadoop.fs.{scheme}.impl.disable.cache": "true" for scheme in ("s3", "s3a")}
    builder = SparkSession.builder.master("local[2]").config(map=settings)
    spark = builder.getOrCreate()
    session = None
    for line in sys.stdin:
        message = json.loads(line)
        try:
            if "sql" in message:
                assert session is not None
                rows = [[*map(str, row)] for row in session.sql(message["sql"]).collect()]
                answer = {"rows": rows, "ended": time.monotonic()}
                wait_for_background(10)
            else:
                session = rowmerge.connect(message.pop("warehouse"), spark=spark, **message)
                answer = {}
        except Exception as error:  # noqa: BLE001 - the other process shows the error
            answer = {"error": traceback.format_exc(), "summary": f"{type(error).__name__}: {error}"}
        sys.stdout.write(f"{_MARK}{json.dumps(answer)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
