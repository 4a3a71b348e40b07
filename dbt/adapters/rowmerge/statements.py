"""Cuts a text of several SQL statements at its semicolons."""

from __future__ import annotations

import re

# Quoted text, quoted names, bodies of functions and comments, in which a semicolon ends nothing. A backslash escapes inside strings only,
# and not in raw ones. Comments nest, as in Spark: the pattern finds where one begins, `_end_of_comment` where it ends.
_TOKEN = re.compile(
    r"""
    (?<!\w)[rR]'[^']*' | (?<!\w)[rR]"[^"]*"
    | '(?:\\.|[^'\\])*' | "(?:\\.|[^"\\])*" | `(?:``|[^`])*`
    | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$
    | --(?:\\\n|[^\n])* | /\*
    | ;
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


def split(text: str) -> list[str]:
    """The statements of a text in order, without their semicolons; pieces of nothing but space and comments are left out.

    Each keeps its line number: it begins with as many line feeds as stood before it.
    """
    pieces, start, at, said = [], 0, 0, False
    while (token := _TOKEN.search(text, at)) is not None:
        said = said or bool(text[at : token.start()].strip()) or token.group()[:1] not in ";-/"
        at = token.end()
        if token.group() == "/*":
            at = _end_of_comment(text, at)
        elif token.group() == ";":
            pieces.append((start, text[start : token.start()], said))
            start, said = at, False
    pieces.append((start, text[start:], said or bool(text[at:].strip())))
    return ["\n" * text.count("\n", 0, begin) + piece for begin, piece, says in pieces if says]


def _end_of_comment(text: str, at: int) -> int:
    """The place behind a comment whose text begins at `at`; the text's end when nothing closes it."""
    depth = 1
    for edge in _COMMENT_EDGE.finditer(text, at):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    return len(text)
