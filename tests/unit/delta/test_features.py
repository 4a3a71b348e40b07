"""Table features are supported, or refused by name, for reads and for writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rowmerge.delta.log.log_files import commit_path
from rowmerge.delta.metadata.actions import Metadata, Protocol
from rowmerge.delta.metadata.features import check_readable, check_writable
from rowmerge.errors import UnsupportedTableFeature
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.metadata.shape import TableDefinition
from tests.support.delta_tables import Lake, committed


def metadata(properties: dict[str, str] | None = None, *, type_: Any = "long", **column: Any) -> Metadata:
    field = {"name": "c", "type": type_, "nullable": True, "metadata": column}
    return Metadata("id", json.dumps({"type": "struct", "fields": [field]}), configuration=properties or {})


def features(*names: str, reader: tuple[str, ...] = ()) -> Protocol:
    return Protocol(3, 7, frozenset(reader), frozenset({*names, *reader}))


def catch_read_refusal(protocol: Protocol, table_metadata: Metadata) -> UnsupportedTableFeature:
    with pytest.raises(UnsupportedTableFeature) as error:
        check_readable("s.t", protocol, table_metadata)
    return error.value


def catch_write_refusal(protocol: Protocol, table_metadata: Metadata) -> UnsupportedTableFeature:
    check_readable("s.t", protocol, table_metadata)
    with pytest.raises(UnsupportedTableFeature) as error:
        check_writable("s.t", protocol, table_metadata)
    return error.value


@pytest.mark.parametrize("name", ["deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"])
def test_supported_features_are_readable_and_writable(name: str) -> None:
    check_writable("s.t", features(reader=(name,)), metadata())


@pytest.mark.parametrize("name", ["variantShredding", "variantType", "catalogManaged", "somethingNew"])
def test_an_unknown_reader_feature_is_refused_by_name(name: str) -> None:
    error = catch_read_refusal(features(reader=("deletionVectors", name)), metadata())
    assert error.feature == name
    assert "Cannot read s.t" in error.message


@pytest.mark.parametrize("name", ["somethingNew", "materializePartitionColumns", "icebergCompatV3"])
def test_an_unknown_writer_feature_is_refused_only_for_writing(name: str) -> None:
    assert catch_write_refusal(features(name), metadata()).feature == name


def test_unknown_protocol_versions_are_refused() -> None:
    assert "reader version 4" in catch_read_refusal(Protocol(4, 8), metadata()).message
    assert "writer version 8" in catch_write_refusal(Protocol(1, 8), metadata()).message


@pytest.mark.parametrize(
    "protocol", [Protocol(1, version) for version in range(1, 7)] + [Protocol(2, 5), Protocol(2, 7, None, frozenset())]
)
def test_legacy_versions_are_writable_if_their_features_are_unused(protocol: Protocol) -> None:
    check_writable("s.t", protocol, metadata())


EXPRESSION = '{"expression":{"expression":"c > 0"}}'
UNSUPPORTED = [
    ("identityColumns", Protocol(1, 6), metadata(**{"delta.identity.start": 1}), "c"),
    ("icebergCompatV2", features("icebergCompatV2"), metadata({"delta.enableIcebergCompatV2": "true"}), "delta.enableIcebergCompatV2"),
]


ENFORCED = [
    ("invariants", Protocol(1, 2), metadata(**{"delta.invariants": EXPRESSION})),
    ("checkConstraints", Protocol(1, 3), metadata({"delta.constraints.positive": "c > 0"})),
    ("generatedColumns", Protocol(1, 4), metadata(**{"delta.generationExpression": "1"})),
    ("allowColumnDefaults", features("allowColumnDefaults"), metadata(CURRENT_DEFAULT="1")),
]


@pytest.mark.parametrize(("name", "protocol", "table_metadata"), ENFORCED)
def test_row_rules_are_writable_with_legacy_versions_and_table_features(name: str, protocol: Protocol, table_metadata: Metadata) -> None:
    check_writable("s.t", protocol, table_metadata)
    check_writable("s.t", features(name), table_metadata)


@pytest.mark.parametrize(("name", "protocol", "table_metadata", "message"), UNSUPPORTED)
def test_an_unsupported_feature_in_use_is_refused_for_writes(name: str, protocol: Protocol, table_metadata: Metadata, message: str) -> None:
    error = catch_write_refusal(protocol, table_metadata)
    assert error.feature == name
    assert message in error.message


@pytest.mark.parametrize(("name", "protocol", "table_metadata", "message"), UNSUPPORTED)
def test_metadata_of_a_feature_outside_the_protocol_is_ignored(
    name: str, protocol: Protocol, table_metadata: Metadata, message: str
) -> None:
    check_writable("s.t", Protocol(1, 1), table_metadata)


@pytest.mark.parametrize(
    "name", ["checkConstraints", "changeDataFeed", "generatedColumns", "identityColumns", "allowColumnDefaults", "icebergCompatV1"]
)
def test_unused_features_of_the_protocol_do_not_block_writes(name: str) -> None:
    check_writable("s.t", features(name), metadata())


def test_an_invariant_inside_an_array_is_refused() -> None:
    inner = {"type": "struct", "fields": [{"name": "deep", "type": "long", "nullable": True, "metadata": {"delta.invariants": EXPRESSION}}]}
    nested = metadata(type_={"type": "array", "elementType": inner, "containsNull": True})
    assert "deep" in catch_write_refusal(Protocol(1, 2), nested).message


@pytest.mark.parametrize("protocol", [Protocol(2, 5), features(reader=("columnMapping",))])
@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping_needs_a_physical_name_and_an_id_for_each_column(protocol: Protocol, mode: str) -> None:
    properties = {"delta.columnMapping.mode": mode}
    mapping_fields = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "p"}
    check_writable("s.t", protocol, metadata(properties, **mapping_fields))
    for missing_key in mapping_fields:
        incomplete = {key: value for key, value in mapping_fields.items() if key != missing_key}
        assert "field c has no" in catch_read_refusal(protocol, metadata(properties, **incomplete)).message
    check_writable("s.t", protocol, metadata({"delta.columnMapping.mode": "none"}))


def test_unknown_column_mapping_modes_are_refused() -> None:
    assert "columnMapping.mode = serial" in catch_read_refusal(Protocol(2, 5), metadata({"delta.columnMapping.mode": "serial"})).message


@pytest.mark.parametrize("type_", ["variant", "interval year", "geometry"])
def test_unknown_types_are_refused_by_name(type_: str) -> None:
    assert type_[:7] in catch_read_refusal(Protocol(1, 2), metadata(type_=type_)).message


def test_void_columns_are_refused_for_writes() -> None:
    assert catch_write_refusal(Protocol(1, 2), metadata(type_="void")).feature == "void"


def test_data_files_of_another_format_are_refused() -> None:
    csv_metadata = Metadata("id", metadata().schema_string, provider="csv")
    assert "csv" in catch_read_refusal(Protocol(1, 2), csv_metadata).message


def test_unsetting_an_unsupported_property_makes_the_table_writable(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    committed(lake.create(lake.file([1])))
    metadata_before = lake.table.snapshot().metadata
    enabled = Metadata(
        metadata_before.id,
        metadata_before.schema_string,
        configuration={**metadata_before.configuration, "delta.enableIcebergCompatV2": "true"},
    )
    protocol = lake.table.snapshot().protocol.with_features(["icebergCompatV2"])
    (lake.folder / commit_path(1)).write_text("\n".join(json.dumps(a.action()) for a in (enabled, protocol)) + "\n")
    with pytest.raises(UnsupportedTableFeature, match="icebergCompatV2"):
        lake.append([2])
    with pytest.raises(UnsupportedTableFeature, match="icebergCompatV2"):
        lake.table.snapshot().check_writable()
    disabled = TableDefinition(properties={**enabled.configuration, "delta.enableIcebergCompatV2": "false"})
    committed(lake.table.commit(lake.table.snapshot(), CommitRequest("SET TBLPROPERTIES", definition=disabled)))
    committed(lake.append([2]))
    assert lake.ids() == [1, 2]
