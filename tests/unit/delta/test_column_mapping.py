"""Tables with column mapping: ids and physical names are assigned, preserved, and never reused. Type widening is recorded."""

from __future__ import annotations

import json
from dataclasses import replace
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
from rowmerge.table.snapshots.files import AddedFile, FileChanges
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
    """Return all named fields, parents first."""
    match type_:
        case Struct():
            return [nested for field in type_ for nested in (field, *fields(field.type))]
        case Array(element, _):
            return fields(element)
        case Map(key, value, _):
            return [*fields(key), *fields(value)]
    return []


def rename_field(schema: Struct, old: str, new: str) -> Struct:
    return Struct(tuple(Field(new, f.type, f.nullable, f.metadata) if f.name == old else f for f in schema))


@pytest.mark.parametrize("mode", ["name", "id"])
def test_each_field_of_a_new_table_gets_its_own_id_and_physical_name(table: DeltaTable, mode: str) -> None:
    snapshot = create(table, {MAPPING_MODE: mode})
    mapped_fields = fields(snapshot.schema)
    assert sorted(f.metadata[ID] for f in mapped_fields) == list(range(1, 11))
    assert all(f.metadata[PHYSICAL_NAME].startswith("col-") for f in mapped_fields)
    assert len({f.metadata[PHYSICAL_NAME] for f in mapped_fields}) == 10
    assert snapshot.settings.properties[MAX_COLUMN_ID] == "10"
    assert snapshot.protocol.supports("columnMapping")
    assert snapshot.shape.by_field_id == (mode == "id")
    stored_fields = fields(snapshot.shape.stored_schema)
    assert [(f.name, f.metadata[FIELD_ID]) for f in stored_fields] == [(f.metadata[PHYSICAL_NAME], f.metadata[ID]) for f in mapped_fields]


def test_column_mapping_works_with_a_legacy_protocol(table: DeltaTable) -> None:
    properties = {
        "delta.minReaderVersion": "2",
        "delta.minWriterVersion": "5",
        "rowmerge.write.mode": "copy-on-write",
        MAPPING_MODE: "name",
    }
    assert create(table, properties).protocol == Protocol(2, 5)


def test_enabling_column_mapping_keeps_physical_names_of_existing_columns(table: DeltaTable) -> None:
    create(table, {})
    mapped_fields = fields(alter(table, properties={MAPPING_MODE: "name"}).schema)
    assert all(f.metadata[PHYSICAL_NAME] == f.name for f in mapped_fields)
    added = alter(table, schema=Struct((*table.snapshot().schema, Field("new", LONG))))
    assert added.schema.fields[-1].metadata[ID] == 11
    assert added.schema.fields[-1].metadata[PHYSICAL_NAME].startswith("col-")
    assert added.settings.properties[MAX_COLUMN_ID] == "11"


def test_column_ids_are_not_reused_after_drop_or_replacement(table: DeltaTable) -> None:
    snapshot = create(table, {MAPPING_MODE: "name"})
    dropped = alter(table, schema=Struct(snapshot.schema.fields[:-1]))
    assert dropped.settings.properties[MAX_COLUMN_ID] == "10"
    extended = alter(table, schema=Struct((*dropped.schema, Field("m", LONG))))
    assert extended.schema.fields[-1].metadata[ID] == 11
    definition = TableDefinition(NESTED, (), {MAPPING_MODE: "id"}, None)
    committed(table.commit(table.snapshot(), CommitRequest("REPLACE TABLE", definition=definition, replace=True)))
    assert min(f.metadata[ID] for f in fields(table.snapshot().schema)) == 12


def test_renames_update_partitioning_and_statistics_columns(table: DeltaTable) -> None:
    snapshot = create(table, {MAPPING_MODE: "name", "delta.dataSkippingStatsColumns": "id,s.x,`s`.y,a"}, NESTED, "id")
    renamed_snapshot = alter(table, schema=rename_field(rename_field(snapshot.schema, "id", "the key"), "s", "t.u"))
    assert renamed_snapshot.partition_columns == ("the key",)
    assert renamed_snapshot.metadata.stored_partition_columns == snapshot.metadata.stored_partition_columns
    assert renamed_snapshot.settings.properties["delta.dataSkippingStatsColumns"] == "`the key`,`t.u`.`x`,`t.u`.`y`,`a`"
    dropped = alter(table, schema=Struct((renamed_snapshot.schema.fields[0], *renamed_snapshot.schema.fields[2:])))
    assert dropped.settings.properties["delta.dataSkippingStatsColumns"] == "`the key`,`a`"


def test_dropping_a_partition_column_is_refused(table: DeltaTable) -> None:
    snapshot = create(table, {MAPPING_MODE: "name"}, NESTED, "id")
    with pytest.raises(PlanError, match=r"s\.t is partitioned by the column id"):
        alter(table, schema=Struct(snapshot.schema.fields[1:]))


@pytest.mark.parametrize(("before", "after"), [("none", "id"), ("name", "id"), ("id", "name"), ("name", "none"), ("id", "none")])
def test_incompatible_mapping_mode_changes_are_refused(table: DeltaTable, before: str, after: str) -> None:
    create(table, {MAPPING_MODE: before})
    with pytest.raises(ConfigurationError, match=f"cannot be changed from {before} to {after}"):
        alter(table, properties={MAPPING_MODE: after})


def test_users_cannot_set_the_maximum_column_id(table: DeltaTable) -> None:
    with pytest.raises(ConfigurationError, match="maxColumnId"):
        create(table, {MAPPING_MODE: "name", MAX_COLUMN_ID: "7"})
    create(table, {MAPPING_MODE: "name"})
    with pytest.raises(ConfigurationError, match="maxColumnId"):
        alter(table, properties={MAX_COLUMN_ID: "70"})


def test_a_mapping_mode_without_protocol_support_is_ignored(table: DeltaTable, tmp_path: Path) -> None:
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
REFUSED = [
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
def test_type_widening_is_recorded_in_field_metadata(table: DeltaTable, old: Any, new: Any) -> None:
    created = create(table, {"delta.enableTypeWidening": "true"}, Struct((Field("c", Map(old, Struct((Field("x", Array(old)),)))),)))
    assert created.shape.can_widen(old, new)
    assert created.protocol.supports("typeWidening")
    widened = alter(table, schema=Struct((Field("c", Map(new, Struct((Field("x", Array(new)),)))),)))
    (column,) = widened.schema.fields
    change = {"fromType": to_json(old), "toType": to_json(new)}
    assert column.metadata["delta.typeChanges"] == [{**change, "fieldPath": "key"}]
    assert fields(column.type)[0].metadata["delta.typeChanges"] == [{**change, "fieldPath": "element"}]


@pytest.mark.parametrize(("old", "new"), REFUSED)
def test_incompatible_type_changes_are_refused(table: DeltaTable, old: Any, new: Any) -> None:
    created = create(table, {"delta.enableTypeWidening": "true"}, Struct((Field("c", old),)))
    assert not created.shape.can_widen(old, new)
    with pytest.raises(PlanError, match="cannot become"):
        alter(table, schema=Struct((Field("c", new),)))


def test_type_changes_accumulate_in_field_metadata(table: DeltaTable) -> None:
    create(table, {"delta.enableTypeWidening": "true"}, Struct((Field("c", Primitive("byte")),)))
    short = Struct((Field("c", Primitive("short")),))
    assert alter(table, schema=table.resolve_shape(TableDefinition(short), table.snapshot()).schema).schema != short
    (column,) = alter(table, schema=Struct((Field("c", LONG, metadata={"comment": "x"}),))).schema.fields
    changes = [(change["fromType"], change["toType"]) for change in column.metadata["delta.typeChanges"]]
    assert changes == [("byte", "short"), ("short", "long")]


@pytest.mark.parametrize("mode", ["none", "name"])
def test_bounds_of_floats_hold_after_the_column_is_widened_to_double(table: DeltaTable, mode: str) -> None:
    """Spark writes the bound of a float with the shortest digits: 0.1 for the float 0.100000001490116, and 0.7 for 0.699999988079071."""
    properties = {"delta.enableTypeWidening": "true", MAPPING_MODE: mode}
    created = create(table, properties, Struct((Field("c", Primitive("float")), Field("s", Struct((Field("f", Primitive("float")),))))))
    file = AddedFile(f"{table.location}/f.parquet", 1, 1, lower={"c": 0.7, "s": {"f": 0.7}}, upper={"c": 0.1, "s": {"f": 0.1}})
    committed(table.commit(created, CommitRequest("WRITE", files=FileChanges((file,)))))
    column, struct = created.schema.fields
    double, (inner,) = Primitive("double"), fields(struct.type)
    schema = Struct((replace(column, type=double), replace(struct, type=Struct((replace(inner, type=double),)))))
    listing = alter(table, schema=schema).files(("c", "s"))
    (lower,), (upper,) = (listing.rows[kind].to_pylist() for kind in ("lower", "upper"))
    assert lower == {"c": 0.699999988079071, "s": {"f": 0.699999988079071}}
    assert upper == {"c": 0.10000000149011612, "s": {"f": 0.10000000149011612}}


def test_type_widening_requires_the_table_property(table: DeltaTable) -> None:
    created = create(table, {}, Struct((Field("c", Primitive("integer")),)))
    assert not created.shape.can_widen(Primitive("integer"), LONG)
    with pytest.raises(PlanError, match=r"delta\.enableTypeWidening"):
        alter(table, schema=Struct((Field("c", LONG),)))
