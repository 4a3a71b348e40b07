"""Column references of an expression made unmistakable: the alias of their side is put before them, by position in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sqlglot import Token, TokenType, exp

from rowmerge.plan.expressions.column_refs import Reference, parse, references, rewrite, tokens_of
from rowmerge.plan.expressions.conditions import Side, is_same_name, resolve
from rowmerge.table.metadata.schema import backquote

Edit = tuple[int, int, str]
_EXCEPT = re.compile(r"\s*except\b", re.IGNORECASE)


def qualify(text: str, side: Side, *, case_sensitive: bool = False) -> str:
    """Return an expression over one side with the side's alias before every column reference.

    Only certain references to columns of the side change: no lambda variables, fields, function names, units or names in subqueries.
    Text that cannot be parsed is returned unchanged.
    """
    tree = parse(text)
    column_references = references(tree, text) if tree is not None else None
    if tree is None or column_references is None:
        return text
    edits = [*_qualifier_edits(tree, text, column_references, (side,), case_sensitive), *_star_edits(tree, text, (side,))]
    for reference in column_references:
        resolved = resolve(reference.parts, (side,), case_sensitive=case_sensitive)
        if resolved is not None and not resolved.qualifiers and not reference.in_query:
            edits.append((reference.starts[0], reference.starts[0], f"{backquote(side.alias)}."))
    return rewrite(text, edits)


def replace_qualifiers(text: str, sides: Sequence[Side], *, case_sensitive: bool = False) -> str:
    """Return an expression over these sides with each side's other names (`analytics.orders.id`) replaced by its alias.

    Stars are written out, since the rows also carry columns of the engine. Text that cannot be parsed is returned unchanged.
    """
    tree = parse(text)
    column_references = references(tree, text) if tree is not None else None
    if tree is None or column_references is None:
        return text
    return rewrite(text, [*_qualifier_edits(tree, text, column_references, sides, case_sensitive), *_star_edits(tree, text, sides)])


def _qualifier_edits(
    tree: exp.Expr, text: str, column_references: list[Reference], sides: Sequence[Side], case_sensitive: bool
) -> Iterator[Edit]:
    """Yield the edits that replace qualifiers by the alias of their side, and `t.*` by the side's columns."""
    query_tables = {table.name.lower() for table in tree.find_all(exp.Table)}
    for reference in column_references:
        side, length = _qualifier(reference, sides, case_sensitive)
        if side is None:
            continue
        if reference.parts[-1] == "*" and not reference.in_query and not _EXCEPT.match(text, reference.ends[-1]):
            yield reference.starts[0], reference.ends[-1], _columns((side,))
            continue
        # A subquery that reads a table of this very name means its own rows by it.
        is_hidden = reference.in_query and (length == 1 or reference.parts[length - 1].lower() in query_tables)
        is_alias = is_same_name(reference.parts[:length], (side.alias,), case_sensitive)
        if not is_hidden and not is_alias:
            yield reference.starts[0], reference.ends[length - 1], backquote(side.alias)


def _qualifier(reference: Reference, sides: Sequence[Side], case_sensitive: bool) -> tuple[Side | None, int]:
    """Return the side that a reference names by its qualifier, or None, and the number of parts in the qualifier."""
    if reference.parts[-1] != "*":
        resolved = resolve(reference.parts, sides, case_sensitive=case_sensitive)
        return (resolved.side, resolved.qualifiers) if resolved is not None and resolved.qualifiers else (None, 0)
    qualifier = reference.parts[:-1]
    matches = [side for side in sides for name in {(side.alias,), *side.names} if is_same_name(name, qualifier, case_sensitive)]
    return (matches[0], len(qualifier)) if len(matches) == 1 else (None, 0)


def _columns(sides: Sequence[Side]) -> str:
    return ", ".join(f"{backquote(side.alias)}.{backquote(name)}" for side in sides for name in side.columns)


def _star_edits(tree: exp.Expr, text: str, sides: Sequence[Side]) -> Iterator[Edit]:
    """Yield an edit for each `*` that stands for all columns (`struct(*)`), none if count(*) or a subquery makes that uncertain."""
    stars = [star for star in tree.find_all(exp.Star) if not isinstance(star.parent, exp.Column)]
    if not stars or tree.find(exp.Query, exp.Count) is not None:
        return
    tokens: list[Token] = tokens_of(text) or []
    for previous, token, following in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if token.token_type is not TokenType.STAR or previous.token_type not in (TokenType.L_PAREN, TokenType.COMMA):
            continue
        if following.token_type in (TokenType.R_PAREN, TokenType.COMMA):
            yield token.start, token.end + 1, _columns(sides)
        elif following.token_type is TokenType.EXCEPT and len(sides) == 1:
            yield token.start, token.start, f"{backquote(sides[0].alias)}."
