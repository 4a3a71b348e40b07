"""Read the values of a model's configs, and report errors in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from dbt_common.exceptions import CompilationError


def value_of(config: Any, names: Iterable[str]) -> Any:
    """Return the value of the first config in `names` that has a value, or None if none of them has a value.

    Args:
        config: The configs of a model, or another object with the method `get` of a dictionary.
        names: The synonyms for one config, in order of precedence.
    """
    return next((config.get(name) for name in names if has_value(config, name)), None)


def has_value(config: Any, name: str) -> bool:
    """Return whether a config has a value. An empty string, list or mapping does not count as a value, but `false` does.

    Args:
        config: The configs of a model, or another object with the method `get` of a dictionary.
        name: The name of the config.
    """
    value = config.get(name)
    return value is not None and (isinstance(value, (bool, int, float)) or bool(value))


def is_true(config: Any, name: str) -> bool:
    """Return whether a config is true. In YAML and Jinja, the value may also be the string `true`.

    Args:
        config: The configs of a model, or another object with the method `get` of a dictionary.
        name: The name of the config.
    """
    return str(config.get(name)).strip().lower() == "true"


def as_list(value: Any) -> list[str]:
    """Return the value of a config as a list of strings. The value may be a single string or a list."""
    return [value] if isinstance(value, str) and value else [str(item) for item in value or ()]


def text_mapping(value: Any) -> dict[str, str]:
    """Return the value of a config as a mapping of strings, or an empty mapping if the value is not a mapping."""
    return {str(name): str(text) for name, text in value.items()} if isinstance(value, Mapping) else {}


def synonym_problems(config: Any, *groups: Iterable[str]) -> list[str]:
    """Return an error message for each group of synonyms in which more than one name has a value."""
    names_in_use = [[name for name in group if has_value(config, name)] for group in groups]
    return [f"{' and '.join(names)} are names of the same config. Keep one of them." for names in names_in_use if len(names) > 1]


def suggest_names(name: str, choices: Iterable[str]) -> str:
    """Return advice for an unknown name, which lists similar choices, or all choices if none is similar.

    Args:
        name: The unknown name.
        choices: The valid names.
    """
    names = list(choices)
    similar_names = get_close_matches(name.lower(), [choice.lower() for choice in names], n=2, cutoff=0.6)
    return f"Did you mean {' or '.join(similar_names)}?" if similar_names else f"There are: {', '.join(names)}."


def raise_problems(problems: Iterable[str], headline: str = "The model cannot be built:") -> None:
    """Raise an error that lists problems below a headline. Do nothing if there are no problems.

    Args:
        problems: A message for each error in the configs.
        headline: The first line of the message.

    Raises:
        CompilationError: There is at least one problem.
    """
    if lines := [f"- {problem}" for problem in problems]:
        raise CompilationError("\n".join([headline, *lines]))
