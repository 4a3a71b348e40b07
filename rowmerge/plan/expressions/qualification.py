"""Column references of an expression made unmistakable: the alias of their side is put before them, by position in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sqlglot import Token, TokenType, exp

from rowmerge.plan.expressions.column_refs import Reference, parse, references, rewrite, tokens_of
from rowmerge.plan.expressions.conditions import Side, resolve
from rowmerge.table.metadata.schema import backquote

Edit = tuple[int, int, str]
_EXCEPT = re.compile(r"\s*except\b", re.IGNORECASE)


def qualify(text: str, side: Side, *, case_sensitive: bool = False) -> str:
    """An expression that sees one side only, with the side's alias before every reference to it.

    Whatever is no certain reference to a column of the side stays as written: lambda variables, fields, function names, units,
    what stands in a subquery. Text that cannot be parsed comes back unchanged.
    """
    tree = parse(text)
    found = references(tree, text) if tree is not None else None
    if tree is None or found is None:
        return text
    edits = list(_other_names(tree, text, found, (side,), case_sensitive))
    for reference in found:
        resolved = None if reference.in_query else resolve(reference.parts, (side,), case_sensitive=case_sensitive)
        if resolved is not None and not resolved.qualifiers:
            edits.append((reference.starts[0], reference.starts[0], f"{backquote(side.alias)}."))
    return rewrite(text, [*edits, *_bare_stars(tree, text, (side,))])


def replace_qualifiers(text: str, sides: Sequence[Side], *, case_sensitive: bool = False) -> str:
    """An expression that sees all of these sides, with each side's other names (`analytics.orders.id`) replaced by its alias.

    Stars are written out, since the rows carry columns of the engine's too. Nothing else changes; text that cannot be parsed comes back
    as it is.
    """
    tree = parse(text)
    found = references(tree, text) if tree is not None else None
    if tree is None or found is None:
        return text
    return rewrite(text, [*_other_names(tree, text, found, sides, case_sensitive), *_bare_stars(tree, text, sides)])


def _other_names(tree: exp.Expr, text: str, found: list[Reference], sides: Sequence[Side], case_sensitive: bool) -> Iterator[Edit]:
    read_inside = {table.name.lower() for table in tree.find_all(exp.Table)}
    for reference in found:
        meant = _qualifier(reference, sides, case_sensitive)
        if meant is None:
            continue
        side, length = meant
        if reference.parts[-1] == "*" and not reference.in_query and not _EXCEPT.match(text, reference.ends[-1]):
            yield reference.starts[0], reference.ends[-1], _columns((side,))
            continue
        # A subquery that reads a table of this very name means its own rows by it.
        hidden = reference.in_query and (length == 1 or reference.parts[length - 1].lower() in read_inside)
        if not hidden and not (length == 1 and _equal(reference.parts[0], side.alias, case_sensitive)):
            yield reference.starts[0], reference.ends[length - 1], backquote(side.alias)


def _qualifier(reference: Reference, sides: Sequence[Side], case_sensitive: bool) -> tuple[Side, int] | None:
    """The side that the reference names by a qualifier, and the number of parts in it."""
    if reference.parts[-1] != "*":
        resolved = resolve(reference.parts, sides, case_sensitive=case_sensitive)
        return (resolved.side, resolved.qualifiers) if resolved is not None and resolved.qualifiers else None
    written = reference.parts[:-1]
    meant = [
        side
        for side in sides
        for name in {(side.alias,), *side.names}
        if len(name) == len(written) and all(_equal(a, b, case_sensitive) for a, b in zip(name, written, strict=True))
    ]
    return (meant[0], len(written)) if len(meant) == 1 else None


def _equal(left: str, right: str, case_sensitive: bool) -> bool:
    return left == right or (not case_sensitive and left.lower() == right.lower())


def _columns(sides: Sequence[Side]) -> str:
    return ", ".join(f"{backquote(side.alias)}.{backquote(name)}" for side in sides for name in side.columns)


def _bare_stars(tree: exp.Expr, text: str, sides: Sequence[Side]) -> Iterator[Edit]:
    """Each `*` that stands for all columns (`struct(*)`); count(*) counts rows and is left alone, as is all when in doubt."""
    tokens: list[Token] = tokens_of(text) or []
    stars = [star for star in tree.find_all(exp.Star) if not isinstance(star.parent, exp.Column)]
    if not stars or tree.find(exp.Query, exp.Count) is not None:
        return
    before, after = (TokenType.L_PAREN, TokenType.COMMA), (TokenType.R_PAREN, TokenType.COMMA, TokenType.EXCEPT)
    for previous, token, following in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if token.token_type is TokenType.STAR and previous.token_type in before and following.token_type in after:
            if following.token_type is not TokenType.EXCEPT:
                yield token.start, token.end + 1, _columns(sides)
            elif len(sides) == 1:
                yield token.start, token.start, f"{backquote(sides[0].alias)}."
