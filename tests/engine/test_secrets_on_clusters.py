"""No secret of a store or of a catalog appears in what Spark shows, with successful reads of S3 on each kind of Spark.

tests/functional/adapter/test_secrets.py searches what dbt shows.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.connect_server import ConnectServer, free_port
from tests.support.faulty_s3 import BUCKET, create_bucket, needs_moto
from tests.support.rest_catalog import serving
from tests.support.rest_security import TOKEN_PATH, Security
from tests.support.s3_session import S3_JARS
from tests.support.standalone import StandaloneCluster, worker_python

pytestmark = [
    needs_moto,
    pytest.mark.skipif(not S3_JARS, reason="ROWMERGE_S3_JARS names no folder with the jars of hadoop-aws"),
    pytest.mark.full_suite("each kind of Spark starts with hadoop-aws"),
]
ROOT = Path(__file__).parents[2]
KINDS = ("access-key-id", "secret-access-key", "session-token")
CLASS_PATH = {"spark.driver.extraClassPath": f"{S3_JARS}/*", "spark.executor.extraClassPath": f"{S3_JARS}/*"}


def keys(owner: str) -> dict[str, str]:
    """Return the three keys of an owner by the names of pyiceberg's settings. Their texts occur nowhere else."""
    return {kind: f"Plant3d{owner}{index}Xq" for index, kind in enumerate(KINDS)}


def settings(prefix: str, owner: str) -> dict[str, str]:
    return {f"{prefix}.{kind}": value for kind, value in keys(owner).items()}


@contextmanager
def connections(folder: Path, endpoint: str, security: Security) -> Iterator[list[dict[str, Any]]]:
    """Serve a catalog, and yield the arguments of connections with each kind of secret.

    Args:
        folder: The folder for the database of the catalog.
        endpoint: The address of S3.
        security: The security of a server that requires a token and vends keys.
    """
    s3 = {"s3.endpoint": endpoint, "s3.region": "us-east-1", "s3.path-style-access": "true"}
    sql = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"s3://{BUCKET}/{folder.name}", **s3, **settings("s3", "Server")}
    signing = keys("Signing")
    signed = Security(signing_keys={signing["access-key-id"]: signing["secret-access-key"]})
    security.vend = lambda location: {"config": {**s3, **settings("s3", "Vended")}}
    options = {f"aws_{kind.replace('-', '_')}": value for kind, value in keys("Option").items()}
    options |= {"aws_endpoint": endpoint, "aws_region": "us-east-1", "allow_http": "true"}
    with serving(sql, security=security) as uri, serving(sql, security=signed) as signed_uri:
        oauth2 = {"credential": "dbt:Plant3dClientXq", "oauth2-server-uri": uri + TOKEN_PATH}
        sigv4 = {"rest.sigv4-enabled": "true", "rest.signing-region": "us-east-1", **s3, **settings("client", "Signing")}
        yield [
            {"location": f"s3://{BUCKET}/{folder.name}/tables", "storage_options": options},
            {"catalog": {"type": "rest", "uri": uri, **oauth2}},
            {"catalog": {"type": "rest", "uri": signed_uri, **sigv4, "client.region": "us-east-1"}},
        ]


@contextmanager
def spark(kind: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Start a kind of Spark with a user interface and an event log. Yield the configuration of the program."""
    (folder / "events").mkdir(parents=True)
    config = {
        **CLASS_PATH,
        "spark.ui.enabled": "true",
        "spark.ui.port": str(free_port()),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}/events",
        "spark.eventLog.compress": "false",
        "spark.log.level": "INFO",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
    }
    # Otherwise, Arrow reads these files on the driver, and Spark gets no options.
    small_files = {"spark.rowmerge.read.smallFilesWithArrow.enabled": "false"}
    program: dict[str, Any] = {"is_existing": kind == "existing", "ui": None, "pages": []}
    with ExitStack() as stack:
        if kind == "connect":
            stack.enter_context(server := ConnectServer(folder / "server", python=worker_python(), settings={**config, **small_files}))
            program |= {"spark_config": {"spark.remote": server.address}, "pages": ["connect/"]}
            program["ui"] = f"http://localhost:{config['spark.ui.port']}"
        elif kind == "standalone":
            cluster = StandaloneCluster(folder / "cluster", workers=1)
            stack.callback(cluster.close)
            config |= {"spark.master": cluster.master, "spark.driver.host": "localhost", "spark.executor.memory": "512m"}
            program["spark_config"] = {**config, **small_files, "spark.pyspark.python": worker_python()}
        else:
            program["spark_config"] = {**config, **small_files, "spark.master": "local[2]"}
        yield program


@pytest.mark.parametrize("kind", ["standalone", "connect", "existing"])
def test_secrets_of_stores_and_catalogs_appear_nowhere(kind: str, tmp_path: Path, moto_port: int) -> None:
    create_bucket(moto_port)
    security = Security(secrets={"dbt": "Plant3dClientXq"})
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYSPARK_"))}
    environment |= {"AWS_EC2_METADATA_DISABLED": "true", "PYTHONPATH": str(ROOT)}
    output = tmp_path / "output"
    with spark(kind, tmp_path) as program, connections(tmp_path, f"http://127.0.0.1:{moto_port}", security) as arguments:
        text = json.dumps({**program, "connections": arguments, "output": str(output)})
        command = [sys.executable, "-m", "tests.engine.secret_statements"]
        process = subprocess.run(command, input=text, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    (tmp_path / "stderr").write_text(process.stderr)
    content = output.read_text()
    assert "complete" in content and "Environment" in content and "raise_error" in content
    assert content.count("count(1)=1333") == 4, "not every connection has read its tables"
    assert any((tmp_path / "events").rglob("*"))
    secrets = re.compile("|".join(["Plant3d\\w+Xq", *security.tokens]))
    contents = {path: path.read_bytes().decode(errors="replace") for path in tmp_path.rglob("*") if path.is_file()}
    leaks = [
        f"{path.relative_to(tmp_path)}: {text[max(match.start() - 300, 0) : match.end()]}"
        for path, text in contents.items()
        for match in secrets.finditer(text)
    ]
    assert leaks == []
