"""What becomes of the fields of a partition spec when others come and go."""

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


def made(version: int) -> TableMetadata:
    spec = PartitionSpec(SHARD, REGION)
    return new_table_metadata(SCHEMA, spec, UNSORTED_SORT_ORDER, "file:///t", {"format-version": str(version)})


def divided(metadata: TableMetadata, *fields: PartitionField) -> TableMetadata:
    return update_table_metadata(metadata, alteration_updates("t", metadata, TableDefinition(partitioning=fields)))


def told(metadata: TableMetadata) -> list[str]:
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
def test_a_field_that_goes_keeps_its_place_in_version_1_alone(version: int, without: list[str], renewed: list[str]) -> None:
    table = made(version)
    _, region = partitioning_of(table.spec(), SCHEMA, "t")
    assert (region.name, region.own_name) == ("p", "region")
    dropped = divided(table, region)
    assert told(dropped) == without
    left = partitioning_of(dropped.spec(), SCHEMA, "t")
    again = divided(dropped, *left, PartitionField(("id",), Transform("bucket", 8), "shard"))
    assert told(again) == renewed
    last = told(divided(again, *partitioning_of(again.spec(), SCHEMA, "t")[:-1]))
    assert last == ([*renewed[:2], "1002 void 1 shard"] if version == 1 else without)


def test_a_spec_of_fields_that_are_gone_divides_nothing() -> None:
    table = divided(made(1))
    assert told(table) == ["1000 void 1 shard", "1001 void 2 region"]
    assert unpartitioned_spec_ids(table) == {table.default_spec_id}
    assert unpartitioned_spec_ids(made(2)) == frozenset()
