"""Contracts in CREATE TABLE."""

from __future__ import annotations

import pytest
from dbt_common.contracts.constraints import ColumnLevelConstraint, ConstraintType, ModelLevelConstraint
from dbt_common.exceptions import CompilationError

from dbt.adapters.rowmerge.configs.constraints import TableContract, table_contract


def on_column(type_, **more):
    return ColumnLevelConstraint(ConstraintType(type_), **more)


def on_model(type_, **more):
    return ModelLevelConstraint(ConstraintType(type_), **more)


def contract(columns, *constraints, is_supported=lambda constraint: True):
    return table_contract(columns, constraints, is_supported)


def test_enforced_constraints_are_in_the_column_list():
    id_ = ("id", "int", [on_column("not_null"), on_column("check", expression=" id > 0 ", name="positive")])
    assert contract([id_, ("v", "string", [])]) == TableContract(
        ["`id` int not null", "`v` string"], ["constraint `positive` check (id > 0)"]
    )


def test_model_constraints_apply_to_their_columns():
    columns = [("ID", "int", []), ("v", "string", [])]
    table_contract = contract(columns, on_model("not_null", columns=["id"]), on_model("check", expression="v <> ''"))
    assert table_contract == TableContract(["`ID` int not null", "`v` string"], ["check (v <> '')"])


def test_key_constraints_become_table_properties():
    columns = [("id", "int", [on_column("primary_key")]), ("by`n", "int", [])]
    key = on_model("foreign_key", columns=["ID"], to="`s`.`other`", to_columns=["key"], name="to_other")
    assert contract(columns, key, on_model("unique", columns=["id", "by`n"])).properties == {
        "constraint.primary_key_id": "primary key (`id`)",
        "constraint.to_other": "foreign key (`id`) references `s`.`other` (`key`)",
        "constraint.unique_id_by`n": "unique (`id`, `by``n`)",
    }


def test_custom_constraints_are_rendered_verbatim():
    table_contract = contract(
        [("id", "int", [on_column("custom", expression="default 7")])], on_model("custom", expression="check (id > 0)", name="c")
    )
    assert table_contract == TableContract(["`id` int default 7"], ["constraint `c` check (id > 0)"])


def test_unsupported_constraints_are_omitted():
    columns = [("id", "int", [on_column("check", expression="id > 0"), on_column("not_null")])]
    assert contract(columns, is_supported=lambda constraint: constraint.type != ConstraintType.check) == TableContract(
        ["`id` int not null"]
    )


@pytest.mark.parametrize(
    ("constraint", "lacking"),
    [
        (on_model("check"), "no `expression`"),
        (on_model("primary_key"), "has no columns"),
        (on_model("foreign_key", columns=["id"]), "no `to` and `to_columns`"),
    ],
)
def test_an_incomplete_constraint_is_rejected(constraint, lacking):
    with pytest.raises(CompilationError, match=lacking):
        contract([("id", "int", [])], constraint)
