"""Reads determine the outcome of a conditional put on an object store, and stores that ignore conditions are rejected."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pytest

from rowmerge.catalog import DirectoryCatalog
from rowmerge.delta import DeltaTable
from rowmerge.errors import ConditionalPutsUnsupported, StorageError
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest, Committed, Outcome, Unknown
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import AddedFile, FileChanges
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table
from tests.support.delta_tables import ID_NAME
from tests.support.faulty_s3 import Fault, FaultyS3, Request, needs_moto

pytestmark = [needs_moto, pytest.mark.one_of("format_", "retries")]

COMMIT = {"delta": "00000000000000000001.json", "iceberg": "v2.metadata.json"}
"""The name of the second commit's object, by table format."""
FORMATS = pytest.mark.parametrize("format_", list(COMMIT))
CLIENTS = pytest.mark.parametrize("retries", [0, None], ids=["no retries by the client", "retries by the client"])
FAULTS = [409, 412, 429, 500, 503, Fault.CUT, Fault.DONE_THEN_CUT, Fault.DONE_THEN_500]
NAMES = [str(fault) if isinstance(fault, int) else fault.name for fault in FAULTS]


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowmerge.table.commits.commit.RETRY_WAITS", (0.01, 0.01, 0.01, 0.01))


def new_location(s3: FaultyS3) -> str:
    return f"{s3.location}/{uuid.uuid4()}"


def open_table(s3: FaultyS3, location: str, format_: str, retries: int | None = 0) -> Table:
    storage = Storage(location, s3.options(retries))
    return DeltaTable(storage, "s.t") if format_ == "delta" else IcebergTable(DirectoryOperations(storage, "s.t"), "s.t")


def file_of(table: Table) -> AddedFile:
    return AddedFile(f"{table.location}/{uuid.uuid4()}.parquet", 1000, 3, {}, {"id": 1}, {"id": 3}, {"id": 0})


def create(table: Table) -> Outcome:
    return table.create(TableDefinition(ID_NAME, (), {}), CommitRequest("CREATE TABLE", files=FileChanges((file_of(table),))))


def append(table: Table, base: Snapshot) -> Outcome:
    return table.commit(base, CommitRequest("WRITE", files=FileChanges((file_of(table),))))


def objects(s3: FaultyS3, location: str) -> list[str]:
    return [object_.path for object_ in Storage(location, s3.options()).list()]


def count_files(s3: FaultyS3, location: str, format_: str) -> int:
    return open_table(s3, location, format_).snapshot().files().rows.num_rows


def puts(s3: FaultyS3, part: str) -> list[Request]:
    return [request for request in s3.requests if request.method == "PUT" and part in request.path]


# ------------------------------------------------------------------ the probe


@FORMATS
def test_a_store_that_ignores_conditions_is_rejected_without_writes(s3: FaultyS3, format_: str) -> None:
    s3.rule = lambda request: Fault.UNCONDITIONAL
    location = new_location(s3)
    with pytest.raises(ConditionalPutsUnsupported) as error:
        create(open_table(s3, location, format_))
    assert location in str(error.value) and s3.address in str(error.value), "the store is named"
    assert "ignores" in str(error.value) and "Amazon S3" in str(error.value), "with the reason and an alternative"
    assert objects(s3, location) == []


def test_creating_a_schema_on_a_store_without_conditions_is_refused(s3: FaultyS3) -> None:
    s3.rule = lambda request: Fault.UNCONDITIONAL
    location = new_location(s3)
    catalog = DirectoryCatalog(Storage(location, s3.options()))
    with pytest.raises(ConditionalPutsUnsupported):
        catalog.create_schema("sales")
    assert objects(s3, location) == [] and catalog.schemas() == ["default"]


def test_a_store_that_refuses_conditions_is_rejected(s3: FaultyS3) -> None:
    s3.rule = lambda request: 501 if "if-none-match" in request.headers else None
    with pytest.raises(ConditionalPutsUnsupported, match="refuses them .*501 Not Implemented"):
        create(open_table(s3, new_location(s3), "delta"))


def test_options_that_disable_conditions_are_rejected(s3: FaultyS3) -> None:
    options = s3.options()
    options["config"]["conditional_put"] = "disabled"
    with pytest.raises(ConditionalPutsUnsupported, match="storage options disable them"):
        create(DeltaTable(Storage(new_location(s3), options), "s.t"))


def test_a_bucket_is_probed_once_per_process(s3: FaultyS3) -> None:
    for format_ in ("delta", "iceberg"):
        table = open_table(s3, new_location(s3), format_)
        assert isinstance(create(table), Committed)
        assert isinstance(append(table, table.snapshot()), Committed)
    probing = [request.method for request in s3.requests if ".rowmerge-probe-" in f"{request.path}{request.body!r}"]
    assert probing == ["PUT", "PUT", "POST"], "two puts, and a DeleteObjects"
    s3.requests.clear()
    other = FaultyS3(s3.store, address=s3.address.replace("127.0.0.1", "localhost"))
    assert isinstance(create(open_table(other, new_location(s3), "delta")), Committed)
    assert len(puts(s3, ".rowmerge-probe-")) == 2, "another endpoint may be another store"


def test_a_probe_deleted_by_another_process_is_repeated(s3: FaultyS3) -> None:
    deleted = []

    def rule(request: Request) -> None:
        if request.method == "PUT" and ".rowmerge-probe-" in request.path and not deleted and puts(s3, request.path)[:-1]:
            headers = {name: value for name, value in request.headers.items() if name not in ("content-length", "if-none-match")}
            deleted.append(s3.forward(Request("DELETE", request.path, headers, b"")))

    s3.rule = rule
    location = new_location(s3)
    assert isinstance(create(open_table(s3, location, "delta")), Committed)
    assert deleted[0][0] == 204 and len(puts(s3, ".rowmerge-probe-")) == 4
    assert (
        {"_delta_log/00000000000000000000.json"} <= set(objects(s3, location)) <= {f"_delta_log/{0:020d}.{end}" for end in ("crc", "json")}
    )


def test_an_undeletable_probe_does_not_fail_the_commit(s3: FaultyS3) -> None:
    s3.fail("POST", "delete", 403, times=99)
    location = new_location(s3)
    assert isinstance(create(open_table(s3, location, "delta")), Committed)
    assert sum(".rowmerge-probe-" in path for path in objects(s3, location)) == 1


def test_a_failed_probe_is_repeated_with_the_next_commit(s3: FaultyS3) -> None:
    s3.fail("PUT", ".rowmerge-probe-", 403)
    table = open_table(s3, new_location(s3), "delta")
    with pytest.raises(StorageError, match="403"):
        create(table)
    assert isinstance(create(table), Committed)


# ------------------------------------------------------------------ outcome of a put


@CLIENTS
@FORMATS
@pytest.mark.parametrize("fault", FAULTS, ids=NAMES)
def test_a_commit_is_applied_once_despite_put_faults(s3: FaultyS3, format_: str, fault: Fault | int, retries: int | None) -> None:
    location = new_location(s3)
    table = open_table(s3, location, format_, retries)
    create(table)
    s3.fail("PUT", COMMIT[format_], fault)
    assert isinstance(append(table, table.snapshot()), Committed)
    assert count_files(s3, location, format_) == 2
    assert sum(COMMIT[format_] in path for path in objects(s3, location)) == 1


@CLIENTS
@FORMATS
@pytest.mark.parametrize("fault", [409, 412, 500, Fault.CUT], ids=["409", "412", "500", "CUT"])
def test_a_commit_follows_the_winner_of_the_race(s3: FaultyS3, format_: str, fault: Fault | int, retries: int | None) -> None:
    location = new_location(s3)
    table = open_table(s3, location, format_, retries)
    create(table)
    base, other = table.snapshot(), open_table(s3, location, format_)

    def rule(request: Request) -> Fault | int | None:
        if request.method != "PUT" or COMMIT[format_] not in request.path:
            return None
        s3.rule = None
        assert isinstance(append(other, other.snapshot()), Committed)
        return fault

    s3.rule = rule
    assert isinstance(append(table, base), Committed)
    assert count_files(s3, location, format_) == 3


@FORMATS
def test_a_put_waits_for_an_unfinished_put_of_another_writer(s3: FaultyS3, format_: str) -> None:
    """A store answers 409 while the put of another writer is in progress. That put may fail, or succeed later."""
    location = new_location(s3)
    table = open_table(s3, location, format_)
    create(table)
    base, other = table.snapshot(), open_table(s3, location, format_)
    refused_requests = []

    def rule(request: Request) -> int | None:
        if request.method != "PUT" or COMMIT[format_] not in request.path:
            return None
        refused_requests.append(request)
        if len(refused_requests) == 3:
            s3.rule = None
            assert isinstance(append(other, other.snapshot()), Committed)
        return 409

    s3.rule = rule
    assert isinstance(append(table, base), Committed)
    assert len(refused_requests) == 3 and count_files(s3, location, format_) == 3


def objects_ending_with(s3: FaultyS3, location: str, names: Sequence[str]) -> set[str]:
    return {path for path in objects(s3, location) if path.endswith(tuple(names))}


@FORMATS
def test_the_outcome_is_unknown_while_an_existing_object_cannot_be_read(s3: FaultyS3, format_: str) -> None:
    location = new_location(s3)
    table = open_table(s3, location, format_)
    create(table)
    base = table.snapshot()
    s3.fail("PUT", COMMIT[format_], 409, times=99)
    outcome = append(table, base)
    assert isinstance(outcome, Unknown) and "exists, but it cannot be read" in outcome.reason
    assert len(puts(s3, COMMIT[format_])) == 5, "the put is repeated"
    assert format_ == "delta" or len(objects_ending_with(s3, location, [".avro"])) == 4, (
        "the manifests stay, because a version may name them"
    )
    assert count_files(s3, location, format_) == 1


@FORMATS
def test_the_outcome_is_unknown_while_the_winner_cannot_be_read(s3: FaultyS3, format_: str) -> None:
    location = new_location(s3)
    table = open_table(s3, location, format_)
    create(table)
    base = table.snapshot()
    put_requests = []

    def rule(request: Request) -> Fault | int | None:
        if COMMIT[format_] not in request.path:
            return None
        if request.method == "PUT" and not put_requests:
            put_requests.append(request)
            return Fault.DONE_THEN_500
        return 403 if request.method == "GET" and put_requests else None

    s3.rule = rule
    outcome = append(table, base)
    assert isinstance(outcome, Unknown) and "403" in outcome.reason
    s3.rule = None
    assert count_files(s3, location, format_) == 2, "it was committed after all"
