"""Qualification of column references: each one gets the alias of its side, so that it is unambiguous in a join of both sides."""

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
"""The alias of a side without an alias if the last part of its name is also a name of the other side."""

Edit = tuple[int, int, str]
_EXCEPT = re.compile(r"\s*except\b", re.IGNORECASE)


def qualify(text: str, side: Side, *, case_sensitive: bool = False) -> str:
    """Return an expression over one side with the side's alias before every column reference.

    A name changes only if it is certainly a column of the side. Lambda variables, fields, function names, units and names in subqueries
    stay.

    Args:
        text: The SQL text of the expression. Text that sqlglot cannot parse is returned unchanged, and Spark validates it.
        side: The side whose columns the expression uses.
        case_sensitive: Whether names that differ in case alone are different, as with spark.sql.caseSensitive.
    """
    return _rewrite_references(text, (side,), case_sensitive, qualifies_columns=True)


def replace_qualifiers(text: str, sides: Sequence[Side], *, case_sensitive: bool = False) -> str:
    """Return an expression over these sides with each side's other names (`analytics.orders.id`) replaced by its alias.

    Stars are replaced by the list of columns, because the joined rows also have columns of the engine.

    Args:
        text: The SQL text of the expression. Text that sqlglot cannot parse is returned unchanged, and Spark validates it.
        sides: The sides whose columns the expression uses.
        case_sensitive: Whether names that differ in case alone are different, as with spark.sql.caseSensitive.
    """
    return _rewrite_references(text, sides, case_sensitive, qualifies_columns=False)


def _rewrite_references(text: str, sides: Sequence[Side], case_sensitive: bool, *, qualifies_columns: bool) -> str:
    """Return an expression with the qualifiers of its sides replaced by their aliases, and its stars by columns.

    `qualifies_columns`: whether columns without a qualifier get the alias of their side too. The text is returned unchanged if sqlglot
    cannot parse it, or if the position of a column in it is uncertain. Spark then resolves the names, or reports the error.
    """
    tree = parse(text)
    column_references = references(tree, text) if tree is not None else None
    if tree is None or column_references is None:
        return text
    edits = [*_qualifier_edits(tree, text, column_references, sides, case_sensitive), *_star_edits(tree, text, sides)]
    if qualifies_columns:
        edits += _alias_edits(column_references, sides, case_sensitive)
    return rewrite(text, edits)


def _alias_edits(column_references: list[Reference], sides: Sequence[Side], case_sensitive: bool) -> Iterator[Edit]:
    """Yield the edits that put the alias of a side before each of its columns without a qualifier, except in subqueries."""
    for reference in column_references:
        resolved = resolve(reference.parts, sides, case_sensitive=case_sensitive)
        if resolved is not None and not resolved.qualifier_size and not reference.in_query:
            yield reference.starts[0], reference.starts[0], f"{backquote(resolved.side.alias)}."


def _qualifier_edits(
    tree: exp.Expr, text: str, column_references: list[Reference], sides: Sequence[Side], case_sensitive: bool
) -> Iterator[Edit]:
    """Yield the edits that replace qualifiers by the alias of their side, and `t.*` by the side's columns.

    `analytics.orders.id` becomes `orders.id`, because the engine joins the sides under their aliases, and Spark does not know their other
    names. Of `t.* EXCEPT (a)`, only the qualifier is replaced: Spark expands the star. A name in a subquery can belong to a table of the
    subquery, and is kept then.
    """
    query_tables = {table.name.lower() for table in tree.find_all(exp.Table)}
    for reference in column_references:
        side, qualifier = _qualifier(reference, sides, case_sensitive)
        if side is None:  # the name has no qualifier, or that of a table in a subquery
            continue
        # Each part of the name has an end. The qualifier ends with its last part.
        start, qualifier_end, name_end = reference.starts[0], reference.ends[len(qualifier) - 1], reference.ends[-1]
        is_star = reference.parts[-1] == "*" and not reference.in_query
        is_alias = is_same_name(qualifier, (side.alias,), case_sensitive)
        if is_star and not _EXCEPT.match(text, name_end):
            yield start, name_end, _column_list((side,))
        elif not is_alias and not _may_be_of_query(reference, qualifier, query_tables):
            yield start, qualifier_end, backquote(side.alias)


def _may_be_of_query(reference: Reference, qualifier: tuple[str, ...], query_tables: set[str]) -> bool:
    """Return whether a qualifier in a subquery can mean a table of the subquery, rather than a side of the statement.

    `t.id` can mean an alias `t` of the subquery, and `db.t.id` a table `t` that the subquery reads.
    """
    return reference.in_query and (len(qualifier) == 1 or qualifier[-1].lower() in query_tables)


def _qualifier(reference: Reference, sides: Sequence[Side], case_sensitive: bool) -> tuple[Side | None, tuple[str, ...]]:
    """Return the side that the qualifier of a reference names, and the qualifier. Without such a side, return None and no parts."""
    if reference.parts[-1] != "*":
        resolved = resolve(reference.parts, sides, case_sensitive=case_sensitive)
        if resolved is None or not resolved.qualifier_size:
            return None, ()
        return resolved.side, reference.parts[: resolved.qualifier_size]
    qualifier = reference.parts[:-1]
    matches = [side for side in sides for name in {(side.alias,), *side.names} if is_same_name(name, qualifier, case_sensitive)]
    return (matches[0], qualifier) if len(matches) == 1 else (None, ())


def _column_list(sides: Sequence[Side]) -> str:
    """Return all columns of the sides, with the alias of the side before each, as a SQL list."""
    return ", ".join(f"{backquote(side.alias)}.{backquote(name)}" for side in sides for name in side.columns)


def _star_edits(tree: exp.Expr, text: str, sides: Sequence[Side]) -> Iterator[Edit]:
    """Yield an edit for each `*` without a qualifier that means all columns: `struct(*)` becomes `struct(t.a, t.b)`.

    `* EXCEPT (a)` becomes `t.* EXCEPT (a)` if there is one side. An expression with a count or a subquery gets no edits: `count(*)` counts
    rows, and a star in a subquery means the subquery's columns. `tree` and `text` are the same expression. sqlglot's tree shows whether it
    has such stars, and the tokens of the text have their positions.
    """
    # The star of `t.*` is a child of a column, and `_qualifier_edits` replaces it.
    has_star = any(not isinstance(star.parent, exp.Column) for star in tree.find_all(exp.Star))
    if not has_star or tree.find(exp.Query, exp.Count) is not None:
        return
    for star, following_token in _star_arguments(tokens_of(text) or []):
        if following_token.token_type in (TokenType.R_PAREN, TokenType.COMMA):  # the star is the whole argument
            yield star.start, star.end + 1, _column_list(sides)
        elif following_token.token_type is TokenType.EXCEPT and len(sides) == 1:
            yield star.start, star.start, f"{backquote(sides[0].alias)}."


def _star_arguments(tokens: list[Token]) -> Iterator[tuple[Token, Token]]:
    """Yield each `*` that begins an argument, and the token after it. After an operand, a `*` is a multiplication."""
    for previous, token, following in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if token.token_type is TokenType.STAR and previous.token_type in (TokenType.L_PAREN, TokenType.COMMA):
            yield token, following


def side_of(parts: tuple[str, ...], alias: str | None, columns: tuple[str, ...]) -> Side:
    """Return the side for a table: the table as target or source of a statement, with the names that can qualify its columns.

    As in Spark, only the alias qualifies columns if there is one. Otherwise the table's name, or its last parts, qualify them: columns of
    `a.b.c` can be `c.id`, `b.c.id` and `a.b.c.id`.

    Args:
        parts: The parts of the table's name.
        alias: The alias of the table, or None.
        columns: The names of the table's columns.
    """
    if alias is not None:
        return Side(alias, names=(), columns=columns)
    qualified_names = [parts[start:] for start in range(len(parts) - 1)]  # of `a.b.c`: `a.b.c` and `b.c`; the alias is `c`
    if len(parts) == 2:  # a name with a schema and no catalog means a table of the engine's catalog
        qualified_names += [(catalog, *parts) for catalog in CATALOGS]
    return Side(parts[-1], tuple(qualified_names), columns)


def apart_from(side: Side, other: Side, role: str) -> Side:
    """Return a side under an alias that differs from the alias of the other side, for two tables of one name in different schemas.

    Args:
        side: The side that gets a new alias if its alias is that of `other`. Its old alias becomes one of its names.
        other: The other side of the statement.
        role: The word in the new alias, `target` or `source`.
    """
    if side.alias.lower() != other.alias.lower():
        return side
    return replace(side, alias=OWN_ALIAS % role, names=((side.alias,), *side.names))


def check_aliases_differ(target: Side, source: Side) -> None:
    """Raise an error if target and source of a MERGE have the same alias, because a column's qualifier would then be ambiguous.

    Args:
        target: The side of the changed table.
        source: The side of the source.

    Raises:
        PlanError: Both sides have one alias, or the same table without an alias is target and source.
    """
    if target.alias.lower() == source.alias.lower():
        raise PlanError(f"Target and source of the MERGE are both called `{target.alias}`. Give one of them another alias.")


def without_qualifier(path: tuple[str, ...], target: Side, schema: Struct) -> tuple[str, ...]:
    """Return the path of an assigned column without a qualifier of the target before it.

    The alias of the target and its other names are qualifiers, but only if one of the table's columns follows.

    Args:
        path: The parts of the name as the statement has it, such as `("t", "s", "a")` for the field `a` of the column `s`.
        target: The side of the changed table.
        schema: The table's columns.
    """
    for name in sorted({(target.alias,), *target.names}, key=len, reverse=True):  # as in Spark, the longest qualifier wins
        qualifier, column_path = path[: len(name)], path[len(name) :]
        is_qualified = is_same_name(qualifier, name, case_sensitive=False)
        if is_qualified and column_path and schema.find(column_path[0]) is not None:
            return column_path
    return path
