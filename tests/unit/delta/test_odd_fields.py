"""Actions with missing fields or fields of other values or types give a result or an error of the engine."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rowmerge.delta.log.checkpoints import write_checkpoint
from rowmerge.delta.log.log_files import LAST_CHECKPOINT, commit_path
from rowmerge.errors import CorruptLog, RowmergeError
from rowmerge.storage.store import Storage
from tests.support.delta_tables import Lake, committed
from tests.support.suites import examples
from tests.unit.delta.test_odd_logs import VECTOR, add, commit, metadata

MAP = {"type": "map", "keyType": "long", "valueType": "string", "valueContainsNull": True}
ODD_VALUES: tuple[Any, ...] = (None, "odd", "", "7", 7, -1, 10**30, 1.5, True, [], {}, [None], [[1]], {"a": {"b": 1}}, "\ud800", "%zz/../x")
ACTIONS: tuple[dict[str, Any], ...] = (
    {"commitInfo": {"operation": "WRITE", "operationParameters": {"a": "b"}, "operationMetrics": {"n": "1"}, "inCommitTimestamp": 5}},
    {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["columnMapping"], "writerFeatures": ["columnMapping"]}},
    metadata(configuration={"delta.columnMapping.mode": "none", "delta.appendOnly": "false"}, description="d", name="n", createdTime=1),
    metadata(
        schemaString=json.dumps(
            {
                "type": "struct",
                "fields": [
                    {
                        "name": "id",
                        "type": {"type": "array", "elementType": MAP, "containsNull": True},
                        "nullable": True,
                        "metadata": {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "id", "comment": "c"},
                    }
                ],
            }
        ),
        configuration={"delta.columnMapping.mode": "id", "delta.columnMapping.maxColumnId": "1"},
    ),
    {"txn": {"appId": "a", "version": 1, "lastUpdated": 2}},
    {"domainMetadata": {"domain": "delta.clustering", "configuration": '{"clusteringColumns":[["id"]]}', "removed": False}},
    {"domainMetadata": {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":5}', "removed": False}},
    add(stats='{"numRecords":1}', tags={"a": "b"}, deletionVector={**VECTOR}, baseRowId=1, clusteringProvider="c"),
    {"remove": {"path": "x", "deletionTimestamp": 1, "dataChange": True, "extendedFileMetadata": True, "partitionValues": {}, "size": 1}},
    {"cdc": {"path": "x", "partitionValues": {}, "size": 1, "dataChange": False}},
)


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all fields and items, including those in the JSON of a schema."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*above, key)
        yield from places(json.loads(inner) if key == "schemaString" else inner, (*above, key))


def with_value(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    """Return a copy with another value at a path; `...` removes the field."""
    key, *inner = place
    copied = dict(value) if isinstance(value, dict) else list(value)
    if inner:
        text = key == "schemaString"
        part = with_value(json.loads(value[key]) if text else value[key], tuple(inner), new)
        copied[key] = json.dumps(part) if text else part
    elif new is ...:
        del copied[key]
    else:
        copied[key] = new
    return copied


def read_log(lake: Lake) -> None:
    """Run all operations that read the log, without reading data files."""
    table = lake.table
    snapshot = table.snapshot()
    files = snapshot.files(snapshot.schema.names)
    assert snapshot.shape.stored_schema is not None and snapshot.shape.rules is not None and snapshot.clustering_columns is not None
    assert len(table.history()) == 14
    snapshot.check_writable()
    committed(lake.append([999]))
    write_checkpoint(Storage(str(lake.folder)), table.snapshot().state)
    with suppress(CorruptLog):
        snapshot.deleted_positions(files.paths)


def problem_of(lake: Lake) -> Exception | None:
    try:
        read_log(lake)
    except Exception as error:  # noqa: BLE001 - the test checks the type of the error
        return error
    return None


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: next(iter(action)))
def test_unchanged_actions_are_read(copied_table: Path, action: dict[str, Any]) -> None:
    commit(13, {"commitInfo": {}}, action)(copied_table)
    read_log(Lake(copied_table))


def test_odd_fields_of_a_commit_give_a_result_or_an_engine_error(copied_table: Path) -> None:
    cases = [(action, place, new) for action in ACTIONS for place in places(action) for new in (..., *ODD_VALUES)]
    random.Random(3).shuffle(cases)
    original_files = {path: path.read_bytes() for path in (copied_table / "_delta_log").iterdir() if path.is_file()}
    for action, place, new in cases[: examples(gate=300, full=len(cases))]:
        for path in (copied_table / "_delta_log").iterdir():
            if path not in original_files:
                path.unlink()
        (copied_table / LAST_CHECKPOINT).write_bytes(original_files[copied_table / LAST_CHECKPOINT])
        commit(13, {"commitInfo": {}}, with_value(action, place, new))(copied_table)
        problem = problem_of(Lake(copied_table))
        assert problem is None or isinstance(problem, RowmergeError), f"{place} = {new!r}: {problem!r}"
        if isinstance(problem, CorruptLog):
            assert (problem.path, problem.line) == (f"file://{copied_table / commit_path(13)}", 2), f"{place} = {new!r}: {problem!r}"
