"""Text to command, and table names in queries to the snapshots they mean; what is not ours stays as the user wrote it."""

from rowmerge.sql.parser import Statement, parse
from rowmerge.sql.references import TableReference, bind, bind_expression, bind_relation, references

__all__ = ["Statement", "TableReference", "bind", "bind_expression", "bind_relation", "parse", "references"]
