"""A class archive is created and used by Java, and a truncated archive causes no failure."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rowmerge
from rowmerge.session.startup.class_archive import CACHE, find_archive

pytestmark = pytest.mark.full_suite("each test starts a JVM of its own; tests/unit/session/test_class_archive.py runs in the gate")

STARTING = """
import sys
from pathlib import Path
import rowmerge
session = rowmerge.connect(sys.argv[1])
mapped = False
for maps in Path("/proc").glob("[0-9]*/maps"):
    try:
        mapped |= sys.argv[2] in maps.read_text()
    except OSError:
        pass  # it has ended, or is another user's
print(mapped, session.sql("select sum(id) from range(10)").collect()[0][0])
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Create an archive with the command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE, str(tmp_path_factory.mktemp("the cache")))
        process = subprocess.run([sys.executable, "-m", "rowmerge", "archive-classes"], capture_output=True, text=True, check=True)
        path = find_archive({})
        assert process.stdout.startswith(f"{path} (") and process.stderr == ""
        assert [entry.name for entry in path.parent.iterdir()] == [path.name]
        yield path


def _start(folder, archive):
    return subprocess.run([sys.executable, "-c", STARTING, str(folder), str(archive)], capture_output=True, text=True, check=True)


def _complaints(started):
    """Return standard error without the messages that Java prints at every start of Spark."""
    return [line for line in started.stderr.splitlines() if "Using incubator modules" not in line]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what Java maps")
def test_java_uses_the_archive(archive, tmp_path):
    started = _start(tmp_path, archive)
    assert (started.stdout, _complaints(started)) == ("True 45\n", [])


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what Java maps")
@pytest.mark.parametrize("length", [0, 50_000_000])
def test_a_truncated_archive_is_not_used(archive, tmp_path, length):
    whole = archive.read_bytes()
    archive.unlink()
    archive.write_bytes(whole[:length])
    try:
        started = _start(tmp_path, archive)
        assert (started.stdout, _complaints(started)) == ("False 45\n", [])
    finally:
        archive.unlink()
        archive.write_bytes(whole)


def test_java_options_of_the_user_follow_those_of_the_engine(spark, tmp_path):
    java_options = spark.conf.get("spark.driver.extraJavaOptions")
    assert "log4j2.configurationFile" in java_options and "TieredStopAtLevel" in java_options
    user_options = java_options[java_options.index("-XX:TieredStopAtLevel") :]
    session = rowmerge.connect(str(tmp_path), spark_config={"spark.driver.extraJavaOptions": user_options})
    assert session.spark is spark
