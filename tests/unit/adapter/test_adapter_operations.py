"""Operations: their statements and tables, errors in their arguments, and their messages."""

from __future__ import annotations

from datetime import datetime

import pytest
from dbt_common.exceptions import CompilationError

from dbt.adapters.rowmerge.operations import format_report, operation_sql, schema_and_alias, target_argument
from rowmerge import RowCounts, StatementResult


@pytest.mark.parametrize(
    ("operation", "arguments", "sql"),
    [
        ("optimize", {}, "optimize `s`.`t`"),
        ("optimize", {"where": "day >= '2024-01-01'"}, "optimize `s`.`t` where day >= '2024-01-01'"),
        ("vacuum", {"retain_hours": None, "dry_run": None}, "vacuum `s`.`t`"),
        ("vacuum", {"retain_hours": "24", "dry_run": True}, "vacuum `s`.`t` retain 24 hours dry run"),
        ("vacuum", {"retain_hours": 0, "dry_run": "false"}, "vacuum `s`.`t` retain 0 hours"),
        ("history", {"limit": None}, "describe history `s`.`t`"),
        ("history", {"limit": 3}, "describe history `s`.`t` limit 3"),
        ("restore", {"version": 0}, "restore table `s`.`t` to version as of 0"),
        ("restore", {"version": "7160331562364012345"}, "restore table `s`.`t` to version as of 7160331562364012345"),
        ("restore", {"timestamp": datetime(2024, 5, 6, 7, 8)}, "restore table `s`.`t` to timestamp as of '2024-05-06 07:08:00'"),
        ("restore", {"reference": "it's"}, "restore table `s`.`t` to version as of 'it\\'s'"),
    ],
)
def test_an_operation_is_one_statement(operation, arguments, sql):
    assert operation_sql(operation, "`s`.`t`", arguments) == sql


@pytest.mark.parametrize(
    ("operation", "arguments", "problem"),
    [
        ("vacuum", {"retain_hours": "a week"}, "The argument 'retain_hours' of vacuum is 'a week'. Set it to a number of hours"),
        ("vacuum", {"dry_run": "maybe"}, "The argument 'dry_run' of vacuum is 'maybe'. Set it to true or false."),
        ("history", {"limit": 1.5}, "The argument 'limit' of history is 1.5. Set it to a whole number."),
        ("restore", {}, "restore got no version. Set exactly one of version, timestamp and reference"),
        ("restore", {"version": 1, "timestamp": "2024-01-01"}, "restore got 'version' and 'timestamp'. Set exactly one of"),
        ("restore", {"version": "first"}, "The argument 'version' of restore is 'first'. Set it to a whole number."),
    ],
)
def test_an_invalid_argument_is_described(operation, arguments, problem):
    with pytest.raises(CompilationError) as error:
        operation_sql(operation, "`s`.`t`", arguments)
    assert problem in str(error.value)


def test_exactly_one_table_argument_is_required():
    assert target_argument("optimize", {"relation": None, "table": "orders"}) == "orders"
    with pytest.raises(CompilationError, match="optimize requires the argument 'relation'"):
        target_argument("optimize", {"relation": None, "table": None})
    with pytest.raises(CompilationError, match="both 'relation' and 'table'"):
        target_argument("optimize", {"relation": "a", "table": "b"})


def test_unknown_arguments_are_reported_by_name(adapter):
    with pytest.raises(CompilationError, match="vacuum has no argument 'hours'. The arguments are: relation, retain_hours"):
        adapter.run_operation("vacuum", {"relation": "orders", "retain_hours": None}, ["hours"], {})


def node(name="orders", schema="sales", alias="orders", **more):
    return {"resource_type": "model", "name": name, "schema": schema, "alias": alias, "config": {}, **more}


@pytest.mark.parametrize(
    ("nodes", "place"),
    [
        ([], None),
        ([node("customers")], None),
        ([node(alias="orders_v7"), node("customers")], ("sales", "orders_v7")),
        ([node(resource_type="test"), node(resource_type="snapshot")], ("sales", "orders")),
        (
            [node(alias="orders_v1", version=1, latest_version=2), node(alias="orders_v2", version=2, latest_version=2)],
            ("sales", "orders_v2"),
        ),
    ],
)
def test_a_model_name_resolves_to_its_table(nodes, place):
    assert schema_and_alias("orders", nodes) == place


def test_an_unknown_or_ambiguous_model_name_is_an_error():
    with pytest.raises(CompilationError, match=r"Use the name of a table: a\.orders, b\.orders"):
        schema_and_alias("orders", [node(schema="a"), node(schema="b")])
    with pytest.raises(CompilationError, match="ephemeral"):
        schema_and_alias("orders", [node(config={"materialized": "ephemeral"})])


def result(version=None, removed=0):
    return StatementResult(None, "X", RowCounts(files_removed=removed), version)


def test_the_message_of_optimize_has_counts_and_sizes():
    metrics = {
        "numFilesRemoved": 12,
        "totalConsideredFiles": 14,
        "filesRemoved": {"totalFiles": 12, "totalSize": 3_240_000},
        "filesAdded": {"totalFiles": 1, "totalSize": 812},
        "deletionVectorStats": {"numDeletionVectorRowsRemoved": 1},
    }
    assert format_report("optimize", "t", {}, [{"metrics": metrics}], result(7)) == (
        "optimize t: 12 files (3.2 MB) became 1 file (812 bytes), 1 deleted row removed, version 7"
    )
    assert format_report("optimize", "t", {}, [{"metrics": {**metrics, "numFilesRemoved": 0}}], result(7)) == (
        "optimize t: nothing to do in 14 files, version 7"
    )


def test_the_message_of_vacuum_has_deleted_files_or_candidates():
    assert format_report("vacuum", "t", {}, [{"path": "file:///w/t"}], result(removed=3)) == "vacuum t: 3 files deleted"
    dry_run = format_report("vacuum", "t", {"dry_run": True}, [{"path": "b"}, {"path": "a"}], None)
    assert dry_run == "vacuum t: 2 files would be deleted\n  a\n  b"


def test_the_message_of_history_is_a_table():
    at = datetime(2024, 5, 6, 7, 8, 9)
    rows = [
        {"version": 10, "timestamp": at, "operation": "MERGE", "operationMetrics": {"numOutputRows": "2", "none": "0", "scanTimeMs": "5"}},
        {"version": 9, "timestamp": at, "operation": "CREATE TABLE", "operationMetrics": None},
    ]
    assert format_report("history", "t", {}, rows, None).splitlines() == [
        "history t: 2 versions, newest first",
        "  version  timestamp            operation     metrics",
        "  10       2024-05-06 07:08:09  MERGE         numOutputRows=2",
        "  9        2024-05-06 07:08:09  CREATE TABLE",
    ]
