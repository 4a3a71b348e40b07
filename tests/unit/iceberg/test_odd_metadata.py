"""Odd and damaged Iceberg metadata gives a result, or an error with the path of the file."""

from __future__ import annotations

import copy
import gzip
import io
import json
import random
import shutil
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from rowmerge.errors import ConfigurationError, CorruptLog, RowmergeError
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.iceberg.manifests import manifest_files as manifests
from rowmerge.iceberg.snapshots.snapshot import IcebergSnapshot
from rowmerge.storage.cache import Cache
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.metadata.shape import TableDefinition
from tests.golden.iceberg.tables import NAMES, copied
from tests.support.delta_tables import committed, file_rows, live_rows
from tests.support.iceberg_lake import Lake
from tests.support.suites import examples

IDS = [1, 2, 3, 5]
HUGE = 10**30
DEEP = "[" * 100_000 + "]" * 100_000
ODD_VALUES: tuple[Any, ...] = (None, "odd", 7, -1, HUGE, 1.5, True, [], {}, [None], [[1]], {"type": {"type": "struct", "fields": 5}})


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a table of three snapshots with a deleted row."""
    lake = Lake(tmp_path_factory.mktemp("template") / "t")
    lake.create()
    lake.append([1, 2, 3])
    lake.append([4, 5])
    lake.delete(4)
    return lake.folder


@pytest.fixture
def folder(template: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Replace the template by a copy whose manifests are not cached, and restore it afterwards."""
    moved = template.with_name("moved")
    template.rename(moved)
    shutil.copytree(moved, template)
    monkeypatch.setattr(manifests, "_cache", Cache(1_000_000))
    monkeypatch.setattr(manifests, "_own_files", Cache(1_000_000))
    yield template
    shutil.rmtree(template)
    moved.rename(template)


def metadata_file(folder: Path) -> Path:
    return folder / "metadata" / "v4.metadata.json"


def manifest_list(folder: Path) -> Path:
    snapshot = json.loads(metadata_file(folder).read_text())["snapshots"][-1]
    return Path(snapshot["manifest-list"].removeprefix("file://"))


def manifest(folder: Path) -> Path:
    """Return the path of a data manifest of the newest snapshot."""
    with manifest_list(folder).open("rb") as file:
        entries = [entry for entry in fastavro.reader(file) if entry["content"] == 0]
    return Path(entries[0]["manifest_path"].removeprefix("file://"))


def delete_manifest(folder: Path) -> Path:
    with manifest_list(folder).open("rb") as file:
        entries = [entry for entry in fastavro.reader(file) if entry["content"] == 1]
    return Path(entries[0]["manifest_path"].removeprefix("file://"))


def read_ids_and_metadata(folder: Path) -> list[int]:
    """Return the ids of the newest version after all operations that read metadata."""
    lake = Lake(folder)
    snapshot = read_metadata(lake.table)
    return sorted(live_rows(snapshot)["id"].to_pylist(), key=str) if "id" in snapshot.schema.names else []


def read_metadata(table: IcebergTable) -> IcebergSnapshot:
    """Return the newest version after all operations that read metadata."""
    snapshot = table.snapshot()
    assert snapshot.shape.stored_schema is not None and snapshot.shape.rules is not None
    assert snapshot.shape.partitioning is not None and snapshot.shape.ordering is not None and snapshot.partition_columns is not None
    files = snapshot.files(snapshot.schema.names)
    assert len(snapshot.metadata_columns.row_origins(files.paths)) == len(files)
    assert len(table.history()) >= 0
    return snapshot


def problem_of(read: Callable[[], object]) -> Exception | None:
    try:
        read()
    except Exception as error:  # noqa: BLE001 - the tests check the type of the error
        return error
    return None


# ------------------------------------------------------------------ bytes


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "truncated": lambda content: content[: len(content) // 2],
    "zeros": lambda content: bytes(len(content)),
    "another kind of file": lambda content: b"PAR1" + content,
    "no UTF-8": lambda content: b"\xff\xfe" + content,
    "half a gzip": lambda content: gzip.compress(content)[:-9],
    "a damaged gzip": lambda content: gzip.compress(content)[:20] + bytes(30) + gzip.compress(content)[50:],
    "a damaged zstd": lambda content: b"\x28\xb5\x2f\xfd" + content,
    "deep": lambda content: DEEP.encode(),
    "null": lambda content: b"null",
    "a list": lambda content: b"[]",
    "a number of 5000 digits": lambda content: b"1" * 5000,
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", [metadata_file, manifest_list, manifest, delete_manifest])
def test_a_damaged_metadata_file_is_reported_by_path(folder: Path, file: Callable[[Path], Path], damage: str) -> None:
    path = file(folder)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with pytest.raises(CorruptLog) as raised:
        read_ids_and_metadata(folder)
    assert raised.value.path == f"file://{path}"


@pytest.mark.parametrize("file", [manifest_list, manifest])
def test_random_byte_changes_give_a_result_or_an_engine_error(folder: Path, file: Callable[[Path], Path]) -> None:
    path, random_ = file(folder), random.Random(11)
    content = path.read_bytes()
    for _ in range(examples(gate=60, full=1000)):
        damaged = bytearray(content)
        for _ in range(random_.choice([1, 1, 2, 8])):
            damaged[random_.randrange(len(damaged))] = random_.randrange(256)
        path.write_bytes(damaged)
        manifests._cache = Cache(1_000_000)
        problem = problem_of(lambda: read_ids_and_metadata(folder))
        assert problem is None or is_from_test_reader(problem) or isinstance(problem, RowmergeError), repr(problem)


def is_from_test_reader(problem: Exception) -> bool:
    """Return whether the test's reader of data files raised the error, because the path of a data file was changed."""
    return any(frame.name == file_rows.__name__ for frame in traceback.extract_tb(problem.__traceback__))


# ------------------------------------------------------------------ fields of metadata


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all fields and items."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*above, key)
        yield from places(inner, (*above, key))


def with_value(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    """Return a copy with another value at a path; `...` removes the field."""
    copied = copy.deepcopy(value)
    holder = copied
    for key in place[:-1]:
        holder = holder[key]
    if new is ...:
        del holder[place[-1]]
    else:
        holder[place[-1]] = new
    return copied


def test_odd_metadata_fields_give_a_result_or_an_engine_error(folder: Path) -> None:
    path = metadata_file(folder)
    content = json.loads(path.read_text())
    cases = [(place, new) for place in places(content) for new in (..., *ODD_VALUES)]
    random.Random(5).shuffle(cases)
    for place, new in cases[: examples(gate=400, full=len(cases))]:
        path.write_text(json.dumps(with_value(content, place, new)))
        assert_engine_error(problem_of(lambda: read_ids_and_metadata(folder)), folder, f"{place} = {new!r}")


@pytest.mark.parametrize("name", NAMES)
def test_odd_fields_of_golden_metadata_give_a_result_or_an_engine_error(name: str, tmp_path: Path) -> None:
    path = Path(copied(name, tmp_path))
    is_compressed = ".gz." in path.name
    content = json.loads(gzip.decompress(path.read_bytes()) if is_compressed else path.read_bytes())
    cases = [(place, new) for place in places(content) for new in (..., *ODD_VALUES)]
    random.Random(name).shuffle(cases)
    table = IcebergTable(DirectoryOperations(Storage(str(tmp_path)), "s.t"), "s.t")
    assert read_metadata(table) is not None
    for place, new in cases[: examples(gate=8, full=200)]:
        text = json.dumps(with_value(content, place, new)).encode()
        path.write_bytes(gzip.compress(text) if is_compressed else text)
        assert_engine_error(problem_of(lambda: read_metadata(table)), tmp_path, f"{place} = {new!r}")


def assert_engine_error(problem: Exception | None, folder: Path, case: str) -> None:
    assert problem is None or isinstance(problem, RowmergeError), f"{case}: {problem!r}"
    if isinstance(problem, CorruptLog):
        assert problem.path.startswith(f"file://{folder}"), f"{case}: {problem!r}"


REQUIRED_FIELDS = [
    "format-version",
    "table-uuid",
    "location",
    "last-column-id",
    "schemas",
    "current-schema-id",
    "partition-specs",
    "sort-orders",
]


@pytest.mark.parametrize("name", REQUIRED_FIELDS)
def test_a_missing_required_field_is_reported_by_path(folder: Path, name: str) -> None:
    path = metadata_file(folder)
    path.write_text(json.dumps(with_value(json.loads(path.read_text()), (name,), ...)))
    with pytest.raises(CorruptLog) as raised:
        read_ids_and_metadata(folder)
    assert raised.value.path == f"file://{path}"


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("snapshots", -1, "snapshot-id"), HUGE),
        (("snapshots", -1, "timestamp-ms"), HUGE),
        (("snapshots", -1, "sequence-number"), -HUGE),
        (("last-sequence-number",), HUGE),
        (("refs", "main", "snapshot-id"), 1),
        (("current-schema-id",), 99),
        (("default-spec-id",), 99),
        (("default-sort-order-id",), 99),
        (("schemas", 0, "fields", 0, "type"), "money"),
        (("schemas", 0, "fields", 0, "type"), "decimal(99,0)"),
        (("schemas", 0, "fields", 0, "name"), None),
        (("schemas",), json.loads("[" * 100 + "]" * 100)),
    ],
)
def test_invalid_metadata_values_are_reported_by_path(folder: Path, place: tuple[Any, ...], value: Any) -> None:
    path = metadata_file(folder)
    path.write_text(json.dumps(with_value(json.loads(path.read_text()), place, value)))
    with pytest.raises(CorruptLog) as raised:
        read_ids_and_metadata(folder)
    assert raised.value.path == f"file://{path}"


def test_unknown_fields_and_duplicate_keys_are_accepted(folder: Path) -> None:
    path = metadata_file(folder)
    content = json.loads(path.read_text())
    text = json.dumps({**content, "later": {"a": [1]}})
    path.write_text('{"table-uuid":"x",' + text[1:])
    assert read_ids_and_metadata(folder) == IDS


# ------------------------------------------------------------------ records of manifests and manifest lists


def rewrite(path: Path, change: Callable[[dict[str, Any], list[dict[str, Any]]], None]) -> None:
    """Rewrite an Avro file after a change of its schema and its records."""
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        schema, records, metadata = copy.deepcopy(reader.writer_schema), list(reader), reader.metadata
    change(schema, records)
    stream = io.BytesIO()
    fastavro.writer(stream, fastavro.parse_schema(schema), records, metadata={k: v for k, v in metadata.items() if "avro" not in k})
    path.write_bytes(stream.getvalue())


def field(schema: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a field of the schema or of its data file."""
    inner = [part for part in schema["fields"] if part["name"] == "data_file"]
    (chosen,) = (part for part in [*schema["fields"], *(inner[0]["type"]["fields"] if inner else [])] if part["name"] == name)
    return chosen


def record_of(record: dict[str, Any], name: str) -> dict[str, Any]:
    return record if name in record else record["data_file"]


def without_field(name: str) -> Callable[[dict[str, Any], list[dict[str, Any]]], None]:
    def change(schema: dict[str, Any], records: list[dict[str, Any]]) -> None:
        chosen = field(schema, name)
        for fields in (schema["fields"], *(part["type"]["fields"] for part in schema["fields"] if part["name"] == "data_file")):
            fields[:] = [part for part in fields if part is not chosen]

    return change


def with_type(name: str, type_: Any, value: Any) -> Callable[[dict[str, Any], list[dict[str, Any]]], None]:
    def change(schema: dict[str, Any], records: list[dict[str, Any]]) -> None:
        field(schema, name)["type"] = type_
        field(schema, name).pop("default", None)
        for record in records:
            record_of(record, name)[name] = value

    return change


LIST_FIELDS = ["manifest_path", "manifest_length", "partition_spec_id", "added_snapshot_id"]
ENTRY_FIELDS = ["status", "file_path", "file_format", "record_count", "file_size_in_bytes"]


@pytest.mark.parametrize(("file", "name"), [*((manifest_list, n) for n in LIST_FIELDS), *((manifest, n) for n in ENTRY_FIELDS)])
@pytest.mark.parametrize("change", ["missing", "null", "another type"])
def test_an_unreadable_avro_field_is_reported_by_path(folder: Path, file: Callable[[Path], Path], name: str, change: str) -> None:
    path = file(folder)
    changes = {
        "missing": without_field(name),
        "null": with_type(name, ["null", "string"], None),
        "another type": with_type(name, "double", 1.5),
    }
    rewrite(path, changes[change])
    with pytest.raises(CorruptLog) as raised:
        read_ids_and_metadata(folder)
    assert raised.value.path == f"file://{path}"


LONGS_OF_UNKNOWN_ID = {
    "type": "record",
    "name": "k126_v127",
    "fields": [{"name": "key", "type": "int", "field-id": 126}, {"name": "value", "type": "long", "field-id": 999}],
}


@pytest.mark.parametrize(
    ("file", "name", "type_", "value"),
    [
        (manifest_list, "manifest_length", "long", -1),
        (manifest_list, "partition_spec_id", "int", 99),
        (manifest_list, "content", "int", 7),
        (manifest_list, "added_files_count", "string", "many"),
        (manifest_list, "partitions", ["null", "string"], "odd"),
        (manifest, "status", "int", 9),
        (manifest, "content", "int", 9),
        (manifest, "record_count", "long", -5),
        (manifest, "file_size_in_bytes", "long", -(2**63)),
        (manifest, "sequence_number", ["null", "string"], "first"),
        (manifest, "lower_bounds", {"type": "map", "values": "bytes"}, {"1": b"1"}),
        (manifest, "lower_bounds", {"type": "array", "items": LONGS_OF_UNKNOWN_ID}, [{"key": 1, "value": 1}]),
        (manifest, "null_value_counts", ["null", "long"], 5),
        (manifest, "partition", {"type": "record", "name": "r102", "fields": [{"name": "p", "type": "int"}]}, {"p": 1}),
    ],
)
def test_invalid_avro_values_are_reported_by_path(folder: Path, file: Callable[[Path], Path], name: str, type_: Any, value: Any) -> None:
    path = file(folder)
    rewrite(path, with_type(name, type_, value))
    with pytest.raises(CorruptLog) as raised:
        read_ids_and_metadata(folder)
    assert raised.value.path == f"file://{path}"


def test_a_deeply_nested_avro_schema_is_reported_by_path(folder: Path) -> None:
    path = manifest(folder)
    content = path.read_bytes()
    deep = b'{"type":"array","items":' * 5000 + b'"int"' + b"}" * 5000
    header = {"magic": b"Obj\x01", "meta": {"avro.schema": deep, "avro.codec": b"null"}, "sync": bytes(16)}
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.schema.parse_schema(_HEADER), header)
    path.write_bytes(stream.getvalue() + content[-50:])
    with pytest.raises(CorruptLog) as raised:
        read_ids_and_metadata(folder)
    assert raised.value.path == f"file://{path}"


_HEADER = {
    "type": "record",
    "name": "header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
    ],
}


def test_invalid_summary_values_are_ignored_in_later_commits(folder: Path) -> None:
    path = metadata_file(folder)
    content = json.loads(path.read_text())
    odd = {"total-records": "many", "total-data-files": 2, "rowmerge.parameters": "{", "rowmerge.metrics": "[1]"}
    content["snapshots"][-1]["summary"] |= {**odd, "rowmerge.transaction.application": "a"}
    path.write_text(json.dumps(content))
    lake = Lake(folder)
    assert lake.table.history()[0].parameters == {}
    assert not lake.table.snapshot().has_transaction("a", 1)
    lake.append([6])
    assert lake.ids() == [*IDS, 6]
    assert "total-records" not in json.loads((folder / "metadata" / "v5.metadata.json").read_text())["snapshots"][-1]["summary"]


@pytest.mark.parametrize("version", [0, 1764230400123456789, 2**63 - 1], ids=str)
def test_a_transaction_version_can_be_any_long(folder: Path, version: int) -> None:
    path = metadata_file(folder)
    content = json.loads(path.read_text())
    transaction = {"rowmerge.transaction.application": "a", "rowmerge.transaction.version": str(version)}
    content["snapshots"][-1]["summary"] |= transaction
    path.write_text(json.dumps(content))
    assert Lake(folder).table.snapshot().has_transaction("a", version)


def test_an_invalid_previous_versions_max_is_refused_until_corrected(folder: Path) -> None:
    name, path = "write.metadata.previous-versions-max", metadata_file(folder)
    content = json.loads(path.read_text())
    content["properties"][name] = "ten"
    path.write_text(json.dumps(content))
    lake = Lake(folder)
    with pytest.raises(ConfigurationError, match=f"{name} is 'ten'"):
        lake.append([6])
    properties = {**lake.table.snapshot().settings.properties, name: "10"}
    committed(
        lake.table.commit(lake.table.snapshot(), CommitRequest("SET TBLPROPERTIES", definition=TableDefinition(properties=properties)))
    )
    lake.append([6])
    assert lake.ids() == [*IDS, 6]
