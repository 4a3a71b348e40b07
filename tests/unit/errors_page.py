"""docs/errors.md: its text, with the causes and remedies from the docstrings of the error classes. As a program, it prints the page."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import rowmerge
from rowmerge.errors import RowmergeError

TEXT = Path(__file__).with_suffix(".md")
DEEPEST_HEADING = 4
RAISED = "Raised when "


@dataclass(frozen=True)
class Entry:
    """What a docstring says about an error: its first paragraph, the paragraph that begins with `Remedy:`, and the others."""

    cause: str
    remedy: str
    fields: str


def document() -> str:
    """Return the text of the page."""
    errors = [(error, depth) for error, depth in _subclasses(RowmergeError) if error.__module__.startswith("rowmerge.")]
    index = [f"| [{error.__name__}](#{error.__name__.lower()}) | {entry(error).cause.removeprefix(RAISED)} |" for error, _ in errors]
    sections = [_section(error, depth) for error, depth in errors]
    signals = [_section(error, 2) for error in exception_classes() if not issubclass(error, RowmergeError)]
    text = TEXT.read_text(encoding="utf-8").replace("{index}", "\n".join(index))
    return text.replace("{errors}", "\n\n".join(sections)).replace("{signals}", "\n\n".join(signals))


def exception_classes() -> list[type[Exception]]:
    """Return every exception class that a module of the engine defines."""
    names = [module.name for module in pkgutil.walk_packages(rowmerge.__path__, "rowmerge.") if not module.name.endswith("__main__")]
    members = [(name, member) for name in names for _, member in inspect.getmembers(importlib.import_module(name), inspect.isclass)]
    return [member for name, member in members if issubclass(member, Exception) and member.__module__ == name]


def entry(error: type[Exception]) -> Entry:
    """Return what the class's own docstring says. The remedy is empty if there is none."""
    cause, *others = [paragraph.replace("\n", " ") for paragraph in inspect.cleandoc(error.__doc__ or "").split("\n\n")]
    remedies = [paragraph.removeprefix("Remedy: ") for paragraph in others if paragraph.startswith("Remedy: ")]
    return Entry(cause, " ".join(remedies), " ".join(paragraph for paragraph in others if not paragraph.startswith("Remedy: ")))


def _subclasses(error: type[Exception], depth: int = 1) -> Iterator[tuple[type[Exception], int]]:
    """Yield a class and its subclasses at any depth, each with its depth, in the order of their definition."""
    yield error, depth
    for subclass in error.__subclasses__():
        yield from _subclasses(subclass, depth + 1)


def _section(error: type[Exception], depth: int) -> str:
    content = entry(error)
    heading = f"{'#' * min(depth + 1, DEEPEST_HEADING)} {error.__name__}"
    paragraphs = [content.cause, f"**Remedy:** {content.remedy}", content.fields and f"**Fields:** {content.fields}"]
    return "\n\n".join([heading, *(_links(paragraph) for paragraph in paragraphs if paragraph)])


def _links(text: str) -> str:
    """Return the text with links to the pages of documentation that it names."""
    return re.sub(r"docs/(\w+\.md)", r"[\1](\1)", text)


if __name__ == "__main__":
    sys.stdout.write(document())
