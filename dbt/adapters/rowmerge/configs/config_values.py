"""Read the values of a model's configs, and report errors in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from dbt_common.exceptions import CompilationError


def value_of(config: Any, names: Iterable[str]) -> Any:
    """Return the value of the first of several config names that has a value, else None.

    Args:
        config: The configs of a model, or another object with the method `get` of a dictionary.
        names: The names of one config, in the order of their precedence.
    """
    return next((config.get(name) for name in names if has_value(config, name)), None)


def has_value(config: Any, name: str) -> bool:
    """Return whether a config has a value. An empty text, list or mapping is no value. `false` is a value.

    Args:
        config: The configs of a model, or another object with the method `get` of a dictionary.
        name: The name of the config.
    """
    value = config.get(name)
    return value is not None and (isinstance(value, (bool, int, float)) or bool(value))


def is_true(config: Any, name: str) -> bool:
    """Return whether a config is true. In YAML and Jinja, the value may be the text `true`.

    Args:
        config: The configs of a model, or another object with the method `get` of a dictionary.
        name: The name of the config.
    """
    return str(config.get(name)).strip().lower() == "true"


def as_list(value: Any) -> list[str]:
    """Return the value of a config as a list of texts. The value may be one text or a list."""
    return [value] if isinstance(value, str) and value else [str(item) for item in value or ()]


def text_mapping(value: Any) -> dict[str, str]:
    """Return the value of a config as a mapping of texts; an empty one for a value that is no mapping."""
    return {str(name): str(text) for name, text in value.items()} if isinstance(value, Mapping) else {}


def synonym_problems(config: Any, *groups: Iterable[str]) -> list[str]:
    """Return a sentence for each group of names of one config in which several names have a value."""
    names_in_use = [[name for name in group if has_value(config, name)] for group in groups]
    return [f"{' and '.join(names)} say the same thing. Keep one of them." for names in names_in_use if len(names) > 1]


def suggest_names(name: str, choices: Iterable[str]) -> str:
    """Return the advice for an unknown name: the choices that resemble it, or all choices.

    Args:
        name: The unknown name.
        choices: The valid names.
    """
    names = list(choices)
    similar_names = get_close_matches(name.lower(), [choice.lower() for choice in names], n=2, cutoff=0.6)
    return f"Did you mean {' or '.join(similar_names)}?" if similar_names else f"There are: {', '.join(names)}."


def raise_problems(problems: Iterable[str], headline: str = "The model cannot be built:") -> None:
    """Raise an error that lists problems below a headline. Do nothing without problems.

    Args:
        problems: A sentence for each error in the configs.
        headline: The first line of the message.

    Raises:
        CompilationError: There is at least one problem.
    """
    if lines := [f"- {problem}" for problem in problems]:
        raise CompilationError("\n".join([headline, *lines]))
