"""A REST catalog for tests that answers commits and loads of the table s.t incorrectly, late or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType

from tests.support.iceberg_lake import Lake
from tests.support.rest_catalog import Answer, serving
from tests.unit.iceberg.test_pyiceberg_races import configuration, lake_in_catalog, rows

CUT = None
COMMIT = "POST /v1/namespaces/s/tables/t"
Act = Callable[[Callable[[], Answer]], Answer | None]


class Server:
    """Answers of the catalog to commits: each of `acts` answers one, then the catalog itself.

    `loads` do the same for requests that load the table, after the last of `acts`.
    """

    def __init__(self, folder: Path) -> None:
        self.acts: list[Act] = []
        self.loads: list[Act] = []
        self.uri = ""
        self._folder = folder

    def __call__(self, request: str, answer: Callable[[], Answer]) -> Answer | None:
        if request == COMMIT and self.acts:
            return self.acts.pop(0)(answer)
        if request == COMMIT.replace("POST", "GET") and self.loads and not self.acts:
            return self.loads.pop(0)(answer)
        return answer()

    @property
    def pyiceberg_catalog(self) -> Catalog:
        return load_catalog("theirs", type="rest", uri=self.uri)

    def rename(self, name: str) -> None:
        """Rename the table s.t as another client of the catalog does."""
        self._sql.rename_table("s.t", name)

    def create_in_version_1(self, location: Path) -> None:
        """Create the table s.t, empty and of format version 1."""
        schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
        self._sql.create_table("s.t", schema, f"file://{location}", properties={"format-version": "1"})

    @property
    def _sql(self) -> Catalog:
        """Return the catalog behind the server."""
        return load_catalog("served", **configuration(self._folder))

    def lake(self, name: str = "t") -> Lake:
        """Return the table of this name as read by a client without a cache."""
        return lake_in_catalog(self._folder, {"type": "rest", "uri": self.uri}, name)


@contextmanager
def serving_faults(folder: Path) -> Iterator[Server]:
    server = Server(folder)
    with serving(configuration(folder), server) as server.uri:
        yield server


def failing(status: int | None, *, happened: bool = False, meanwhile: Callable[[], object] = lambda: None) -> Act:
    """Return an act that drops an answer or replaces it by an error, after the commit if `happened`; `meanwhile` runs before the answer."""

    def act(answer: Callable[[], Answer]) -> Answer | None:
        if happened:
            assert answer()[0] == 200
        meanwhile()
        return CUT if status is None else (status, {"error": {"message": "told by the test", "type": "Failure", "code": status}})

    return act


def files_of(lake: Lake) -> set[str]:
    return {path for path in lake.on_disk() if not path.endswith(".json")}


def set_property(server: Server, **values: str) -> None:
    with load_pyiceberg_table(server).transaction() as transaction:
        transaction.set_properties(values)


def load_pyiceberg_table(server: Server) -> Table:
    return server.pyiceberg_catalog.load_table("s.t")


def append(server: Server, *ids: int, branch: str = "main") -> Table:
    """Append one snapshot for each id as another writer."""
    table = load_pyiceberg_table(server)
    for id_ in ids:
        table.append(rows(id_), branch=branch)
    return table


def expire(table: Table, *snapshot_ids: int) -> None:
    table.refresh().maintenance.expire_snapshots().by_ids(list(snapshot_ids)).commit()
