"""Make the column references of an expression unmistakable: put the alias of their side before them. Say which qualifiers mean a side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import Token, TokenType, exp

from rowmerge.commands.names import CATALOGS
from rowmerge.errors import PlanError
from rowmerge.plan.expressions.column_refs import Reference, parse, references, rewrite, tokens_of
from rowmerge.plan.expressions.conditions import Side, is_same_name, resolve
from rowmerge.table.metadata.schema import Struct, backquote

OWN_ALIAS = "__rowmerge_%s"
"""The alias of a side that has none of its own, where the last part of its name means the other side too."""

Edit = tuple[int, int, str]
_EXCEPT = re.compile(r"\s*except\b", re.IGNORECASE)


def qualify(text: str, side: Side, *, case_sensitive: bool = False) -> str:
    """Return an expression over one side with the side's alias before every column reference.

    Only certain references to columns of the side change: no lambda variables, fields, function names, units or names in subqueries.
    Text that cannot be parsed is returned unchanged.
    """
    return _with_aliases(text, (side,), case_sensitive, adds_alias=True)


def replace_qualifiers(text: str, sides: Sequence[Side], *, case_sensitive: bool = False) -> str:
    """Return an expression over these sides with each side's other names (`analytics.orders.id`) replaced by its alias.

    Stars are written out, since the rows also carry columns of the engine. Text that cannot be parsed is returned unchanged.
    """
    return _with_aliases(text, sides, case_sensitive, adds_alias=False)


def _with_aliases(text: str, sides: Sequence[Side], case_sensitive: bool, *, adds_alias: bool) -> str:
    """Return a text with qualifiers and stars replaced. `adds_alias`: columns without a qualifier get the alias of their side."""
    tree = parse(text)
    column_references = references(tree, text) if tree is not None else None
    if tree is None or column_references is None:
        return text
    edits = [*_qualifier_edits(tree, text, column_references, sides, case_sensitive), *_star_edits(tree, text, sides)]
    for reference in column_references if adds_alias else ():
        resolved = resolve(reference.parts, sides, case_sensitive=case_sensitive)
        if resolved is not None and not resolved.qualifiers and not reference.in_query:
            start = reference.starts[0]
            edits.append((start, start, f"{backquote(resolved.side.alias)}."))
    return rewrite(text, edits)


def _qualifier_edits(
    tree: exp.Expr, text: str, column_references: list[Reference], sides: Sequence[Side], case_sensitive: bool
) -> Iterator[Edit]:
    """Yield the edits that replace qualifiers by the alias of their side, and `t.*` by the side's columns."""
    query_tables = {table.name.lower() for table in tree.find_all(exp.Table)}
    for reference in column_references:
        side, length = _qualifier(reference, sides, case_sensitive)
        if side is None:
            continue
        qualifier = reference.parts[:length]
        # A subquery that reads a table of this very name means its own rows by it.
        is_hidden = reference.in_query and (length == 1 or qualifier[-1].lower() in query_tables)
        if _is_plain_star(reference, text):
            yield reference.starts[0], reference.ends[-1], _columns((side,))
        elif not is_hidden and not is_same_name(qualifier, (side.alias,), case_sensitive):
            yield reference.starts[0], reference.ends[length - 1], backquote(side.alias)


def _is_plain_star(reference: Reference, text: str) -> bool:
    """Return whether a reference is a `t.*` outside of subqueries and without EXCEPT."""
    return reference.parts[-1] == "*" and not reference.in_query and not _EXCEPT.match(text, reference.ends[-1])


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
    """Yield an edit for each `*` without a qualifier that means all columns: `struct(*)` becomes `struct(t.a, t.b)`.

    `* EXCEPT (a)` becomes `t.* EXCEPT (a)` if there is one side. Nothing changes if the `*` may be that of count(*) or of a subquery.
    """
    has_star = any(not isinstance(star.parent, exp.Column) for star in tree.find_all(exp.Star))
    if not has_star or tree.find(exp.Query, exp.Count) is not None:
        return
    for star, next_type in _star_arguments(tokens_of(text) or []):
        if next_type in (TokenType.R_PAREN, TokenType.COMMA):
            yield star.start, star.end + 1, _columns(sides)
        elif next_type is TokenType.EXCEPT and len(sides) == 1:
            yield star.start, star.start, f"{backquote(sides[0].alias)}."


def _star_arguments(tokens: list[Token]) -> Iterator[tuple[Token, TokenType]]:
    """Yield each `*` that begins an argument, with the type of the next token. Behind an operand, a `*` is a multiplication."""
    for previous, token, following in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if token.token_type is TokenType.STAR and previous.token_type in (TokenType.L_PAREN, TokenType.COMMA):
            yield token, following.token_type


def side_of(parts: tuple[str, ...], alias: str | None, columns: tuple[str, ...]) -> Side:
    """Return a table as a side. As in Spark, an alias hides the table's name. Without one, every ending of the name means the table."""
    if alias is not None:
        return Side(alias, (), columns)
    names = [parts[start:] for start in range(len(parts) - 1)]
    if len(parts) == 2:
        names += [(catalog, *parts) for catalog in CATALOGS]
    return Side(parts[-1], tuple(names), columns)


def apart_from(side: Side, other: Side, role: str) -> Side:
    """Return a side under another alias than the other side's. Schemas then tell two tables of one name apart."""
    if side.alias.lower() != other.alias.lower():
        return side
    return replace(side, alias=OWN_ALIAS % role, names=((side.alias,), *side.names))


def check_apart(target: Side, source: Side) -> None:
    """Raise PlanError if one name means both sides: an alias given twice, or one table twice without an alias."""
    if target.alias.lower() == source.alias.lower():
        raise PlanError(f"Target and source of the MERGE are both called `{target.alias}`. Give one of them another alias.")


def without_qualifier(path: tuple[str, ...], target: Side, schema: Struct) -> tuple[str, ...]:
    """Return the path of a column that is written to, without the names of the target before it."""
    for name in sorted({(target.alias,), *target.names}, key=len, reverse=True):
        qualifier, column_path = path[: len(name)], path[len(name) :]
        is_qualified = is_same_name(qualifier, name, case_sensitive=False)
        if is_qualified and column_path and schema.find(column_path[0]) is not None:
            return column_path
    return path
