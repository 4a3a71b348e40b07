"""`open_session` starts Spark in another thread, with the same results and errors as `connect`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.jvm import SPARK_SETTINGS

PROGRAM = """
import json, sys, threading
import rowmerge
arguments = json.loads(sys.argv[1])
try:
    session = rowmerge.open_session(arguments)
except rowmerge.errors.RowmergeError as error:
    print(type(error).__name__)
else:
    print(session.sql("select 1 + 1").collect()[0][0])
    session.close()
"""


@pytest.mark.parametrize(
    ("settings", "environment", "output"),
    [
        ({"spark.driver.port": "0"}, {}, "2"),  # Spark replaces the value by the number of the port
        ({"spark.master": "nonsense"}, {}, "ConfigurationError"),
        ({}, {"JAVA_HOME": "/nowhere"}, "ConfigurationError"),
    ],
)
def test_the_session_equals_that_of_connect(tmp_path: Path, settings: dict[str, str], environment: dict[str, str], output: str) -> None:
    arguments = json.dumps({"location": str(tmp_path), "spark_config": SPARK_SETTINGS | settings})
    variables = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])} | environment
    run = subprocess.run([sys.executable, "-c", PROGRAM, arguments], env=variables, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == output
    assert "Traceback" not in run.stderr
