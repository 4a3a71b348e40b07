"""Files are pruned whose buckets cannot contain the values of keys and conditions."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from rowmerge.parquet.transforms import transformed
from rowmerge.plan.expressions.sides import Side
from rowmerge.plan.pruning.file_pruning import file_mask, key_mask
from rowmerge.table.metadata.schema import DataType, Decimal as DecimalType, Field, Primitive, Struct, arrow_type
from rowmerge.table.snapshots.files import SOURCE, TRANSFORM, FileListing, listing_schema, range_type

SIDE = Side("t", ("t",), ("k",))
TYPES: list[tuple[DataType, Any]] = [
    (Primitive("integer"), lambda n: n - 500),
    (Primitive("long"), lambda n: n * 2**40 - 7),
    (Primitive("string"), lambda n: f"k{n}é"),
    (DecimalType(12, 2), lambda n: Decimal(n) / 4 - 100),
    (Primitive("date"), lambda n: dt.date(1960, 1, 1) + dt.timedelta(days=n * 9)),
    (
        Primitive("timestamp"),
        lambda n: dt.datetime(1960, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(seconds=n * 12345678, microseconds=n),
    ),
]


def listing(type_: DataType, files: list[list[Any]], buckets: int, has_bucket: list[bool]) -> FileListing:
    """Return files with these values of `k`, all of a file in one bucket, and with bounds that prune no files."""
    values = pa.array([file[0] for file in files], arrow_type(type_))
    bucket_numbers = transformed(values, f"bucket[{buckets}]")
    metadata = {SOURCE: b"k", TRANSFORM: f"bucket[{buckets}]".encode()}
    is_other = pa.array([not one for one in has_bucket])
    range_ = pa.StructArray.from_arrays(
        [bucket_numbers, bucket_numbers, bucket_numbers.is_null(), bucket_numbers.is_valid()],
        fields=list(range_type(pa.int32())),
        mask=is_other,
    )
    ranges = pa.StructArray.from_arrays([range_], fields=[pa.field("0.1000", range_.type, metadata=metadata)])
    partition = pa.StructArray.from_arrays([bucket_numbers], fields=[pa.field("k_bucket", pa.int32())], mask=is_other)
    bounds = pa.StructArray.from_arrays([pa.nulls(len(files), values.type)], names=["k"])
    nulls = pa.StructArray.from_arrays([pa.nulls(len(files), pa.int64())], names=["k"])
    sizes = pa.array([1] * len(files), pa.int64())
    shape = listing_schema(partition.type, bounds.type, nulls.type, ranges.type)
    paths = pa.array([str(at) for at in range(len(files))])
    return FileListing(pa.Table.from_arrays([paths, sizes, sizes, sizes, partition, bounds, bounds, nulls, ranges], schema=shape))


@pytest.mark.parametrize(("type_", "value"), TYPES, ids=lambda part: str(part) if not callable(part) else "")
def test_keys_prune_files_of_other_buckets_only(type_: DataType, value: Any) -> None:
    chance = random.Random(5)
    for buckets in (2, 7, 64):
        by_bucket: dict[int, list[Any]] = {}
        drawn = [value(n) for n in chance.sample(range(1000), 60)]
        for one, bucket in zip(drawn, transformed(pa.array(drawn, arrow_type(type_)), f"bucket[{buckets}]").to_pylist(), strict=True):
            by_bucket.setdefault(bucket, []).append(one)
        files = list(by_bucket.values())
        has_bucket = [chance.random() > 0.2 for _ in files]
        rows = listing(type_, files, buckets, has_bucket)
        keys = chance.sample(drawn, 3)
        for op in ("=", "<=>"):
            mask, _ = key_mask(("k",), op, pa.array(keys, arrow_type(type_)), False, Struct((Field("k", type_),)), ())
            expected = [not sure or any(key in file for key in keys) for file, sure in zip(files, has_bucket, strict=True)]
            assert mask(rows).to_pylist() == expected
        mask, _ = key_mask(("k",), "<", pa.array(keys, arrow_type(type_)), False, Struct((Field("k", type_),)), ())
        assert all(mask(rows).to_pylist())


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("k = 5", [True, False, True]),
        ("5 = k", [True, False, True]),
        ("k <=> 5", [True, False, True]),
        ("k in (5, 7)", [True, False, True]),
        ("k in (5, 10)", [True, True, True]),
        ("k = 5 or k = 10", [True, True, True]),
        ("k = 5 and k = 10", [False, False, True]),
        ("not k = 5", [True, True, True]),
        ("k <> 5", [True, True, True]),
        ("k > 5", [True, True, True]),
        ("k is null", [False, False, True]),
        ("k = 5.0", [True, False, True]),
        ("k = 5.5", [False, False, False]),
    ],
)
def test_conditions_prune_files_of_other_buckets(condition: str, expected: list[bool]) -> None:
    """5 and 7 are in one of two buckets, and 10 is in the other. The bucket of the last file is unknown."""
    first, second, third = transformed(pa.array([5, 7, 10]), "bucket[2]").to_pylist()
    assert first == second != third
    schema = Struct((Field("k", Primitive("long")),))
    mask, needs = file_mask([condition], SIDE, schema, ())
    assert mask(listing(Primitive("long"), [[5, 7], [10], [9]], 2, [True, True, False])).to_pylist() == expected
    assert needs == ("k",)
