"""Manifests and manifest lists are exchanged with pyiceberg, and partition values of every type round trip."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestFile, read_manifest_list as pyiceberg_list
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    RemoveSchemasUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSpecUpdate,
    update_table_metadata,
)
from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform, MonthTransform, VoidTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from rowmerge.errors import CorruptLog, UnsupportedTableFeature
from rowmerge.iceberg.avro.files import write_avro
from rowmerge.iceberg.manifests.content import UNASSIGNED, Content, ContentFile, Entry, Manifest, ManifestContent, PartitionSummary, Status
from rowmerge.iceberg.manifests.manifest_files import (
    ManifestHeader,
    read_manifest,
    read_manifest_list,
    read_manifests,
    schema_of_spec,
    write_manifest,
    write_manifest_list,
)
from rowmerge.iceberg.manifests.records import entry_record
from rowmerge.iceberg.manifests.schemas import manifest_schema
from rowmerge.iceberg.metadata.locations import located, plain_path
from rowmerge.storage.cache import Cache
from rowmerge.storage.store import Storage

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "city", StringType(), required=False), schema_id=3)
UNPARTITIONED = PartitionSpec(spec_id=0)
BY_CITY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"), spec_id=1)
FULL = ContentFile(
    content=Content.DATA,
    path="file:///t/data/a.parquet",
    records=10,
    size=1234,
    spec_id=1,
    partition=("Köln",),
    column_sizes={1: 80, 2: 90},
    value_counts={1: 10, 2: 10},
    null_counts={1: 0, 2: 3},
    nan_counts={1: 0},
    lower={1: b"\x01\0\0\0\0\0\0\0", 2: b"K"},
    upper={1: b"\x09\0\0\0\0\0\0\0", 2: b"L"},
    split_offsets=(4, 1000),
    sort_order_id=1,
    key_metadata=b"\x00\x01",
)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path))


def write_entries(
    storage: Storage,
    entries: list[Entry],
    *,
    content: ManifestContent = ManifestContent.DATA,
    spec: PartitionSpec = BY_CITY,
    schema: Schema = SCHEMA,
    format_version: int = 2,
    snapshot_id: int = 77,
) -> Manifest:
    header = ManifestHeader(content, spec, schema, format_version)
    return write_manifest(storage, f"{storage.location}/metadata/{uuid.uuid4()}-m0.avro", entries, header, snapshot_id)


def write_and_read_list(
    storage: Storage, manifests: list[Manifest], sequence_number: int = 5, **more: Any
) -> tuple[str, tuple[Manifest, ...]]:
    path = f"{storage.location}/metadata/snap-{uuid.uuid4()}.avro"
    arguments: dict[str, Any] = {"snapshot_id": 77, "parent_id": 76, **more}
    write_manifest_list(storage, path, manifests, sequence_number=sequence_number, **arguments)
    return path, read_manifest_list(storage, path)


def pyiceberg_manifests(path: str) -> list[ManifestFile]:
    return list(pyiceberg_list(PyArrowFileIO().new_input(path)))


def test_all_manifest_fields_round_trip(storage: Storage) -> None:
    older = ContentFile(Content.DATA, "/t/b.parquet", 5, 50, spec_id=1, partition=(None,))
    entries = [Entry.added(FULL, 77), Entry(Status.EXISTING, 70, 2, 3, older), Entry(Status.ADDED, 77, 4, 4, older).deleted(77)]
    _, (manifest,) = write_and_read_list(storage, [write_entries(storage, entries)])
    assert read_manifest(storage, manifest) == (Entry(Status.ADDED, 77, 5, 5, FULL), entries[1], entries[2])


def test_a_manifest_list_summarizes_its_manifests(storage: Storage) -> None:
    entries = [
        Entry.added(FULL, 77),
        Entry(Status.EXISTING, 70, 2, 3, ContentFile(Content.DATA, "/t/b.parquet", 5, 50, 1, ("Aachen",))),
        Entry(Status.DELETED, 77, 1, 1, ContentFile(Content.DATA, "/t/c.parquet", 7, 70, 1, (None,))),
    ]
    written_manifest = write_entries(storage, entries)
    assert (written_manifest.sequence_number, written_manifest.min_sequence_number) == (UNASSIGNED, 2)
    _, (manifest,) = write_and_read_list(storage, [written_manifest])
    assert manifest == Manifest(
        path=written_manifest.path,
        length=len(storage.get(written_manifest.path[len(storage.location) + 1 :])),
        spec_id=1,
        content=ManifestContent.DATA,
        sequence_number=5,
        min_sequence_number=2,
        added_snapshot_id=77,
        added_files=1,
        existing_files=1,
        deleted_files=1,
        added_rows=10,
        existing_rows=5,
        deleted_rows=7,
        partitions=(PartitionSummary(True, False, b"Aachen", "Köln".encode()),),
    )


def test_a_reused_manifest_keeps_its_sequence_number(storage: Storage) -> None:
    _, (first,) = write_and_read_list(storage, [write_entries(storage, [Entry.added(FULL, 77)])], 5)
    _, manifests = write_and_read_list(storage, [first, write_entries(storage, [Entry.added(FULL, 78)], snapshot_id=78)], 6, snapshot_id=78)
    assert [(manifest.sequence_number, manifest.min_sequence_number) for manifest in manifests] == [(5, 5), (6, 6)]
    assert [entry.sequence_number for entries in read_manifests(storage, manifests) for entry in entries] == [5, 6]


def test_an_added_file_keeps_an_explicit_sequence_number(storage: Storage) -> None:
    _, (manifest,) = write_and_read_list(storage, [write_entries(storage, [Entry.added(FULL, 77, sequence_number=2)])], 5)
    (entry,) = read_manifest(storage, manifest)
    assert (manifest.min_sequence_number, entry.sequence_number, entry.file_sequence_number) == (2, 2, 5)


def test_pyiceberg_reads_written_manifests(storage: Storage) -> None:
    deletes = ContentFile(Content.POSITION_DELETES, "/t/d.parquet", 2, 20, 1, ("Köln",), referenced_data_file="file:///t/data/a.parquet")
    equality = ContentFile(Content.EQUALITY_DELETES, "/t/e.parquet", 2, 20, 1, ("Köln",), equality_ids=(1, 2))
    path, _ = write_and_read_list(
        storage,
        [
            write_entries(storage, [Entry.added(FULL, 77), Entry(Status.EXISTING, 70, 2, 3, FULL)]),
            write_entries(storage, [Entry.added(deletes, 77), Entry.added(equality, 77)], content=ManifestContent.DELETES),
        ],
    )
    data, delete = pyiceberg_manifests(path)
    assert (int(data.content), int(delete.content), data.sequence_number, data.min_sequence_number) == (0, 1, 5, 2)
    assert (data.added_files_count, data.existing_files_count, data.deleted_files_count, data.added_rows_count) == (1, 1, 0, 10)
    assert data.partitions is not None and data.partitions[0].lower_bound == "Köln".encode() and not data.partitions[0].contains_null
    added, existing = data.fetch_manifest_entry(PyArrowFileIO())
    assert [(e.status, e.snapshot_id, e.sequence_number, e.file_sequence_number) for e in (added, existing)] == [
        (1, 77, 5, 5),
        (0, 70, 2, 3),
    ]
    file = added.data_file
    assert (file.file_path, file.file_format, file.partition[0]) == (FULL.path, "PARQUET", "Köln")
    assert (file.record_count, file.file_size_in_bytes, file.sort_order_id, file.spec_id) == (10, 1234, 1, 1)
    assert (file.column_sizes, file.value_counts, file.null_value_counts) == (FULL.column_sizes, FULL.value_counts, FULL.null_counts)
    assert (file.nan_value_counts, file.lower_bounds, file.upper_bounds) == (FULL.nan_counts, FULL.lower, FULL.upper)
    assert (file.split_offsets, file.key_metadata) == ([4, 1000], b"\x00\x01")
    position, by_value = delete.fetch_manifest_entry(PyArrowFileIO())
    assert (int(position.data_file.content), int(by_value.data_file.content)) == (1, 2)
    assert by_value.data_file.equality_ids == [1, 2] and by_value.data_file.lower_bounds is None


def test_pyiceberg_manifests_are_read(tmp_path: Path) -> None:
    catalog = InMemoryCatalog("c", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("s")
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "city", StringType()), NestedField(3, "at", TimestampType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"), PartitionField(3, 1001, IdentityTransform(), "at"))
    table = catalog.create_table("s.t", schema, partition_spec=spec)
    at = [datetime.datetime(1969, 12, 31, 12), datetime.datetime(2024, 2, 29)]
    rows = pa.table({"id": [1, 2], "city": [None, "Bonn"], "at": pa.array(at, pa.timestamp("us"))})
    table.append(rows)
    table.append(rows.slice(1))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    manifests = read_manifest_list(Storage(str(tmp_path)), snapshot.manifest_list)
    entries = [entry for manifest_entries in read_manifests(Storage(str(tmp_path)), manifests) for entry in manifest_entries]
    planned_files = {task.file.file_path: task.file for task in table.scan().plan_files()}
    assert len(entries) == 3 and {entry.file.path for entry in entries} == set(planned_files)
    assert sorted(entry.sequence_number for entry in entries) == [1, 1, 2]
    for entry in entries:
        planned_file = planned_files[entry.file.path]
        assert entry.file.partition == tuple(planned_file.partition[at] for at in range(2))
        assert (entry.file.records, entry.file.size, entry.file.lower) == (
            planned_file.record_count,
            planned_file.file_size_in_bytes,
            planned_file.lower_bounds,
        )
        assert (entry.file.null_counts, entry.file.upper) == (planned_file.null_value_counts, planned_file.upper_bounds)
        assert entry.file.split_offsets == tuple(planned_file.split_offsets or ())
    assert {entry.file.partition for entry in entries} == {(None, -43200000000), ("Bonn", 1709164800000000)}
    assert manifests[-1].partitions[1].lower == (-43200000000).to_bytes(8, "little", signed=True)


def test_pyiceberg_manifests_of_format_version_1_are_read(tmp_path: Path) -> None:
    catalog = InMemoryCatalog("c", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("s")
    table = catalog.create_table("s.t", Schema(NestedField(1, "id", LongType())), properties={"format-version": "1"})
    table.append(pa.table({"id": [1, 2]}))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    storage = Storage(str(tmp_path))
    (manifest,) = read_manifest_list(storage, snapshot.manifest_list)
    (entry,) = read_manifest(storage, manifest)
    assert (manifest.content, manifest.sequence_number, manifest.min_sequence_number) == (ManifestContent.DATA, 0, 0)
    assert (entry.file.content, entry.sequence_number, entry.file_sequence_number) == (Content.DATA, 0, 0)
    assert (entry.snapshot_id, entry.file.records) == (snapshot.snapshot_id, 2)


MICROS = -62135596800000000  # 0001-01-01
VALUES: list[tuple[IcebergType, list[Any]]] = [
    (BooleanType(), [True, False, None]),
    (IntegerType(), [-(2**31), 2**31 - 1, None]),
    (LongType(), [-(2**63), 2**63 - 1]),
    (FloatType(), [-0.5, float("inf")]),
    (DoubleType(), [-0.0, 2.5]),
    (StringType(), ["", "日本", "a" * 1000]),
    (BinaryType(), [b"", b"\xff\x00"]),
    (FixedType(3), [b"abc", b"\x00\x00\xff"]),
    (DecimalType(9, 2), [Decimal("-0.01"), Decimal("9999999.99"), Decimal("0.00"), None]),
    (DecimalType(38, 10), [Decimal("-9999999999999999999999999999.9999999999"), Decimal("1.0000000000")]),
    (DateType(), [-719162, 2932897, 3652060, None]),  # dates 2 and 3: in and after the year 9999
    (TimeType(), [0, 86399999999]),
    (TimestampType(), [MICROS, -1, 253402300800000000]),
    (TimestamptzType(), [-1, 0, 1]),
    (UUIDType(), [uuid.UUID(int=5).bytes, b"\xff" * 16]),
]


@pytest.mark.parametrize(("type_", "values"), VALUES, ids=[str(type_) for type_, _ in VALUES])
def test_partition_values_of_every_type_round_trip(storage: Storage, type_: IcebergType, values: list[Any]) -> None:
    schema = Schema(NestedField(1, "p", type_, required=False))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "p"), spec_id=4)
    entries = [Entry.added(ContentFile(Content.DATA, f"/t/{n}", 1, 1, 4, (value,)), 77) for n, value in enumerate(values)]
    path, (manifest,) = write_and_read_list(storage, [write_entries(storage, entries, spec=spec, schema=schema)])
    assert [entry.file.partition[0] for entry in read_manifest(storage, manifest)] == values
    non_null = [value for value in values if value is not None]
    (summary,) = manifest.partitions
    assert summary.contains_null == (None in values)
    assert summary.lower is not None and from_bytes(type_, summary.lower) == min(non_null)
    assert summary.upper is not None and from_bytes(type_, summary.upper) == max(non_null)
    (pyiceberg_manifest,) = pyiceberg_manifests(path)
    assert [_encode_uuid(entry.data_file.partition[0]) for entry in pyiceberg_manifest.fetch_manifest_entry(PyArrowFileIO())] == values


def _encode_uuid(value: Any) -> Any:
    return value.bytes if isinstance(value, uuid.UUID) else value


def test_partition_fields_with_equal_types_get_different_ids(storage: Storage) -> None:
    types: list[IcebergType] = [DecimalType(9, 2), DecimalType(9, 2), UUIDType(), UUIDType(), FixedType(2), FixedType(2), DecimalType(9, 3)]
    schema = Schema(*[NestedField(n, f"c{n}", type_, required=False) for n, type_ in enumerate(types, 1)])
    spec = PartitionSpec(*[PartitionField(n, 999 + n, IdentityTransform(), f"c{n}") for n in range(1, 8)], spec_id=4)
    values = (Decimal("0.01"), Decimal("0.02"), b"\x01" * 16, b"\x02" * 16, b"ab", b"cd", Decimal("0.003"))
    path, (manifest,) = write_and_read_list(
        storage, [write_entries(storage, [Entry.added(ContentFile(Content.DATA, "/t/a", 1, 1, 4, values), 77)], spec=spec, schema=schema)]
    )
    (entry,) = read_manifest(storage, manifest)
    assert entry.file.partition == values
    (pyiceberg_entry,) = pyiceberg_manifests(path)[0].fetch_manifest_entry(PyArrowFileIO())
    assert tuple(_encode_uuid(pyiceberg_entry.data_file.partition[at]) for at in range(7)) == values


def test_transform_values_and_non_avro_names_round_trip(storage: Storage) -> None:
    schema = Schema(NestedField(1, "at", TimestamptzType(), required=True))
    transforms = [DayTransform(), HourTransform(), MonthTransform(), VoidTransform()]
    names = ["at day", "1st", "größe", "void"]
    fields = [PartitionField(1, 1000 + n, transform, name) for n, (transform, name) in enumerate(zip(transforms, names, strict=True))]
    file = ContentFile(Content.DATA, "/t/a", 1, 1, 4, (-1, -5, 3, None))
    path, (manifest,) = write_and_read_list(
        storage, [write_entries(storage, [Entry.added(file, 77)], spec=PartitionSpec(*fields, spec_id=4), schema=schema)]
    )
    (entry,) = read_manifest(storage, manifest)
    assert entry.file == file
    assert manifest.partitions[3] == PartitionSummary(True, False)
    (pyiceberg_entry,) = pyiceberg_manifests(path)[0].fetch_manifest_entry(PyArrowFileIO())
    assert [pyiceberg_entry.data_file.partition[at] for at in range(4)] == [-1, -5, 3, None]


def test_partition_summaries_omit_nan_and_preserve_negative_zero(storage: Storage) -> None:
    schema = Schema(NestedField(1, "p", DoubleType(), required=False))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "p"), spec_id=4)
    for values, lower, upper in [((0.0, -0.0, float("nan")), -0.0, 0.0), ((-0.0, 0.0), -0.0, 0.0), ((float("nan"),), None, None)]:
        entries = [Entry.added(ContentFile(Content.DATA, f"/t/{n}", 1, 1, 4, (value,)), 77) for n, value in enumerate(values)]
        (summary,) = write_entries(storage, entries, spec=spec, schema=schema).partitions
        bounds = [None if bound is None else str(from_bytes(DoubleType(), bound)) for bound in (summary.lower, summary.upper)]
        assert bounds == [None if lower is None else str(lower), None if upper is None else str(upper)]
        assert (summary.contains_null, summary.contains_nan) == (False, len(values) != 2)


def test_version_3_row_ids_are_inherited(storage: Storage) -> None:
    files = [ContentFile(Content.DATA, f"/t/{n}", 10, 1) for n in range(3)]
    files.append(ContentFile(Content.DATA, "/t/3", 10, 1, first_row_id=500))
    entries = [Entry.added(files[0], 77), Entry(Status.DELETED, 77, 1, 1, files[1]), Entry(Status.EXISTING, 70, 1, 1, files[3])]
    entries.append(Entry.added(files[2], 77))
    first = write_entries(storage, entries, spec=UNPARTITIONED, format_version=3)
    deletes = ContentFile(
        Content.POSITION_DELETES, "/t/d", 1, 1, 0, (), "PUFFIN", referenced_data_file="/t/0", content_offset=4, content_size=40
    )
    second = write_entries(storage, [Entry.added(deletes, 77)], spec=UNPARTITIONED, format_version=3, content=ManifestContent.DELETES)
    third = write_entries(storage, entries[:1], spec=UNPARTITIONED, format_version=3)
    _, manifests = write_and_read_list(storage, [first, second, third], format_version=3, first_row_id=1000)
    assert [manifest.first_row_id for manifest in manifests] == [1000, None, 1030]
    data, deleting, _ = read_manifests(storage, manifests)
    assert [entry.file.first_row_id for entry in data] == [1000, None, 500, 1010]
    assert deleting[0].file == deletes


def test_missing_version_1_counts_are_computed_for_the_manifest_list(storage: Storage) -> None:
    written_manifest = write_entries(storage, [Entry.added(FULL, 77)])
    bare = Manifest(written_manifest.path, written_manifest.length, 1, ManifestContent.DATA, 0, 0, 77)
    _, (manifest,) = write_and_read_list(storage, [bare])
    assert (manifest.added_files, manifest.added_rows, manifest.existing_files, manifest.deleted_rows) == (1, 10, 0, 0)


def test_manifests_outside_the_table_are_read_with_all_path_formats(tmp_path: Path) -> None:
    table, other_storage = Storage(str(tmp_path / "table")), Storage(str(tmp_path / "else where"))
    written_manifest = write_entries(other_storage, [Entry.added(FULL, 77)])
    local_path = written_manifest.path[len("file://") :]
    for path in (local_path, f"file:{local_path}", f"file://{local_path}"):
        assert plain_path(path) == written_manifest.path
        moved = Manifest(path, written_manifest.length, 1, ManifestContent.DATA, 7, 7, 77)
        assert read_manifest(table, moved)[0].file == FULL
    assert located(other_storage, local_path) == (other_storage, written_manifest.path[len(other_storage.location) + 1 :])


def test_the_schema_of_a_spec_is_the_newest_with_its_source_columns() -> None:
    metadata = new_table_metadata(SCHEMA, BY_CITY, UNSORTED_SORT_ORDER, "/t")
    changed = Schema(NestedField(1, "id", LongType(), required=True), schema_id=1)
    fields = PartitionSpec(PartitionField(1, 1001, IdentityTransform(), "id"), PartitionField(2, 1002, VoidTransform(), "gone"), spec_id=1)
    metadata = update_table_metadata(
        metadata,
        (
            AddPartitionSpecUpdate(spec=fields),
            SetDefaultSpecUpdate(spec_id=1),
            AddSchemaUpdate(schema_=changed),
            SetCurrentSchemaUpdate(schema_id=1),
        ),
    )
    assert [schema_of_spec(metadata, spec_id).schema_id for spec_id in (0, 1)] == [0, 1]
    expired = update_table_metadata(metadata, (RemoveSchemasUpdate(schema_ids=[0]),))
    with pytest.raises(UnsupportedTableFeature, match="partition spec 0"):
        schema_of_spec(expired, 0)


def test_a_missing_or_damaged_manifest_is_reported_by_path(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowmerge.iceberg.manifests.manifest_files._own_files", Cache(0))
    with pytest.raises(CorruptLog, match="missing") as missing:
        read_manifest_list(storage, f"{storage.location}/metadata/snap.avro")
    assert missing.value.path == f"{storage.location}/metadata/snap.avro"
    written_manifest = write_entries(storage, [Entry.added(FULL, 77)])
    name = written_manifest.path[len(storage.location) + 1 :]
    data = storage.get(name)
    for n, broken in enumerate([b"", b"PAR1", data[:-20], data[: len(data) // 2]]):
        storage.put(name, broken)
        with pytest.raises(CorruptLog) as corrupt:
            read_manifest(storage, Manifest(written_manifest.path, n, 1, ManifestContent.DATA, 7, 7, 77))
        assert corrupt.value.path == written_manifest.path


def test_a_damaged_byte_gives_corrupt_log_or_no_error(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowmerge.iceberg.manifests.manifest_files._own_files", Cache(0))
    written_manifest = write_entries(storage, [Entry.added(FULL, 77)])
    name = written_manifest.path[len(storage.location) + 1 :]
    data = storage.get(name)
    error_count = 0
    for position in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[position] ^= 0x55
        storage.put(name, bytes(damaged))
        try:
            read_manifest(storage, Manifest(written_manifest.path, -position, 1, ManifestContent.DATA, 7, 7, 77))
        except CorruptLog as error:
            error_count += error.path == written_manifest.path
    assert error_count > 100


def test_reading_a_manifest_as_manifest_list_is_refused(storage: Storage) -> None:
    written_manifest = write_entries(storage, [Entry.added(FULL, 77)])
    with pytest.raises(CorruptLog, match="not a manifest list"):
        read_manifest_list(storage, written_manifest.path)


def test_an_encrypted_manifest_is_refused_by_name(storage: Storage) -> None:
    with pytest.raises(UnsupportedTableFeature, match="encryption"):
        read_manifest(storage, Manifest("/t/m.avro", 1, 1, ManifestContent.DATA, 7, 7, 77, key_metadata=b"k"))


def test_an_existing_file_without_a_sequence_number_is_corrupt(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowmerge.iceberg.manifests.manifest_files._own_files", Cache(0))
    written_manifest = write_entries(storage, [Entry.added(FULL, 77)])
    name = written_manifest.path[len(storage.location) + 1 :]
    entry = Entry(Status.EXISTING, 70, 2, 3, FULL)
    record = {**entry_record(entry, ["city"]), "sequence_number": None}
    storage.put(name, write_avro(manifest_schema(BY_CITY, SCHEMA, 2), [record], {}))
    with pytest.raises(CorruptLog, match="no sequence number"):
        read_manifest(storage, Manifest(written_manifest.path, 0, 1, ManifestContent.DATA, 7, 7, 77))


def test_manifests_are_cached_after_the_first_read(storage: Storage) -> None:
    _, (manifest,) = write_and_read_list(storage, [write_entries(storage, [Entry.added(FULL, 77)])])
    entries = read_manifest(storage, manifest)
    storage.delete([manifest.path[len(storage.location) + 1 :]])
    assert read_manifest(storage, manifest) is entries


def test_partition_keys_differ_by_spec_and_by_sign_of_zero() -> None:
    def key(*values: Any, spec_id: int = 1) -> Any:
        return ContentFile(Content.DATA, "/t/a", 1, 1, spec_id, values).partition_key

    nan = float("nan")
    assert key(nan, "a") == key(-nan, "a") and hash(key(nan)) == hash(key(-nan))
    assert key(0.0) != key(-0.0)
    assert key("a") != key("a", spec_id=2)
    assert key(None) == key(None) != key("")
