"""The rows that have a key of the source: Arrow's result equals a comparison of each row with each key."""

from __future__ import annotations

import datetime
import random
from dataclasses import replace
from decimal import Decimal as Number
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rowmerge.errors import MissingDataFile, UnreadableDataFile
from rowmerge.parquet.data_files import StoredColumns
from rowmerge.parquet.fitting import column_paths, fields_at
from rowmerge.parquet.key_lookup import LookedUpFile, files_at_once, find_positions
from rowmerge.parquet.source_keys import KeyColumn, SourceKeys
from rowmerge.plan.expressions.conditions import KeyPair
from rowmerge.spark.matching import driver_lookup
from rowmerge.spark.matching.driver_lookup import read_rows_with_keys
from rowmerge.spark.source.keys import SourceKey, known_keys, source_keys
from rowmerge.table.metadata.engine_columns import FILE, POSITION
from rowmerge.table.metadata.schema import DataType, Decimal, Field, Primitive, Struct, arrow_type
from rowmerge.table.snapshots.files import Positions

DAY = datetime.date(2026, 1, 1)
MOMENT = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.timezone.utc)
VALUES: dict[str, tuple[DataType, list[Any]]] = {
    "long": (Primitive("long"), [None, *range(-3, 12), 2**63 - 1, -(2**63)]),
    "byte": (Primitive("byte"), [None, *range(-3, 12), 127, -128]),
    "string": (Primitive("string"), [None, "", "a", "A", "ä", "ab", "it's"]),
    "binary": (Primitive("binary"), [None, b"", b"\0", b"\xff"]),
    "boolean": (Primitive("boolean"), [None, True, False]),
    "date": (Primitive("date"), [None, *(DAY + datetime.timedelta(days=n) for n in range(9)), datetime.date(1, 1, 1)]),
    "timestamp": (Primitive("timestamp"), [None, *(MOMENT + datetime.timedelta(microseconds=n) for n in range(9))]),
    "decimal": (Decimal(10, 2), [None, *(Number(n) / 4 for n in range(9))]),
}


def keys_of(source: pa.Table, types: dict[str, DataType], ops: dict[str, str]) -> SourceKeys | None:
    """Return the keys of source rows whose columns have the names of the target's."""
    keys = [source_key(name, ops[name], types[name], source[name]) for name in types]
    return source_keys([(key, Field(key.pair.column, key.type)) for key in keys])


def source_key(name: str, op: str, type_: DataType, column: pa.ChunkedArray) -> SourceKey:
    values = pc.drop_null(pc.unique(column))
    values = values.take(pc.sort_indices(values))
    return SourceKey(KeyPair(name, op, f"s.{name}"), type_, values, None, None, column.null_count > 0, column)


@pytest.mark.parametrize("seed", range(40))
def test_all_keys_of_a_row_must_match_one_source_row(seed: int) -> None:
    draw = random.Random(seed)
    names = draw.sample(sorted(VALUES), draw.randint(1, 3))
    types = {name: VALUES[name][0] for name in names}
    ops = {name: draw.choice(["=", "<=>"]) for name in names}
    target, source = (
        pa.table({name: pa.array(draw.choices(VALUES[name][1], k=count), arrow_type(types[name])) for name in names})
        for count in (60, draw.choice([3, 30]))
    )
    source_keys = keys_of(source, types, ops)
    assert source_keys is not None
    matching_indexes = [
        index
        for index, row in enumerate(target.to_pylist())
        if any(
            all(row[name] == other[name] and (ops[name] == "<=>" or row[name] is not None) for name in names)
            for other in source.to_pylist()
        )
    ]
    assert source_keys.find_rows(target)[0].tolist() == matching_indexes
    check_numbers(source_keys, source, target)
    for name in names:
        # As in a partition's files, all columns but one have one value.
        alike = target.group_by([other for other in names if other != name]).aggregate([]) if len(names) > 1 else pa.table({})
        for values in alike.to_pylist():
            part = target.filter(pa.array([all(row[n] == v for n, v in values.items()) for row in target.to_pylist()]))
            check_numbers(source_keys, source, part)


def check_numbers(keys: SourceKeys, source: pa.Table, rows: pa.Table) -> None:
    """Verify that exactly the rows with the values of a source row match, and that they have its number."""
    if not keys.is_exact:
        return
    numbers_by_key: dict[tuple[Any, ...], set[int]] = {}
    for row, number in zip(source.select(keys.names).to_pylist(), keys.source_key_ids().tolist(), strict=True):
        if number >= 0:
            numbers_by_key.setdefault(tuple(row.values()), set()).add(number)
    indexes, numbers = keys.find_rows(rows)
    values = [tuple(row.values()) for row in rows.select(keys.names).to_pylist()]
    numbers_by_index = {index: numbers_by_key[value] for index, value in enumerate(values) if value in numbers_by_key}
    assert {index: {number} for index, number in zip(indexes.tolist(), numbers.tolist(), strict=True)} == numbers_by_index
    assert all(number < source.num_rows for number in numbers.tolist())


def test_keys_of_another_width_are_looked_up_if_they_fit() -> None:
    def keys(values: list[int]) -> SourceKeys | None:
        key = source_key("k", "=", Primitive("long"), pa.chunked_array([values]))
        return source_keys([(key, Field("k", Primitive("byte")))])

    byte_keys = keys([1, 100])
    assert byte_keys is not None
    assert byte_keys.find_rows(pa.table({"k": pa.array([100, 5, None, 1], pa.int8())}))[0].tolist() == [0, 3]
    assert keys([1, 1000]) is None


@pytest.mark.parametrize(("type_", "op"), [(Primitive("double"), "="), (Primitive("long"), "<")])
def test_floats_and_inequalities_are_not_looked_up(type_: DataType, op: str) -> None:
    key = source_key("k", op, type_, pa.chunked_array([pa.array([1], arrow_type(type_))]))
    assert source_keys([(key, Field("k", type_))]) is None


def test_nested_keys_are_not_looked_up() -> None:
    type_ = Struct((Field("a", Primitive("long")),))
    column = pa.chunked_array([pa.array([{"a": 1}], arrow_type(type_))])
    key = SourceKey(KeyPair("k", "=", "s.k"), type_, None, None, None, False, column)
    assert source_keys([(key, Field("k", type_))]) is None


def test_a_nested_field_is_found_by_its_exact_name() -> None:
    rows = pa.table({"s": [{".id": 1, "id": 2}, {".id": 2, "id": 1}, None]})
    for name, index in ((".id", 0), ("id", 1)):
        keys = SourceKeys.of([(KeyColumn(("s", name), pa.array([1]), matches_null=False), pa.chunked_array([[1]]))])
        assert keys.find_rows(rows).indexes.tolist() == [index]


def test_without_combinations_each_key_is_looked_up_separately() -> None:
    types = {"a": Primitive("long"), "b": Primitive("long")}
    source_keys = keys_of(pa.table({"a": [1, 2], "b": [10, 20]}), types, {"a": "=", "b": "="})
    target = pa.table({"a": [1, 1, 2, 3], "b": [10, 20, 30, 10]})
    assert source_keys is not None
    assert source_keys.find_rows(target)[0].tolist() == [0]
    assert source_keys.is_exact
    alone = replace(source_keys, key_codes=None)
    assert alone.find_rows(target)[0].tolist() == [0, 1]
    assert not alone.is_exact


class Files:
    """Two data files of 1,000 rows in row groups of 300. `k` is the row's number, `v` is ten times `k`, and `p` is a partition column.

    `are_whole`: whether a lookup gets the size of the files, so that it reads all their columns at once.
    """

    columns = pa.schema([("k", pa.int64()), ("v", pa.int32()), ("p", pa.string())])

    def __init__(self, folder: Path, *, are_whole: bool) -> None:
        self.are_whole = are_whole
        self.paths = [folder / f"part {number}.parquet" for number in range(2)]
        for number, path in enumerate(self.paths):
            ids = range(1000 * number, 1000 * number + 1000)
            pq.write_table(
                pa.table({"v": pa.array([10 * n for n in ids], pa.int32()), "k": pa.array(ids, pa.int64())}), path, row_group_size=300
            )

    def looked_up(self, keys: list[int | None], deleted: tuple[int, ...] = (), columns: pa.Schema = columns) -> pa.Table:
        source_keys = keys_of(pa.table({"k": pa.array(keys, pa.int64())}), {"k": Primitive("long")}, {"k": "="})
        assert source_keys is not None
        stored_columns = StoredColumns(columns, False, ("p",))
        bitmap, size = Positions(deleted).serialize() if deleted else b"", 10_000 if self.are_whole else 0
        files = [LookedUpFile(f"file://{path}", stored_columns, bitmap, {"p": path.stem[-1]}, size=size) for path in self.paths]
        return read_rows_with_keys("db.t", files, columns, source_keys)


@pytest.fixture(params=[False, True], ids=["two steps", "whole files"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return Files(tmp_path, are_whole=request.param)


def test_matches_have_columns_partition_values_and_addresses(files: Files) -> None:
    matches = files.looked_up([3, 299, 300, 1999, 5000, None])
    assert matches.select(["k", "v", "p", POSITION]).to_pylist() == [
        {"k": 3, "v": 30, "p": "0", POSITION: 3},
        {"k": 299, "v": 2990, "p": "0", POSITION: 299},
        {"k": 300, "v": 3000, "p": "0", POSITION: 300},
        {"k": 1999, "v": 19990, "p": "1", POSITION: 999},
    ]
    assert matches[FILE].to_pylist() == ["0", "0", "0", "1"]


def test_deleted_rows_do_not_match(files: Files) -> None:
    assert files.looked_up([3, 299, 300, 1003], deleted=(3, 300))["k"].to_pylist() == [299]


def test_no_match_is_an_empty_table(files: Files) -> None:
    matches = files.looked_up([-1])
    assert (matches.num_rows, matches.column_names) == (0, ["k", "v", "p", FILE, POSITION])


def test_other_columns_of_large_files_are_read_only_from_row_groups_with_a_match(tmp_path: Path) -> None:
    """The other columns of all other row groups are unreadable."""
    files = Files(tmp_path, are_whole=False)
    for path in files.paths:
        data = bytearray(path.read_bytes())
        footer = pq.ParquetFile(path).metadata
        for group in (0, 2, 3):
            chunk = footer.row_group(group).column(0)
            begin = chunk.dictionary_page_offset or chunk.data_page_offset
            data[begin : begin + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
        path.write_bytes(bytes(data))
    assert files.looked_up([301, 1301])["v"].to_pylist() == [3010, 13010]
    with pytest.raises(UnreadableDataFile, match=r"part 0\.parquet"):
        files.looked_up([1])


def test_a_missing_file_is_reported_by_name(files: Files) -> None:
    files.paths[1].unlink()
    with pytest.raises(MissingDataFile, match=r"part 1\.parquet"):
        files.looked_up([1])


def test_too_many_rows_are_left_to_spark(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_lookup, "MAX_FOUND_ROWS", 5)
    assert files.looked_up([1, 2, 3, 4, 5]).num_rows == 5
    with pytest.raises(driver_lookup.TooManyRows):
        files.looked_up([1, 2, 3, 4, 5, 6])
    monkeypatch.setattr(driver_lookup, "MAX_FOUND_BYTES", 10)
    with pytest.raises(driver_lookup.TooManyRows):
        files.looked_up([1])


@pytest.mark.parametrize("count", [20, 120, 200, 400], ids="{} keys".format)
def test_strings_are_looked_up_in_several_row_groups_together(tmp_path: Path, count: int) -> None:
    """Matches have their positions in the file, even if several row groups are read together."""
    path = tmp_path / "part.parquet"
    columns = pa.schema([("name", pa.string()), ("v", pa.int64())])
    pq.write_table(pa.table({"name": [f"n{n * 7 % 1000}" for n in range(1000)], "v": list(range(1000))}), path, row_group_size=300)
    source_ids = {n * 2 for n in range(count)}
    keys = keys_of(pa.table({"name": [f"n{n}" for n in source_ids]}), {"name": Primitive("string")}, {"name": "="})
    assert keys is not None
    deleted = Positions([0, 300, 599, 999])
    matches = read_rows_with_keys(
        "db.t", [LookedUpFile(f"file://{path}", StoredColumns(columns, False, ()), deleted.serialize(), {})], columns, keys
    )
    expected = [n for n in range(1000) if n * 7 % 1000 in source_ids and n not in deleted]
    assert matches["v"].to_pylist() == matches[POSITION].to_pylist() == expected
    assert matches["name"].to_pylist() == [f"n{n * 7 % 1000}" for n in expected]


def test_no_files_give_no_matches(files: Files) -> None:
    """A concurrent commit can add files that do not affect the command."""
    files.paths = []
    assert files.looked_up([1]).num_rows == 0


def text_file(folder: Path, number: int, deleted: Positions) -> LookedUpFile:
    """Write a file with the names `n0` to `n49` in steps of 1,000, so that the names of all files are different."""
    columns = pa.schema([("name", pa.string()), ("v", pa.int64())])
    path = folder / f"part {number}.parquet"
    names = [f"n{n * 1000 + number}" for n in range(50)]
    pq.write_table(pa.table({"name": names, "v": list(range(50))}), path, row_group_size=20 if number % 3 else 50)
    return LookedUpFile(f"file://{path}", StoredColumns(columns, False, ()), deleted.serialize() if deleted else b"", {}, row_count=50)


@pytest.mark.parametrize("are_whole", [False, True], ids=["two steps", "whole files"])
@pytest.mark.parametrize("count", [1, 7, 30, 400], ids="{} keys".format)
def test_strings_are_looked_up_in_several_files_together(tmp_path: Path, count: int, are_whole: bool) -> None:
    """Each match has the index of its file and its position in that file. Deleted rows of one file do not hide rows of another."""
    deleted = {number: Positions([3, 20, 49] if number % 4 == 0 else []) for number in range(100)}
    files = [text_file(tmp_path, number, deleted[number]) for number in range(100)]
    if are_whole:
        files = [replace(file, stored_columns=files[0].stored_columns, size=1_000) for file in files]
    searched = random.Random(count).sample([(number, n) for number in range(100) for n in range(50)], count)
    names = [f"n{n * 1000 + number}" for number, n in searched]
    keys = keys_of(pa.table({"name": names}), {"name": Primitive("string")}, {"name": "="})
    assert keys is not None
    matches = read_rows_with_keys("db.t", files, pa.schema([("name", pa.string()), ("v", pa.int64())]), keys)
    expected = sorted((number, n) for number, n in searched if n not in deleted[number])
    assert [*zip(map(int, matches[FILE].to_pylist()), matches[POSITION].to_pylist(), strict=True)] == expected
    assert matches["name"].to_pylist() == [f"n{n * 1000 + number}" for number, n in expected]
    positions = find_positions(files, pa.schema([("name", pa.string()), ("v", pa.int64())]), keys, with_key_ids=True)
    assert [(number, n) for number, (of_file, _) in enumerate(positions) for n in of_file.tolist()] == expected
    assert len(np.unique(np.concatenate([ids for _, ids in positions]))) == len(expected)


def file_with(folder: Path, name: str, rows: pa.Table, stored_columns: StoredColumns, size: int) -> LookedUpFile:
    """Write a file of the partition with this name, or of the partition NULL if the name is `null`."""
    pq.write_table(rows, folder / f"{name}.parquet", row_group_size=2)
    deleted = Positions([1]).serialize()
    path = (folder / f"{name}.parquet").as_uri()
    return LookedUpFile(path, stored_columns, deleted, {"p": None if name == "null" else name}, size=size)


def test_small_files_of_different_writers_are_looked_up_like_large_ones(tmp_path: Path) -> None:
    """Files are older or newer than the table's schema, have other names and types, or no rows."""
    point = pa.struct([("x", pa.int64()), ("y", pa.string())])
    columns = pa.schema([("k", pa.string()), ("at", pa.timestamp("us", "UTC")), ("point", point), ("p", pa.string())])
    moments = pa.array(
        [datetime.datetime(2024, 1, number, tzinfo=datetime.timezone.utc) for number in (1, 2, 3)], pa.timestamp("us", "UTC")
    )
    points = pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": None}], point)
    contents = {
        "new": pa.table({"k": ["a", "b", "c"], "at": moments, "point": points}),
        "old": pa.table({"point": pa.array([{"x": 1}, None, {"x": 3}], pa.struct([("x", pa.int64())])), "k": ["a", "c", "a"]}),
        "null": pa.table({"k": pa.array(["c", None, "b"], pa.dictionary(pa.int32(), pa.string())), "other": [1, 2, 3]}),
        "large": pa.table({"k": pa.array(["z", "z", "c"], pa.large_string()), "at": moments}),
        "empty": pa.table({"k": pa.array([], pa.string())}),
    }
    keys = keys_of(pa.table({"k": ["c", "a", None]}), {"k": Primitive("string")}, {"k": "="})
    assert keys is not None
    stored_columns, results = StoredColumns(columns, False, ("p",)), []
    for size in (0, 1_000):
        files = [file_with(tmp_path, name, rows, stored_columns, size) for name, rows in contents.items()]
        matches = find_positions(files, columns, keys, with_key_ids=True)
        rows = read_rows_with_keys("t", files, columns, keys).to_pylist()
        results.append((rows, [(of_file.tolist(), key_ids.tolist()) for of_file, key_ids in matches]))
    assert results[0] == results[1]
    rows, positions = results[1]
    assert [(row["p"], row[POSITION]) for row in rows] == [("new", 0), ("new", 2), ("old", 0), ("old", 2), (None, 0), ("large", 2)]
    assert [of_file for of_file, _ in positions] == [[0, 2], [0, 2], [0], [2], []]


def test_an_unreadable_column_of_a_small_file_without_a_match_is_no_error(tmp_path: Path) -> None:
    """The lookup in two steps reads only the keys of such a file, and names a file with a match that it cannot read."""
    columns = pa.schema([("k", pa.int64()), ("v", pa.int32())])
    stored_columns = StoredColumns(columns, False, ())
    contents = {"good": pa.table({"k": [1, 2], "v": [10, 20]}), "bad": pa.table({"k": [3, 4], "v": [2**40, 2**41]})}
    files = [file_with(tmp_path, name, rows, stored_columns, 1_000) for name, rows in contents.items()]
    match = keys_of(pa.table({"k": [1]}), {"k": Primitive("long")}, {"k": "="})
    both = keys_of(pa.table({"k": [1, 3]}), {"k": Primitive("long")}, {"k": "="})
    assert match is not None and both is not None
    assert read_rows_with_keys("t", files, columns, match)["v"].to_pylist() == [10]
    with pytest.raises(UnreadableDataFile, match=r"bad\.parquet"):
        read_rows_with_keys("t", files, columns, both)


def test_files_are_grouped_until_they_have_enough_rows_for_the_keys(tmp_path: Path) -> None:
    files = [text_file(tmp_path, number, Positions()) for number in range(100)]
    strings = keys_of(pa.table({"name": [f"n{n}" for n in range(50)]}), {"name": Primitive("string")}, {"name": "="})
    numbers = keys_of(pa.table({"v": list(range(100))}), {"v": Primitive("long")}, {"v": "="})
    assert strings is not None and numbers is not None
    assert {len(group) for group in files_at_once(files, strings, threads=1)} == {4}  # 200 rows: four for each string
    assert {len(group) for group in files_at_once(files, strings, threads=25)} == {2}  # two groups for each thread
    assert {len(group) for group in files_at_once(files, numbers, threads=1)} == {2}  # 100 rows: one for each number
    assert [file for group in files_at_once(files, strings, threads=3) for file in group] == files
    in_store = [replace(file, path=f"s3://bucket/{file.path}", size=20 * 1024 * 1024) for file in files]
    assert {len(group) for group in files_at_once(in_store, strings, threads=1)} == {2}  # the content of 32 MiB is in memory
    unknown = [replace(file, row_count=0) for file in files]
    assert [len(group) for group in files_at_once(unknown * 3, strings, threads=1)] == [1] * 300


def test_a_damaged_file_among_files_that_are_open_together_is_named(tmp_path: Path) -> None:
    files = [text_file(tmp_path, number, Positions()) for number in range(8)]
    path = tmp_path / "part 2.parquet"
    data = bytearray(path.read_bytes())
    data[4:300] = b"\xff" * 296
    path.write_bytes(bytes(data))
    keys = keys_of(pa.table({"name": [f"n{n}" for n in range(5000)]}), {"name": Primitive("string")}, {"name": "="})
    assert keys is not None
    with pytest.raises(UnreadableDataFile, match=r"part 2\.parquet"):
        read_rows_with_keys("db.t", files, pa.schema([("name", pa.string()), ("v", pa.int64())]), keys)


@pytest.mark.parametrize("type_", ["long", "byte", "date", "timestamp"])
@pytest.mark.parametrize("op", ["=", "<=>"])
@pytest.mark.parametrize("seed", range(5))
def test_few_rows_are_searched_in_many_integers_and_times(type_: str, op: str, seed: int) -> None:
    """The result for few rows, which are searched, is that for many rows, for which Arrow hashes the keys."""
    draw = random.Random(seed)
    data_type = arrow_type(VALUES[type_][0])
    integer_type = {"byte": pa.int8(), "date": pa.int32()}.get(type_, pa.int64())
    low, high = (-128, 127) if type_ == "byte" else (-5000, 5000)
    numbers = [*draw.sample(range(low, high + 1), 200 if type_ == "byte" else 3000), None]
    keys = keys_of(pa.table({"k": pa.array(numbers, integer_type).cast(data_type)}), {"k": VALUES[type_][0]}, {"k": op})
    assert keys is not None and not keys.columns[0].is_hashed
    rows = [draw.choice([None, low, high, draw.randint(low, high)]) for _ in range(20)]
    column = pa.chunked_array([pa.array(rows[:7], integer_type), pa.array(rows[7:], integer_type)]).cast(data_type)
    matches = keys.find_rows(pa.table({"k": column}))
    searched = set(numbers) if op == "<=>" else set(numbers) - {None}
    assert matches.indexes.tolist() == [index for index, value in enumerate(rows) if value in searched]
    many_rows = keys.find_rows(pa.table({"k": pa.chunked_array([*column.chunks] * 1000)}))
    assert many_rows.key_ids[: len(matches.key_ids)].tolist() == matches.key_ids.tolist()


TEXTS: dict[str, list[bytes]] = {
    "shorter than eight bytes": [b"", b"a", b"ab", b"b"],
    "zero bytes": [b"", b"\0", b"\0\0", b"a", b"a\0", b"a\0\0", b"a\0b"],
    "a common prefix": [b"customer-%010d" % number for number in range(90, 1_100, 7)],
    "equal in their first eight bytes": [b"prefix%d-common-%03d" % (number % 3, number) for number in range(50)],
    "all bytes": [bytes([number]) * length for number in range(256) for length in (1, 8, 9)],
    "other alphabets": [text.encode() for text in ("é", "e", "z", "日本", "日", "\U0001f600", "\uffff")],
    "one value": [b"only"],
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("type_", ["string", "binary"])
def test_texts_of_a_source_are_sorted_by_their_bytes(name: str, type_: str) -> None:
    texts = [text for text in TEXTS[name] if type_ == "binary" or text.isascii() or name == "other alphabets"]
    values: list[Any] = texts if type_ == "binary" else [text.decode() for text in texts]
    rows = [None, *values, *values]
    random.Random(7).shuffle(rows)
    middle = len(rows) // 2
    column = pa.chunked_array([rows[:middle], rows[middle:]], arrow_type(Primitive(type_)))
    (key,) = known_keys([KeyPair("id", "=", "s.id")], [Field("id", Primitive(type_))], pa.table({"id": column}))
    assert key.values is not None
    assert key.values.cast(pa.binary()).to_pylist() == sorted(texts)


def test_only_the_fields_at_the_paths_are_read() -> None:
    """A file has other names than the table. Without the fields, another one shows which structs are NULL, and none with an old date."""
    table = pa.schema([("s", pa.struct([("a", pa.int64()), ("t", pa.struct([("b", pa.int64()), ("c", pa.string())]))])), ("v", pa.int64())])
    file_schema = pa.schema(
        [("S", pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.int64()), ("w", pa.string())]))])), ("u", pa.int64())]
    )
    columns, file_columns = (pa.schema(fields) for fields in fields_at(table, file_schema, [("s", "t", "b"), ("v",)]))
    assert columns == pa.schema([("s", pa.struct([("t", pa.struct([("b", pa.int64())]))])), ("v", pa.int64())])
    assert column_paths(file_schema, file_columns, by_field_id=False) == ["S.y.z", "u"]
    older = pa.schema([("S", pa.struct([("day", pa.date32()), ("x", pa.int64())]))])
    assert column_paths(older, file_columns, by_field_id=False) == ["S.x"]
    whole, file_whole = (pa.schema(fields) for fields in fields_at(table, file_schema, [("s", "t", "b"), ("s",)]))
    assert (whole, file_whole) == (pa.schema([table.field("s")]), pa.schema([file_schema.field("S")]))
