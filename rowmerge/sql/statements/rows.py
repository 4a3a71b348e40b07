"""The grammar of UPDATE, DELETE, INSERT and TRUNCATE, and of the WITH list before a row-level statement."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

from rowmerge.commands.names import SqlText
from rowmerge.commands.rows import Delete, Insert, Merge, OverwriteMode, Truncate, Update
from rowmerge.sql.lexing import expressions
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.lexer import Kind
from rowmerge.sql.statements.columns import parse_properties
from rowmerge.sql.statements.merge import parse_assignments, parse_merge, qualifier_of

_NO_JOIN = "{verb} from another table is not supported. Use MERGE INTO … USING the other table ON … WHEN MATCHED THEN {verb}"
_OVERWRITE_MODE_OPTIONS = ("partitionoverwritemode", "overwrite-mode")
"""The names of the overwrite mode option in Delta's and in Iceberg's writer, in lower case."""
_Partition = tuple[tuple[str, SqlText | None], ...]
"""The columns of a PARTITION clause with their values. The value of a dynamic partition column is None."""


def parse_with_statement(cursor: Cursor) -> Merge | Update | Delete | Insert | None:
    """Parse a WITH list and the row-level statement after it. Return None if WITH begins a query."""
    cursor.index = 0  # back to WITH, the first word of the statement and of the list
    if not expressions.accept_with_list(cursor):
        return None
    with_clause = cursor.text_from(0)
    match cursor.accept_any("MERGE", "INSERT", "FROM") or cursor.accept_before_name("UPDATE", "DELETE"):
        case "MERGE":
            return parse_merge(cursor, with_clause)
        case "UPDATE":
            return parse_update(cursor, with_clause)
        case "DELETE":
            return parse_delete(cursor, with_clause)
        case "INSERT":
            return parse_insert(cursor)  # copies the text from WITH to INSERT into the query
        case "FROM":
            refuse_from_insert(cursor)  # raises if an INSERT follows; otherwise FROM begins a query
    return None


def parse_update(cursor: Cursor, with_clause: SqlText | None = None) -> Update:
    """Parse `UPDATE table [[AS] alias] SET column = value, … [WHERE condition]`.

    Args:
        cursor: The cursor after UPDATE.
        with_clause: The WITH list before UPDATE, or None.

    Raises:
        Unparsable: The statement does not follow the grammar.
        UnsupportedStatement: The statement has a FROM clause, which takes new values from another table.
    """
    target = cursor.table_name()
    alias = expressions.parse_alias(cursor)
    cursor.expect("SET")
    assignments = parse_assignments(cursor, qualifier_of(target, alias), _assignment_ends)
    if cursor.next_is("FROM"):
        raise cursor.unsupported(_NO_JOIN.format(verb="UPDATE"))
    return Update(target, alias, assignments, _parse_optional_where(cursor, "the assignments"), with_clause)


def parse_delete(cursor: Cursor, with_clause: SqlText | None = None) -> Delete:
    """Parse `DELETE FROM table [[AS] alias] [WHERE condition]`.

    Args:
        cursor: The cursor after DELETE.
        with_clause: The WITH list before DELETE, or None.

    Raises:
        Unparsable: The statement does not follow the grammar.
        UnsupportedStatement: The statement has a USING clause, which joins another table.
    """
    cursor.expect("FROM")
    target = cursor.table_name()
    alias = expressions.parse_alias(cursor)
    if cursor.next_is("USING"):
        raise cursor.unsupported(_NO_JOIN.format(verb="DELETE"))
    return Delete(target, alias, _parse_optional_where(cursor, "the table"), with_clause)


def parse_truncate(cursor: Cursor) -> Truncate:
    """Parse `TRUNCATE TABLE table [PARTITION (column = value, …)]`.

    Raises:
        Unparsable: The statement does not follow the grammar, or a partition column has no value.
    """
    target = cursor.table_name()
    partition = parse_partition_values(cursor, "TRUNCATE TABLE")
    cursor.expect_end("the partition" if partition else "the table")
    return Truncate(target, partition)


def parse_insert(cursor: Cursor) -> Insert | None:
    """Parse `INSERT … INTO|OVERWRITE …`. A WITH list before INSERT becomes part of the query.

    Returns:
        The command, or None for INSERT OVERWRITE DIRECTORY, which Spark executes.

    Raises:
        Unparsable: The statement does not follow the grammar, or combines mutually exclusive clauses.
        UnsupportedStatement: The statement has DEFAULT VALUES, an unknown option, or has WITH RECURSIVE in addition to another WITH list.
    """
    insert_index = cursor.index - 1  # above 0 if a WITH list precedes INSERT
    schema_evolution = cursor.accept("WITH", "SCHEMA", "EVOLUTION")
    mode = cursor.expect_any("INTO or OVERWRITE")
    if mode == "OVERWRITE" and _at_directory(cursor):
        return None
    cursor.accept_before_name("TABLE")
    insert = _parse_target_clauses(cursor, mode)
    if not expressions.begins_query(cursor):
        raise cursor.expected("a query (SELECT, VALUES, TABLE, WITH, FROM or a query in parentheses)")
    query_index = cursor.index
    query, query_alias = _parse_query(cursor, takes_alias=insert.replace_on is not None)
    if insert_index > 0:
        query = _prepend_with_list(cursor, query, insert_index, query_index)
    return replace(insert, query=query, query_alias=query_alias, schema_evolution=schema_evolution)


def _parse_target_clauses(cursor: Cursor, mode: str) -> Insert:
    """Parse the target of an INSERT and the clauses before the query. `mode` is INTO or OVERWRITE. The query of the result is empty."""
    target = cursor.table_name()
    overwrite_mode = _parse_overwrite_mode(cursor, mode)
    alias = _parse_target_alias(cursor)
    partition = parse_optional_partition(cursor)
    if_not_exists = _accept_if_not_exists(cursor, mode, partition)
    columns, by_name = _parse_columns(cursor)
    insert = Insert(target, columns, by_name, SqlText(""), overwrite=mode == "OVERWRITE", alias=alias)
    insert = replace(insert, partition=partition, if_not_exists=if_not_exists, overwrite_mode=overwrite_mode)
    insert = _parse_replace_clause(cursor, insert)
    if alias is not None and insert.replace_on is None:
        raise cursor.error(f"The alias `{alias}` is allowed only with REPLACE ON. Leave it out, or add REPLACE ON and a condition")
    return insert


def refuse_from_insert(cursor: Cursor) -> None:
    """Raise an error for Hive's `FROM … INSERT …`, which writes one query to several tables. FROM without INSERT begins a query.

    Raises:
        UnsupportedStatement: INSERT INTO or INSERT OVERWRITE follows.
    """
    for index, (key, following) in enumerate(itertools.pairwise(cursor.tokens.keys)):
        if key == "INSERT" and following in ("INTO", "OVERWRITE"):
            reason = "INSERT after FROM is not supported. Write one INSERT INTO … SELECT … FROM … for each table"
            raise cursor.unsupported(reason, cursor.tokens[index])


def _assignment_ends(cursor: Cursor) -> bool:
    """Return whether the value of an assignment ends here. FROM after DISTINCT does not end the value."""
    at_from = cursor.next_is_keyword("FROM") and cursor.key(-1) != "DISTINCT"
    return at_from or expressions.at_comma(cursor) or cursor.next_is_keyword("WHERE")


def _parse_optional_where(cursor: Cursor, preceding: str) -> SqlText | None:
    """Parse `[WHERE condition]` at the end of the statement. `preceding`: the noun for the previous clause in error messages."""
    if cursor.at_end:
        return None
    if not cursor.accept("WHERE"):
        raise cursor.expected(f"WHERE or the end of the statement after {preceding}")
    return expressions.parse_last_expression(cursor, "a condition after WHERE")


def _at_directory(cursor: Cursor) -> bool:
    """Return whether `[LOCAL] DIRECTORY` comes next rather than a table with such a name."""
    ahead = 1 if cursor.next_is("LOCAL", "DIRECTORY") else 0
    following = cursor.token(ahead + 1)
    return cursor.key(ahead) == "DIRECTORY" and (following.kind is Kind.STRING or following.key in ("USING", "OPTIONS", "ROW", "STORED"))


def parse_optional_partition(cursor: Cursor) -> _Partition:
    """Parse `[PARTITION (column [= value], …)]`."""
    if not cursor.next_is("PARTITION", "("):
        return ()
    cursor.index += 1
    return cursor.parenthesized(lambda: _parse_partition_value(cursor))


def parse_partition_values(cursor: Cursor, statement: str) -> tuple[tuple[str, SqlText], ...]:
    """Parse `[PARTITION (column = value, …)]` with a value for each column.

    Args:
        cursor: The cursor at the clause.
        statement: The first words of the statement, for the error message.

    Raises:
        Unparsable: A partition column has no value.
    """
    return parse_partition(cursor, f"{statement} … PARTITION") if cursor.accept("PARTITION") else ()


def parse_partition(cursor: Cursor, statement: str) -> tuple[tuple[str, SqlText], ...]:
    """Parse `(column = value, …)`, in which every column needs a value. `statement` describes the statement in the error message.

    Raises:
        Unparsable: The text does not follow the grammar, or a column has no value.
    """

    def read_value() -> tuple[str, SqlText]:
        column, value = _parse_partition_value(cursor)
        if value is None:
            raise cursor.error(f"{statement} needs a value for `{column}`. Write {column} = …, or leave it out")
        return column, value

    return cursor.parenthesized(read_value)


def _parse_partition_value(cursor: Cursor) -> tuple[str, SqlText | None]:
    """Parse `column [= value]`, and return the column and the value. The value of a dynamic partition column is None."""
    column = cursor.identifier("a partition column")
    if not cursor.accept_any("=", "=="):
        return column, None
    return column, expressions.parse_expression(cursor, f"a value for `{column}`", expressions.at_comma)


def _parse_overwrite_mode(cursor: Cursor, insert_keyword: str) -> OverwriteMode | None:
    """Parse `[WITH ('partitionOverwriteMode' = 'dynamic'|'static')]` before the query of an INSERT.

    A dynamic overwrite replaces the partitions that receive new rows. A static overwrite replaces all partitions, or those that match the
    PARTITION clause. The option can have Delta's or Iceberg's name. `insert_keyword` is INTO, which does not allow the option, or
    OVERWRITE.
    """
    if not cursor.next_is("WITH", "("):
        return None
    with_token = cursor.token()
    cursor.index += 1
    options = parse_properties(cursor, "The option")
    unknown_options = [option for option in options if option.lower() not in _OVERWRITE_MODE_OPTIONS]
    refused_options = [*unknown_options, *options] if insert_keyword == "INTO" else unknown_options  # INTO overwrites nothing
    if refused_options:
        raise cursor.unsupported(f"The option `{refused_options[0]}` of INSERT {insert_keyword} is not supported. Leave it out", with_token)
    option_values = {value.lower() for value in options.values()}  # both names can occur, but only with the same value
    if option_values not in ({"dynamic"}, {"static"}):
        raise cursor.error(f"`{next(iter(options))}` must be dynamic or static. Set it to one of them", with_token)
    return OverwriteMode(option_values.pop())


def _parse_columns(cursor: Cursor) -> tuple[tuple[str, ...] | None, bool]:
    """Parse `[(columns)] [BY NAME]`. Return the columns, or None without a list, and whether the statement has BY NAME."""
    if cursor.next_is("DEFAULT", "VALUES"):
        raise cursor.unsupported("INSERT … DEFAULT VALUES is not supported. Write VALUES (DEFAULT, …)")
    if cursor.accept("BY", "NAME"):
        return None, True
    columns = cursor.identifiers("a column's name") if cursor.next_is("(") and not expressions.begins_query(cursor) else None
    return columns, cursor.accept("BY", "NAME")


def _parse_replace_clause(cursor: Cursor, insert: Insert) -> Insert:
    """Parse `[REPLACE WHERE condition | REPLACE USING (columns) | REPLACE ON condition]`, and return `insert` with the clause added."""
    if not cursor.accept("REPLACE"):
        return insert
    kind = cursor.expect_any("WHERE, USING or ON")
    if insert.overwrite:
        raise cursor.error(f"REPLACE {kind} is allowed only with INSERT INTO. Write INSERT INTO instead of INSERT OVERWRITE")
    if insert.partition:
        raise cursor.error(f"REPLACE {kind} and PARTITION cannot be combined. Select the partition's values, without PARTITION")
    if kind == "USING":
        return replace(insert, replace_using=cursor.identifiers("a column's name"))
    condition = expressions.parse_expression(cursor, f"a condition after REPLACE {kind}", expressions.begins_separate_query)
    return replace(insert, replace_where=condition) if kind == "WHERE" else replace(insert, replace_on=condition)


def _parse_target_alias(cursor: Cursor) -> str | None:
    """Parse the alias of the target, or return None. Without AS, a name is an alias only if REPLACE follows it."""
    following_keys = [cursor.key(ahead) for ahead in range(1, 4)]
    replace_follows = following_keys[0] == "REPLACE" or following_keys == ["BY", "NAME", "REPLACE"]
    if cursor.accept("AS") or (cursor.token().is_name and replace_follows):
        return cursor.identifier("an alias")
    return None


def _parse_query(cursor: Cursor, takes_alias: bool) -> tuple[SqlText, str | None]:
    """Parse the query that ends the statement. Return the query and its alias, which only `takes_alias` allows: `(query) [AS] alias`."""
    start = cursor.index
    if not takes_alias or not cursor.next_is("("):
        return cursor.take_rest(), None
    cursor.skip_group()
    query = cursor.text_from(start)
    is_bare_alias = cursor.token().is_name and cursor.token(1).kind is Kind.END
    if not cursor.accept("AS") and not is_bare_alias:
        cursor.index = start  # the parentheses are only the beginning of the query
        return cursor.take_rest(), None
    alias = cursor.identifier("an alias")
    cursor.expect_end("the query's alias")
    return query, alias


def _accept_if_not_exists(cursor: Cursor, mode: str, partition: _Partition) -> bool:
    """Step over IF NOT EXISTS if it comes next. Raise Unparsable unless it follows OVERWRITE … PARTITION with a value for each column."""
    if not cursor.next_is("IF", "NOT", "EXISTS"):
        return False
    if mode == "INTO":
        raise cursor.error(
            "IF NOT EXISTS is allowed only with INSERT OVERWRITE … PARTITION (column = value). Or use MERGE INTO for new rows"
        )
    if not partition or any(value is None for _, value in partition):
        raise cursor.error("IF NOT EXISTS needs PARTITION (column = value, …) before it, with a value for every column")
    cursor.index += 3
    return True


def _prepend_with_list(cursor: Cursor, query: SqlText, insert_index: int, query_index: int) -> SqlText:
    """Return the query, prefixed with the WITH list that precedes INSERT. Spaces in between keep the position of each character."""
    starts, keys = cursor.tokens.starts, cursor.tokens.keys
    if keys[query_index : query_index + 2] == ["WITH", "RECURSIVE"]:
        reason = "WITH RECURSIVE after another WITH list is not supported. Put both into one list"
        raise cursor.unsupported(reason, cursor.tokens[query_index])
    with_list = cursor.text[starts[0] : starts[insert_index]]
    spaces = re.sub(r"[^\n\t]", " ", cursor.text[starts[insert_index] : starts[query_index]])
    has_own_list = keys[query_index] == "WITH"  # which continues the one before INSERT
    query_text = ",   " + query.text[len("WITH") :] if has_own_list else query.text
    return SqlText(with_list + spaces + query_text, *cursor.tokens.place(starts[0]))
