"""Render the adapter's macros with dbt's machinery, without a connection."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from dbt.adapters.factory import FACTORY, get_adapter, register_adapter, reset_adapters
from dbt.config.runtime import RuntimeConfig
from dbt.context.providers import generate_runtime_macro_context
from dbt.mp_context import get_mp_context
from dbt.parser.manifest import ManifestLoader

from dbt import flags
from dbt.adapters.rowmerge import RowmergeAdapter, RowmergeColumn


@pytest.fixture
def adapter(loaded_adapter: RowmergeAdapter) -> RowmergeAdapter:
    """Return the adapter, registered with dbt: an earlier functional test of this process can have removed it."""
    FACTORY.adapters[loaded_adapter.type()] = loaded_adapter
    return loaded_adapter


@pytest.fixture(scope="package")
def loaded_adapter(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Yield an adapter with its macros, and remove it from dbt after these tests, because other tests register other adapters."""
    project = tmp_path_factory.mktemp("project")
    output = {"type": "rowmerge", "warehouse": str(project / "warehouse"), "schema": "main"}
    (project / "profiles.yml").write_text(yaml.safe_dump({"test": {"target": "dev", "outputs": {"dev": output}}}))
    settings = {"name": "test", "profile": "test", "flags": {"send_anonymous_usage_stats": False}}
    (project / "dbt_project.yml").write_text(yaml.safe_dump(settings))
    arguments = Namespace(profiles_dir=str(project), project_dir=str(project), target=None, profile=None, threads=None)
    flags.set_from_args(arguments, {})
    config = RuntimeConfig.from_args(arguments)
    register_adapter(config, get_mp_context())
    new_adapter = get_adapter(config)
    new_adapter.set_macro_resolver(ManifestLoader.load_macros(config, new_adapter.connections.set_query_header, base_macros_only=True))
    new_adapter.set_macro_context_generator(generate_runtime_macro_context)
    yield new_adapter
    reset_adapters()


class Configs(dict[str, Any]):
    """Configs as a node has them: by name, and as attributes."""

    __getattr__ = dict.__getitem__


@pytest.fixture
def render(adapter: RowmergeAdapter) -> Callable[..., str]:
    """Call a macro as a model with the given configs does, and return its output without empty lines."""

    def call(macro: str, *, config: dict[str, Any] | None = None, **arguments: Any) -> str:
        model = SimpleNamespace(config=Configs(config or {}))
        text = str(adapter.execute_macro(macro, kwargs=arguments, context_override={"config": config or {}, "model": model}))
        return "\n".join(line.rstrip() for line in text.strip().splitlines() if line.strip())

    return call


@pytest.fixture
def target(adapter: RowmergeAdapter) -> Any:
    return adapter.Relation.create(schema="main", identifier="orders", type="table")


@pytest.fixture
def source(adapter: RowmergeAdapter, target: Any) -> Any:
    return adapter.query_relation(target, "select * from new_orders")


@pytest.fixture
def columns() -> list[RowmergeColumn]:
    return [RowmergeColumn("id", "int"), RowmergeColumn("day", "date"), RowmergeColumn("amount", "decimal(10,2)")]
