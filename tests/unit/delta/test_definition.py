"""Columns, properties and partitioning of a new or altered table give the protocol and metadata that Delta requires."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rowmerge.delta import DeltaTable
from rowmerge.delta.metadata.actions import Protocol
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot
from rowmerge.errors import ConfigurationError, PlanError, UnknownColumn, UnsupportedTableFeature
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.metadata.partitioning import PartitionField, SortField, Transform, identities
from rowmerge.table.metadata.property_values import INTERVAL
from rowmerge.table.metadata.schema import Array, Decimal, Field, Map, Primitive, Struct
from rowmerge.table.metadata.settings import WriteMode
from rowmerge.table.metadata.shape import TableDefinition
from tests.support.delta_tables import ID_NAME, committed, delete_checksums

LONG = Primitive("long")


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    return DeltaTable(Storage(str(tmp_path)), "s.t")


def create(table: DeltaTable, properties: dict[str, str] | None = None, schema: Struct = ID_NAME, *partition: str) -> DeltaSnapshot:
    committed(table.create(TableDefinition(schema, identities(partition), properties or {}, None), CommitRequest("CREATE TABLE")))
    return table.snapshot()


def alter(table: DeltaTable, **definition: Any) -> DeltaSnapshot:
    committed(table.commit(table.snapshot(), CommitRequest("ALTER TABLE", definition=TableDefinition(**definition))))
    return table.snapshot()


# ------------------------------------------------------------------ protocol


def test_a_new_table_enables_deletion_vectors_by_default(table: DeltaTable) -> None:
    snapshot = create(table)
    assert snapshot.shape.supports_merge_on_read
    assert snapshot.settings.write_mode("MERGE") is WriteMode.AUTO
    assert snapshot.settings.properties == {"delta.enableDeletionVectors": "true"}
    implied = {"appendOnly", "invariants"}
    assert snapshot.protocol == Protocol(3, 7, frozenset({"deletionVectors"}), frozenset({"deletionVectors", *implied}))


@pytest.mark.parametrize("properties", [{"rowmerge.write.mode": "copy-on-write"}, {"delta.enableDeletionVectors": "false"}])
def test_a_table_without_deletion_vectors_has_the_minimum_protocol(table: DeltaTable, properties: dict[str, str]) -> None:
    snapshot = create(table, properties)
    assert not snapshot.shape.supports_merge_on_read
    assert snapshot.protocol == Protocol(1, 2)
    assert snapshot.settings.properties == properties


def test_deletion_vectors_can_be_enabled_with_copy_on_write(table: DeltaTable) -> None:
    snapshot = create(table, {"rowmerge.write.mode": "copy-on-write", "delta.enableDeletionVectors": "true"})
    assert snapshot.shape.supports_merge_on_read
    assert snapshot.settings.write_mode("MERGE") is WriteMode.COPY_ON_WRITE


def test_merge_on_read_without_deletion_vectors_is_refused(table: DeltaTable) -> None:
    with pytest.raises(ConfigurationError, match="merge-on-read requires deletion vectors"):
        create(table, {"rowmerge.write.mode": "merge-on-read", "delta.enableDeletionVectors": "false"})


def test_a_nested_timestamp_ntz_requires_its_table_feature(table: DeltaTable) -> None:
    schema = Struct((Field("id", LONG), Field("m", Map(LONG, Array(Primitive("timestamp_ntz"))))))
    snapshot = create(table, {"rowmerge.write.mode": "copy-on-write"}, schema)
    assert snapshot.protocol == Protocol(3, 7, frozenset({"timestampNtz"}), frozenset({"timestampNtz", "appendOnly", "invariants"}))


def test_an_added_timestamp_ntz_column_upgrades_the_protocol(table: DeltaTable) -> None:
    create(table, {"rowmerge.write.mode": "copy-on-write"})
    snapshot = alter(table, schema=Struct((*ID_NAME.fields, Field("at", Primitive("timestamp_ntz")))))
    assert snapshot.protocol.reader_features == {"timestampNtz"}
    assert snapshot.settings.properties == {"rowmerge.write.mode": "copy-on-write"}


def test_setting_merge_on_read_enables_deletion_vectors(table: DeltaTable) -> None:
    create(table, {"rowmerge.write.mode": "copy-on-write"})
    snapshot = alter(table, properties={"rowmerge.write.mode": "merge-on-read"})
    assert snapshot.shape.supports_merge_on_read
    assert snapshot.protocol.supports("deletionVectors")


def test_setting_auto_mode_does_not_enable_deletion_vectors(table: DeltaTable) -> None:
    create(table, {"rowmerge.write.mode": "copy-on-write"})
    snapshot = alter(table, properties={"rowmerge.write.mode": "auto"})
    assert not snapshot.shape.supports_merge_on_read
    assert snapshot.protocol == Protocol(1, 2)


def test_disabling_deletion_vectors_keeps_the_protocol(table: DeltaTable) -> None:
    create(table)
    snapshot = alter(table, properties={"delta.enableDeletionVectors": "false"})
    assert not snapshot.shape.supports_merge_on_read
    assert snapshot.protocol.supports("deletionVectors")


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"delta.minReaderVersion": "1", "delta.minWriterVersion": "4"}, Protocol(1, 4)),
        ({"delta.minReaderVersion": "2", "delta.minWriterVersion": "5"}, Protocol(2, 5)),
        ({"delta.minWriterVersion": "7"}, Protocol(1, 7, None, frozenset({"appendOnly", "invariants"}))),
        (
            {"delta.feature.v2Checkpoint": "supported"},
            Protocol(3, 7, frozenset({"v2Checkpoint"}), frozenset({"appendOnly", "invariants", "v2Checkpoint"})),
        ),
        ({"delta.feature.domainMetadata": "supported"}, Protocol(1, 7, None, frozenset({"appendOnly", "invariants", "domainMetadata"}))),
    ],
)
def test_protocol_properties_set_the_protocol_and_are_not_stored(table: DeltaTable, properties: dict[str, str], expected: Protocol) -> None:
    snapshot = create(table, {"rowmerge.write.mode": "copy-on-write", **properties})
    assert snapshot.protocol == expected
    assert snapshot.settings.properties == {"rowmerge.write.mode": "copy-on-write"}


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.minReaderVersion": "4"},
        {"delta.minWriterVersion": "x"},
        {"delta.minReaderVersion": "3"},
        {"delta.feature.clustering": "yes"},
    ],
)
def test_invalid_protocol_properties_are_refused(table: DeltaTable, properties: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(properties))):
        create(table, {"rowmerge.write.mode": "copy-on-write", **properties})
    assert not table.exists()


@pytest.mark.parametrize("name", ["_change_type", "_commit_version", "_Commit_Timestamp"])
def test_columns_named_like_change_data_columns_are_refused(table: DeltaTable, name: str) -> None:
    schema, feed_enabled = Struct((Field("id", LONG), Field(name, LONG))), {"delta.enableChangeDataFeed": "true"}
    with pytest.raises(PlanError, match=name):
        create(table, feed_enabled, schema)
    create(table, None, schema)
    with pytest.raises(PlanError, match=name):
        alter(table, properties=feed_enabled)
    assert not table.snapshot().shape.change_data_location


@pytest.mark.parametrize(
    ("properties", "feature"),
    [
        ({"delta.feature.icebergCompatV2": "supported"}, "icebergCompatV2"),
        ({"delta.feature.invented": "supported"}, "invented"),
    ],
)
def test_tables_with_unsupported_writer_features_are_not_created(table: DeltaTable, properties: dict[str, str], feature: str) -> None:
    with pytest.raises(UnsupportedTableFeature) as refused:
        create(table, properties)
    assert refused.value.feature == feature
    assert not table.exists()
    create(table)
    with pytest.raises(UnsupportedTableFeature):
        alter(table, properties=properties)


@pytest.mark.parametrize(
    ("key", "metadata_key", "feature"),
    [
        ("CURRENT_DEFAULT", "CURRENT_DEFAULT", "allowColumnDefaults"),
        ("GENERATION_EXPRESSION", "delta.generationExpression", "generatedColumns"),
    ],
)
def test_column_defaults_and_generation_expressions_add_metadata_and_features(
    table: DeltaTable, key: str, metadata_key: str, feature: str
) -> None:
    snapshot = create(table, None, Struct((Field("id", LONG, metadata={key: "1"}), Field("x", LONG))))
    assert snapshot.schema.fields[0].metadata == {metadata_key: "1"}
    assert snapshot.protocol.supports(feature)


def test_check_constraints_are_replaced_and_stored_in_lower_case(table: DeltaTable) -> None:
    snapshot = create(table, {"delta.constraints.Old": "id > 0", "x": "y"})
    assert snapshot.settings.properties["delta.constraints.Old"] == "id > 0"
    redefined = alter(table, checks={"New One": "id > 1"})
    constraints = {name: value for name, value in redefined.settings.properties.items() if "constraints" in name}
    assert constraints == {"delta.constraints.new one": "id > 1"}
    assert redefined.settings.properties["x"] == "y"
    assert redefined.protocol.supports("checkConstraints")
    assert [check.text for check in redefined.shape.rules.checks] == ["new one CHECK (id > 1)"]


def test_setting_a_constraint_as_property_is_refused(table: DeltaTable) -> None:
    create(table)
    with pytest.raises(ConfigurationError, match="ADD CONSTRAINT c CHECK"):
        alter(table, properties={"delta.constraints.c": "id > 0"})


def test_enabling_in_commit_timestamps_later_is_refused(table: DeltaTable) -> None:
    create(table)
    with pytest.raises(UnsupportedTableFeature, match="when a table is created"):
        alter(table, properties={"delta.enableInCommitTimestamps": "true"})


# ------------------------------------------------------------------ properties


@pytest.mark.parametrize(
    ("name", "near"), [("delta.appendonly", "delta.appendOnly"), ("delta.enableDeletionVector", "delta.enableDeletionVectors")]
)
def test_an_unknown_delta_property_is_refused_with_suggestions(table: DeltaTable, name: str, near: str) -> None:
    with pytest.raises(ConfigurationError, match=f"Did you mean.*{near}"):
        create(table, {name: "true"})


def test_user_properties_may_have_any_name(table: DeltaTable) -> None:
    assert create(table, {"owner": "me", "dbt.model": "x"}).settings.properties["dbt.model"] == "x"


def test_existing_unknown_properties_are_retained(table: DeltaTable, tmp_path: Path) -> None:
    create(table)
    commit = tmp_path / "_delta_log" / f"{0:020d}.json"
    commit.write_text(commit.read_text().replace('"configuration":{', '"configuration":{"delta.newThing":"1",'))
    delete_checksums(tmp_path)
    table = DeltaTable(Storage(str(tmp_path)), "s.t")
    existing = dict(table.snapshot().settings.properties)
    assert alter(table, properties={**existing, "owner": "me"}).settings.properties == {**existing, "owner": "me"}
    with pytest.raises(ConfigurationError, match="delta.otherThing"):
        alter(table, properties={**existing, "delta.otherThing": "1"})


@pytest.mark.parametrize(
    "properties",
    [
        {"rowmerge.write.mode": "fast"},
        {"delta.enableDeletionVectors": "yes"},
        {"delta.checkpointInterval": "0"},
        {"delta.isolationLevel": "Snapshot"},
        {"delta.deletedFileRetentionDuration": "1 month"},
        {"delta.dataSkippingNumIndexedCols": "all"},
    ],
)
def test_invalid_property_values_are_refused(table: DeltaTable, properties: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(properties))):
        create(table, properties)
    assert not table.exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("interval 1 week", 604_800_000),
        ("7 days", 604_800_000),
        ("INTERVAL 1 day 12 hours", 129_600_000),
        ("interval 0 hours", 0),
        ("interval 5 microseconds", 0),
        ("1 second 600 microseconds 1400 microseconds", 1002),
    ],
)
def test_intervals_are_parsed_to_milliseconds(text: str, expected: int) -> None:
    assert INTERVAL.parse("p", text) == expected


@pytest.mark.parametrize("text", ["", "interval", "1", "week", "1 fortnight", "1 day ago", "interval 2 months"])
def test_invalid_intervals_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="interval 7 days"):
        INTERVAL.parse("p", text)


# ------------------------------------------------------------------ schema


@pytest.mark.parametrize(
    ("schema", "partition", "error", "message"),
    [
        (Struct(()), (), PlanError, "at least one column"),
        (Struct((Field("a", LONG), Field("A", LONG))), (), PlanError, "two columns named A"),
        (Struct((Field("a b", LONG),)), (), PlanError, "'a b'"),
        (Struct((Field("s", Struct((Field("x=y", LONG),))),)), (), PlanError, "'x=y'"),
        (ID_NAME, ("nmae",), UnknownColumn, "`name`"),
        (ID_NAME, ("id", "id"), PlanError, "twice"),
        (ID_NAME, ("id", "name"), PlanError, "by all its columns"),
        (Struct((Field("id", LONG), Field("l", Array(LONG)))), ("l",), PlanError, "array<bigint>"),
        (Struct((Field("v", Primitive("void")),)), (), UnsupportedTableFeature, "'void'"),
        (Struct((Field("v", Array(Primitive("variant"))),)), (), UnsupportedTableFeature, "'variant'"),
        (Struct((Field("i", Primitive("interval day to second")),)), (), UnsupportedTableFeature, "'interval day to second'"),
    ],
)
def test_invalid_schemas_are_refused(
    table: DeltaTable, schema: Struct, partition: tuple[str, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message.replace("(", r"\(")):
        create(table, None, schema, *partition)
    assert not table.exists()


def test_columns_and_fields_can_be_added_and_moved(table: DeltaTable) -> None:
    old = Struct((Field("id", LONG, nullable=False), Field("s", Struct((Field("x", LONG),)))))
    create(table, None, old)
    new = Struct((Field("n", LONG), Field("s", Struct((Field("y", LONG), Field("x", LONG)))), Field("id", LONG)))
    assert alter(table, schema=new).schema == new


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (Struct((Field("id", LONG),)), "column name .* cannot be dropped"),
        (Struct((Field("id", Primitive("integer")), Field("name", Primitive("string")))), "bigint and cannot become int"),
        (Struct((*ID_NAME.fields, Field("x", LONG, nullable=False))), "new column x .* cannot be NOT NULL"),
        (Struct((Field("ID", LONG), Field("name", Primitive("string")))), "column id .* cannot be dropped"),
    ],
)
def test_dropping_or_changing_columns_is_refused(table: DeltaTable, schema: Struct, message: str) -> None:
    create(table)
    with pytest.raises(PlanError, match=message):
        alter(table, schema=schema)


def test_changing_nested_types_is_refused(table: DeltaTable) -> None:
    old = Struct((Field("a", Array(Map(LONG, Struct((Field("x", Decimal(5, 2)),))))),))
    create(table, None, old)
    with pytest.raises(PlanError, match=r"a\.element\.value\.x"):
        alter(table, schema=Struct((Field("a", Array(Map(LONG, Struct((Field("x", Decimal(6, 2)),))))),)))


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (PartitionField(("id",), Transform("bucket", 16), "id_bucket"), r"bucket\(16, id\): a Delta table is partitioned by columns"),
        (PartitionField(("a", "b"), Transform(), "b"), r"a\.b: a Delta table cannot be partitioned by a field of a struct"),
    ],
)
def test_partition_transforms_and_nested_partition_fields_are_refused(table: DeltaTable, field: PartitionField, message: str) -> None:
    with pytest.raises(PlanError, match=f"s.t cannot be PARTITIONED BY {message}"):
        table.create(TableDefinition(ID_NAME, (field,)), CommitRequest("CREATE TABLE"))
    assert not table.exists()


def test_changing_partitioning_or_write_order_is_refused(table: DeltaTable) -> None:
    create(table, None, ID_NAME, "name")
    with pytest.raises(PlanError, match="partitioning"):
        alter(table, partitioning=())
    with pytest.raises(PlanError, match=r"WRITE ORDERED BY id ASC NULLS FIRST: a Delta table cannot store a write order. Write"):
        alter(table, ordering=(SortField(("id",)),))
    assert alter(table, partitioning=identities(("name",)), description="x").partition_columns == ("name",)


def test_a_description_is_set_preserved_and_cleared(table: DeltaTable) -> None:
    create(table)
    assert alter(table, description="what it is").description == "what it is"
    assert alter(table, properties={"a": "b"}).description == "what it is"
    assert alter(table, description="").description is None


def test_a_replacement_keeps_the_protocol_and_replaces_the_properties(table: DeltaTable) -> None:
    original = create(table, {"owner": "me"})
    definition = TableDefinition(ID_NAME, (), {"rowmerge.write.mode": "copy-on-write"}, None)
    committed(table.commit(original, CommitRequest("CREATE OR REPLACE TABLE", definition=definition, replace=True)))
    replaced = table.snapshot()
    assert replaced.settings.properties == {"rowmerge.write.mode": "copy-on-write"}
    assert replaced.protocol == original.protocol
    assert not replaced.shape.supports_merge_on_read


def test_compression_codecs_without_broad_support_are_refused(table: DeltaTable) -> None:
    with pytest.raises(ConfigurationError, match="delta.parquet.compression.codec is 'brotli'. Set it to one of zstd, snappy"):
        create(table, {"delta.parquet.compression.codec": "brotli"})
    assert create(table, {"delta.parquet.compression.codec": "Uncompressed"}).settings.parquet.codec == "none"
