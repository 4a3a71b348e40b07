"""Odd and damaged files of a Delta log give a result, or an error with the file and the line."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rowmerge.delta.log.log_files import LAST_CHECKPOINT, checkpoint_path, commit_path
from rowmerge.errors import CorruptLog, StorageError, UnsupportedTableFeature
from rowmerge.table.metadata.schema import to_json
from tests.support.delta_tables import ID_NAME, Lake, committed

IDS = [0, *range(100, 112)]
Damage = Callable[[Path], None]
Operation = Callable[[Lake], Any]
VECTOR = {
    "storageType": "p",
    "pathOrInlineDv": Path(__file__).absolute().as_uri(),
    "offset": 1,
    "sizeInBytes": 9,
    "cardinality": 1,
}
"""A deletion vector in a file without vectors."""


# ------------------------------------------------------------------ damages


def commit(version: int, *actions: Any) -> Damage:
    """Write a commit of actions; bytes are written as lines."""
    lines = [action if isinstance(action, bytes) else json.dumps(action).encode() for action in actions]
    return lambda folder: discard_result((folder / commit_path(version)).write_bytes(b"\n".join(lines)))


def hint(content: bytes | None) -> Damage:
    """Replace `_last_checkpoint`; None replaces it by a folder."""

    def replace(folder: Path) -> None:
        (folder / LAST_CHECKPOINT).unlink()
        discard_result((folder / LAST_CHECKPOINT).mkdir() if content is None else (folder / LAST_CHECKPOINT).write_bytes(content))

    return replace


def checkpoint(change: Callable[[bytes], bytes]) -> Damage:
    def replace(folder: Path) -> None:
        path = folder / checkpoint_path(10)
        path.write_bytes(change(path.read_bytes()))

    return replace


def without(*versions: int) -> Damage:
    return lambda folder: [(folder / commit_path(version)).unlink() for version in versions].clear()


def far_commit(version: int) -> Damage:
    return lambda folder: discard_result(shutil.copy(folder / commit_path(12), folder / commit_path(version)))


def combine(first: Damage, second: Damage) -> Damage:
    return lambda folder: [damage(folder) for damage in (first, second)].clear()


def discard_result(_: object) -> None:
    return None


def zeros_in_the_middle(content: bytes) -> bytes:
    quarter = len(content) // 4
    return content[:quarter] + bytes(quarter) + content[2 * quarter :]


def add(**fields: Any) -> dict[str, Any]:
    return {"add": {"path": "x.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True, **fields}}


def add_existing_file(**fields: Any) -> Damage:
    """Add a file of version 0 again, with other fields."""

    def write(folder: Path) -> None:
        first = [json.loads(line) for line in (folder / commit_path(0)).read_text().splitlines()]
        (original_add,) = (action["add"] for action in first if "add" in action)
        commit(13, {"add": {**original_add, **fields}})(folder)

    return write


def metadata(**fields: Any) -> dict[str, Any]:
    default_fields = {
        "id": "x",
        "schemaString": json.dumps(to_json(ID_NAME)),
        "partitionColumns": [],
        "configuration": {},
        "format": {"provider": "parquet", "options": {}},
    }
    return {"metaData": {key: value for key, value in {**default_fields, **fields}.items() if value is not None}}


def column(type_: Any) -> str:
    return json.dumps({"type": "struct", "fields": [{"name": "a", "nullable": True, "metadata": {}, "type": type_}]})


DEEP_ARRAY = b"[" * 100_000 + b"]" * 100_000
DEEP_TYPE = column(0).replace("0", '{"type":"array","containsNull":true,"elementType":' * 3000 + '"int"' + "}" * 3000)

# ------------------------------------------------------------------ operations


def ids(lake: Lake) -> Any:
    return lake.ids()


def files(lake: Lake) -> Any:
    return lake.table.snapshot().files().rows.num_rows


def bounds(lake: Lake) -> Any:
    """Return the number of files with an upper bound of the ids."""
    listing = lake.table.snapshot().files(("id",))
    return len(listing) - pc.struct_field(listing.rows["upper"], ["id"]).null_count


def newest_path(lake: Lake) -> Any:
    return lake.table.snapshot().files().paths[-1].rpartition("/")[2]


def newest_operation(lake: Lake) -> Any:
    return lake.table.history(1)[0].operation


def append(lake: Lake) -> Any:
    return committed(lake.append([999]))


# ------------------------------------------------------------------ cases

C13 = f"{13:020d}.json"
C10 = f"{10:020d}.checkpoint.parquet"
RESULTS: dict[str, tuple[Damage, Operation, Any]] = {
    **{
        f"the hint is {name}": (hint(content), ids, IDS)
        for name, content in {
            "a folder": None,
            "deep": b"[" * 200_000,
            "NaN": b'{"version":NaN}',
            "negative": b'{"version":-5}',
            "a large number": b'{"version":1' + b"0" * 40 + b"}",
            "a number of 5000 digits": b'{"version":' + b"1" * 5000 + b"}",
            "true": b'{"version":true}',
            "a fraction": b'{"version":10.0}',
            "a list": b"[]",
            "of the future": b'{"version":500}',
            "of a version without checkpoint": b'{"version":3}',
            "empty": b"",
            "no UTF-8": b'\xff\xfe{"version":10}',
            "UTF-16": '{"version":10}'.encode("utf-16"),
            "null": b"null",
            "a bare number": b"10",
        }.items()
    },
    "the checkpoint is truncated": (checkpoint(lambda content: content[:-100]), ids, IDS),
    "the checkpoint is empty": (checkpoint(lambda content: b""), ids, IDS),
    "the checkpoint is a JSON text": (checkpoint(lambda content: b'{"add":{}}'), ids, IDS),
    "the checkpoint has zeros in the middle": (checkpoint(zeros_in_the_middle), ids, IDS),
    "a commit below the checkpoint is missing": (without(5), ids, IDS),
    "an array is nested deeply in an unknown field": (commit(13, b'{"add":{"path":"x","size":1,"foo":' + DEEP_ARRAY + b"}}"), files, 14),
    "an action is null": (commit(13, {"add": None}), ids, IDS),
    "two actions share a line": (commit(13, {**add(), "remove": {"path": "y", "dataChange": True}}), files, 14),
    "a byte order mark begins the file": (commit(13, b"\xef\xbb\xbf" + json.dumps({"commitInfo": {}}).encode()), ids, IDS),
    "lines end with CR LF": (commit(13, b'{"commitInfo":{}}\r', b'{"txn":{"appId":"a","version":1}}\r', b""), ids, IDS),
    "an action has spaces": (commit(13, b'{ "add" : ' + json.dumps(add()["add"]).encode() + b" }"), files, 14),
    "a key has escapes": (commit(13, b'{"\\u0061dd":' + json.dumps(add()["add"]).encode() + b"}"), files, 14),
    "a key occurs twice": (
        commit(13, b'{"commitInfo":{}}', b'{"add":{"path":"a","path":"b","size":1,"partitionValues":{},"dataChange":true}}'),
        newest_path,
        "b",
    ),
    "statistics are no JSON": (commit(13, add(stats="{{{")), bounds, 13),
    "statistics have a text as count": (commit(13, add(stats='{"numRecords":"x"}')), bounds, 13),
    "statistics are nested deeply": (commit(13, add(stats="[" * 100_000)), bounds, 13),
    "statistics are an object": (commit(13, add(stats={"numRecords": 1})), bounds, 13),
    "statistics hold half of a surrogate pair": (commit(13, b'{"add":{"path":"x","size":1,"stats":"\\ud800"}}'), bounds, 13),
    "statistics have a huge exponent": (commit(13, add(stats='{"numRecords":1e999999999}')), bounds, 13),
    "statistics have more than Python's digits": (commit(13, add(stats='{"numRecords":' + "9" * 5000 + "}")), bounds, 13),
    "the time of a commit is a text": (
        commit(13, {"commitInfo": {"inCommitTimestamp": "abc", "timestamp": "x", "operation": "ODD", "operationParameters": [1]}}),
        newest_operation,
        "ODD",
    ),
    "checkpoints are written never": (commit(13, metadata(configuration={"delta.checkpointInterval": "0"})), append, 14),
    "retention is in months": (
        commit(13, metadata(configuration={"delta.checkpointInterval": "14", "delta.deletedFileRetentionDuration": "1 month"})),
        append,
        14,
    ),
    "200,000 tags": (commit(13, add(tags={f"k{i}": "v" for i in range(200_000)})), files, 14),
    "a file whose number is no version": (far_commit(10**20 - 1), ids, IDS),
    "an unknown action": (commit(13, {"futureAction": [1]}, {"add": None, "later": {}}), ids, IDS),
    "blank lines": (commit(13, b"", b'{"commitInfo":{}}', b"", b"  \t", b'{"txn":{"appId":"a","version":1}}', b""), ids, IDS),
}
FAULTY_COMMITS: dict[str, tuple[int | None, Sequence[Any]]] = {
    "it is empty": (None, []),
    "it has blank lines alone": (None, [b"", b"", b"  ", b""]),
    "half a line": (2, [{"commitInfo": {}}, b'{"add":{"path":"a']),
    "a line is null": (1, [b"null"]),
    "a line after an action is null": (2, [add(), b"null"]),
    "a line is a number": (2, [{"commitInfo": {}}, b"7"]),
    "two objects in one line": (2, [add(), b'{"add":{"path":"a","size":1}} {"add":{"path":"b","size":1}}']),
    "an array is nested deeply": (1, [b'{"commitInfo":' + DEEP_ARRAY + b"}"]),
    "an array is nested in 200 levels": (1, [b'{"commitInfo":{"a":' + b"[" * 200 + b"]" * 200 + b"}}"]),
    "commitInfo is a list": (2, [add(), {"commitInfo": []}]),
    "a size has 401 digits": (3, [b"", add(), b'{"add":{"path":"x","size":1' + b"0" * 400 + b"}}"]),
    "a size is a text": (3, [{"commitInfo": {}}, add(), add(size="9"), add()]),
    "a size is negative": (1, [add(size=-1)]),
    "a size is missing": (1, [add(size=None)]),
    "a path is null": (2, [add(), add(path=None)]),
    "a path is empty": (2, [add(), add(path="")]),
    "a path is a number": (2, [add(), add(path=7)]),
    "a path is no UTF-8": (2, [add(), b'{"add":{"path":"\xff","size":1}}']),
    "a path holds half of a surrogate pair": (1, [b'{"add":{"path":"\\ud800","size":1}}']),
    "a removal has no path": (1, [{"remove": {"dataChange": True}}]),
    "a reader version is huge": (1, [{"protocol": {"minReaderVersion": 10**30, "minWriterVersion": 7}}]),
    "a protocol has no writer version": (1, [{"protocol": {"minReaderVersion": 1}}]),
    "features are no texts": (1, [{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [1]}}]),
    "a metaData has no schema": (2, [{"commitInfo": {}}, {"metaData": {"id": "x"}}]),
    "a schema is an empty object": (1, [metadata(schemaString="{}")]),
    "a schema is no JSON": (1, [metadata(schemaString="{")]),
    "a schema is nested deeply": (1, [metadata(schemaString=DEEP_TYPE)]),
    "a column has no name": (1, [metadata(schemaString='{"type":"struct","fields":[{"type":"long"}]}')]),
    "a column is a text": (1, [metadata(schemaString='{"type":"struct","fields":["id"]}')]),
    "a partition column is no column": (1, [metadata(partitionColumns=["p"])]),
    "a property is a number": (1, [metadata(configuration={"delta.appendOnly": 1})]),
    "a format is a list": (1, [metadata(format=[])]),
    "the version of a txn is a text": (1, [{"txn": {"appId": "a", "version": "x"}}]),
    "the version of a txn is huge": (1, [{"txn": {"appId": "a", "version": 10**30}}]),
    "a txn has no application": (1, [{"txn": {"version": 1}}]),
    "a domain has no configuration": (1, [{"domainMetadata": {"domain": "a"}}]),
    "a deletion vector of an unknown kind": (1, [add(deletionVector={**VECTOR, "storageType": "q"})]),
    "a deletion vector without a kind": (1, [add(deletionVector={**VECTOR, "storageType": None})]),
    "a deletion vector of negative size": (1, [add(deletionVector={**VECTOR, "sizeInBytes": -1})]),
    "a deletion vector without a number of rows": (1, [add(deletionVector={**VECTOR, "cardinality": None})]),
    "a deletion vector without an id": (1, [add(deletionVector={**VECTOR, "storageType": "u", "pathOrInlineDv": "short"})]),
    "a deletion vector above the table": (
        1,
        [add(deletionVector={**VECTOR, "storageType": "u", "pathOrInlineDv": "../..ab^-aqEH.-t@S}K{vb[*k^"})],
    ),
}
FAULTY_LOGS: dict[str, tuple[Damage, str]] = {
    "a damaged checkpoint is needed": (combine(checkpoint(zeros_in_the_middle), without(*range(10))), C10),
    "a damaged checkpoint and a gap": (combine(checkpoint(zeros_in_the_middle), without(4)), C10),
    "a commit is missing": (without(11), f"{11:020d}.json"),
    "a far commit, 10^7": (far_commit(10**7), C13),
    "a far commit, 10^9": (far_commit(10**9), C13),
    "a deletion vector in a file of another kind": (add_existing_file(deletionVector=VECTOR), Path(__file__).name),
    "a deletion vector of 2 GiB": (add_existing_file(deletionVector={**VECTOR, "sizeInBytes": 2**31 - 1}), Path(__file__).name),
    "a deletion vector that is missing": (add_existing_file(deletionVector={**VECTOR, "pathOrInlineDv": "file:///none/x.bin"}), "x.bin"),
}
UNSUPPORTED: dict[str, tuple[Any, str]] = {
    "a reader version": ({"protocol": {"minReaderVersion": 99, "minWriterVersion": 7}}, "reader version 99"),
    "a type": (metadata(schemaString=column("money")), "money"),
    "a wide decimal": (metadata(schemaString=column("decimal(39,0)")), "decimal(39,0)"),
}


@pytest.mark.parametrize("case", RESULTS)
def test_odd_valid_logs_are_read(copied_table: Path, case: str) -> None:
    damage, operation, expected = RESULTS[case]
    damage(copied_table)
    assert operation(Lake(copied_table)) == expected


@pytest.mark.parametrize("operation", [ids, append])
@pytest.mark.parametrize("case", FAULTY_COMMITS)
def test_a_faulty_commit_is_reported_by_path_and_line(copied_table: Path, case: str, operation: Operation) -> None:
    line, actions = FAULTY_COMMITS[case]
    commit(13, *actions)(copied_table)
    with pytest.raises(CorruptLog) as raised:
        operation(Lake(copied_table))
    assert (raised.value.path, raised.value.line) == (f"file://{copied_table / commit_path(13)}", line)


@pytest.mark.parametrize("case", FAULTY_COMMITS)
def test_the_history_of_a_faulty_log_gives_a_result_or_corrupt_log(copied_table: Path, case: str) -> None:
    commit(13, *FAULTY_COMMITS[case][1])(copied_table)
    lake = Lake(copied_table)
    with suppress(CorruptLog):
        assert len(lake.table.history()) == 14


@pytest.mark.parametrize("case", FAULTY_LOGS)
def test_a_faulty_log_is_reported_by_path(copied_table: Path, case: str) -> None:
    damage, name = FAULTY_LOGS[case]
    damage(copied_table)
    with pytest.raises(CorruptLog) as raised:
        Lake(copied_table).ids()
    assert raised.value.path.rpartition("/")[2] == name


@pytest.mark.parametrize("name", ["x" * 300, "a/" * 3000 + "a"], ids=["a name", "a path"])
def test_a_deletion_vector_with_a_too_long_path_is_reported_by_path(copied_table: Path, name: str) -> None:
    add_existing_file(deletionVector={**VECTOR, "pathOrInlineDv": f"file:///{name}/x.bin"})(copied_table)
    with pytest.raises(StorageError, match="[Nn]ame too long") as raised:
        Lake(copied_table).ids()
    assert raised.value.path.startswith(f"file:///{name}")


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_unsupported_features_are_reported_by_name(copied_table: Path, case: str) -> None:
    action, name = UNSUPPORTED[case]
    commit(13, action)(copied_table)
    with pytest.raises(UnsupportedTableFeature, match=re.escape(name)):
        Lake(copied_table).ids()


def test_a_skipped_checkpoint_logs_a_warning(copied_table: Path, caplog: pytest.LogCaptureFixture) -> None:
    checkpoint(zeros_in_the_middle)(copied_table)
    assert Lake(copied_table).ids() == IDS
    (message,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert C10 in message and "version 12" in message


def test_an_older_checkpoint_is_read_if_the_newest_is_damaged(copied_table: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake = Lake(copied_table)
    for number in range(13, 22):
        committed(lake.append([100 + number]))
    (copied_table / checkpoint_path(20)).write_bytes(b"")
    without(*range(10))(copied_table)
    assert Lake(copied_table).ids() == sorted([*IDS, *range(113, 122)])
    assert f"{20:020d}.checkpoint.parquet" in caplog.text


def test_page_checksums_detect_zeroed_values_in_a_checkpoint(copied_table: Path) -> None:
    """Zeros in an uncompressed page are valid values, so only its checksum detects the damage."""
    path = copied_table / checkpoint_path(10)
    pq.write_table(pq.read_table(path), path, compression="none", use_dictionary=False, write_page_checksum=True)
    content = path.read_bytes()
    name = json.loads((copied_table / commit_path(3)).read_bytes().split(b"\n")[1])["add"]["path"].encode()
    assert content.count(name) >= 1
    path.write_bytes(content.replace(name, bytes(len(name)), 1))
    assert Lake(copied_table).ids() == IDS


def test_a_faulty_winning_commit_is_reported_by_path_and_line(copied_table: Path) -> None:
    lake = Lake(copied_table)
    base = lake.table.snapshot()
    commit(13, {"commitInfo": {}}, {"txn": {"version": 1}})(copied_table)
    with pytest.raises(CorruptLog) as raised:
        lake.append([999], base=base)
    assert (raised.value.path, raised.value.line) == (f"file://{copied_table / commit_path(13)}", 2)


def test_a_non_numeric_in_commit_timestamp_is_reported_by_path_and_line(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    committed(lake.create(lake.file([0]), properties={"delta.enableInCommitTimestamps": "true"}))
    commit(1, {"txn": {"appId": "a", "version": 1}}, {"commitInfo": {"inCommitTimestamp": "soon"}})(lake.folder)
    with pytest.raises(CorruptLog, match="inCommitTimestamp") as raised:
        Lake(lake.folder).table.snapshot()
    assert (raised.value.path, raised.value.line) == (f"file://{lake.folder / commit_path(1)}", 2)
