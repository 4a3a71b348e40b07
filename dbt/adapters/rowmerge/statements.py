"""Cuts a text of several SQL statements at its semicolons."""

from __future__ import annotations

import re

# Quoted text, quoted names and comments, in which a semicolon ends nothing. A backslash escapes inside strings only.
_TOKEN = re.compile(
    r"""
    '(?:\\.|[^'\\])*' | "(?:\\.|[^"\\])*" | `(?:``|[^`])*`
    | --[^\n]* | /\*.*?\*/
    | ;
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


def split(text: str) -> list[str]:
    """The statements of a text in order, without their semicolons; pieces of nothing but space and comments are left out.

    Each keeps its line number: it begins with as many line feeds as stood before it.
    """
    pieces, start = [], 0
    for token in _TOKEN.finditer(text):
        if token.group() == ";":
            pieces.append((start, text[start : token.start()]))
            start = token.end()
    pieces.append((start, text[start:]))
    return ["\n" * text.count("\n", 0, at) + piece for at, piece in pieces if _COMMENT.sub("", piece).strip()]
