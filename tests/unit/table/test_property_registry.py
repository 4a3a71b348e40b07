"""The registry of table properties: it is complete, and statements and tables with a wrong property give a clear error."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import TableProperties

from rowmerge.delta.metadata.features import UNSUPPORTED_FEATURES, WRITABLE_FEATURES
from rowmerge.delta.metadata.registry import DELTA_PROPERTIES
from rowmerge.errors import ConfigurationError, UnsupportedTableFeature
from rowmerge.iceberg.metadata.registry import ICEBERG_PROPERTIES
from rowmerge.table.metadata.property_registry import Effect, PropertyRegistry, TableProperty
from rowmerge.table.metadata.property_values import TEXT
from tests.engine.jvm_peer import DELTA_JARS, ICEBERG_JAR
from tests.unit.table.peer_properties import delta_properties, iceberg_properties, listed
from tests.unit.table.properties_page import document

PAGE = Path(__file__).parents[3] / "docs" / "properties.md"
REGISTRIES = {"delta": DELTA_PROPERTIES, "iceberg": ICEBERG_PROPERTIES}
DOCUMENTED_ONLY = {
    "delta": """delta.parquet.compression.codec delta.targetFileSize delta.tuneFileSizesForRewrites delta.minReaderVersion
        delta.compatibility.symlinkFormatManifest.enabled delta.constraints. delta.feature. delta.universalFormat.config.""",
    "iceberg": "write.location-provider.impl io-impl",
}
"""Properties in the documentation of the peers whose names are not constants of the classes that `peer_properties` reads."""
BAD_VALUE = "``"
ROWS = [(registry, property_) for registry in REGISTRIES.values() for property_ in registry.properties]


def example_name(property_: TableProperty[Any]) -> str:
    return property_.name if property_.prefix is None else f"{property_.prefix}price"


@pytest.mark.parametrize("format_", REGISTRIES)
def test_the_registry_has_every_property_of_the_peers(format_: str) -> None:
    names = [f"{name}x" if name.endswith(".") else name for name in (*listed(format_), *DOCUMENTED_ONLY[format_].split())]
    assert [name for name in names if REGISTRIES[format_].find(name) is None] == []


def test_the_registry_has_every_property_of_pyiceberg() -> None:
    values = [str(value) for name, value in vars(TableProperties).items() if name.isupper() and not name.endswith("_DEFAULT")]
    names = [f"{name}.price" if name.endswith(".column") else name for name in values if "." in name]
    assert {"write.parquet.row-group-limit", "write.metadata.metrics.column.price"} < set(names)
    assert [name for name in names if ICEBERG_PROPERTIES.find(name) is None] == []


def test_every_table_feature_of_delta_is_supported_or_has_a_reason() -> None:
    assert set(listed("delta_features")) == (WRITABLE_FEATURES | UNSUPPORTED_FEATURES.keys())


@pytest.mark.skipif(not DELTA_JARS, reason="ROWMERGE_DELTA_JARS names no folder with the jars of Delta Lake on Spark")
def test_the_list_of_deltas_properties_is_that_of_its_jar() -> None:
    assert listed("delta") == delta_properties()


@pytest.mark.skipif(not ICEBERG_JAR, reason="ROWMERGE_ICEBERG_JAR names no jar of Iceberg on Spark")
def test_the_list_of_icebergs_properties_is_that_of_its_jar() -> None:
    assert listed("iceberg") == iceberg_properties()


@pytest.mark.parametrize(("registry", "property_"), ROWS, ids=lambda value: getattr(value, "name", ""))
def test_each_property_has_an_effect_and_refuses_other_values(registry: PropertyRegistry, property_: TableProperty[Any]) -> None:
    name = example_name(property_)
    assert registry.find(name) is property_
    assert property_.text
    if property_.default is not None:
        property_.values.parse(name, property_.default)
    if property_.values is TEXT and property_.effect is not Effect.MANAGED:
        registry.check({name: BAD_VALUE}, {})
        return
    with pytest.raises(ConfigurationError, match=f"The table property {name} (is|cannot be) '``'"):
        registry.check({name: BAD_VALUE}, {})
    # A value that another engine set stays valid in statements that do not change it.
    registry.check({name: BAD_VALUE, "owner": "ann"}, {name: BAD_VALUE})


@pytest.mark.parametrize(
    ("format_", "name", "message"),
    [
        ("iceberg", "write.mrege.mode", "There is no table property write.mrege.mode. Did you mean write.merge.mode?"),
        ("iceberg", "write.parquet.compresion-codec", "Did you mean write.parquet.compression-codec?"),
        ("iceberg", "commit.retry.retries", "There is no table property commit.retry.retries. Did you mean commit.retry."),
        ("iceberg", "history.sql", "There is no table property history.sql. Remove it, or begin the name with a word of your own."),
        ("iceberg", "delta.appendOnly", "applies only to Delta tables"),
        ("iceberg", "rowmerge.write.mod", "Did you mean rowmerge.write.mode?"),
        ("iceberg", "rowmerge.dropped", "There is no table property rowmerge.dropped."),
        ("delta", "delta.appendonly", "Did you mean delta.appendOnly?"),
        ("delta", "delta.xyz", "There is no table property delta.xyz."),
        ("delta", "rowmerge.write.mod", "Did you mean rowmerge.write.mode?"),
        ("delta", "write.merge.mode", "applies only to Iceberg tables"),
        ("delta", "commit.sha", "begin the name with a word of your own"),
        ("delta", "history.team", "begin the name with a word of your own"),
    ],
)
def test_unknown_names_are_errors_that_suggest_the_nearest_name(format_: str, name: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message.replace("?", r"\?")):
        REGISTRIES[format_].check({name: "1"}, {})
    # Another engine may have set it. A new value is the user's own decision.
    REGISTRIES[format_].check({name: "2"}, {name: "1"})


@pytest.mark.parametrize("format_", REGISTRIES)
def test_other_names_belong_to_the_user(format_: str) -> None:
    REGISTRIES[format_].check({"owner": "ann", "writer": "x", "my.write.mode": "?"}, {})


@pytest.mark.parametrize(
    ("format_", "name", "value"),
    [
        ("iceberg", "encryption.key-id", "k1"),
        ("iceberg", "write.format.default", "orc"),
        ("iceberg", "write.delete.format.default", "avro"),
        ("iceberg", "write.location-provider.impl", "com.example.Provider"),
        ("delta", "delta.universalFormat.enabledFormats", "hudi"),
        ("delta", "delta.enableChangeDataCapture", "true"),
    ],
)
def test_a_rejected_property_cannot_be_set_and_stops_writes(format_: str, name: str, value: str) -> None:
    registry = REGISTRIES[format_]
    with pytest.raises(ConfigurationError, match=f"{name} cannot be '{value}'"):
        registry.check({name: value}, {})
    with pytest.raises(UnsupportedTableFeature, match=f"{name} = {value}.*UNSET TBLPROPERTIES"):
        registry.check_write("t", {name: value})


def test_values_that_change_nothing_are_accepted_and_do_not_stop_writes() -> None:
    for registry, properties in (
        (ICEBERG_PROPERTIES, {"write.format.default": "PARQUET"}),
        (DELTA_PROPERTIES, {"delta.enableIcebergCompatV3": "false"}),
    ):
        registry.check(properties, {})
        registry.check_write("t", properties)


def test_engines_alone_set_the_names_of_hidden_columns() -> None:
    properties = {"delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1"}
    with pytest.raises(ConfigurationError, match=r"Set delta\.enableRowTracking instead"):
        DELTA_PROPERTIES.check(properties, {})
    DELTA_PROPERTIES.check_write("t", properties)


def test_a_write_warns_once_of_each_unknown_property_of_a_table(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            DELTA_PROPERTIES.check_write("lake.orders", {"delta.newThing": "1", "owner": "ann"})
    assert [record.getMessage() for record in caplog.records] == [
        "The table property delta.newThing of lake.orders is unknown to rowmerge and has no effect."
    ]


def test_properties_are_stored_as_other_engines_parse_them() -> None:
    properties = {"delta.appendOnly": " TRUE ", "delta.checkpointInterval": " 5 ", "delta.constraints.c": " a > 0 ", "owner": " ann "}
    expected = {"delta.appendOnly": "true", "delta.checkpointInterval": "5", "delta.constraints.c": " a > 0 ", "owner": " ann "}
    assert DELTA_PROPERTIES.normalize(properties) == expected
    names = {"delta.checkpointPolicy": "V2", "delta.isolationLevel": "serializable", "delta.targetFileSize": "1MB"}
    assert DELTA_PROPERTIES.normalize(names) == names | {"delta.checkpointPolicy": "v2", "delta.isolationLevel": "Serializable"}
    assert ICEBERG_PROPERTIES.normalize({"rowmerge.write.mode": "AUTO"}) == {"rowmerge.write.mode": "auto"}


def test_the_page_is_generated_from_the_registries() -> None:
    assert PAGE.read_text(encoding="utf-8") == document(), "run: python -m tests.unit.table.properties_page > docs/properties.md"


def test_properties_that_engines_set_cannot_be_removed() -> None:
    name = "delta.rowTracking.materializedRowIdColumnName"
    with pytest.raises(ConfigurationError, match=f"{name} cannot be removed"):
        DELTA_PROPERTIES.check({}, {name: "_row-id-col-1"})


def test_reserved_beginnings_are_recognized_in_any_case() -> None:
    with pytest.raises(ConfigurationError, match=r"Did you mean delta\.appendOnly\?"):
        DELTA_PROPERTIES.check({"DELTA.APPENDONLY": "true"}, {})
