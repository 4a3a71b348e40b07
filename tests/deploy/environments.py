"""The environments of docs/deploy: the profile of each, and how a test starts its real components.

`tests/deploy/test_environments.py` runs a trial in each environment. An environment of which a component is missing has a reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.trial import PROFILE
from tests.support.connect_server import ConnectServer, server_python
from tests.support.rest_catalog import serving
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
    """

    name: str
    components: str
    start: Callable[[Path], AbstractContextManager[Variables]]
    formats: tuple[str, ...] = ("delta", "iceberg")
    missing: Callable[[], str | None] = lambda: None


def run_trial(environment: Environment, folder: Path, format_: str, *parts: str) -> dict[str, Any]:
    """Run a trial in an environment, and return its result. Raises AssertionError with the output of a trial that ends early."""
    profile = yaml.safe_load((PROFILES / f"{environment.name}.yml").read_text())
    target = profile[PROFILE]["outputs"][profile[PROFILE]["target"]]
    if format_ != target.get("file_format", "iceberg" if "catalog" in target else "delta"):
        target["file_format"] = format_
    folder.mkdir(parents=True)
    (folder / "profiles.yml").write_text(yaml.safe_dump(profile))
    with environment.start(folder) as variables:
        command = [sys.executable, "-m", "tests.deploy.trial", str(folder), format_, *parts]
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
    server = ConnectServer(folder / "server", python=server_python(folder / "python"), settings=settings)
    with server, TlsProxy(folder / "proxy", server.port) as proxy:
        yield {
            "WAREHOUSE": str(folder / "warehouse"),
            "SPARK_HOST": "localhost",
            "SPARK_PORT": str(proxy.port),
            "DBT_ENV_SECRET_SPARK_TOKEN": "a-token",
            "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(proxy.certificate),
        }


@contextmanager
def _rest_catalog(folder: Path) -> Iterator[Variables]:
    warehouse = f"file://{folder}/warehouse"
    with serving({"uri": f"sqlite:///{folder}/catalog.db", "warehouse": warehouse}) as address:
        yield {"CATALOG_URI": address, "WAREHOUSE": warehouse, "DBT_ENV_SECRET_CATALOG_TOKEN": "a-token"}


ENVIRONMENTS = (
    Environment("laptop", "Spark in dbt's process", _laptop),
    Environment("server", "Spark in dbt's process, 1 GB and two cores", _laptop),
    Environment("spark_connect", "Spark Connect server without rowmerge, with a token, behind a TLS proxy", _spark_connect),
    Environment("rest_catalog", "REST server over a SQL catalog of pyiceberg", _rest_catalog, ("iceberg",)),
)
"""The environments whose components start here, the laptop first. `docs/deploy` also documents others, which no test runs."""
