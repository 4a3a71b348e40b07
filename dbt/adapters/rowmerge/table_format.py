"""The formats of tables: which one a model's table has, and which of its configs mean nothing there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, List

from dbt_common.exceptions import CompilationError

from dbt.adapters.rowmerge.model_config import value_of

FORMATS = ("delta", "iceberg")
CHOICES = " or ".join(f"`{name}`" for name in FORMATS)


def table_format(config: Any, default: str) -> str:
    """The format that a model's table has: its `file_format`, or else the profile's; an empty one is none. `config` has dict's `get`.

    Raises CompilationError that lists everything wrong with the configs that depend on it.
    """
    asked = value_of(config, ("file_format",))
    chosen = default if asked is None else str(asked).lower()
    problems = [f"file_format is {asked!r}. Set it to {CHOICES}."] if chosen not in FORMATS else _foreign_properties(config, chosen)
    if str(config.get("table_format") or "default").lower() != "default":
        problems.append("table_format is a config of other adapters. Say it with file_format.")
    if isinstance(config.get("partition_by"), Mapping):
        problems.append("partition_by is a mapping, as BigQuery has it. Write a column's name, or a list of columns and transforms.")
    if problems:
        raise CompilationError("The table cannot be built:\n" + "\n".join(f"- {problem}" for problem in problems))
    return chosen


def _foreign_properties(config: Any, chosen: str) -> List[str]:
    names = sorted(str(name) for name in config.get("tblproperties") or {} if str(name).startswith("delta."))
    if chosen == "delta" or not names:
        return []
    return [f"tblproperties: {', '.join(names)} belong to Delta tables, and this one is to be Iceberg. Leave them out."]
