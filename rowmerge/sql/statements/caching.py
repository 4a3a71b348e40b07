"""The grammar of CACHE TABLE, UNCACHE TABLE, CLEAR CACHE and REFRESH."""

from __future__ import annotations

from rowmerge.commands.caching import CacheTable, ClearCache, RefreshTable, UncacheTable
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import begins_query
from rowmerge.sql.lexing.lexer import Kind
from rowmerge.sql.statements.columns import parse_options

_STORAGE_LEVEL = "storagelevel"


def parse_cache(cursor: Cursor) -> CacheTable:
    """Parse `[LAZY] TABLE name [OPTIONS ('storageLevel' 'level')] [[AS] query]` after CACHE.

    Raises:
        Unparsable: The statement does not follow the grammar.
        UnsupportedStatement: An option is unknown.
    """
    lazy = cursor.accept("LAZY")
    cursor.expect("TABLE")
    name = cursor.table_name()
    storage_level = _parse_storage_level(cursor) if cursor.accept("OPTIONS") else None
    has_query = cursor.accept("AS") or begins_query(cursor)
    query = cursor.take_rest() if has_query and not cursor.at_end else None
    if has_query and query is None:
        raise cursor.expected("a query after AS")
    cursor.expect_end("the table")
    return CacheTable(name, query, lazy, storage_level)


def _parse_storage_level(cursor: Cursor) -> str | None:
    """Parse the list of OPTIONS. Raise UnsupportedStatement for an option other than the storage level."""
    token = cursor.token()
    options = {key.lower(): value for key, value in parse_options(cursor).items()}
    unknown = options.keys() - {_STORAGE_LEVEL}
    if unknown:
        raise cursor.unsupported(f"CACHE TABLE has no option {min(unknown)}. Its only option is storageLevel", token)
    return options.get(_STORAGE_LEVEL)


def parse_uncache(cursor: Cursor) -> UncacheTable:
    """Parse `TABLE [IF EXISTS] name` after UNCACHE.

    Raises:
        Unparsable: The statement does not follow the grammar.
    """
    cursor.expect("TABLE")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.table_name()
    cursor.expect_end("the table")
    return UncacheTable(name, if_exists)


def parse_clear_cache(cursor: Cursor) -> ClearCache:
    """Parse the end of the statement after CLEAR CACHE.

    Raises:
        Unparsable: Another word follows.
    """
    cursor.expect_end("CLEAR CACHE")
    return ClearCache()


def parse_refresh(cursor: Cursor) -> RefreshTable | None:
    """Parse `[TABLE] name` after REFRESH. Return None for functions and for paths, which Spark refreshes.

    Raises:
        Unparsable: TABLE is not followed by one name.
    """
    has_table = bool(cursor.accept_before_name("TABLE"))
    if not has_table and (cursor.next_is("FUNCTION") or not _is_name_alone(cursor)):
        return None
    name = cursor.table_name()
    cursor.expect_end("the table")
    return RefreshTable(name, may_be_path=not has_table)


def _is_name_alone(cursor: Cursor) -> bool:
    """Return whether only a name with dots follows."""
    tokens = [cursor.token(ahead) for ahead in range(len(cursor.tokens) - 1 - cursor.index)]
    is_name = [token.is_name if index % 2 == 0 else token.key == "." for index, token in enumerate(tokens)]
    return len(tokens) % 2 == 1 and all(is_name) and not any(token.kind is Kind.STRING for token in tokens)
