"""Credentials that a REST catalog vends, in Spark's reader. tests/unit/catalog/test_rest_security.py has all others."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checked_s3 import library_of
from tests.support.faulty_s3 import FaultyS3, needs_moto
from tests.support.maven_repository import create_maven_repository
from tests.support.s3_session import S3_JARS
from tests.support.vending_server import VendingServer

pytestmark = needs_moto
needs_s3_jars = pytest.mark.skipif(not S3_JARS, reason="ROWMERGE_S3_JARS names no folder with the jars of hadoop-aws")
SPARK_READER = """
import json, sys, rowmerge
settings = {"spark.rowmerge.read.smallFilesWithArrow.enabled": "false", "spark.ui.enabled": "false", **json.loads(sys.argv[2])}
session = rowmerge.connect(catalog=json.loads(sys.argv[1]), spark_config=settings)
session.sql("create schema raw")
session.sql("create table raw.t using iceberg as select id, id % 7 as k from range(1000)")
for _ in range(3):  # with other keys each time, of which only the newest are valid
    session.sql("merge into raw.t using (select id, 9 as k from range(0, 2000, 3)) s on t.id = s.id "
                "when matched then update set * when not matched then insert *")
    counts = session.sql("select count(*), sum(if(a.k = 9, 1, 0)) from raw.t a join raw.t b on a.id = b.id").collect()
print(json.dumps(list(counts[0])))
"""


def run_spark(uri: str, settings: dict[str, str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the statements with a profile that names the catalog and these settings of Spark."""
    arguments = [json.dumps({"type": "rest", "uri": uri}), json.dumps(settings)]
    variables = {**os.environ, "AWS_EC2_METADATA_DISABLED": "true", **environment}
    return subprocess.run(
        [sys.executable, "-c", SPARK_READER, *arguments], env=variables, capture_output=True, text=True, timeout=300, check=False
    )


@needs_s3_jars
@pytest.mark.full_suite("starts a Spark with hadoop-aws")
def test_vended_keys_reach_sparks_reader_from_a_profile_alone(s3: FaultyS3, tmp_path: Path) -> None:
    """The profile names neither a location nor a jar: the server sends a location on S3, so Spark gets the package of the connector."""
    server = VendingServer(s3, tmp_path)
    with server.serve({"default-base-location": f"{s3.location}/{tmp_path.name}"}) as uri:
        result = run_spark(uri, {}, create_maven_repository(tmp_path))
    shutil.rmtree(tmp_path / ".ivy2.5.2", ignore_errors=True)
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout.splitlines()[-1] == "[1333, 667]"
    assert server.denied == []
    assert "spark" in {*map(library_of, server.s3.requests)}
    assert "hush" not in result.stdout + result.stderr


@pytest.mark.full_suite("starts another Spark")
@pytest.mark.parametrize("vends", [True, False])
def test_a_scan_without_the_connector_names_it_if_the_server_tells_no_location(s3: FaultyS3, tmp_path: Path, vends: bool) -> None:
    server = VendingServer(s3, tmp_path)
    keys = {"AWS_ACCESS_KEY_ID": "server", "AWS_SECRET_ACCESS_KEY": "hush", "AWS_ENDPOINT_URL": s3.address, "AWS_REGION": "us-east-1"}
    if not vends:
        server.security.vend = None
    with server.serve() as uri:
        result = run_spark(uri, {}, {} if vends else keys)
    error = result.stderr.strip().splitlines()[-1]
    assert error.startswith("rowmerge.errors.environment.ConfigurationError: Spark has no connector for the store of this table."), error
    assert "spark.jars.packages = org.apache.hadoop:hadoop-aws:3" in error and "aws_region" in error
    assert "hush" not in result.stdout + result.stderr
