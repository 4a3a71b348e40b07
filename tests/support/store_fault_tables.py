"""A table on an S3 server with faults, the statements of the fault tests, and its rows, read with Arrow and without faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import rowmerge
from rowmerge.delta import DeltaTable
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.parquet.filesystems import open_data_file
from rowmerge.storage.store import Storage
from tests.support.faulty_s3 import AnyFault, FaultyS3, Request, Rule

Connect = Callable[..., rowmerge.Session]
"""The type of the fixture `connect_to_s3`."""
OLD_ROWS = {1: "a", 2: "b", 3: "c"}
"""The rows of `create_table`."""
INSERT = "insert into t values (4, 'i')"
UPSERT = """merge into t using (select 2L as id, 'm' as p union all select 5L, 'n') s on t.id = s.id
when matched then update set p = s.p when not matched then insert *"""
DELETE = "merge into t using (select 3L as id) s on t.id = s.id when matched then delete"
OF_EXECUTORS = "insert into t select id, 'x' from range(100, 10100, 1, 2)"
"""It has more rows than the driver writes itself."""
COMMIT = {"delta": "/_delta_log/00000000000000000002.json", "iceberg": "/metadata/v3.metadata.json"}
"""The end of the path of the object that commits the statement after `create_table`."""
SHORT = {"client_options": {"timeout": "1s", "connect_timeout": "1s"}, "retry_config": {"max_retries": 1, "retry_timeout": "3s"}}
"""Options with which a request fails after a few seconds."""
SHORT_WAITS = {"retry_config": {"backoff": {"init_backoff": "10ms", "max_backoff": "1s", "base": 2}}}
"""The options of retries with which obstore waits for a shorter time between its ten attempts."""


def options_of(s3: FaultyS3, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the storage options for the proxy, with more options in nested mappings."""
    merged = s3.options(retries=None)
    return merged | {name: {**merged.get(name, {}), **values} for name, values in options.items()}


def create_table(session: rowmerge.Session) -> None:
    session.sql("create table t (id bigint, p string)")
    session.sql("insert into t values (1, 'a'), (2, 'b'), (3, 'c')")


def rows(s3: FaultyS3, format_: str, warehouse: str) -> dict[int, str]:
    """Return the live rows of the table, read without faults. Each id must exist once."""
    s3.rule = None
    storage = Storage(f"{warehouse}/default/t", s3.options())
    table = DeltaTable(storage, "t") if format_ == "delta" else IcebergTable(DirectoryOperations(storage, "t"), "t")
    snapshot = table.snapshot()
    paths = snapshot.files().paths
    deleted = snapshot.deleted_positions(paths)
    live = []
    for path in paths:
        with open_data_file(path, snapshot.shape.filesystem_options, by_field_id=False) as file:
            content = file.read(["id", "p"]).to_pylist()
        live += [row for position, row in enumerate(content) if position not in deleted.get(path, ())]
    assert len({row["id"] for row in live}) == len(live), "a row exists twice"
    return {row["id"]: row["p"] for row in live}


def first_of_each(fault: AnyFault, part: str = "") -> Rule:
    """Return a rule by which the first request of each method and path fails if the path contains `part`."""
    counts = Counter[tuple[str, str]]()

    def rule(request: Request) -> AnyFault | None:
        counts[request.method, request.path] += 1
        return fault if part in request.path and counts[request.method, request.path] == 1 else None

    return rule


def is_data(request: Request) -> bool:
    """Return whether a request is for a data file."""
    return ".parquet" in request.path.partition("?")[0] and "/_delta_log/" not in request.path
