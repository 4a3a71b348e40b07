"""Partition fields in later specs after fields are dropped and added."""

from __future__ import annotations

import pytest
from pyiceberg.partitioning import PartitionField as IcebergPartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import update_table_metadata
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from rowmerge.iceberg.metadata.definition import alteration_updates
from rowmerge.iceberg.metadata.partition_values import partitioning_of, unpartitioned_spec_ids
from rowmerge.table.metadata.partitioning import PartitionField, Transform
from rowmerge.table.metadata.shape import TableDefinition

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "p", StringType(), required=False))
SHARD = IcebergPartitionField(1, 1000, BucketTransform(4), "shard")
REGION = IcebergPartitionField(2, 1001, IdentityTransform(), "region")


def new_metadata(version: int) -> TableMetadata:
    spec = PartitionSpec(SHARD, REGION)
    return new_table_metadata(SCHEMA, spec, UNSORTED_SORT_ORDER, "file:///t", {"format-version": str(version)})


def with_partitioning(metadata: TableMetadata, *fields: PartitionField) -> TableMetadata:
    return update_table_metadata(metadata, alteration_updates("t", metadata, TableDefinition(partitioning=fields)))


def describe_spec(metadata: TableMetadata) -> list[str]:
    return [f"{part.field_id} {part.transform} {part.source_id} {part.name}" for part in metadata.spec().fields]


@pytest.mark.parametrize(
    ("version", "without", "renewed"),
    [
        (
            1,
            ["1000 void 1 shard", "1001 identity 2 region"],
            ["1000 void 1 shard_1000", "1001 identity 2 region", "1002 bucket[8] 1 shard"],
        ),
        (2, ["1001 identity 2 region"], ["1001 identity 2 region", "1002 bucket[8] 1 shard"]),
    ],
)
def test_dropped_partition_fields_become_void_only_in_version_1(version: int, without: list[str], renewed: list[str]) -> None:
    table = new_metadata(version)
    _, region = partitioning_of(table.spec(), SCHEMA, "t")
    assert (region.name, region.own_name) == ("p", "region")
    dropped = with_partitioning(table, region)
    assert describe_spec(dropped) == without
    remaining = partitioning_of(dropped.spec(), SCHEMA, "t")
    restored = with_partitioning(dropped, *remaining, PartitionField(("id",), Transform("bucket", 8), "shard"))
    assert describe_spec(restored) == renewed
    last = describe_spec(with_partitioning(restored, *partitioning_of(restored.spec(), SCHEMA, "t")[:-1]))
    assert last == ([*renewed[:2], "1002 void 1 shard"] if version == 1 else without)


def test_a_spec_of_only_void_fields_is_unpartitioned() -> None:
    table = with_partitioning(new_metadata(1))
    assert describe_spec(table) == ["1000 void 1 shard", "1001 void 2 region"]
    assert unpartitioned_spec_ids(table) == {table.default_spec_id}
    assert unpartitioned_spec_ids(new_metadata(2)) == frozenset()
