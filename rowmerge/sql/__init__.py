"""Parsing of statements into commands, and replacement of table names in queries. All other text remains as the user wrote it."""

from rowmerge.sql.lexing.hints import idempotency_key
from rowmerge.sql.lexing.lexer import has_double_quotes, split_statements
from rowmerge.sql.parser import (
    Statement,
    parse,
    parse_column_name,
    parse_partition_field,
    parse_source,
    parse_table_name,
    parse_whole_expression,
)
from rowmerge.sql.queries.blocks import parse_query
from rowmerge.sql.queries.column_names import (
    column_names,
    hidden_columns_in,
    hidden_columns_of_target,
    same_name,
    tables_below_result,
    tables_with_own_names,
    without_hidden_columns,
)
from rowmerge.sql.queries.default_values import Defaults, find_defaults
from rowmerge.sql.queries.function_calls import CalledFunction, expression_of, replacement_of_call
from rowmerge.sql.queries.known_names import has_only_known_names
from rowmerge.sql.queries.relations import names_of_with
from rowmerge.sql.queries.simple_queries import COUNT, MAX, MIN, SimpleQuery, parse_simple_query
from rowmerge.sql.queries.table_refs import TableReference, bind, bind_expression, references

__all__ = [
    "COUNT",
    "MAX",
    "MIN",
    "CalledFunction",
    "Defaults",
    "SimpleQuery",
    "Statement",
    "TableReference",
    "bind",
    "bind_expression",
    "column_names",
    "expression_of",
    "find_defaults",
    "has_double_quotes",
    "has_only_known_names",
    "hidden_columns_in",
    "hidden_columns_of_target",
    "idempotency_key",
    "names_of_with",
    "parse",
    "parse_column_name",
    "parse_partition_field",
    "parse_query",
    "parse_simple_query",
    "parse_source",
    "parse_table_name",
    "parse_whole_expression",
    "references",
    "replacement_of_call",
    "same_name",
    "split_statements",
    "tables_below_result",
    "tables_with_own_names",
    "without_hidden_columns",
]
