"""No secret of a profile appears in logs, errors, artifacts, tables, EXPLAIN, `dbt debug` or Spark's user interface."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml

ROOT = Path(__file__).parents[3]
WORDS = [f"Plant3d{number:02d}Xq" for number in range(24)]
"""The beginning of each secret. Encodings do not change it, except that of the account key, which is base64 text."""
KEY = base64.b64encode(b"an account key of a store, planted").decode()
PARTS = [*WORDS, KEY[:30], "an account key of a store"]
MODELS = {
    "d.sql": "{{ config(materialized='incremental', unique_key='id') }} select id, v from {{ ref('given') }}",
    "i.sql": "{{ config(materialized='incremental', unique_key='id', file_format='iceberg') }} select id, v from {{ ref('given') }}",
    "broken.sql": "select no_such_column from {{ ref('given') }}",
    "from_store.sql": "select * from delta.`abfss://lake@account.dfs.core.windows.net/x`",
}


@contextmanager
def rejecting() -> Iterator[str]:
    """Serve a store that rejects each request, and repeats its path in the message, as Azure does."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def reject(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            message = self.path.replace("&", "&amp;")
            body = (
                b"" if self.command == "HEAD" else f"<Error><Code>AuthenticationFailed</Code><Message>{message}</Message></Error>".encode()
            )
            self.send_response(403)
            self.send_header("x-ms-error-code", "AuthenticationFailed")
            if body:
                self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = do_PATCH = reject

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _storage_options(store: str, *, with_sas: bool) -> dict[str, object]:
    azure = {"azure_storage_sas_key": f"sv=2024&ss=b&sig={WORDS[0]}%2Bx%2Fy%3D&se=2030"} if with_sas else {"azure_storage_account_key": KEY}
    return {
        **azure,
        "azure_storage_account_name": "acc",
        "azure_endpoint": f"{store}/acc",
        "aws_access_key_id": WORDS[1],
        "aws_secret_access_key": WORDS[2],
        "aws_session_token": f"{WORDS[3]}/+=x",
        "aws_endpoint": store,
        "aws_region": "us-east-1",
        "google_bearer_token": WORDS[4],
        "google_base_url": store,
        "allow_http": "true",
        "retry_config": {"max_retries": 0},
    }


def _catalogs(store: str) -> list[dict[str, str]]:
    host = store.removeprefix("http://")
    s3 = {"s3.access-key-id": WORDS[5], "s3.secret-access-key": WORDS[6], "s3.session-token": WORDS[7]}
    return [
        {"type": "rest", "uri": store, "token": WORDS[8], **s3},
        {"type": "rest", "uri": store, "credential": f"id:{WORDS[9]}", "oauth2-server-uri": f"{store}/tokens", **s3},
        {"type": "rest", "uri": f"http://me:{WORDS[10]}@{host}/x", "header.Authorization": f"Basic {WORDS[11]}"},
        {"type": "sql", "uri": f"postgresql+psycopg2://me:{WORDS[12]}@127.0.0.1:1/lake"},
        {"type": "sql", "uri": f"sqlite:////no/such/folder/x.db?token={WORDS[13]}"},
        {
            "type": "glue",
            "glue.region": "us-east-1",
            "glue.endpoint": store,
            "glue.access-key-id": WORDS[14],
            "glue.secret-access-key": WORDS[15],
        },
    ]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "dbt_project.yml").write_text("{name: p, version: '1.0.0', profile: p, flags: {send_anonymous_usage_stats: false}}")
    for folder, files in {"models": MODELS, "seeds": {"given.csv": "id,v\n1,a\n2,b\n"}}.items():
        (tmp_path / folder).mkdir()
        for name, text in files.items():
            (tmp_path / folder / name).write_text(text)
    return tmp_path


def _write_profile(project: Path, target: dict[str, object]) -> None:
    target = {"type": "rowmerge", "schema": "main", "threads": 2, "warehouse": str(project / "warehouse"), **target}
    (project / "profiles.yml").write_text(yaml.safe_dump({"p": {"target": "dev", "outputs": {"dev": target}}}))


def _leaks(project: Path, *texts: str) -> list[str]:
    """Return the files and the lines in which a part of a secret occurs, except the files that configure it."""
    (project / "profiles.yml").unlink()
    (project / "target.json").unlink(missing_ok=True)
    contents = {str(path.relative_to(project)): path.read_bytes().decode(errors="replace") for path in project.rglob("*") if path.is_file()}
    contents |= {f"text {index}": text for index, text in enumerate(texts)}
    return [f"{name}: {line[:600]}" for name, text in contents.items() for line in text.splitlines() if any(part in line for part in PARTS)]


@pytest.mark.full_suite("it starts a JVM with a user interface; the next test searches dbt debug and its logs")
@pytest.mark.parametrize("with_sas", [False, True])
def test_secrets_of_a_profile_appear_nowhere(project: Path, with_sas: bool) -> None:
    (project / "events").mkdir()
    spark_config = {
        "spark.ui.enabled": True,
        "spark.ui.port": 0,
        "spark.eventLog.enabled": True,
        "spark.eventLog.dir": f"file://{project}/events",
        "spark.eventLog.compress": False,
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": 2,
        "spark.hadoop.fs.azure.account.key.other.dfs.core.windows.net": WORDS[16],
        "spark.hadoop.fs.gs.auth.service.account.private.key": WORDS[17],
        "spark.hadoop.fs.s3a.access.key": WORDS[18],
        "spark.shop.password": WORDS[19],
        "spark.shop.credentials": WORDS[20],
    }
    with rejecting() as store:
        options = _storage_options(store, with_sas=with_sas)
        _write_profile(project, {"spark_config": spark_config, "storage_options": options})
        remotes = [f"sc://me:{WORDS[21]}@127.0.0.1:1/;token={WORDS[22]}", f"sc://127.0.0.1:1/;use_ssl=true;token={quote(WORDS[23] + '/=')}"]
        target = {"warehouse": str(project / "warehouse"), "storage_options": options, "catalogs": _catalogs(store), "remotes": remotes}
        (project / "target.json").write_text(json.dumps(target))
        command = [sys.executable, "-m", "tests.functional.adapter.leaks", str(project), str(project / "output"), store]
        process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-2000:]
    output = (project / "output").read_text()
    assert "complete" in output and "Environment" in output and "Connection test" in (project / "logs/dbt.log").read_text()
    assert list((project / "events").iterdir())
    assert _leaks(project, process.stdout, process.stderr) == []


DEBUG = """
import logging, sys
from dbt.cli.main import dbtRunner
logging.basicConfig(level=logging.DEBUG)
result = dbtRunner().invoke(["--log-level", "debug", "debug", "--project-dir", sys.argv[1], "--profiles-dir", sys.argv[1]])
print(result.success)
"""


@pytest.mark.one_of("place")
@pytest.mark.parametrize("place", ["abfss://lake@account.dfs.core.windows.net/x", "s3://lake/x", "catalog"])
def test_dbt_debug_shows_failures_of_stores_and_catalogs_without_secrets(project: Path, place: str) -> None:
    with rejecting() as store:
        target = {"catalog": _catalogs(store)[0], "warehouse": None} if place == "catalog" else {"warehouse": place}
        _write_profile(project, {**target, "storage_options": _storage_options(store, with_sas=True)})
        # Without Java, `dbt debug` reports that Java is missing, and checks the rest.
        environment = {**os.environ, "JAVA_HOME": str(project)}
        command = [sys.executable, "-c", DEBUG, str(project)]
        process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert process.stdout.endswith("False\n") and "JAVA_HOME" in process.stdout
    failed_check = "catalog: [" if place == "catalog" else "store write: ["
    assert failed_check in process.stdout and "403" in process.stdout
    assert _leaks(project, process.stdout, process.stderr) == []
