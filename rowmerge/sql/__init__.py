"""Parsing of statements into commands, and replacement of table names in queries. All other text stays as the user wrote it."""

from rowmerge.sql.lexing.hints import idempotency_key
from rowmerge.sql.lexing.lexer import split_statements
from rowmerge.sql.parser import Statement, parse, parse_partition_field, parse_table_name
from rowmerge.sql.queries.default_values import Defaults, find_defaults
from rowmerge.sql.queries.function_calls import CalledFunction, call_of, expression_of
from rowmerge.sql.queries.relations import names_of_with
from rowmerge.sql.queries.table_refs import TableReference, bind, bind_expression, references

__all__ = [
    "CalledFunction",
    "Defaults",
    "Statement",
    "TableReference",
    "bind",
    "bind_expression",
    "call_of",
    "expression_of",
    "find_defaults",
    "idempotency_key",
    "names_of_with",
    "parse",
    "parse_partition_field",
    "parse_table_name",
    "references",
    "split_statements",
]
