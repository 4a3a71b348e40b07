"""Whether all names in a query are known, so that none can be a session variable, a user's view or another name of Spark."""

from __future__ import annotations

from collections.abc import Collection

from rowmerge.errors import RowmergeError
from rowmerge.sql.lexing.lexer import Kind, Tokens, has_double_quotes, tokenize
from rowmerge.sql.queries.table_refs import references

_KEYWORDS = frozenset(
    """SELECT DISTINCT ALL FROM WHERE GROUP BY HAVING ORDER ASC DESC UNION EXCEPT INTERSECT WITH AS AND OR NOT IN IS NULL TRUE FALSE LIKE
    BETWEEN CASE WHEN THEN ELSE END JOIN ON USING OVER PARTITION EXISTS""".split()
)
_KINDS_OF_JOIN = frozenset("INNER CROSS LEFT RIGHT FULL OUTER SEMI ANTI JOIN".split())
_BEFORE_ALIAS = frozenset({"AS", ")", "::", "NULLS"})
"""Keys after which a word is an alias, a type or a keyword, but no value."""
_LITERALS = frozenset({Kind.NUMBER, Kind.STRING})
_TABLE_PREFIX = "__rowmerge_"
"""The beginning of the names of the views that stand for tables in a bound text."""


def has_only_known_names(text: str, columns: Collection[str], functions: Collection[str]) -> bool:
    """Return whether each name in a query is a keyword, an alias of the query, one of its columns or a known function.

    A name that is uncertain is not known. For example, the unit in `extract(year FROM d)` could also be a variable.

    Args:
        text: The bound text of a query.
        columns: The columns of its tables and views, in lower case.
        functions: The names of the functions that the query may call, in lower case.
    """
    tokens = tokenize(text)
    # The text `"x"` can be a name, `${x}` is a setting, and `end` can be a variable.
    if has_double_quotes(text) or "${" in text or tokens.keys.count("CASE") != tokens.keys.count("END"):
        return False
    try:
        if not all(table.name.parts[0].startswith(_TABLE_PREFIX) for table in references(text)):
            return False
    except RowmergeError:  # queries are nested too deeply
        return False
    names = [index for index, token in enumerate(tokens) if token.is_name and tokens.keys[index - 1] != "."]
    known_names = {*columns, *(tokens[index].name.lower() for index in names if _is_alias(tokens, index))}
    return all(_is_known(tokens, index, known_names, functions) for index in names)


def _is_alias(tokens: Tokens, index: int) -> bool:
    """Return whether a word is no value because of the token before it, or because it begins a query of a WITH list."""
    keys = tokens.keys
    if keys[index + 1 : index + 3] == ["AS", "("] and keys[index - 1] in ("WITH", ","):
        return True
    follows_table = tokens.kinds[index - 1] is Kind.QUOTED and tokens[index - 1].name.startswith(_TABLE_PREFIX)
    return keys[index - 1] in _BEFORE_ALIAS or tokens.kinds[index - 1] in _LITERALS or follows_table


def _is_known(tokens: Tokens, index: int, known_names: Collection[str], functions: Collection[str]) -> bool:
    """Return whether a name is known. The view of a table is, but a function of the warehouse with such a name is not."""
    name, key, next_key = tokens[index].name.lower(), tokens.keys[index], tokens.keys[index + 1]
    if key in _KEYWORDS or (key in _KINDS_OF_JOIN and next_key in _KINDS_OF_JOIN):
        return True
    if next_key == "(":
        return name in functions or (_is_alias(tokens, index) and not name.startswith(_TABLE_PREFIX))
    # No variable precedes a literal, as in `DATE'2024-01-31'` and `LIMIT 10`.
    return name in known_names or name.startswith(_TABLE_PREFIX) or tokens.kinds[index + 1] in _LITERALS
