"""The files and manifests that conditions select, compared with pyiceberg's plan and with the rows, on tables with evolved specs."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Callable, Collection, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg import expressions as e
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import parse_transform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, DecimalType, LongType, NestedField, StringType, TimestampType, TimestamptzType

from rowmerge.iceberg.catalogs.metadata_folder import CurrentMetadata
from rowmerge.iceberg.manifests import manifest_files
from rowmerge.iceberg.manifests.bounds import to_stored_value
from rowmerge.iceberg.manifests.content import Entry, ManifestContent
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.snapshots.live_files import LiveFiles
from rowmerge.iceberg.snapshots.snapshot import IcebergSnapshot
from rowmerge.plan.expressions.sides import Side
from rowmerge.plan.pruning.file_pruning import file_mask
from rowmerge.storage.cache import Cache
from rowmerge.storage.store import Storage

UTC = timezone.utc
SIDE = Side("t", (), ("id", "name", "amount", "day", "seen", "wall"))
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "amount", DecimalType(10, 2), required=False),
    NestedField(4, "day", DateType(), required=False),
    NestedField(5, "seen", TimestamptzType(), required=False),
    NestedField(6, "wall", TimestampType(), required=False),
)
SPECS = [
    {},
    {"seen": "day"},
    {"seen": "hour", "name": "truncate[2]"},
    {"day": "month", "id": "bucket[4]"},
    {"day": "identity"},
    {"wall": "year", "amount": "truncate[500]"},
    {"id": "truncate[10]"},
    {"name": "identity", "wall": "month"},
    {"day": "day"},
]
OPERATORS: dict[str, Callable[[str, Any], Any]] = {
    "=": e.EqualTo,
    "<": e.LessThan,
    "<=": e.LessThanOrEqual,
    ">": e.GreaterThan,
    ">=": e.GreaterThanOrEqual,
}


def snapshot_of(table: Table) -> IcebergSnapshot:
    """Open the current snapshot of a table of pyiceberg."""
    metadata = table.metadata
    current = CurrentMetadata(metadata, table.metadata_location)
    return IcebergSnapshot(Storage(metadata.location), "t", current, metadata.current_snapshot(), metadata.schema())


def selected(snapshot: IcebergSnapshot, condition: str) -> set[str]:
    columns = snapshot.partition_columns
    mask, bound_columns = file_mask([condition], Side("t", (), snapshot.schema.names), snapshot.schema, columns, time_zone="UTC")
    return set(snapshot.files_matching(mask, bound_columns).listing.paths)


def manifests_read(snapshot: IcebergSnapshot) -> int:
    return sum(key[0] in {m.path for m in snapshot.manifests if m.content is ManifestContent.DATA} for key in snapshot.manifest_files)


def random_row(chance: random.Random, base: datetime) -> dict[str, Any]:
    moment = base + timedelta(seconds=chance.randrange(90_000), microseconds=chance.choice([0, 1]))
    number = chance.randrange(-40, 40)
    row = {
        "id": number,
        "name": chance.choice(["a", "ab", "abc", "abd", "b", "é", "\U0001f600x", ""]),
        "amount": (Decimal(chance.randrange(-2000, 2000)) / 100).quantize(Decimal("0.01")),
        "day": moment.date(),
        "seen": moment,
        "wall": moment.replace(tzinfo=None),
    }
    return {name: None if chance.random() < 0.08 else value for name, value in row.items()}


def evolved_table(folder: Path, chance: random.Random) -> Table:
    """Create a table with one append for each of several partition specs."""
    catalog = InMemoryCatalog("memory", warehouse=f"file://{folder}")
    catalog.create_namespace("s")
    table = catalog.create_table("s.t", SCHEMA)
    for spec in chance.sample(SPECS, 4):
        with table.update_spec() as update:
            for field in table.spec().fields:
                update.remove_field(field.name)
        with table.update_spec() as update:
            for column, transform in spec.items():
                update.add_field(column, parse_transform(transform), f"{column}_{transform.split('[')[0]}_{table.spec().spec_id}")
        for _ in range(chance.randrange(1, 4)):
            base = chance.choice([datetime(2024, 2, 28, 12), datetime(1969, 12, 31, 12), datetime(1500, 3, 1), datetime(2024, 3, 1)])
            rows = [random_row(chance, base.replace(tzinfo=UTC)) for _ in range(chance.randrange(1, 6))]
            append(table, rows, folder, has_statistics=chance.random() < 0.5)
    return table


def append(table: Table, rows: Sequence[dict[str, Any]], folder: Path, *, has_statistics: bool) -> None:
    """Append rows with one data file for each partition, in one manifest. pyiceberg computes the partition values."""
    partitions: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    spec, schema = table.spec(), table.schema()
    for row in rows:
        key = tuple(transformed(field.transform, schema.find_field(field.source_id), row) for field in spec.fields)
        partitions.setdefault(key, []).append(row)
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as files:
        for key, partition_rows in partitions.items():
            path = folder / f"{uuid.uuid4()}.parquet"
            pq.write_table(pa.Table.from_pylist(partition_rows, schema.as_arrow()), path)
            files.append_data_file(data_file(path, spec.spec_id, key, partition_rows if has_statistics else ()))


def transformed(transform: Any, source: NestedField, row: dict[str, Any]) -> Any:
    return transform.transform(source.field_type)(to_stored_value(row[source.name], source.field_type))


def data_file(path: Path, spec_id: int, partition: tuple[Any, ...], rows: Sequence[dict[str, Any]], **metrics: dict[int, Any]) -> DataFile:
    statistics: dict[str, dict[int, Any]] = {"null_value_counts": {}, "lower_bounds": {}, "upper_bounds": {}}
    for field in SCHEMA.fields if rows else ():
        values = sorted(row[field.name] for row in rows if row[field.name] is not None)
        statistics["null_value_counts"][field.field_id] = len(rows) - len(values)
        if values:
            statistics["lower_bounds"][field.field_id] = to_bytes(field.field_type, values[0])
            statistics["upper_bounds"][field.field_id] = to_bytes(field.field_type, values[-1])
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=pq.read_metadata(path).num_rows,
        file_size_in_bytes=path.stat().st_size,
        **statistics | metrics,
    )
    file.spec_id = spec_id
    return file


def random_filter(chance: random.Random, table: Table) -> tuple[str, Any]:
    """Return a condition in SQL, and the same condition of pyiceberg."""
    column = chance.choice(["id", "name", "amount", "day", "seen", "wall"])
    if chance.random() < 0.1:
        return f"{column} IS NULL", e.IsNull(column)
    if chance.random() < 0.1:
        return f"{column} IS NOT NULL", e.NotNull(column)
    rows = [random_row(chance, datetime(2024, 2, 28, 12, tzinfo=UTC)), random_row(chance, datetime(1969, 12, 31, 12, tzinfo=UTC))]
    values = [value for row in rows if (value := row[column]) is not None]
    if not values:
        return "TRUE", e.AlwaysTrue()
    if chance.random() < 0.3:
        return f"{column} IN ({', '.join(map(sql, values))})", e.In(column, tuple(map(text_of_date, values)))
    op = chance.choice(list(OPERATORS))
    return f"{column} {op} {sql(values[0])}", OPERATORS[op](column, text_of_date(values[0]))


def sql(value: Any) -> str:
    match value:
        case datetime():
            text = value.isoformat(" ").replace("+00:00", "Z")
            return f"TIMESTAMP '{text}'" if value.tzinfo else f"TIMESTAMP_NTZ '{text}'"
        case date():
            return f"DATE '{value}'"
        case str():
            return f"'{value}'"
    return str(value)


def text_of_date(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value


def files_with_rows(table: Table, condition: Any) -> set[str]:
    """Return the data files with a row that satisfies a condition of pyiceberg, as Arrow evaluates it."""
    filter_ = expression_to_pyarrow(bind(table.schema(), condition, case_sensitive=True))
    paths = [task.file.file_path for task in table.scan().plan_files()]
    return {path for path in paths if pq.read_table(path.removeprefix("file://")).filter(filter_).num_rows}


def is_before_1971(text: str) -> bool:
    return bool(re.search(r"'1(?:[0-8]\d\d|9[0-6]\d|970)-", text))


def absolute_paths(paths: Sequence[str] | set[str]) -> set[str]:
    return set(map(plain_path, paths))


@pytest.fixture(autouse=True)
def no_cached_manifests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each snapshot read manifests anew, so that it reads only those that a condition needs."""
    monkeypatch.setattr(manifest_files, "_cache", Cache(0))


@pytest.mark.parametrize("seed", range(6))
def test_conditions_select_at_most_the_files_of_pyiceberg_and_at_least_those_with_rows(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    table = evolved_table(tmp_path, chance)
    total = len(list(table.scan().plan_files()))
    smaller = 0
    for _ in range(25):
        text, condition = random_filter(chance, table)
        planned = absolute_paths([task.file.file_path for task in table.scan(row_filter=condition).plan_files()])
        ours = selected(snapshot_of(table), text)
        assert ours >= absolute_paths(files_with_rows(table, condition)), text
        # pyiceberg does not allow for old writers, which rounded times before 1970 towards zero.
        assert ours <= planned or is_before_1971(text), text
        smaller += len(ours) < total
    assert smaller


def daily_table(folder: Path, days: int) -> Table:
    """Create a table partitioned by day, with one manifest for each day."""
    catalog = InMemoryCatalog("memory", warehouse=f"file://{folder}")
    catalog.create_namespace("s")
    table = catalog.create_table("s.t", SCHEMA)
    with table.update_spec() as update:
        update.add_field("seen", parse_transform("day"), "seen_day")
    for day in range(days):
        row = dict.fromkeys(field.name for field in SCHEMA.fields) | {"id": day, "seen": datetime(2024, 1, 1 + day, 12, tzinfo=UTC)}
        append(table, [row], folder, has_statistics=False)
    return table


def test_a_filter_on_a_day_reads_one_manifest_and_one_file(tmp_path: Path) -> None:
    snapshot = snapshot_of(daily_table(tmp_path, 10))
    mask, columns = file_mask(
        ["seen >= TIMESTAMP '2024-01-04 00:00:00Z' AND seen < TIMESTAMP '2024-01-05 00:00:00Z'"], SIDE, snapshot.schema, ()
    )
    matching = snapshot.files_matching(mask, columns)
    assert (len(matching.listing), matching.total_files, manifests_read(snapshot)) == (1, 10, 1)
    paths = matching.listing.paths
    assert list(snapshot.metadata_columns.row_origins(paths)) == paths
    assert snapshot.deleted_positions(paths) == {}
    assert [layout.paths for layout in snapshot.layouts(paths)] == [tuple(paths)]
    assert manifests_read(snapshot) == 1
    assert len(snapshot.files()) == 10
    assert (len(snapshot.files_matching(mask, columns).listing), manifests_read(snapshot)) == (1, 10)


def test_another_thread_may_select_files_while_a_query_finds_its_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot, by_path = snapshot_of(daily_table(tmp_path, 4)), LiveFiles.by_path
    earlier_than = "seen < TIMESTAMP '2024-01-0{} 00:00:00Z'".format
    selected(snapshot, earlier_than(2))
    paths = list(selected(snapshot, earlier_than(3)))

    def after_another_query(live: LiveFiles, paths: Collection[str]) -> dict[str, Entry]:
        selected(snapshot, earlier_than(4))
        return by_path(live, paths)

    monkeypatch.setattr(LiveFiles, "by_path", after_another_query)
    assert snapshot.deleted_positions(paths) == {}


def test_the_next_snapshot_reads_only_manifests_that_no_earlier_one_read(tmp_path: Path) -> None:
    table = daily_table(tmp_path, 4)
    first = snapshot_of(table)
    assert len(selected(first, "seen < TIMESTAMP '2024-01-03 00:00:00Z'")) == manifests_read(first) == 2
    second = IcebergSnapshot(first.storage, "t", first.current, first.iceberg_version, first.iceberg_schema, "main", first.manifest_files)
    assert len(second.files()) == 4
    assert all(second.manifest_files[key] is files for key, files in first.manifest_files.items())
    assert len(first.files()) == 4


@pytest.mark.parametrize(
    ("column", "transform", "condition", "expected"),
    [
        ("seen", "year", "seen = TIMESTAMP '2024-12-31 23:59:59.999999Z'", 2024),
        ("seen", "month", "seen >= TIMESTAMP '2024-02-01 00:00:00Z'", 2024),
        ("wall", "hour", "wall < TIMESTAMP_NTZ '2023-01-01 01:00:00'", 2023),
        ("day", "day", "day = DATE '2023-01-01'", 2023),
        ("id", "truncate[100]", "id BETWEEN 2000 AND 2023", None),
        ("id", "truncate[2]", "id <= 2023", 2023),
        ("name", "truncate[3]", "name LIKE '2024%'", None),
        ("name", "truncate[4]", "name LIKE '2024%'", 2024),
        ("name", "truncate[4]", "name = '2023-01-01'", 2023),
        ("name", "bucket[100]", "name = '2023-01-01'", 2023),
        ("amount", "truncate[100]", "amount < 2024", 2023),
        ("day", "identity", "day < DATE '2023-06-01'", 2023),
    ],
)
def test_a_condition_on_the_source_column_opens_the_files_of_its_partitions(
    column: str, transform: str, condition: str, expected: int | None, tmp_path: Path
) -> None:
    """Files of 2023 and 2024 have one transform, and the current spec has none."""
    catalog = InMemoryCatalog("memory", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("s")
    table = catalog.create_table("s.t", SCHEMA)
    with table.update_spec() as update:
        update.add_field(column, parse_transform(transform), "part")
    for year in (2023, 2024):
        moment = datetime(year, 1, 1) if year == 2023 else datetime(year, 12, 31, 23, 59, 59, 999_999)
        row = {"id": year, "name": str(moment.date()), "amount": Decimal(year).quantize(Decimal("0.01")), "day": moment.date()}
        append(table, [{**row, "seen": moment.replace(tzinfo=UTC), "wall": moment}], tmp_path, has_statistics=False)
    paths = {plain_path(task.file.file_path): task.file.partition for task in table.scan().plan_files()}
    by_year = {pq.read_table(path.removeprefix("file://"))["id"][0].as_py(): path for path in paths}
    with table.update_spec() as update:
        update.remove_field("part")
    snapshot = snapshot_of(table)
    assert selected(snapshot, condition) == ({by_year[expected]} if expected else set(paths))
    assert manifests_read(snapshot) == (1 if expected else 2)


@pytest.mark.parametrize(
    ("column", "condition", "bounds"),
    [
        ("id", "id = 5", (b"\x09", b"\x09\x00\x00")),
        ("day", "day = DATE '2024-01-01'", (b"", b"\x00" * 8)),
        ("name", "name = 'b'", (b"\xff\xfe", b"\xff")),
        ("amount", "amount = 1", (b"", b"\x7f" * 17)),
        ("seen", "seen = TIMESTAMP '2024-01-01 00:00:00Z'", (b"abc", b"\x00" * 4)),
        ("id", "id = 5", (b"\x09" + b"\x00" * 7, b"\x01" + b"\x00" * 7)),
    ],
)
def test_bounds_of_a_wrong_type_or_length_are_ignored_with_one_warning(
    column: str, condition: str, bounds: tuple[bytes, bytes], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The last bounds have the right length and contradict each other, which needs no warning."""
    catalog = InMemoryCatalog("memory", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("s")
    table = catalog.create_table("s.t", SCHEMA)
    row = dict.fromkeys(field.name for field in SCHEMA.fields)
    path = tmp_path / "data.parquet"
    pq.write_table(pa.Table.from_pylist([row], SCHEMA.as_arrow()), path)
    id_ = SCHEMA.find_field(column).field_id
    file = data_file(path, 0, (), (), lower_bounds={id_: bounds[0]}, upper_bounds={id_: bounds[1]}, null_value_counts={id_: -1})
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as files:
        files.append_data_file(file)
    for text in (condition, condition, f"{column} IS NULL"):
        assert len(selected(snapshot_of(table), text)) == 1
    warnings = [record.getMessage() for record in caplog.records if "wrong type or length" in record.getMessage()]
    assert len(warnings) == (len(bounds[0]) != 8)
    assert all(f"Bounds of {column} " in warning for warning in warnings)
