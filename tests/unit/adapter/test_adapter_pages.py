"""The pages about strategies and configs are complete."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from dbt.adapters.rowmerge.configs.model_config import RowmergeConfig
from dbt.adapters.rowmerge.incremental.plan import IncrementalPlan, StrategyArguments
from dbt.adapters.rowmerge.incremental.strategy_config import STRATEGIES
from tests.unit.adapter.strategies_page import document

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_of_strategies_is_generated_from_rendered_sql():
    page = (DOCS / "strategies.md").read_text(encoding="utf-8")
    assert page == document(), "run: python -m tests.unit.adapter.strategies_page > docs/strategies.md"


def test_every_strategy_has_its_section():
    headings = [line.removeprefix("## ") for line in document().splitlines() if line.startswith("## ")]
    assert set(STRATEGIES) <= set(headings)


def test_every_config_is_on_the_page_of_configs():
    page = (DOCS / "configs.md").read_text(encoding="utf-8")
    assert [field.name for field in fields(RowmergeConfig) if not field.name.startswith("_") and f"`{field.name}`" not in page] == []


def test_every_field_of_a_plan_is_on_the_page_of_strategies():
    page = (DOCS / "strategies.md").read_text(encoding="utf-8")
    dbts_keys = [field.name for field in fields(StrategyArguments)]
    plan_fields = [field.name for field in fields(IncrementalPlan) if field.name not in dbts_keys]
    assert [name for name in plan_fields if f"| `{name}` | " not in page] == []
    assert [name for name in dbts_keys if f"`{name}`" not in page] == []
