"""A PostgreSQL server in a temporary folder, if PostgreSQL (`apt-get install postgresql`) and `psycopg2-binary` are installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest


def _programs() -> Path | None:
    """Return the folder of initdb and pg_ctl, which Debian does not add to PATH."""
    initdb = shutil.which("initdb")
    folders = [Path(initdb).parent] if initdb else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((folder for folder in reversed(folders) if (folder / "initdb").exists()), None)


needs_postgresql = pytest.mark.skipif(
    _programs() is None or find_spec("psycopg2") is None, reason="PostgreSQL's initdb and psycopg2, its client, are not installed"
)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """Yield the URI of a PostgreSQL server that the tests of this process share."""
    with serving_postgresql() as uri:
        yield uri


@contextmanager
def serving_postgresql() -> Iterator[str]:
    """Start a server with an empty database, and yield the URI of the database with its password."""
    programs = _programs()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="postgresql"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "password").write_text("hush")
    folder.chmod(0o755)
    # PostgreSQL refuses to run as root.
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if user:
        shutil.chown(folder, "postgres")
    data, log = folder / "data", folder / "log"
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"

    def run(program: str, *arguments: str) -> None:
        subprocess.run([*user, str(programs / program), "-D", str(data), *arguments], check=True, cwd=folder, stdout=subprocess.DEVNULL)

    run("initdb", "-U", "lake", "-A", "scram-sha-256", "--pwfile", str(folder / "password"))
    run("pg_ctl", "-w", "-l", str(log), "-o", options, "start")
    try:
        yield f"postgresql+psycopg2://lake:hush@127.0.0.1:{port}/postgres"
    finally:
        run("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def new_database(server: str) -> Iterator[str]:
    """Create a database on a server, and yield its URI. It is dropped afterwards."""
    import psycopg2  # an optional dependency

    name = f"lake_{uuid.uuid4().hex}"
    connection = psycopg2.connect(server.replace("+psycopg2", ""))
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"create database {name}")
        yield f"{server.rpartition('/')[0]}/{name}"
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"drop database {name} with (force)")
        connection.close()
