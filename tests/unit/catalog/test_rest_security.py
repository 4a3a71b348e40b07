"""REST catalogs with OAuth2, signed requests, and credentials that the server vends for tables and renews, without Spark."""

from __future__ import annotations

from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

from rowmerge.catalog import IcebergCatalog, Relation, View
from rowmerge.errors import CatalogFailed, ConfigurationError
from rowmerge.iceberg.catalogs.file_io import vended_properties
from rowmerge.parquet.filesystems import filesystem_of
from rowmerge.storage.configuration import StorageConfiguration
from rowmerge.storage.hadoop import reader_access
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest, Committed
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges
from tests.support.faulty_s3 import FaultyS3, Request, needs_moto
from tests.support.rest_catalog import serving
from tests.support.rest_security import Security
from tests.support.table_operations import write_rows_for
from tests.support.vending_server import VendingServer

needs_boto3 = pytest.mark.skipif(find_spec("boto3") is None, reason="boto3, with which pyiceberg signs requests, is not installed")
SECRET = "s3cr3t/+"
COLUMNS = Struct((Field("id", Primitive("long")), Field("name", Primitive("string"))))
DEFINITION = TableDefinition(COLUMNS)


def sql(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/w"}


def oauth2(uri: str, credential: str) -> dict[str, str]:
    return {"type": "rest", "uri": uri, "oauth2-server-uri": f"{uri}/oauth/tokens", "scope": "lake:all", "credential": credential}


def create_table(catalog: IcebergCatalog) -> Any:
    catalog.create_schema("raw")
    table = catalog.new_table("raw", "t", "iceberg")
    assert isinstance(table.create(DEFINITION, CommitRequest("CREATE TABLE", definition=DEFINITION)), Committed)
    return table


def append(table: Any, id_: int) -> None:
    snapshot = table.snapshot()
    assert isinstance(table.commit(snapshot, CommitRequest("WRITE", files=FileChanges(write_rows_for(snapshot.shape, [id_])))), Committed)


def use(catalog: IcebergCatalog) -> None:
    """Send each kind of request, also those for which pyiceberg has no method."""
    append(create_table(catalog), 1)
    view = View(Relation.of_view("raw", "v"), "select 1 as id", "raw", COLUMNS)
    catalog.put_view(view)
    catalog.put_view(view, or_replace=True)
    catalog.rename(Relation.of_view("raw", "v"), "raw", "w")
    assert catalog.view("raw", "w").sql == "select 1 as id"
    catalog.drop_schema("raw", cascade=True)


@pytest.mark.parametrize("uses", [1_000_000, 3, 1])
def test_client_credentials_get_a_token_and_a_new_one_when_it_expires(tmp_path: Path, uses: int) -> None:
    security = Security(secrets={"dbt": SECRET}, token_uses=uses)
    with serving(sql(tmp_path), security=security) as uri:
        use(IcebergCatalog(oauth2(uri, f"dbt:{SECRET}"), None))
    assert set(security.scopes) == {"lake:all"}
    assert len(security.tokens) > 10 if uses <= 3 else len(security.tokens) <= 2


def test_a_token_is_used_as_it_is_and_its_end_is_reported_without_secrets(tmp_path: Path) -> None:
    security = Security(secrets={"dbt": SECRET}, token_uses=100)
    token = security.issue()
    with serving(sql(tmp_path), security=security) as uri:
        catalog = IcebergCatalog({"type": "rest", "uri": uri, "token": token}, None)
        use(catalog)
        security.token_uses = 1
        with pytest.raises(CatalogFailed, match="has expired") as failure:
            catalog.schemas()
        assert token not in str(failure.value)
        with pytest.raises(CatalogFailed, match="invalid_client") as failure:
            IcebergCatalog(oauth2(uri, "dbt:wrong-secret"), None)
        assert "wrong-secret" not in str(failure.value)


@needs_boto3
def test_every_request_is_signed(tmp_path: Path) -> None:
    security = Security(signing_keys={"AKIA1": SECRET})
    settings = {"rest.sigv4-enabled": "true", "rest.signing-region": "eu-west-1", "rest.signing-name": "execute-api"}
    with serving(sql(tmp_path), security=security) as uri:
        signed = {"type": "rest", "uri": uri, **settings, "client.access-key-id": "AKIA1", "client.region": "eu-west-1"}
        use(IcebergCatalog({**signed, "client.secret-access-key": SECRET}, None))
        with pytest.raises(CatalogFailed, match="signature does not match"):
            IcebergCatalog({**signed, "client.secret-access-key": "other"}, None)
    assert {"POST /v1/namespaces/raw/tables/t", "POST /v1/views/rename", "POST /v1/namespaces/raw/views/v"} <= set(security.signed)


@needs_moto
@pytest.mark.parametrize("as_credentials", [True, False])
@pytest.mark.parametrize("warehouse", [None, "s3://lake/chosen"])
def test_vended_keys_reach_metadata_and_data_files(s3: FaultyS3, tmp_path: Path, warehouse: str | None, as_credentials: bool) -> None:
    server = VendingServer(s3, tmp_path, as_credentials=as_credentials)
    with server.serve() as uri:
        catalog = IcebergCatalog({"type": "rest", "uri": uri}, warehouse and f"{warehouse}/{tmp_path.name}")
        table = create_table(catalog)
        for id_ in range(3):
            append(table, id_)
        snapshot = table.snapshot()
        for path in snapshot.files().paths:
            filesystem, inner_path = filesystem_of(path, snapshot.shape.filesystem_options)
            assert filesystem.get_file_info(inner_path).size > 0
        newest = f"VENDED{int(next(server.keys)[6:]) - 1}"
        access = reader_access(snapshot.shape.filesystem_options, snapshot.files().paths, is_shared=False)
        assert access.options["fs.s3a.access.key"] == newest and "rowmerge" in access.reader_path("s3://lake/x")
        assert "hush" not in repr(snapshot.shape)
        catalog.drop_table("raw", "t")
    assert server.denied == []


@needs_moto
def test_keys_that_end_soon_are_renewed_without_a_new_statement(s3: FaultyS3, tmp_path: Path) -> None:
    server = VendingServer(s3, tmp_path, expires_in=30)  # less than the time before their end at which keys are renewed
    with server.serve() as uri:
        table = create_table(IcebergCatalog({"type": "rest", "uri": uri}, None))
        append(table, 1)
        storage = table.snapshot().storage
        table_options = table.snapshot().shape.filesystem_options
        server.valid_keys = {"server"}  # the keys have ended
        assert storage.list("metadata")
        assert table_options["s3"]["access_key"] in server.valid_keys
    assert server.denied == []


@needs_moto
def test_vended_keys_replace_those_of_the_session_and_its_endpoint_wins(s3: FaultyS3, tmp_path: Path) -> None:
    server = VendingServer(s3, tmp_path)
    vend = server.security.vend
    assert vend is not None

    def vend_with_inner_address(location: str) -> dict[str, Any]:
        answer = vend(location)
        answer["storage-credentials"][0]["config"]["s3.endpoint"] = "http://minio.cluster.local:1"
        return answer

    server.security.vend = vend_with_inner_address
    options = {"aws_access_key_id": "ours", "aws_secret_access_key": "x", "aws_endpoint": s3.address}
    with server.serve() as uri:
        append(create_table(IcebergCatalog({"type": "rest", "uri": uri}, None, lambda location: Storage(location, options))), 1)
    assert server.denied == []


@needs_moto
def test_remote_signing_is_refused_with_its_alternatives(s3: FaultyS3, tmp_path: Path) -> None:
    server = VendingServer(s3, tmp_path)
    server.security.vend = lambda location: {"config": {"s3.remote-signing-enabled": "true", "s3.endpoint": s3.address}}
    with server.serve() as uri:
        with pytest.raises(ConfigurationError, match=r"remote signing.*vend credentials \(header.X-Iceberg-Access-Delegation"):
            create_table(IcebergCatalog({"type": "rest", "uri": uri}, None))
        with pytest.raises(ConfigurationError, match="remote signing"):
            IcebergCatalog({"type": "rest", "uri": uri, "s3.signer": "S3V4RestSigner"}, None)


@needs_moto
def test_properties_of_a_table_do_not_redirect_credentials(s3: FaultyS3, tmp_path: Path) -> None:
    """The server sends properties of the table with its metadata, and pyiceberg lets them override those of the catalog."""
    server = VendingServer(s3, tmp_path)
    with server.serve() as uri:
        catalog = IcebergCatalog({"type": "rest", "uri": uri}, None)
        table = create_table(catalog)
        loaded = load_catalog("default", type="rest", uri=uri).load_table("raw.t")
        loaded.transaction().set_properties({"s3.region": "elsewhere", "gcs.oauth2.token": "planted"}).commit_transaction()
        append(table, 1)
        loaded = catalog._client.load("raw", "t")  # type: ignore[assignment]
        properties = vended_properties(loaded, {})
    assert properties["s3.region"] == "us-east-1" and "gcs.oauth2.token" not in properties


@needs_moto
def test_properties_of_a_catalog_without_a_server_open_its_tables_and_those_of_the_session_its_metadata(
    s3: FaultyS3, tmp_path: Path
) -> None:
    """The catalog's properties are enough, and so are the storage options of the session."""
    properties = {"s3.access-key-id": "testing", "s3.secret-access-key": "x", "s3.endpoint": s3.address, "s3.region": "us-east-1"}
    options = {"aws_access_key_id": "testing", "aws_secret_access_key": "x", "aws_endpoint": s3.address, "aws_allow_http": "true"}
    for number, (more, open_storage) in enumerate(((properties, Storage), ({}, lambda location: Storage(location, options)))):
        folder = tmp_path / str(number)
        folder.mkdir()
        catalog = IcebergCatalog({**sql(folder), "warehouse": f"{s3.location}/{tmp_path.name}{number}", **more}, None, open_storage)
        append(create_table(catalog), 1)
        assert catalog.put_view(View(Relation.of_view("raw", "v"), "select 1 as id", "raw", COLUMNS)).version == 1
        catalog.drop_schema("raw", cascade=True)


@needs_moto
def test_metadata_files_of_a_catalog_without_a_server_are_written_with_renewed_keys(s3: FaultyS3, tmp_path: Path) -> None:
    valid_keys, denied = ["AKIA0"], list[str]()

    def check(request: Request) -> int | None:
        if f"Credential={valid_keys[-1]}/" in request.headers.get("authorization", ""):
            return None
        denied.append(request.path)
        return 403

    def provide() -> dict[str, Any]:
        return {"access_key_id": valid_keys[-1], "secret_access_key": "x", "expires_at": datetime.now(timezone.utc)}

    s3.rule = check
    options = StorageConfiguration.parse({"credential_provider": provide, "aws_endpoint": s3.address, "aws_region": "us-east-1"})
    configuration = {**sql(tmp_path), "warehouse": f"{s3.location}/{tmp_path.name}"}
    table = create_table(IcebergCatalog(configuration, None, lambda location: Storage(location, options)))
    for id_ in range(3):
        valid_keys.append(f"AKIA{id_ + 1}")
        append(table, id_)
    assert denied == []
