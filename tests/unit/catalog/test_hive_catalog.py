"""Commits to a Hive metastore: locks of other processes, expired locks, lost connections, and threads that share a catalog."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.types import LongType

from rowmerge.catalog import IcebergCatalog, Relation, View
from rowmerge.errors import CatalogFailed, RowmergeError, TableError
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Reads, Unknown
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges
from tests.support.examples import examples_of
from tests.support.hive_metastore import emptied_hive, needs_hive
from tests.support.table_operations import write_rows_for

pytestmark = needs_hive
COLUMNS = Struct((Field("id", Primitive("long")), Field("name", Primitive("string"))))
IMPATIENT = {"lock-check-min-wait-time": "0.1", "lock-check-max-wait-time": "0.1"}
HOLD_LOCK = """
import os, signal, sys
from rowmerge.iceberg.catalogs.hive.catalog import LockingHiveCatalog
with LockingHiveCatalog("killed", uri=sys.argv[1]).locked("raw", "t"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def configuration(hive_metastore: dict[str, str], tmp_path: Path) -> Iterator[dict[str, Any]]:
    with emptied_hive(hive_metastore, f"file://{tmp_path}/w") as configuration:
        yield configuration


@pytest.fixture
def catalog(configuration: dict[str, Any]) -> IcebergCatalog:
    catalog = IcebergCatalog(configuration, None)
    catalog.create_schema("raw")
    return catalog


def create_table(catalog: IcebergCatalog, name: str = "t", columns: Struct = COLUMNS) -> Any:
    table, definition = catalog.new_table("raw", name, "iceberg"), TableDefinition(columns)
    assert isinstance(table.create(definition, CommitRequest("CREATE TABLE", definition=definition)), Committed)
    return table


def append(table: Any, id_: int) -> Any:
    snapshot = table.snapshot()
    return table.commit(snapshot, CommitRequest("WRITE", files=FileChanges(write_rows_for(snapshot.shape, [id_])), reads=Reads()))


def set_owner(table: Any, base: Any = None) -> Any:
    base = base or table.snapshot()
    definition = TableDefinition(properties={**base.settings.properties, "owner": "us"})
    return table.commit(base, CommitRequest("ALTER TABLE", definition=definition))


def client_class() -> Any:
    from rowmerge.iceberg.catalogs.hive.client import MetastoreClient  # needs thrift

    return MetastoreClient


def interrupt(method: str, monkeypatch: pytest.MonkeyPatch, interference: Callable[[], object]) -> None:
    """Let another writer act once, right before the next call of a method of the client."""
    original = getattr(client_class(), method)

    def interfere(self: Any, *arguments: Any, **named_arguments: Any) -> Any:
        monkeypatch.setattr(client_class(), method, original)
        interference()
        return original(self, *arguments, **named_arguments)

    monkeypatch.setattr(client_class(), method, interfere)


def add_column(configuration: dict[str, Any]) -> None:
    """Commit with a catalog of pyiceberg."""
    with load_catalog("other", **configuration).load_table("raw.t").update_schema() as change:
        change.add_column("other", LongType())


def locks(configuration: dict[str, Any]) -> list[Any]:
    from hive_metastore.ttypes import ShowLocksRequest

    with load_catalog("locks", **configuration)._client as client:  # type: ignore[attr-defined]
        return list(client.show_locks(ShowLocksRequest()).locks or ())


def release_locks(configuration: dict[str, Any]) -> None:
    """Release all locks, as a metastore does after `hive.txn.timeout`."""
    from hive_metastore.ttypes import UnlockRequest

    for lock in locks(configuration):
        with load_catalog("locks", **configuration)._client as client:  # type: ignore[attr-defined]
            client.unlock(UnlockRequest(lockid=lock.lockid))


def test_no_commit_of_two_writers_and_of_pyiceberg_is_lost(catalog: IcebergCatalog, configuration: dict[str, Any]) -> None:
    create_table(catalog)

    def append_rows(first_id: int) -> None:
        table = IcebergCatalog(configuration, None).open("raw", "t")
        for id_ in range(first_id, first_id + 5):
            while not isinstance(append(table, id_), Committed):
                pass

    def set_properties() -> None:
        for number in range(3):
            while True:
                try:
                    table = load_catalog("other", **configuration).load_table("raw.t")
                    table.transaction().set_properties({f"p{number}": "1"}).commit_transaction()
                    break
                except CommitFailedException:
                    continue

    with ThreadPoolExecutor(3) as threads:
        for future in [threads.submit(append_rows, 0), threads.submit(append_rows, 10), threads.submit(set_properties)]:
            future.result()
    table = load_catalog("other", **configuration).load_table("raw.t")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [*range(5), *range(10, 15)]
    assert {"p0", "p1", "p2"} <= set(table.properties)
    assert locks(configuration) == []


def test_threads_share_a_catalog(catalog: IcebergCatalog) -> None:
    """dbt uses one session in all its threads. pyiceberg's own client closes the connections of other threads."""
    start = threading.Barrier(6)

    def create(number: int) -> None:
        start.wait()
        append(create_table(catalog, f"t{number}"), number)
        catalog.put_view(View(Relation.of_view("raw", f"v{number}"), "select 1 as id", "raw", COLUMNS))

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(create, range(6)))
    assert [relation.name for relation in catalog.relations("raw")] == [f"{kind}{number}" for kind in "tv" for number in range(6)]


def test_the_lock_of_a_killed_process_is_named_with_its_remedy(
    catalog: IcebergCatalog, configuration: dict[str, Any], tmp_path: Path
) -> None:
    table = create_table(IcebergCatalog({**configuration, **IMPATIENT}, None))
    killed = subprocess.run([sys.executable, "-c", HOLD_LOCK, configuration["uri"]])
    (lock,) = locks(configuration)
    assert killed.returncode == -9 and lock.tablename == "t"
    message = rf"raw\.t is locked by .*\({lock.agentInfo}\) since .* UTC\. The lock {lock.lockid} .*remove the lock.*lockid={lock.lockid}"
    with pytest.raises(CatalogFailed, match=message):
        set_owner(table)
    assert [each.lockid for each in locks(configuration)] == [lock.lockid], "the waiting lock is released"
    assert "owner" not in table.snapshot().settings.properties
    (program,) = examples_of("test_the_lock_of_a_killed_process_is_named_with_its_remedy")
    uri, lock_id = "thrift://metastore.example.com:9083", "lockid=42"
    assert uri in program.text and lock_id in program.text
    exec(program.text.replace(uri, configuration["uri"]).replace(lock_id, f"lockid={lock.lockid}"), {})
    assert isinstance(set_owner(table), Committed)


def test_a_commit_waits_for_the_lock_of_another_writer(catalog: IcebergCatalog, configuration: dict[str, Any]) -> None:
    table = create_table(catalog)
    other = IcebergCatalog(configuration, None)._client.catalog
    with ThreadPoolExecutor(1) as threads:
        with other.locked("raw", "t"):  # type: ignore[attr-defined]
            commit = threads.submit(set_owner, table)
            with pytest.raises(TimeoutError):
                commit.result(timeout=1)
        assert isinstance(commit.result(timeout=30), Committed)


@pytest.mark.parametrize(("method", "compares"), [("_check_lock", False), ("send_alter_table_with_environment_context", True)])
def test_a_commit_whose_lock_has_expired_overwrites_no_other_commit(
    catalog: IcebergCatalog, configuration: dict[str, Any], method: str, compares: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old metastores do not compare the metadata file. There, the check of the lock shows that it has expired."""
    table = create_table(catalog)
    if not compares:
        send = client_class().send_alter_table_with_environment_context

        def send_without_comparison(self: Any, *arguments: Any) -> None:
            arguments[-1].properties.pop("expected_parameter_key", None)
            send(self, *arguments)

        monkeypatch.setattr(client_class(), "send_alter_table_with_environment_context", send_without_comparison)

    def expire() -> None:
        release_locks(configuration)
        add_column(configuration)

    interrupt(method, monkeypatch, expire)
    assert isinstance(set_owner(table), Conflicted)
    snapshot = IcebergCatalog(configuration, None).open("raw", "t").snapshot()
    assert "other" in snapshot.schema.names and "owner" not in snapshot.settings.properties


def test_renaming_reverts_no_commit(catalog: IcebergCatalog, configuration: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    create_table(catalog)
    relation = catalog.relation("raw", "t")
    assert relation is not None
    interrupt("alter_table_with_environment_context", monkeypatch, lambda: add_column(configuration))
    with pytest.raises(CatalogFailed, match="Another writer has changed"):
        catalog.rename(relation, "raw", "renamed")
    assert "other" in catalog.open("raw", "t").snapshot().schema.names
    view = View(Relation.of_view("raw", "v"), "select 1 as id", "raw", COLUMNS)
    catalog.put_view(view)
    interrupt("_check_lock", monkeypatch, lambda: release_locks(configuration))
    with pytest.raises(CatalogFailed, match="The lock .* has expired"):
        catalog.rename(view.relation, "raw", "w")
    catalog.rename(relation, "raw", "renamed")
    assert "other" in catalog.open("raw", "renamed").snapshot().schema.names


def test_a_table_that_is_dropped_during_a_commit_stays_dropped(
    catalog: IcebergCatalog, configuration: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create_table(catalog)
    drop = load_catalog("other", **configuration).drop_table
    interrupt("alter_table_with_environment_context", monkeypatch, lambda: drop("raw.t"))
    assert not isinstance(set_owner(table), Committed)
    assert catalog.relations("raw") == [] and locks(configuration) == []


@pytest.mark.parametrize("method", ["lock", "alter_table_with_environment_context", "unlock"])
@pytest.mark.parametrize("is_executed", [True, False])
def test_a_lost_connection_neither_repeats_a_commit_nor_leaves_a_lock(
    catalog: IcebergCatalog, configuration: dict[str, Any], method: str, is_executed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from thrift.transport.TTransport import TTransportException

    table = create_table(catalog)
    send = getattr(client_class(), f"send_{method}")

    def lose_connection(self: Any, *arguments: Any, **named_arguments: Any) -> None:
        monkeypatch.setattr(client_class(), f"send_{method}", send)
        if is_executed:
            send(self, *arguments, **named_arguments)
            getattr(self, f"recv_{method}")()
        self._iprot.trans.close()
        raise TTransportException(message="connection lost")

    monkeypatch.setattr(client_class(), f"send_{method}", lose_connection)
    assert isinstance(set_owner(table), Committed)
    assert table.snapshot().settings.properties["owner"] == "us"
    assert len(load_catalog("other", **configuration).load_table("raw.t").metadata.metadata_log) == 1
    assert locks(configuration) == []


def test_a_release_of_a_lock_is_repeated_once_if_no_connection_can_be_used(
    catalog: IcebergCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from thrift.transport.TTransport import TTransportException

    attempts = []

    def lose_connection(self: Any, *arguments: Any) -> None:
        attempts.append(arguments)
        self._iprot.trans.close()
        raise TTransportException(message="connection lost")

    with pytest.raises(TTransportException, match="connection lost"), catalog._client.catalog.locked("raw", "t"):  # type: ignore[attr-defined]
        monkeypatch.setattr(client_class(), "send_unlock", lose_connection)
    assert len(attempts) == 2


def test_a_metastore_without_the_tables_of_locks_is_reported_with_the_remedy(
    catalog: IcebergCatalog, configuration: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from thrift.Thrift import TApplicationException

    def fail(self: Any) -> None:
        self.__class__.__mro__[1].recv_lock(self)
        raise TApplicationException(TApplicationException.INTERNAL_ERROR, "Internal error processing lock")

    monkeypatch.setattr(client_class(), "recv_lock", fail)
    with pytest.raises(CatalogFailed, match=r"cannot lock a table \(Internal error processing lock\).*schematool -initSchema"):
        create_table(catalog)
    assert catalog.relations("raw") == []
    assert locks(configuration) == [], "the lock that the metastore has stored before the error"


def test_columns_change_their_types_and_positions(catalog: IcebergCatalog, configuration: dict[str, Any]) -> None:
    """By default, a metastore refuses a column of another type at the position of an old column."""
    create_table(catalog)
    with catalog._client.catalog.load_table("raw.t").update_schema() as change:
        change.delete_column("id")
        change.add_column("number", LongType())
    assert catalog.open("raw", "t").snapshot().schema.names == ("name", "number")
    with catalog._client.catalog._client as client:  # type: ignore[attr-defined]
        assert [(column.name, column.type) for column in client.get_table("raw", "t").sd.cols] == [("name", "string"), ("number", "bigint")]


@pytest.mark.parametrize(("setting", "type_"), [({}, "timestamp"), ({"hive.hive2-compatible": "false"}, "timestamp with local time zone")])
def test_times_with_a_zone_have_the_type_of_iceberg_on_spark(
    catalog: IcebergCatalog, configuration: dict[str, Any], setting: dict[str, str], type_: str
) -> None:
    create_table(IcebergCatalog({**configuration, **setting}, None), "t", Struct((Field("at", Primitive("timestamp")),)))
    with catalog._client.catalog._client as client:  # type: ignore[attr-defined]
        assert [column.type for column in client.get_table("raw", "t").sd.cols] == [type_]


def test_a_refused_name_is_an_error_without_a_table(catalog: IcebergCatalog, configuration: dict[str, Any]) -> None:
    message = "The metastore refuses raw.with-hyphen: with-hyphen is not a valid object name"
    with pytest.raises(CatalogFailed, match=message):
        create_table(catalog, "with-hyphen")
    with pytest.raises(CatalogFailed, match=message):
        catalog.put_view(View(Relation.of_view("raw", "with-hyphen"), "select 1 as id", "raw", COLUMNS))
    assert catalog.relations("raw") == [] and locks(configuration) == []


@pytest.mark.parametrize(
    ("lacks", "cause"),
    [("database", r"raw \(InvalidObject"), ("database of Hive 3", r"raw \(NoSuchObject"), ("folder", r"is not a directory.* \(Meta")],
)
def test_a_table_whose_database_or_folder_the_metastore_cannot_use_is_not_created(
    catalog: IcebergCatalog, configuration: dict[str, Any], lacks: str, cause: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def drop_database() -> None:
        with load_catalog("other", **configuration)._client as client:  # type: ignore[attr-defined]
            client.drop_database("raw", deleteData=False, cascade=True)

    def replace_folder() -> None:
        (folder,) = (path.parent.parent for path in tmp_path.rglob("*.metadata.json"))
        shutil.rmtree(folder)
        folder.write_text("")

    def answer_as_hive_3(self: Any) -> None:
        from hive_metastore.ttypes import InvalidObjectException, NoSuchObjectException

        try:
            receive(self)
        except InvalidObjectException as error:
            raise NoSuchObjectException(error.message) from None

    receive = client_class().recv_create_table
    if lacks == "database of Hive 3":
        monkeypatch.setattr(client_class(), "recv_create_table", answer_as_hive_3)
    interrupt("create_table", monkeypatch, replace_folder if lacks == "folder" else drop_database)
    with pytest.raises(CatalogFailed, match=f"The metastore refuses raw.t: .*{cause}"):
        create_table(catalog)
    assert catalog.relations("raw") == []


def test_an_unknown_outcome_contains_the_first_error(
    catalog: IcebergCatalog, configuration: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    create = client_class().create_table

    def lose_connection(self: Any, table: Any) -> None:
        create(self, table)
        load_catalog("other", **configuration).rename_table("raw.t", "raw.renamed")
        raise OSError("connection lost")

    monkeypatch.setattr(client_class(), "create_table", lose_connection)
    definition = TableDefinition(COLUMNS)
    outcome = catalog.new_table("raw", "t", "iceberg").create(definition, CommitRequest("CREATE TABLE", definition=definition))
    assert isinstance(outcome, Unknown) and "no longer contains the table" in outcome.reason and "connection lost" in outcome.reason


def test_a_metastore_that_does_not_list_tables_by_type_lists_views(catalog: IcebergCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metastores since 2.3 know the method."""
    from hive_metastore.ThriftHiveMetastore import get_tables_by_type_args
    from thrift.Thrift import TMessageType

    create_table(catalog)
    catalog.put_view(View(Relation.of_view("raw", "v"), "select 1 as id", "raw", COLUMNS))

    def send_unknown_method(self: Any, *arguments: Any) -> None:
        self._oprot.writeMessageBegin("get_tables_by_unknown", TMessageType.CALL, self._seqid)
        get_tables_by_type_args(*arguments).write(self._oprot)
        self._oprot.writeMessageEnd()
        self._oprot.trans.flush()

    monkeypatch.setattr(client_class(), "send_get_tables_by_type", send_unknown_method)
    assert [str(relation) for relation in catalog.relations("raw")] == ["raw.t", "raw.v"]


def test_a_subclass_of_pyicebergs_catalog_stays_as_it_is(configuration: dict[str, Any]) -> None:
    from pyiceberg.catalog.hive import HiveCatalog

    from rowmerge.iceberg.catalogs.hive.catalog import LockingHiveCatalog, open_hive_catalog

    class OwnCatalog(HiveCatalog):
        """A catalog with a client of its own, for example for a proxy."""

    catalog = OwnCatalog("own", **configuration)
    assert open_hive_catalog(catalog) is catalog
    assert type(open_hive_catalog(HiveCatalog("default", **configuration))) is LockingHiveCatalog


def test_the_next_metastore_is_used_if_one_cannot_be_reached(catalog: IcebergCatalog, configuration: dict[str, Any]) -> None:
    uris = f"thrift://127.0.0.1:1,{configuration['uri']}"
    assert IcebergCatalog({**configuration, "uri": uris}, None).schemas() == ["default", "raw"]


def test_the_password_of_a_user_is_not_in_messages() -> None:
    with pytest.raises(CatalogFailed) as raised:
        IcebergCatalog({"type": "hive", "uri": "thrift://127.0.0.1:1", "ugi": "ann:127.0.0.1"}, None).schemas()
    assert "127.0.0.1" not in str(raised.value)


@pytest.mark.parametrize("table_type", ["VIRTUAL_VIEW", "EXTERNAL_TABLE"])
def test_views_and_tables_of_hive_are_neither_listed_nor_changed(catalog: IcebergCatalog, table_type: str, tmp_path: Path) -> None:
    from hive_metastore.ttypes import FieldSchema, SerDeInfo, StorageDescriptor, Table

    storage = StorageDescriptor([FieldSchema("id", "bigint", None)], f"file://{tmp_path}/of_hive", serdeInfo=SerDeInfo())
    text = {"viewOriginalText": "select 1", "viewExpandedText": "select 1"} if table_type == "VIRTUAL_VIEW" else {}
    with catalog._client.catalog._client as client:  # type: ignore[attr-defined]
        client.create_table(Table("v", "raw", "ann", 0, 0, 0, storage, [], {"owner": "ann"}, tableType=table_type, **text))
        entry = client.get_table("raw", "v")
    view = View(Relation.of_view("raw", "v"), "select 2 as id", "raw", COLUMNS)
    for change in (
        lambda: catalog.put_view(view),
        lambda: catalog.put_view(view, or_replace=True),
        lambda: catalog.drop_view("raw", "v"),
        lambda: catalog.drop_table("raw", "v"),
        lambda: catalog.rename(view.relation, "raw", "w"),
        lambda: create_table(catalog, "v"),
        lambda: catalog.drop_schema("raw", cascade=True),
    ):
        with pytest.raises(RowmergeError):
            change()
    with pytest.raises(TableError, match=r"raw.v is a table or view of another tool, not of Iceberg \(Property table_type missing"):
        catalog.open("raw", "v")
    assert catalog.relations("raw") == []
    with catalog._client.catalog._client as client:  # type: ignore[attr-defined]
        assert client.get_table("raw", "v") == entry
