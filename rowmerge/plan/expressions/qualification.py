"""Qualification of column references by the alias of their side, so that they are unambiguous in a join of both sides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import Token, TokenType, exp

from rowmerge.commands.names import CATALOGS
from rowmerge.errors import PlanError
from rowmerge.plan.expressions.column_refs import Reference, parse, references, rewrite, tokens_of
from rowmerge.plan.expressions.sides import Side, is_same_name, resolve
from rowmerge.table.metadata.schema import Struct, backquote

OWN_ALIAS = "__rowmerge_%s"
"""The generated alias of a side that has no alias, if the last part of its name is also a name of the other side."""

Edit = tuple[int, int, str]
"""The start and the end offset of the text to replace, and the replacement. If the offsets are equal, it is inserted there."""
_EXCEPT = re.compile(r"\s*except\b", re.IGNORECASE)


def qualify(text: str, side: Side, *, case_sensitive: bool = False) -> str:
    """Return an expression over one side in which every column reference is qualified by the side's alias.

    A name is changed only if it is certainly a column of the side. Lambda variables, nested fields, function names, units of time and names
    in subqueries remain unchanged.

    Args:
        text: The SQL text of the expression. Text that sqlglot cannot parse is returned unchanged, and Spark validates it.
        side: The side whose columns the expression uses.
        case_sensitive: Whether names that differ only in case are different, as with spark.sql.caseSensitive.
    """
    return _rewrite_references(text, (side,), case_sensitive, qualifies_columns=True)


def replace_qualifiers(text: str, sides: Sequence[Side], *, case_sensitive: bool = False) -> str:
    """Return an expression in which the qualifiers of columns, such as `analytics.orders`, are replaced by the aliases of their sides.

    Stars are replaced by the list of columns, because the joined rows also contain internal columns of the engine.

    Args:
        text: The SQL text of the expression. Text that sqlglot cannot parse is returned unchanged, and Spark validates it.
        sides: The sides whose columns the expression uses.
        case_sensitive: Whether names that differ only in case are different, as with spark.sql.caseSensitive.
    """
    return _rewrite_references(text, sides, case_sensitive, qualifies_columns=False)


def _rewrite_references(text: str, sides: Sequence[Side], case_sensitive: bool, *, qualifies_columns: bool) -> str:
    """Return an expression in which qualifiers are replaced by the aliases of their sides, and stars by columns.

    For the side `o` with the columns `id` and `price`, `struct(*), db.orders.id` becomes `struct(o.id, o.price), o.id`.

    `qualifies_columns`: whether columns without a qualifier also get the alias of their side, as in `o.price` for `price`.
    """
    tree = parse(text)
    column_references = references(tree, text) if tree is not None else None
    if tree is None or column_references is None:
        return text  # the columns are uncertain, and Spark resolves the names or reports the error
    edits = [*_qualifier_edits(tree, text, column_references, sides, case_sensitive), *_star_edits(tree, text, sides)]
    if qualifies_columns:
        edits += _alias_edits(column_references, sides, case_sensitive)
    return rewrite(text, edits)


def _alias_edits(column_references: list[Reference], sides: Sequence[Side], case_sensitive: bool) -> Iterator[Edit]:
    """Yield the edits that add the alias of a side to each of its columns that has no qualifier, except in subqueries."""
    for reference in column_references:
        resolved = resolve(reference.parts, sides, case_sensitive=case_sensitive)
        if resolved is not None and not resolved.qualifier_size and not reference.in_query:
            yield reference.start, reference.start, f"{backquote(resolved.side.alias)}."


def _qualifier_edits(
    tree: exp.Expr, text: str, column_references: list[Reference], sides: Sequence[Side], case_sensitive: bool
) -> Iterator[Edit]:
    """Yield the edits (start, end, replacement) of each qualifier to the alias of its side, and of `t.*` to the side's columns.

    `analytics.orders.id` becomes `orders.id`, because the engine joins the sides under their aliases, and Spark does not know their other
    names. The qualifier is kept if it is the alias already. It is also kept if it can be a table of a subquery, even if a side has the same
    name: `o.id` in `exists (select 1 from items o where o.id = 1)`.
    """
    query_tables = {table.name.lower() for table in tree.find_all(exp.Table)}
    for reference in column_references:
        side, qualifier = _qualifier(reference, sides, case_sensitive)
        if side is None:  # the name has no qualifier, or its qualifier is no side of the statement
            continue
        if _stands_for_columns(reference, text):
            yield reference.start, reference.end, _column_list((side,))
            continue
        is_alias = is_same_name(qualifier, (side.alias,), case_sensitive)
        if not is_alias and not _may_be_table_of_query(reference, qualifier, query_tables):
            yield reference.start, reference.qualifier_end(part_count=len(qualifier)), backquote(side.alias)


def _stands_for_columns(reference: Reference, text: str) -> bool:
    """Return whether a reference is a star such as `t.*`, outside subqueries. Spark itself expands the star of `t.* EXCEPT (a)`."""
    return reference.parts[-1] == "*" and not reference.in_query and not _EXCEPT.match(text, reference.end)


def _may_be_table_of_query(reference: Reference, qualifier: tuple[str, ...], query_tables: set[str]) -> bool:
    """Return whether a qualifier in a subquery can refer to a table of the subquery rather than to a side of the statement.

    `t.id` can refer to an alias `t` in the subquery, and `db.t.id` to a table `t` that the subquery reads.
    """
    return reference.in_query and (len(qualifier) == 1 or qualifier[-1].lower() in query_tables)


def _qualifier(reference: Reference, sides: Sequence[Side], case_sensitive: bool) -> tuple[Side | None, tuple[str, ...]]:
    """Return the side that the qualifier of a reference names, and the qualifier. If it names no side, return None and an empty tuple."""
    if reference.parts[-1] != "*":
        resolved = resolve(reference.parts, sides, case_sensitive=case_sensitive)
        if resolved is None or not resolved.qualifier_size:
            return None, ()
        return resolved.side, reference.parts[: resolved.qualifier_size]
    qualifier = reference.parts[:-1]
    matches = [side for side in sides for name in {(side.alias,), *side.names} if is_same_name(name, qualifier, case_sensitive)]
    return (matches[0], qualifier) if len(matches) == 1 else (None, ())


def _column_list(sides: Sequence[Side]) -> str:
    """Return all columns of the sides as a SQL list in which each column is qualified by the alias of its side."""
    return ", ".join(f"{backquote(side.alias)}.{backquote(name)}" for side in sides for name in side.columns)


def _star_edits(tree: exp.Expr, text: str, sides: Sequence[Side]) -> Iterator[Edit]:
    """Yield an edit for each unqualified `*` that stands for all columns.

    For a side `t` with the columns `a` and `b`:

    - `struct(*)` becomes `struct(t.a, t.b)`.
    - `struct(* EXCEPT (a))` becomes `struct(t.* EXCEPT (a))`, which Spark expands. With two sides, no one alias would be right.
    - `count(*)` counts rows, and the star in a subquery stands for the subquery's columns. Such an expression keeps all its stars.
    - `struct(t.*)` is qualified, so `_qualifier_edits` replaces it.
    """
    if not _has_star_of_sides(tree):
        return
    for star, following_token in _star_arguments(tokens_of(text) or []):
        if following_token.token_type in (TokenType.R_PAREN, TokenType.COMMA):  # the star is the whole argument
            yield star.start, star.end + 1, _column_list(sides)
        elif following_token.token_type is TokenType.EXCEPT and len(sides) == 1:
            yield star.start, star.start, f"{backquote(sides[0].alias)}."


def _has_star_of_sides(tree: exp.Expr) -> bool:
    """Return whether an expression has unqualified stars, none of which can belong to `count(*)` or a subquery."""
    has_unqualified_star = any(not isinstance(star.parent, exp.Column) for star in tree.find_all(exp.Star))
    # The stars are found by their tokens, which do not show whether a star belongs to `count(*)` or a subquery.
    return has_unqualified_star and tree.find(exp.Query, exp.Count) is None


def _star_arguments(tokens: list[Token]) -> Iterator[tuple[Token, Token]]:
    """Yield each `*` that begins an argument, and the token after that star. A `*` after an operand is a multiplication."""
    for previous, token, following in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if token.token_type is TokenType.STAR and previous.token_type in (TokenType.L_PAREN, TokenType.COMMA):
            yield token, following


def build_side(parts: tuple[str, ...], alias: str | None, columns: tuple[str, ...]) -> Side:
    """Return the side for a table that is the target or the source of a statement, with the names that can qualify its columns.

    As in Spark, an alias is the only qualifier if the table has one. Otherwise, the table's full name and its last parts qualify columns: a
    column of `a.b.c` can be written as `c.id`, `b.c.id` or `a.b.c.id`.

    Args:
        parts: The parts of the table's name.
        alias: The alias of the table, or None.
        columns: The names of the table's columns.
    """
    if alias is not None:
        return Side(alias, names=(), columns=columns)
    # The last part of `a.b.c` is the alias. The other names are `a.b.c` and `b.c`.
    qualified_names = [parts[start:] for start in range(len(parts) - 1)]
    if len(parts) == 2:
        # `schema.table` is a table in the engine's catalog, whose name can also come first.
        qualified_names += [(catalog, *parts) for catalog in CATALOGS]
    return Side(alias=parts[-1], names=tuple(qualified_names), columns=columns)


def apart_from(side: Side, other: Side, role: str) -> Side:
    """Return a side with an alias that differs from the other side's alias, for two tables with the same name in different schemas.

    Args:
        side: The side to rename if both sides have the same alias. Its old alias becomes one of its names.
        other: The other side of the statement.
        role: The word to use in the new alias: `target` or `source`.
    """
    if side.alias.lower() != other.alias.lower():
        return side
    return replace(side, alias=OWN_ALIAS % role, names=((side.alias,), *side.names))


def check_aliases_differ(target: Side, source: Side) -> None:
    """Raise an error if the target and the source of a MERGE have the same alias, because qualified columns would then be ambiguous.

    Args:
        target: The side of the changed table.
        source: The side of the source.

    Raises:
        PlanError: Both sides have the same alias, or the same table is target and source and has no alias.
    """
    if target.alias.lower() == source.alias.lower():
        raise PlanError(f"The target and the source of the MERGE both have the alias `{target.alias}`. Give one of them another alias.")


def without_qualifier(path: tuple[str, ...], target: Side, schema: Struct) -> tuple[str, ...]:
    """Return the path of an assigned column without the target's qualifier.

    The alias and the other names of the target count as a qualifier only if one of the table's columns follows.

    Args:
        path: The parts of the name as written in the statement, such as `("t", "s", "a")` for the field `a` of the column `s`.
        target: The side of the changed table.
        schema: The table's columns.
    """
    target_names = {(target.alias,), *target.names}  # each name as a tuple of its parts
    for name in sorted(target_names, key=len, reverse=True):  # as in Spark, the name with the most parts takes precedence
        qualifier, column_path = path[: len(name)], path[len(name) :]
        is_qualified = is_same_name(qualifier, name, case_sensitive=False)
        if is_qualified and column_path and schema.find(column_path[0]) is not None:
            return column_path
    return path
