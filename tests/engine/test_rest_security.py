"""REST catalogs with OAuth2, signed requests, and credentials that the server vends for tables and renews."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.catalog.paths import without_paths
from rowmerge.errors import CatalogFailed, ConfigurationError
from rowmerge.iceberg.catalogs.file_io import vended_properties
from tests.support.faulty_s3 import FaultyS3, Request, needs_moto
from tests.support.rest_catalog import serving
from tests.support.rest_security import Security

S3_JARS = os.environ.get("ROWMERGE_S3_JARS", "")
needs_s3_jars = pytest.mark.skipif(not S3_JARS, reason="ROWMERGE_S3_JARS names no folder with the jars of hadoop-aws")
needs_boto3 = pytest.mark.skipif(find_spec("boto3") is None, reason="boto3, with which pyiceberg signs requests, is not installed")
SECRET = "s3cr3t/+"
STATEMENTS = (
    "create schema raw",
    "create table raw.t using iceberg as select id, concat('v', id) as v from range(4)",
    "merge into raw.t using (select 2 as id, 'u' as v) s on t.id = s.id when matched then update set * when not matched then insert *",
    "delete from raw.t where id = 0",
    "create view raw.v as select id, v from raw.t",
    "create or replace view raw.v as select id, v from raw.t where id > 1",
    "alter view raw.v rename to raw.w",
    "alter table raw.t add column n int",
    "vacuum raw.t",
)


def sql(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/w"}


def oauth2(uri: str, **more: str) -> dict[str, str]:
    return {"type": "rest", "uri": uri, "oauth2-server-uri": f"{uri}/oauth/tokens", "scope": "lake:all", **more}


@pytest.mark.parametrize("uses", [1_000_000, 3])
def test_client_credentials_get_a_token_and_a_new_one_when_it_expires(spark: SparkSession, tmp_path: Path, uses: int) -> None:
    security = Security(secrets={"dbt": SECRET}, token_uses=uses)
    with serving(sql(tmp_path), security=security) as uri:
        session = rowmerge.connect(catalog=oauth2(uri, credential=f"dbt:{SECRET}"), spark=spark)
        for statement in STATEMENTS:
            session.sql(statement)
        assert session.sql("select * from raw.w order by id").collect() == [(2, "u"), (3, "v3")]
    assert set(security.scopes) == {"lake:all"}
    assert security.issued > 10 if uses == 3 else security.issued <= 2


def test_a_token_is_used_as_it_is_and_its_end_is_reported_without_secrets(spark: SparkSession, tmp_path: Path) -> None:
    security = Security(secrets={"dbt": SECRET}, token_uses=100)
    token = security.issue()
    with serving(sql(tmp_path), security=security) as uri:
        session = rowmerge.connect(catalog={"type": "rest", "uri": uri, "token": token}, spark=spark)
        session.sql("create schema raw")
        security.token_uses = 1
        with pytest.raises(CatalogFailed, match="has expired") as failure:
            session.sql("create table raw.t (id int) using iceberg")
        assert token not in str(failure.value)
        with pytest.raises(CatalogFailed, match="unknown client|invalid_client") as failure:
            rowmerge.connect(catalog=oauth2(uri, credential="dbt:wrong-secret"), spark=spark)
        assert "wrong-secret" not in str(failure.value)


@needs_boto3
def test_requests_are_signed(spark: SparkSession, tmp_path: Path) -> None:
    security = Security(signing_keys={"AKIA1": SECRET})
    settings = {"rest.sigv4-enabled": "true", "rest.signing-region": "eu-west-1", "rest.signing-name": "execute-api"}
    with serving(sql(tmp_path), security=security) as uri:
        signed = {"type": "rest", "uri": uri, **settings, "client.access-key-id": "AKIA1", "client.region": "eu-west-1"}
        session = rowmerge.connect(catalog={**signed, "client.secret-access-key": SECRET}, spark=spark)
        for statement in STATEMENTS:
            session.sql(statement)
        with pytest.raises(CatalogFailed, match="signature does not match"):
            rowmerge.connect(catalog={**signed, "client.secret-access-key": "other"}, spark=spark)
    assert {"POST /v1/namespaces/raw/tables/t", "POST /v1/views/rename", "DELETE /v1/namespaces/raw/views/v"} & set(security.signed) >= {
        "POST /v1/namespaces/raw/tables/t",
        "POST /v1/views/rename",
    }


@pytest.fixture
def vending(s3: FaultyS3, tmp_path: Path) -> Callable[..., _Vending]:
    """Return a function that makes a catalog server. The store accepts only the keys that the server has vended last."""
    return lambda **options: _Vending(s3, tmp_path, **options)


class _Vending:
    """A catalog server that vends keys. `valid_keys`: the keys that the store accepts."""

    def __init__(self, s3: FaultyS3, folder: Path, *, as_credentials: bool = True, expires_in: float | None = None) -> None:
        self.s3, self.folder, self.as_credentials, self.expires_in = s3, folder, as_credentials, expires_in
        self.keys = (f"VENDED{number}" for number in itertools.count())
        self.valid_keys = {"server"}
        self.denied: list[str] = []
        s3.rule = self._check
        self.security = Security(vend=self._vend)

    def _check(self, request: Request) -> int | None:
        match = re.search(r"Credential=(\w+)/", request.headers.get("authorization", ""))
        key = match[1] if match else "none"
        if key in self.valid_keys:
            return None
        self.denied.append(f"{key} {request.method} {request.path}")
        return 403

    def _vend(self, location: str) -> dict[str, Any]:
        key = next(self.keys)
        self.valid_keys = {"server", key}  # earlier keys have expired
        properties = {"s3.access-key-id": key, "s3.secret-access-key": "hush", "s3.session-token": "token-of-" + key}
        properties |= {"s3.endpoint": self.s3.address, "s3.region": "us-east-1", "s3.path-style-access": "true"}
        if self.expires_in is not None:
            properties["s3.session-token-expires-at-ms"] = str(int((time.time() + self.expires_in) * 1000))
        if self.as_credentials:
            return {"config": {"s3.access-key-id": "worse"}, "storage-credentials": [{"prefix": "s3://lake", "config": properties}]}
        return {"config": properties}

    def serve(self) -> Any:
        keys = {"s3.access-key-id": "server", "s3.secret-access-key": "testing"}
        store = {**keys, "s3.endpoint": self.s3.address, "s3.region": "us-east-1"}
        return serving({**sql(self.folder), "warehouse": f"s3://lake/{self.folder.name}", **store}, security=self.security)


@needs_moto
@pytest.mark.parametrize("as_credentials", [True, False])
@pytest.mark.parametrize("warehouse", [None, "s3://lake/chosen"])
def test_vended_keys_reach_metadata_and_data_files(
    spark: SparkSession, vending: Callable[..., _Vending], as_credentials: bool, warehouse: str | None
) -> None:
    server = vending(as_credentials=as_credentials)
    with server.serve() as uri:
        session = rowmerge.connect(warehouse, catalog={"type": "rest", "uri": uri}, spark=spark)
        for statement in STATEMENTS:
            session.sql(statement)
        session.sql("create table raw.other using iceberg as select 7 as id")
        rows = session.sql("select t.id, v from raw.t union all select id, 'o' from raw.other order by id").collect()
        assert rows == [(1, "v1"), (2, "u"), (3, "v3"), (7, "o")]
        session.sql("drop table raw.t")
    assert server.denied == []
    assert "hush" not in str(session.spark.sql("set").collect())


@needs_moto
def test_keys_that_end_soon_are_renewed_within_a_statement(spark: SparkSession, vending: Callable[..., _Vending]) -> None:
    server = vending(expires_in=30)  # less than the time before their end at which keys are renewed
    with server.serve() as uri:
        session = rowmerge.connect(catalog={"type": "rest", "uri": uri}, spark=spark)
        session.sql("create schema raw")
        session.sql("create table raw.t (id bigint) using iceberg")
        session.sql("insert into raw.t select id from range(3)")
        first_key = next(server.keys)
        session.sql("insert into raw.t select id from range(3)")
        assert int(next(server.keys)[6:]) - int(first_key[6:]) > 5, "the table is loaded again while the statement runs"
        assert session.sql("select count(*) from raw.t").collect() == [(6,)]


@needs_moto
def test_keys_of_the_session_do_not_replace_vended_keys_and_its_endpoint_wins(
    spark: SparkSession, vending: Callable[..., _Vending], s3: FaultyS3
) -> None:
    server = vending()
    vend = server.security.vend
    assert vend is not None

    def vend_with_inner_address(location: str) -> dict[str, Any]:
        answer = vend(location)
        answer["storage-credentials"][0]["config"]["s3.endpoint"] = "http://minio.cluster.local:1"
        return answer

    server.security.vend = vend_with_inner_address
    options = {"aws_access_key_id": "ours", "aws_secret_access_key": "x", "aws_endpoint": s3.address}
    with server.serve() as uri:
        session = rowmerge.connect(catalog={"type": "rest", "uri": uri}, spark=spark, storage_options=options)
        try:
            session.sql("create schema raw")
            session.sql("create table raw.t using iceberg as select 1 as id")
            assert session.sql("select * from raw.t").collect() == [(1,)]
        finally:
            for row in spark.sql("set").collect():
                if row["key"].startswith("fs."):
                    spark.conf.unset(row["key"])
    assert server.denied == []


@needs_moto
def test_remote_signing_is_refused_with_its_alternatives(spark: SparkSession, vending: Callable[..., _Vending]) -> None:
    server = vending()
    server.security.vend = lambda location: {"config": {"s3.remote-signing-enabled": "true", "s3.endpoint": server.s3.address}}
    with server.serve() as uri:
        session = rowmerge.connect(catalog={"type": "rest", "uri": uri}, spark=spark)
        session.sql("create schema raw")
        with pytest.raises(ConfigurationError, match=r"remote signing.*vend credentials \(header.X-Iceberg-Access-Delegation"):
            session.sql("create table raw.t (id int) using iceberg")
        with pytest.raises(ConfigurationError, match="remote signing"):
            rowmerge.connect(catalog={"type": "rest", "uri": uri, "s3.signer": "S3V4RestSigner"}, spark=spark)


@needs_moto
def test_properties_of_a_table_do_not_redirect_credentials(
    spark: SparkSession, vending: Callable[..., _Vending], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server sends properties of the table with its metadata, and pyiceberg lets them override those of the catalog."""
    server = vending()
    with server.serve() as uri:
        session = rowmerge.connect(catalog={"type": "rest", "uri": uri}, spark=spark)
        session.sql("create schema raw")
        session.sql("create table raw.t (id int) using iceberg")
        table = load_catalog("default", type="rest", uri=uri).load_table("raw.t")
        table.transaction().set_properties({"s3.region": "elsewhere", "s3.proxy-uri": "http://attacker"}).commit_transaction()
        session.sql("insert into raw.t values (1)")
        properties = vended_properties(without_paths(session._catalog)._client.load("raw", "t"), {})  # type: ignore[attr-defined]
    assert properties["s3.region"] == "us-east-1" and "s3.proxy-uri" not in properties


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


@needs_moto
@needs_s3_jars
@pytest.mark.full_suite("starts a Spark with hadoop-aws")
def test_vended_keys_reach_sparks_reader(vending: Callable[..., _Vending], tmp_path: Path) -> None:
    server = vending()
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
