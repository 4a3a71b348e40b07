"""Verifies that neither the adapter's macros and classes nor the configs of docs/ cause a deprecation warning of dbt."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from dbt.tests.util import patch_microbatch_end_time, run_dbt

STRATEGIES_PAGE = Path(__file__).parents[3] / "docs" / "strategies.md"
ROWS = "select id, at, 'mon' as day, 1.5 as amount from {{ ref('numbers') }}"

# The configs of incremental models that `dbt build` runs, twice.
STRATEGIES = {
    "appended": "incremental_strategy='append', on_schema_change='append_new_columns'",
    "merged": "unique_key='id', merge_exclude_columns=['day'], matched_condition='DBT_INTERNAL_SOURCE.amount > 0', partition_by='day'",
    "clauses": "unique_key='id', merge_clauses={'when_matched': [{'action': 'update', 'mode': 'by_name'}]}",
    "evolved": "unique_key='id', merge_with_schema_evolution=true, merge_deduplicate_by='at'",
    "reinserted": "incremental_strategy='delete+insert', unique_key=['id', 'day'], incremental_predicates=[\"day = 'mon'\"]",
    "overwritten": "incremental_strategy='insert_overwrite', partition_by=['day'], file_format='iceberg'",
    "replaced": "incremental_strategy='replace_where', replace_where=\"day = 'mon'\", sql_header='select 1'",
    "erased": "incremental_strategy='delete', unique_key='id'",
    "streamed": "incremental_strategy='cdc', unique_key='id', cdc_operation_column='day', cdc_order_by='at',"
    " cdc_operations={'ignore': ['mon']}",
    "batches": "incremental_strategy='microbatch', event_time='at', batch_size='day', begin='2024-01-01', concurrent_batches=true",
}
MODELS = {
    "a_view": "{{ config(materialized='view', persist_docs={'relation': true, 'columns': true}) }}" + ROWS,
    "a_table": "{{ config(materialized='table', pre_hook='select 1', post_hook='select 2') }}" + ROWS,
    "an_ephemeral_model": "{{ config(materialized='ephemeral') }}" + ROWS,
    "downstream": "select * from {{ ref('an_ephemeral_model') }}",
    **{name: f"{{{{ config(materialized='incremental', {config}) }}}}{ROWS}" for name, config in STRATEGIES.items()},
}
PYTHON_MODEL = """
def model(dbt, session):
    dbt.config(materialized="incremental", unique_key="id", packages=["pandas"])
    return dbt.ref("a_table")
"""
PROPERTIES = {
    "models": [
        {
            "name": "a_table",
            "description": "A table with a contract.",
            "config": {"contract": {"enforced": True}, "tags": ["checked"], "meta": {"owner": "us"}},
            "constraints": [{"type": "check", "name": "positive", "expression": "amount > 0"}],
            "columns": [
                {"name": "id", "data_type": "int", "constraints": [{"type": "not_null"}], "data_tests": ["unique"]},
                {"name": "at", "data_type": "timestamp"},
                {"name": "day", "data_type": "string"},
                {"name": "amount", "data_type": "decimal(2,1)"},
            ],
        },
        {"name": "a_view", "description": "A view.", "columns": [{"name": "id", "description": "The key.", "data_tests": ["not_null"]}]},
        {"name": "batches", "config": {"lookback": 2}},
    ],
    "sources": [{"name": "here", "schema": "{{ target.schema }}", "tables": [{"name": "numbers"}]}],
    "snapshots": [
        {
            "name": "history",
            "relation": "ref('a_table')",
            "config": {"strategy": "check", "check_cols": ["amount"], "unique_key": "id", "hard_deletes": "new_record"},
        },
        {
            "name": "history_by_time",
            "relation": "ref('numbers')",
            "config": {
                "strategy": "timestamp",
                "updated_at": "at",
                "unique_key": ["id"],
                "hard_deletes": "invalidate",
                "dbt_valid_to_current": "timestamp'9999-12-31'",
                "snapshot_meta_column_names": {"dbt_valid_to": "until"},
            },
        },
    ],
    "seeds": [{"name": "numbers", "config": {"column_types": {"id": "int", "at": "timestamp"}, "event_time": "at"}}],
    "unit_tests": [
        {
            "name": "rows_pass_through",
            "model": "a_view",
            "given": [{"input": "ref('numbers')", "rows": [{"id": 3}]}],
            "expect": {"rows": [{"id": 3, "day": "mon"}]},
        }
    ],
}
FUNCTIONS = {
    "functions": [
        {"name": "cents", "arguments": [{"name": "amount", "data_type": "double"}], "returns": {"data_type": "bigint"}},
        {
            "name": "shout",
            "config": {"entry_point": "shout", "runtime_version": "3.11", "volatility": "deterministic"},
            "arguments": [{"name": "text", "data_type": "string"}],
            "returns": {"data_type": "string"},
        },
    ]
}


def deprecations(*commands: list[str]) -> list[str]:
    """Run dbt commands; return the messages of all deprecation events."""
    events: list[str] = []

    def collect(event):
        if "Deprecat" in event.info.name:
            events.append(f"{event.info.name}: {event.info.msg}")

    for command in commands:
        run_dbt([*command, "--show-all-deprecations"], callbacks=[collect])
    return events


@pytest.fixture(autouse=True)
def validate_configs(monkeypatch):
    """Let dbt-core 1.10 validate configs as later releases do."""
    monkeypatch.setenv("DBT_ENV_PRIVATE_RUN_JSONSCHEMA_VALIDATIONS", "1")


class TestAProjectWithEveryMaterialization:
    @pytest.fixture(scope="class")
    def seeds(self):
        return {"numbers.csv": "id,at\n1,2024-01-01 12:00:00\n2,2024-01-02 12:00:00\n"}

    @pytest.fixture(scope="class")
    def models(self):
        files = {f"{name}.sql": text for name, text in MODELS.items()}
        return {**files, "in_python.py": PYTHON_MODEL, "properties.yml": yaml.safe_dump(PROPERTIES)}

    @pytest.fixture(scope="class")
    def functions(self):
        return {
            "functions.yml": yaml.safe_dump(FUNCTIONS),
            "cents.sql": "amount * 100",
            "shout.py": "def shout(text):\n    return text.upper()\n",
        }

    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {
            "models": {"test": {"+file_format": "delta", "+tblproperties": {"rowmerge.write.mode": "auto"}}},
            "seeds": {"test": {"+file_format": "delta"}},
            "snapshots": {"test": {"+file_format": "delta"}},
        }

    def test_commands_cause_no_deprecation_warning(self, project):
        with patch_microbatch_end_time("2024-01-02 13:00:00"):
            events = deprecations(
                ["build", "--no-partial-parse"],
                ["build"],
                ["build", "--full-refresh", "--empty", "--exclude", "resource_type:test"],
                ["docs", "generate"],
                ["source", "freshness"],
                ["show", "--select", "a_view"],
                ["run-operation", "optimize", "--args", "{relation: a_table}"],
            )
        assert events == []

    def test_a_deprecated_feature_of_a_project_is_reported(self, project):
        Path(project.project_root, "models", "old.sql").write_text("select {{ modules.itertools.count(1) | first }} as id")
        assert [event.partition(":")[0] for event in deprecations(["parse"])][:1] == ["ModulesItertoolsUsageDeprecation"]


def documented_configs() -> list[dict[str, object]]:
    """Return the configs above the statements of docs/strategies.md."""
    config_texts = re.findall(r"^-- (\{.*\})$", STRATEGIES_PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [yaml.safe_load(text) for text in config_texts if text != "{}"]


class TestDocumentedConfigs:
    """Each config of docs/strategies.md in a SQL file, in properties, and in the project file for a folder with one model."""

    @pytest.fixture(scope="class")
    def models(self):
        files, properties = {}, []
        for number, config in enumerate(documented_configs()):
            files[f"in_sql_{number}.sql"] = f"{{{{ config(**{config!r}) }}}} select 1 as id"
            files[f"in_properties_{number}.sql"] = "select 1 as id"
            files[f"folder_{number}"] = {f"in_project_{number}.sql": "select 1 as id"}
            properties.append({"name": f"in_properties_{number}", "config": config})
        return {**files, "properties.yml": yaml.safe_dump({"models": properties})}

    @pytest.fixture(scope="class")
    def project_config_update(self):
        folders = {
            f"folder_{number}": {f"+{name}": value for name, value in config.items()} for number, config in enumerate(documented_configs())
        }
        return {"models": {"test": folders}}

    def test_they_cause_no_deprecation_warning(self, project):
        assert deprecations(["parse", "--no-partial-parse"]) == []
        configs = {name.rsplit(".", 1)[1]: node.config for name, node in run_dbt(["parse"]).nodes.items()}
        for number, documented in enumerate(documented_configs()):
            for name, value in documented.items():
                places = [configs[f"in_{place}_{number}"][name] for place in ("sql", "properties", "project")]
                assert places == [value] * 3, name
        assert len(configs) > 45
