"""How to read the value of a config, and how to report errors in configs."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from dbt_common.exceptions import CompilationError


def value_of(config: Any, names: Iterable[str]) -> Any:
    """Return the value of the first of these names that has one, or None. `config` has dict's `get`."""
    return next((config.get(name) for name in names if has_value(config, name)), None)


def has_value(config: Any, name: str) -> bool:
    """Return whether a config has a value. An empty text, list or mapping is no value; `false` is a value."""
    value = config.get(name)
    return value is not None and (isinstance(value, (bool, int, float)) or bool(value))


def is_true(config: Any, name: str) -> bool:
    """Return a config that is true or false, also where YAML or Jinja turned it into a text."""
    return str(config.get(name)).strip().lower() == "true"


def as_list(value: Any) -> list[str]:
    """Return a config that may be a text or a list of texts as a list."""
    return [value] if isinstance(value, str) and value else [str(item) for item in value or ()]


def synonym_problems(config: Any, *groups: Iterable[str]) -> list[str]:
    """Return an error for each group of names with the same meaning if several of them have a value."""
    configured = [[name for name in names if has_value(config, name)] for names in groups]
    return [f"{' and '.join(names)} say the same thing. Keep one of them." for names in configured if len(names) > 1]


def suggest_names(name: str, choices: Iterable[str]) -> str:
    """Return the advice for an unknown name: the choices that resemble it, or all choices."""
    names = list(choices)
    similar_names = get_close_matches(name.lower(), [choice.lower() for choice in names], n=2, cutoff=0.6)
    return f"Did you mean {' or '.join(similar_names)}?" if similar_names else f"There are: {', '.join(names)}."


def raise_problems(problems: Iterable[str], headline: str = "The model cannot be built:") -> None:
    """Raise CompilationError that lists the errors below the headline; without errors do nothing."""
    if lines := [f"- {problem}" for problem in problems]:
        raise CompilationError("\n".join([headline, *lines]))
