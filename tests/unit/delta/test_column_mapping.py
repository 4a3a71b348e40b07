"""Tables with column mapping: ids and physical names given, kept, and never given twice. Types that are widened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rowmerge.delta import DeltaTable
from rowmerge.delta.metadata.actions import Protocol
from rowmerge.delta.metadata.column_mapping import ID, MAPPING_MODE, MAX_COLUMN_ID, PHYSICAL_NAME
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot
from rowmerge.errors import ConfigurationError, PlanError
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.metadata.partitioning import identities
from rowmerge.table.metadata.schema import FIELD_ID, Array, Decimal, Field, Map, Primitive, Struct, to_json
from rowmerge.table.metadata.shape import TableDefinition
from tests.support.delta_tables import committed, delete_checksums

LONG = Primitive("long")
INNER = Struct((Field("x", LONG), Field("y", Primitive("string"))))
NESTED = Struct((Field("id", LONG), Field("s", INNER), Field("a", Array(INNER)), Field("m", Map(Primitive("string"), INNER))))


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    return DeltaTable(Storage(str(tmp_path / "t")), "s.t")


def create(table: DeltaTable, properties: dict[str, str], schema: Struct = NESTED, *partition: str) -> DeltaSnapshot:
    committed(table.create(TableDefinition(schema, identities(partition), properties, None), CommitRequest("CREATE TABLE")))
    return table.snapshot()


def alter(table: DeltaTable, **definition: Any) -> DeltaSnapshot:
    base = table.snapshot()
    if "properties" in definition:
        definition["properties"] = {**base.settings.properties, **definition["properties"]}
    committed(table.commit(base, CommitRequest("ALTER TABLE", definition=TableDefinition(**definition))))
    return table.snapshot()


def fields(type_: Any) -> list[Field]:
    """All named fields, from the top down."""
    match type_:
        case Struct():
            return [found for field in type_ for found in (field, *fields(field.type))]
        case Array(element, _):
            return fields(element)
        case Map(key, value, _):
            return [*fields(key), *fields(value)]
    return []


def renamed(schema: Struct, old: str, new: str) -> Struct:
    return Struct(tuple(Field(new, f.type, f.nullable, f.metadata) if f.name == old else f for f in schema))


@pytest.mark.parametrize("mode", ["name", "id"])
def test_every_field_of_a_new_table_has_an_id_and_a_name_of_its_own(table: DeltaTable, mode: str) -> None:
    snapshot = create(table, {MAPPING_MODE: mode})
    found = fields(snapshot.schema)
    assert sorted(f.metadata[ID] for f in found) == list(range(1, 11))
    assert all(f.metadata[PHYSICAL_NAME].startswith("col-") for f in found)
    assert len({f.metadata[PHYSICAL_NAME] for f in found}) == 10
    assert snapshot.settings.properties[MAX_COLUMN_ID] == "10"
    assert snapshot.protocol.supports("columnMapping")
    assert snapshot.shape.by_field_id == (mode == "id")
    stored = fields(snapshot.shape.stored_schema)
    assert [(f.name, f.metadata[FIELD_ID]) for f in stored] == [(f.metadata[PHYSICAL_NAME], f.metadata[ID]) for f in found]


def test_a_legacy_protocol_is_enough(table: DeltaTable) -> None:
    asked = {"delta.minReaderVersion": "2", "delta.minWriterVersion": "5", "rowmerge.write.mode": "copy-on-write", MAPPING_MODE: "name"}
    assert create(table, asked).protocol == Protocol(2, 5)


def test_a_table_that_is_upgraded_keeps_the_names_in_its_files(table: DeltaTable) -> None:
    create(table, {})
    found = fields(alter(table, properties={MAPPING_MODE: "name"}).schema)
    assert all(f.metadata[PHYSICAL_NAME] == f.name for f in found)
    added = alter(table, schema=Struct((*table.snapshot().schema, Field("new", LONG))))
    assert added.schema.fields[-1].metadata[ID] == 11
    assert added.schema.fields[-1].metadata[PHYSICAL_NAME].startswith("col-")
    assert added.settings.properties[MAX_COLUMN_ID] == "11"


def test_an_id_is_not_given_again_after_its_column_was_dropped_or_the_table_replaced(table: DeltaTable) -> None:
    snapshot = create(table, {MAPPING_MODE: "name"})
    without = alter(table, schema=Struct(snapshot.schema.fields[:-1]))
    assert without.settings.properties[MAX_COLUMN_ID] == "10"
    again = alter(table, schema=Struct((*without.schema, Field("m", LONG))))
    assert again.schema.fields[-1].metadata[ID] == 11
    definition = TableDefinition(NESTED, (), {MAPPING_MODE: "id"}, None)
    committed(table.commit(table.snapshot(), CommitRequest("REPLACE TABLE", definition=definition, replace=True)))
    assert min(f.metadata[ID] for f in fields(table.snapshot().schema)) == 12


def test_a_renamed_column_keeps_its_id_and_takes_the_partitioning_and_the_statistics_along(table: DeltaTable) -> None:
    snapshot = create(table, {MAPPING_MODE: "name", "delta.dataSkippingStatsColumns": "id,s.x,`s`.y,a"}, NESTED, "id")
    moved = alter(table, schema=renamed(renamed(snapshot.schema, "id", "the key"), "s", "t.u"))
    assert moved.partition_columns == ("the key",)
    assert moved.metadata.stored_partition_columns == snapshot.metadata.stored_partition_columns
    assert moved.settings.properties["delta.dataSkippingStatsColumns"] == "`the key`,`t.u`.`x`,`t.u`.`y`,`a`"
    gone = alter(table, schema=Struct((moved.schema.fields[0], *moved.schema.fields[2:])))
    assert gone.settings.properties["delta.dataSkippingStatsColumns"] == "`the key`,`a`"


def test_a_partition_column_is_not_dropped(table: DeltaTable) -> None:
    snapshot = create(table, {MAPPING_MODE: "name"}, NESTED, "id")
    with pytest.raises(PlanError, match=r"s\.t is partitioned by the column id"):
        alter(table, schema=Struct(snapshot.schema.fields[1:]))


@pytest.mark.parametrize(("before", "after"), [("none", "id"), ("name", "id"), ("id", "name"), ("name", "none"), ("id", "none")])
def test_modes_that_would_lose_the_files_columns_are_refused(table: DeltaTable, before: str, after: str) -> None:
    create(table, {MAPPING_MODE: before})
    with pytest.raises(ConfigurationError, match=f"cannot be changed from {before} to {after}"):
        alter(table, properties={MAPPING_MODE: after})


def test_the_highest_id_is_the_tables_own_affair(table: DeltaTable) -> None:
    with pytest.raises(ConfigurationError, match="maxColumnId"):
        create(table, {MAPPING_MODE: "name", MAX_COLUMN_ID: "7"})
    create(table, {MAPPING_MODE: "name"})
    with pytest.raises(ConfigurationError, match="maxColumnId"):
        alter(table, properties={MAX_COLUMN_ID: "70"})


def test_a_mode_that_the_protocol_does_not_allow_means_nothing(table: DeltaTable, tmp_path: Path) -> None:
    create(table, {"rowmerge.write.mode": "copy-on-write"})
    log = tmp_path / "t" / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["configuration"][MAPPING_MODE] = "name"
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 1, "minWriterVersion": 2}
    log.write_text("\n".join(map(json.dumps, actions)))
    delete_checksums(tmp_path / "t")
    snapshot = DeltaTable(Storage(str(tmp_path / "t")), "s.t").snapshot()
    assert snapshot.shape.stored_schema == snapshot.schema


WIDENED = [
    (Primitive("byte"), Primitive("short")),
    (Primitive("byte"), Primitive("double")),
    (Primitive("integer"), LONG),
    (Primitive("integer"), Decimal(12, 2)),
    (LONG, Decimal(20, 0)),
    (Primitive("float"), Primitive("double")),
    (Primitive("date"), Primitive("timestamp_ntz")),
    (Decimal(5, 2), Decimal(7, 4)),
]
KEPT = [
    (LONG, Primitive("integer")),
    (LONG, Primitive("double")),
    (LONG, Decimal(19, 0)),
    (Primitive("integer"), Decimal(10, 1)),
    (Primitive("float"), Decimal(20, 2)),
    (Primitive("date"), Primitive("timestamp")),
    (Decimal(5, 2), Decimal(6, 4)),
    (Primitive("boolean"), LONG),
    (Primitive("string"), Primitive("binary")),
]


@pytest.mark.parametrize(("old", "new"), WIDENED)
def test_a_type_becomes_a_wider_one_and_the_change_is_recorded(table: DeltaTable, old: Any, new: Any) -> None:
    created = create(table, {"delta.enableTypeWidening": "true"}, Struct((Field("c", Map(old, Struct((Field("x", Array(old)),)))),)))
    assert created.shape.can_widen(old, new)
    assert created.protocol.supports("typeWidening")
    widened = alter(table, schema=Struct((Field("c", Map(new, Struct((Field("x", Array(new)),)))),)))
    (column,) = widened.schema.fields
    told = {"fromType": to_json(old), "toType": to_json(new)}
    assert column.metadata["delta.typeChanges"] == [{**told, "fieldPath": "key"}]
    assert fields(column.type)[0].metadata["delta.typeChanges"] == [{**told, "fieldPath": "element"}]


@pytest.mark.parametrize(("old", "new"), KEPT)
def test_a_type_does_not_become_one_that_files_could_not_be_read_as(table: DeltaTable, old: Any, new: Any) -> None:
    created = create(table, {"delta.enableTypeWidening": "true"}, Struct((Field("c", old),)))
    assert not created.shape.can_widen(old, new)
    with pytest.raises(PlanError, match="cannot become"):
        alter(table, schema=Struct((Field("c", new),)))


def test_changes_of_a_type_add_up(table: DeltaTable) -> None:
    create(table, {"delta.enableTypeWidening": "true"}, Struct((Field("c", Primitive("byte")),)))
    short = Struct((Field("c", Primitive("short")),))
    assert alter(table, schema=table.resolve_shape(TableDefinition(short), table.snapshot()).schema).schema != short
    (column,) = alter(table, schema=Struct((Field("c", LONG, metadata={"comment": "x"}),))).schema.fields
    changes = [(change["fromType"], change["toType"]) for change in column.metadata["delta.typeChanges"]]
    assert changes == [("byte", "short"), ("short", "long")]


def test_types_stay_where_the_table_does_not_let_them_widen(table: DeltaTable) -> None:
    created = create(table, {}, Struct((Field("c", Primitive("integer")),)))
    assert not created.shape.can_widen(Primitive("integer"), LONG)
    with pytest.raises(PlanError, match=r"delta\.enableTypeWidening"):
        alter(table, schema=Struct((Field("c", LONG),)))
