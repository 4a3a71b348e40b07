"""`dbt show` prints the rows of models and of inline SQL, with a limit, as dbt's suite requires."""

from __future__ import annotations

from dbt.tests.adapter.dbt_show import test_dbt_show as suite


class TestShowLimit(suite.BaseShowLimit):
    pass


class TestShowSqlHeader(suite.BaseShowSqlHeader):
    pass


class TestShowDoesNotHandleDoubleLimit(suite.BaseShowDoesNotHandleDoubleLimit):
    # Spark's own words.
    DATABASE_ERROR_MESSAGE = "[PARSE_SYNTAX_ERROR] Syntax error at or near"
