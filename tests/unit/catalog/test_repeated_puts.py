"""A statement on a schema, view, function or pointer does not conflict with its own put, whatever an object store answers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from rowmerge.catalog import DirectoryCatalog, Relation, View
from rowmerge.commands.functions import FunctionDefinition
from rowmerge.errors import AlreadyExists, CommitStateUnknown
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.metadata.shape import TableDefinition
from tests.support.delta_tables import ID_NAME
from tests.support.faulty_s3 import Fault, FaultyS3, Request, needs_moto

pytestmark = [needs_moto, pytest.mark.one_of("catalog", "fault", keep=2)]

FUNCTION = FunctionDefinition((), returns="int", body="1", language="sql")


def put_view(catalog: DirectoryCatalog, *, or_replace: bool = False) -> None:
    catalog.put_view(View(Relation.of_view("default", "v"), "select 1 as id", "default", ID_NAME), or_replace=or_replace)


def put_pointer(catalog: DirectoryCatalog) -> None:
    catalog.register("default", "t", "delta", f"{catalog.location_of('elsewhere', 't')}")


STATEMENTS: dict[str, tuple[str, Callable[[DirectoryCatalog], Any]]] = {
    "schema": (".schema.json", lambda catalog: catalog.create_schema("sales")),
    "view": ("v1.metadata.json", put_view),
    "replaced view": ("v1.metadata.json", lambda catalog: put_view(catalog, or_replace=True)),
    "function": ("f.json", lambda catalog: catalog.functions.put("default", "f", FUNCTION, "default", or_replace=False)),
    "pointer": (".rowmerge-location.json", put_pointer),
}
"""For each statement, a part of the path of its object, and the call."""


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowmerge.table.commits.commit.RETRY_WAITS", (0.01, 0.01, 0.01, 0.01))


@pytest.fixture
def location(s3: FaultyS3) -> str:
    return f"{s3.location}/{uuid.uuid4()}"


@pytest.fixture(params=[0, None], ids=["no retries by the client", "retries by the client"])
def catalog(s3: FaultyS3, location: str, request: pytest.FixtureRequest) -> DirectoryCatalog:
    return DirectoryCatalog(Storage(location, s3.options(request.param)))


def objects(s3: FaultyS3, location: str, part: str) -> list[bytes]:
    storage = Storage(location, s3.options())
    return [storage.get(object_.path) for object_ in storage.list() if part in object_.path]


@pytest.mark.parametrize("fault", [409, 429, 503, Fault.CUT, Fault.DONE_THEN_CUT, Fault.DONE_THEN_500], ids=str)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_writes_one_object_despite_faults(
    s3: FaultyS3, location: str, catalog: DirectoryCatalog, statement: str, fault: Fault | int
) -> None:
    part, run = STATEMENTS[statement]
    s3.fail("PUT", part, fault)
    run(catalog)
    (data,) = objects(s3, location, part)
    assert json.loads(data)
    if statement == "replaced view":
        assert catalog.view("default", "v").version == 1, "the repeated put is no second version"


@pytest.mark.parametrize("statement", [name for name in STATEMENTS if name != "replaced view"])
def test_an_object_of_another_session_conflicts(s3: FaultyS3, location: str, catalog: DirectoryCatalog, statement: str) -> None:
    part, run = STATEMENTS[statement]
    other = DirectoryCatalog(Storage(location, s3.options()))

    def rule(request: Request) -> int | None:
        if request.method != "PUT" or part not in request.path:
            return None
        s3.rule = None
        run(other)
        return 500

    s3.rule = rule
    if statement == "pointer":
        run(catalog)  # The pointer is equal, so both statements succeed.
    else:
        with pytest.raises(AlreadyExists):
            run(catalog)
    assert len(objects(s3, location, part)) == 1


@pytest.mark.parametrize("fault", [409, 500])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_an_unknown_outcome_is_reported_with_the_object_name(s3: FaultyS3, location: str, statement: str, fault: int) -> None:
    part, run = STATEMENTS[statement]
    catalog = DirectoryCatalog(Storage(location, s3.options()))
    s3.fail("PUT", part, fault, times=99)
    name = {"schema": "sales", "function": "default.f", "pointer": "default.t"}.get(statement, "default.v")
    with pytest.raises(CommitStateUnknown, match=rf"not known whether the .*{name}.* was written: .*\. Check whether it exists"):
        run(catalog)


def test_a_drop_with_an_unknown_outcome_deletes_no_files(s3: FaultyS3, location: str) -> None:
    catalog = DirectoryCatalog(Storage(location, s3.options()))
    catalog.new_table("default", "t", "delta").create(TableDefinition(ID_NAME), CommitRequest("CREATE TABLE"))
    s3.fail("PUT", "_delta_log/00000000000000000001.json", 409, times=99)
    with pytest.raises(CommitStateUnknown, match=r"unknown whether default.t was dropped"):
        catalog.drop_table("default", "t")
    assert catalog.relation("default", "t") is not None
    s3.fail("PUT", "_delta_log/00000000000000000001.json", 409)
    catalog.drop_table("default", "t")
    assert catalog.relation("default", "t") is None
