"""`rowmerge.check_environment`, which `dbt debug` prints: stores, catalogs, clocks and versions, without Spark."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

import rowmerge
from rowmerge.errors import ConfigurationError
from rowmerge.session.startup.cluster import check_master_answers
from tests.support.faulty_s3 import Fault, FaultyS3, Request, needs_moto, serving
from tests.support.rest_catalog import serving as serving_catalog

SECRET = "hush-hush"
KILLED = """
import os, signal, sys, rowmerge
for check in rowmerge.check_environment(sys.argv[1]):
    if check.name == "store read":
        os.kill(os.getpid(), signal.SIGKILL)
"""
STORE_CHECKS = ["versions", "store list", "store write", "store read", "conditional puts", "clock", "store delete"]


def run_checks(*arguments: object, **options: object) -> dict[str, tuple[str, str]]:
    """Return the status and the detail of each check, by its name."""
    return {check.name: (check.status, check.detail) for check in rowmerge.check_environment(*arguments, **options)}


def failed(checks: dict[str, tuple[str, str]]) -> list[str]:
    return [name for name, (status, _) in checks.items() if status != "OK"]


# ------------------------------------------------------------------ folders


def test_a_folder_is_checked_and_nothing_remains(tmp_path: Path) -> None:
    checks = run_checks(str(tmp_path / "new" / "warehouse"))
    assert list(checks) == STORE_CHECKS and failed(checks) == []
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_keeps_its_files(tmp_path: Path) -> None:
    (tmp_path / "main" / "t").mkdir(parents=True)
    (tmp_path / "file").write_text("")
    assert failed(run_checks(str(tmp_path))) == []
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "main", "t"]


def test_a_file_is_no_warehouse(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    checks = run_checks(str(tmp_path / "file"))
    assert failed(checks) == ["store list", "store write"] and "it is a file" in checks["store list"][1]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is a folder in which nobody can create files")
def test_a_folder_without_permission_is_reported(tmp_path: Path) -> None:
    checks = run_checks("/proc/warehouse")
    assert "store write" in failed(checks) and "The warehouse must be a writable folder" in checks["store write"][1]


def test_the_next_check_deletes_the_files_of_a_killed_one(tmp_path: Path) -> None:
    process = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, check=False)
    assert process.returncode == -signal.SIGKILL
    (scratch,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert scratch.parent == tmp_path / ".rowmerge-debug"
    assert failed(run_checks(str(tmp_path))) == [] and scratch.exists()  # it may belong to a running check
    hour_ago = time.time() - 3600
    os.utime(scratch, (hour_ago, hour_ago))
    checks = run_checks(str(tmp_path))
    assert checks["store delete"] == ("OK", "the scratch file, and 1 of killed checks")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_check_deletes_its_file(tmp_path: Path) -> None:
    checks = rowmerge.check_environment(str(tmp_path))
    assert next(check for check in checks if check.name == "store read").status == "OK"
    assert list(tmp_path.iterdir()) != []
    checks.close()  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []


def test_neither_a_location_nor_a_catalog_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="Neither a location nor a catalog"):
        list(rowmerge.check_environment())


# ------------------------------------------------------------------ versions


@pytest.mark.parametrize(
    ("reported", "detail"),
    [("11.0.2", "is Java 11.0.2. Install Java 17"), ("1.8.0_402", "is Java 1.8.0_402"), (None, "reports no version")],
)
def test_an_old_java_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reported: str | None, detail: str) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{reported}\" 2020' >&2\n" if reported else "#!/bin/sh\nexit 1\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    status, text = run_checks(str(tmp_path / "w"))["versions"]
    assert status == "ERROR" and detail in text
    # The client of a Spark Connect server needs no Java.
    monkeypatch.setenv("SPARK_REMOTE", "local")
    assert run_checks(str(tmp_path / "w"))["versions"][0] == "OK"


def test_a_package_out_of_range_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = tmp_path / "sqlglot-1.2.3.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: sqlglot\nVersion: 1.2.3\n")
    own = tmp_path / "dbt_rowmerge-9.9.dist-info" / "METADATA"
    own.parent.mkdir()
    own.write_text("Metadata-Version: 2.1\nName: dbt-rowmerge\nVersion: 9.9\nRequires-Dist: sqlglot<31,>=30\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    status, text = run_checks(str(tmp_path / "w"))["versions"]
    assert status == "ERROR" and "sqlglot has version 1.2.3, but sqlglot<31,>=30 is required. Install the packages again" in text


# ------------------------------------------------------------------ object stores


def _objects(s3: FaultyS3) -> list[str]:
    s3.rule = None
    _, _, listing = s3.forward(Request("GET", "/lake?list-type=2", _AUTHORIZATION, b""))
    return re.findall(r"<Key>(.*?)</Key>", listing.decode())


_AUTHORIZATION = {
    "authorization": "AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=none"
}


@needs_moto
def test_a_bucket_is_checked_and_nothing_remains(s3: FaultyS3) -> None:
    objects = _objects(s3)
    checks = run_checks(f"{s3.location}/checked", storage_options=s3.options())
    assert list(checks) == STORE_CHECKS and failed(checks) == []
    assert any("/checked/.rowmerge-debug/" in request.path for request in s3.requests if request.method == "PUT")
    assert _objects(s3) == objects


def _denied(method: str, part: str) -> Callable[[Request], int | None]:
    return lambda request: 403 if request.method == method and part in request.path else None


@needs_moto
@pytest.mark.parametrize(
    ("method", "part", "expected"),
    [
        ("GET", "list-type=2", ["store list", "clock"]),
        ("PUT", "", ["store write"]),
        ("GET", ".rowmerge-debug/", ["store read"]),
        ("POST", "delete", ["store delete"]),
    ],
)
def test_a_missing_permission_fails_its_check_alone(s3: FaultyS3, method: str, part: str, expected: list[str]) -> None:
    denied = _denied(method, part)
    # The listing of a folder also has its name in the query.
    s3.rule = lambda request: None if part.startswith(".") and "list-type" in request.path else denied(request)
    checks = run_checks(f"{s3.location}/denied", storage_options=s3.options())
    assert failed(checks) == expected
    assert "403" in checks[expected[0]][1] and "testing" not in str(checks)


@needs_moto
def test_a_store_without_conditional_puts_is_reported(s3: FaultyS3) -> None:
    s3.rule = lambda request: Fault.UNCONDITIONAL if request.method == "PUT" else None
    checks = run_checks(f"{s3.location}/unconditional", storage_options=s3.options())
    assert failed(checks) == ["conditional puts"] and "conditional puts do not work here" in checks["conditional puts"][1]


class ShiftedS3(FaultyS3):
    """A proxy whose store has another clock. `shift` is its deviation in seconds."""

    shift = 0

    def forward(self, request: Request) -> tuple[int, list[tuple[str, str]], bytes]:
        status, headers, content = super().forward(request)
        modified = datetime.now(timezone.utc) + timedelta(seconds=self.shift)
        text = f"<LastModified>{modified:%Y-%m-%dT%H:%M:%S.000Z}</LastModified>".encode()
        return status, headers, re.sub(rb"<LastModified>.*?</LastModified>", text, content)


@needs_moto
@pytest.mark.parametrize(("shift", "status"), [(0, "OK"), (60, "WARNING"), (-60, "WARNING"), (3600, "ERROR"), (-3600, "ERROR")])
def test_the_clock_of_the_store_is_compared(s3: FaultyS3, shift: int, status: str) -> None:
    with serving(ShiftedS3(s3.store)) as proxy:
        assert isinstance(proxy, ShiftedS3)
        proxy.shift = shift
        checks = run_checks(f"{s3.location}/clock", storage_options=proxy.options())
    assert checks["clock"][0] == status
    assert ("Synchronize this machine with NTP" in checks["clock"][1]) == (status != "OK")


def test_a_store_that_does_not_answer_fails_without_its_keys() -> None:
    options = {"aws_access_key_id": SECRET, "aws_secret_access_key": SECRET, "endpoint": "http://127.0.0.1:1", "allow_http": "true"}
    checks = run_checks("s3://lake/x", storage_options=options)
    assert failed(checks) == ["store list", "store write"] and SECRET not in str(checks)


# ------------------------------------------------------------------ catalogs


@pytest.fixture
def sql(tmp_path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}


def test_a_sql_catalog_and_its_warehouse_are_checked(sql: dict[str, str], tmp_path: Path) -> None:
    checks = run_checks(catalog=sql)
    assert failed(checks) == [] and checks["catalog"] == ("OK", "sql, 0 schemas")
    assert list(checks) == ["versions", "catalog", "store list", "store write", "store read", "clock", "store delete"]
    assert not (tmp_path / "warehouse").exists()


def test_a_rest_catalog_chooses_the_location(sql: dict[str, str], tmp_path: Path) -> None:
    requests: list[str] = []

    def log(request: str, answer: Callable[[], tuple[int, object]]) -> tuple[int, object]:
        requests.append(request)
        return answer()

    with serving_catalog(sql, log) as address:
        settings = {"type": "rest", "uri": address}
        assert "So the store is not checked" in run_checks(catalog=settings)["catalog"][1]
        assert requests[:2] == ["GET /v1/config", "GET /v1/served/namespaces"] or "GET /v1/config" in requests[0]
        rowmerge.catalog.IcebergCatalog(settings, None).create_schema("main")
        checks = run_checks(catalog=settings, schema="main")
    assert failed(checks) == [] and "store write" in checks
    assert not (tmp_path / "warehouse").exists() or not list((tmp_path / "warehouse").rglob("*.*"))


def test_a_catalog_that_fails_is_reported_without_secrets(sql: dict[str, str]) -> None:
    with serving_catalog(sql, lambda request, answer: (403, {"error": {"message": "no", "type": "x", "code": 403}})) as address:
        refused = run_checks(catalog={"type": "rest", "uri": address, "token": SECRET})
    missing = run_checks(catalog={"type": "rest", "uri": "http://127.0.0.1:1", "credential": f"id:{SECRET}"})
    for checks in (refused, missing):
        assert failed(checks) == ["catalog"] and "Check that the catalog is running" in checks["catalog"][1]
        assert SECRET not in str(checks)


def test_a_master_at_an_ipv6_address_answers() -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        address = f"spark://[::1]:{server.getsockname()[1]}"
        check_master_answers(address)
    with pytest.raises(ConfigurationError, match="No Spark master answers"):
        check_master_answers(address)
