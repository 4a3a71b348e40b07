"""The environments of docs/deploy: the profile of each, and how a test starts its real components.

`tests/deploy/test_environments.py` runs a trial in each environment. An environment of which a component is missing has a reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.trial import PARTS, PROFILE
from tests.support.connect_server import ConnectServer
from tests.support.faulty_s3 import BUCKET, create_bucket, needs_moto, serving_moto
from tests.support.hive_metastore import needs_hive, serving_hive
from tests.support.postgresql import needs_postgresql, serving_postgresql
from tests.support.rest_catalog import serving
from tests.support.rest_security import TOKEN_PATH, Security
from tests.support.s3_session import S3_JARS
from tests.support.standalone import StandaloneCluster, worker_python
from tests.support.tls_proxy import TlsProxy

ROOT = Path(__file__).parents[2]
PROFILES = ROOT / "docs/deploy/profiles"
Variables = Mapping[str, str]


@dataclass(frozen=True)
class Environment:
    """An environment in which the profile of a page is proven.

    Attributes:
        name: The name of the page and of its profile: `docs/deploy/laptop.md`, `docs/deploy/profiles/laptop.yml`.
        components: The components that a trial starts, for the page of results.
        start: Starts the components in a folder, and yields the environment variables of the profile and of the process.
        formats: The table formats that the environment supports.
        missing: Returns the component that this machine lacks, or None.
        additions: Keys of the profile that lead to a component of the trial, such as the endpoint of an emulated service.
            None removes a key.
    """

    name: str
    components: str
    start: Callable[[Path], AbstractContextManager[Variables]]
    formats: tuple[str, ...] = ("delta", "iceberg")
    missing: Callable[[], str | None] = lambda: None
    additions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def run_trial(environment: Environment, folder: Path, format_: str, *parts: str) -> dict[str, Any]:
    """Run a trial in an environment, and return its result. Raises AssertionError with the output of a trial that ends early."""
    profile = yaml.safe_load((PROFILES / f"{environment.name}.yml").read_text())
    target = profile[PROFILE]["outputs"][profile[PROFILE]["target"]]
    if format_ != target.get("file_format", "iceberg" if "catalog" in target else "delta"):
        target["file_format"] = format_
    for key, addition in environment.additions.items():
        target[key] = {name: value for name, value in {**target.get(key, {}), **addition}.items() if value is not None}
    folder.mkdir(parents=True)
    (folder / "profiles.yml").write_text(yaml.safe_dump(profile))
    with environment.start(folder) as variables:
        command = [sys.executable, "-m", "tests.deploy.trial", str(folder), format_, *(parts or PARTS)]
        process_variables = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
        process = subprocess.run(command, cwd=ROOT, env=process_variables, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout[-4000:] + process.stderr[-4000:]
    result: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return result


@contextmanager
def _laptop(folder: Path) -> Iterator[Variables]:
    yield {"WAREHOUSE": str(folder / "warehouse")}


@contextmanager
def _spark_connect(folder: Path) -> Iterator[Variables]:
    """Start a server without rowmerge that requires a token, and a proxy that ends TLS in front of it."""
    settings = {"spark.connect.authenticate.token": "a-token"}
    server = ConnectServer(folder / "server", python=worker_python(), settings=settings)
    with server, TlsProxy(folder / "proxy", server.port) as proxy:
        yield {
            "WAREHOUSE": str(folder / "warehouse"),
            "SPARK_HOST": "localhost",
            "SPARK_PORT": str(proxy.port),
            "DBT_ENV_SECRET_SPARK_TOKEN": "a-token",
            "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(proxy.certificate),
        }


@contextmanager
def _rest_catalog(folder: Path, *, requires_signature: bool = False) -> Iterator[Variables]:
    """Start a catalog that denies each request without a token that it has issued, or without a signature (SigV4)."""
    warehouse, secret = f"file://{folder}/warehouse", "a-secret"
    security = Security(signing_keys={"dbt": secret}) if requires_signature else Security(secrets={"dbt": secret})
    with serving({"uri": f"sqlite:///{folder}/catalog.db", "warehouse": warehouse}, security=security) as address:
        variables = {"CATALOG_URI": address, "WAREHOUSE": warehouse, "DBT_ENV_SECRET_CATALOG_TOKEN": security.issue()}
        yield {**variables, "DBT_ENV_SECRET_CATALOG_SECRET": secret}


@contextmanager
def _standalone(folder: Path) -> Iterator[Variables]:
    """Start a master and two workers whose Python lacks rowmerge."""
    cluster = StandaloneCluster(folder / "cluster", workers=2)
    try:
        yield {
            "WAREHOUSE": str(folder / "warehouse"),
            "SPARK_MASTER": cluster.master,
            "DRIVER_HOST": "localhost",
            "EXECUTOR_PYTHON": worker_python(),
        }
    finally:
        cluster.close()


@contextmanager
def _sql_catalog(folder: Path) -> Iterator[Variables]:
    with ExitStack() as stack:
        database = f"sqlite:///{folder}/catalog.db" if _missing(needs_postgresql) else stack.enter_context(serving_postgresql())
        yield {"DBT_ENV_SECRET_CATALOG_URI": database, "WAREHOUSE": f"file://{folder}/warehouse"}


@contextmanager
def _hive(folder: Path) -> Iterator[Variables]:
    with serving_hive() as hive:
        yield {"METASTORE_URI": hive["uri"], "WAREHOUSE": f"file://{folder}/warehouse"}


@contextmanager
def _aws(folder: Path) -> Iterator[Variables]:
    """Start moto, with an empty bucket. The keys are in the profile only."""
    with serving_moto() as port:
        # All servers of a process share their buckets and databases.
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/moto-api/reset", method="POST")).close()
        create_bucket(port)
        yield {
            "WAREHOUSE": f"s3://{BUCKET}/warehouse" if S3_JARS else f"file://{folder}/warehouse",
            "AWS_ENDPOINT": f"http://localhost:{port}",
            "DBT_ENV_SECRET_AWS_KEY": "testing",
            "DBT_ENV_SECRET_AWS_SECRET": "testing",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@contextmanager
def _s3_standalone(folder: Path) -> Iterator[Variables]:
    with _standalone(folder) as cluster, _aws(folder) as aws:
        yield {**cluster, **aws}


def _missing(mark: pytest.MarkDecorator) -> str | None:
    """Return the reason of a mark that skips tests here, or None."""
    return str(mark.kwargs["reason"]) if mark.args[0] else None


_ENDPOINT = "{{ env_var('AWS_ENDPOINT') }}"
_STORE = {"aws_endpoint_url": _ENDPOINT}
_NO_PACKAGES = {"spark.jars.packages": ""}
_JARS = {**_NO_PACKAGES, "spark.driver.extraClassPath": f"{S3_JARS}/*", "spark.executor.extraClassPath": f"{S3_JARS}/*"}
"""The S3 connector from a folder, because the trial downloads no packages."""
_DATABASE = "SQLite" if _missing(needs_postgresql) else "PostgreSQL"
_GLUE_FILES = "S3 of moto" if S3_JARS else "a folder"

ENVIRONMENTS = (
    Environment("laptop", "Spark in dbt's process", _laptop),
    Environment("server", "Spark in dbt's process, 1 GB and two cores", _laptop),
    Environment("standalone", "Spark standalone with two workers without rowmerge, and a folder that they share", _standalone),
    Environment(
        "s3_standalone",
        "Spark standalone with two workers without rowmerge, and S3 of moto",
        _s3_standalone,
        missing=lambda: _missing(needs_moto) if S3_JARS else "ROWMERGE_S3_JARS names no folder with the jars of hadoop-aws",
        additions={"storage_options": _STORE, "spark_config": _JARS},
    ),
    Environment("spark_connect", "Spark Connect server without rowmerge, with a token, behind a TLS proxy", _spark_connect),
    Environment("rest_catalog", "REST server over a SQL catalog of pyiceberg", _rest_catalog, ("iceberg",)),
    Environment("sql_catalog", f"SQL catalog on {_DATABASE}", _sql_catalog, ("iceberg",)),
    Environment(
        "glue",
        f"Glue of moto, data files in {_GLUE_FILES}",
        _aws,
        ("iceberg",),
        missing=lambda: _missing(needs_moto),
        additions={"catalog": {"glue.endpoint": _ENDPOINT}, "storage_options": _STORE, "spark_config": _JARS if S3_JARS else _NO_PACKAGES},
    ),
    Environment("hive", "Hive metastore 2.3.10 on Derby", _hive, ("iceberg",), missing=lambda: _missing(needs_hive)),
)
"""The environments whose components start here, the laptop first. `docs/deploy` also documents others, which no test runs."""

_SECRET = "{{ env_var('DBT_ENV_SECRET_CATALOG_SECRET') }}"
_OAUTH2 = {"token": None, "credential": f"dbt:{_SECRET}", "oauth2-server-uri": f"{{{{ env_var('CATALOG_URI') }}}}{TOKEN_PATH}"}
_SIGV4 = {"token": None, "rest.sigv4-enabled": "true", "rest.signing-region": "eu-west-1", "rest.signing-name": "execute-api"}
_SIGNER = {"client.region": "eu-west-1", "client.access-key-id": "dbt", "client.secret-access-key": _SECRET}

VARIANTS = (
    Environment("rest_catalog", "REST server with OAuth2", _rest_catalog, ("iceberg",), additions={"catalog": _OAUTH2}),
    Environment(
        "rest_catalog",
        "REST server with SigV4",
        partial(_rest_catalog, requires_signature=True),
        ("iceberg",),
        missing=lambda: None if find_spec("boto3") else "boto3, with which pyiceberg signs requests, is not installed",
        additions={"catalog": {**_SIGV4, **_SIGNER}},
    ),
)
"""Other configurations of an environment. `docs/deploy/tested.md` has one row for each environment and format, so it does not show them."""
