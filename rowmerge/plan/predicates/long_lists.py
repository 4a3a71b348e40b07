"""IN lists with many members, which sqlglot would parse slowly: the list is divided from the condition by a regular expression."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from rowmerge.plan.bounds.bounds import INTEGERS
from rowmerge.plan.predicates.literals import Constant, constant
from rowmerge.table.metadata.schema import DataType, Primitive

_MIN_LENGTH = 500
"""The least length of a condition in characters for which its list is divided from it."""
_CONDITION = re.compile(r"\s*[\w.`\s]*?[\s`]IN\s*\(", re.IGNORECASE)
"""The text before the list in `name IN (1, 2, …)` or `name NOT IN (1, 2, …)`. The name has no comment and no operator."""
_INTEGERS = re.compile(r"\s*-?[0-9]{1,18}\s*(?:,\s*-?[0-9]{1,18}\s*)*\)\s*")
_STRINGS = re.compile(r"\s*'[^'\\]*'\s*(?:,\s*'[^'\\]*'\s*)*\)\s*")
_IN = re.compile(r"\bIN\s*\(", re.IGNORECASE)
_MARKER = 7_310_456_120_000_000
"""The least of the numbers that replace long lists in a shortened condition."""
_STRING = re.compile(r"'([^']*)'")


@dataclass(frozen=True)
class LongList:
    """A condition `name IN (list)`. `text`: the condition with only one member. `members`: all members, as integers or as strings."""

    text: str
    members: list[int] | list[str]

    @property
    def _has_strings(self) -> bool:
        return isinstance(self.members[0], str)

    def values(self, type_: DataType) -> pa.Array | None:
        """Return the members as values of a type, or None if the type is neither that of the members nor a similar one."""
        if self._has_strings:
            return pa.array(self.members, pa.string()) if type_ == Primitive("string") else None
        return pa.array(self.members, pa.int64()) if isinstance(type_, Primitive) and type_.name in INTEGERS else None

    def literals(self) -> list[Constant]:
        """Return the members as literals."""
        create = exp.Literal.string if self._has_strings else exp.Literal.number
        literals = [constant(create(member)) for member in self.members]
        return [literal for literal in literals if literal is not None]


def divide_long_list(text: str) -> LongList | None:
    """Return a condition `name IN (list)` with a long list of integers or strings, or None for any other condition."""
    head = _CONDITION.match(text) if len(text) >= _MIN_LENGTH else None
    if head is None:
        return None
    if _INTEGERS.fullmatch(text, head.end()):
        members = [int(member) for member in text[head.end() : text.rindex(")")].split(",")]
        return LongList(f"{head.group()}0)", members)
    if _STRINGS.fullmatch(text, head.end()):
        return LongList(f"{head.group()}'')", _STRING.findall(text, head.end()))
    return None


def shorten_lists(text: str, list_count: int = 0) -> tuple[str, dict[str, str]]:
    """Replace the long lists of integers or strings after IN by lists with one member, so that sqlglot parses the text fast.

    Args:
        text: The text of a condition.
        list_count: The number of lists that earlier calls replaced. Replacements with other numbers are different.

    Returns:
        The short text, and each replaced list by its replacement, for `with_replacements`.
    """
    lists: dict[str, str] = {}
    pieces, offset = list[str](), 0
    for opening in _IN.finditer(text) if len(text) >= _MIN_LENGTH else ():
        is_integers = _INTEGERS.match(text, opening.end())
        members = is_integers or _STRINGS.match(text, opening.end())
        if members is None or opening.end() < offset or len(members.group()) < _MIN_LENGTH:
            continue
        marker = _MARKER + list_count + len(lists)
        replacement = f"{marker})" if is_integers else f"'{marker}')"
        if replacement in text:
            return text, {}
        lists[replacement] = members.group()
        pieces += [text[offset : opening.end()], replacement]
        offset = members.end()
    return "".join([*pieces, text[offset:]]), lists
