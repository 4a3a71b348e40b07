"""Credentials that a REST catalog vends, in Spark's reader. tests/unit/catalog/test_rest_security.py has all others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.faulty_s3 import FaultyS3, needs_moto
from tests.support.vending_server import VendingServer

pytestmark = needs_moto
S3_JARS = os.environ.get("ROWMERGE_S3_JARS", "")
needs_s3_jars = pytest.mark.skipif(not S3_JARS, reason="ROWMERGE_S3_JARS names no folder with the jars of hadoop-aws")
SPARK_READER = """
import json, sys, rowmerge
catalog, jars, folder = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
settings = {"spark.jars": jars, "spark.rowmerge.read.smallFilesWithArrow.enabled": "false", "spark.ui.enabled": "false"}
session = rowmerge.connect(catalog=catalog, spark_config=settings)
session.sql("create schema raw")
session.sql("create table raw.t using iceberg as select id, id % 7 as k from range(1000)")
for _ in range(3):  # with other keys each time, of which only the newest are valid
    session.sql("merge into raw.t using (select id, 9 as k from range(0, 2000, 3)) s on t.id = s.id "
                "when matched then update set * when not matched then insert *")
    counts = session.sql("select count(*), sum(if(a.k = 9, 1, 0)) from raw.t a join raw.t b on a.id = b.id").collect()
print(json.dumps(list(counts[0])))
"""


@needs_s3_jars
@pytest.mark.full_suite("starts a Spark with hadoop-aws")
def test_vended_keys_reach_sparks_reader(s3: FaultyS3, tmp_path: Path) -> None:
    server = VendingServer(s3, tmp_path)
    with server.serve() as uri:
        jars = ",".join(str(jar) for jar in Path(S3_JARS).glob("*.jar"))
        arguments = [f'{{"type": "rest", "uri": "{uri}"}}', jars, str(tmp_path)]
        result = subprocess.run([sys.executable, "-c", SPARK_READER, *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout.splitlines()[-1] == "[1333, 667]"
    assert server.denied == []
    assert any(
        "s3a" in request.headers.get("user-agent", "").lower() or "hadoop" in request.headers.get("user-agent", "").lower()
        for request in server.s3.requests
    )
    assert "hush" not in result.stdout + result.stderr
