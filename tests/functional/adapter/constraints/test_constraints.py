"""Contracts, and the constraints that the engine enforces."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.constraints import fixtures, test_constraints as suite


class Types:
    """Types as Spark writes them with example values, without JSON, for which Spark has no type."""

    @pytest.fixture
    def string_type(self):
        return "string"

    @pytest.fixture
    def int_type(self):
        return "int"

    @pytest.fixture
    def data_types(self, schema_int_type, int_type, string_type):
        return [
            ["1", schema_int_type, int_type],
            ["'1'", string_type, string_type],
            ["true", "bool", "boolean"],
            ["timestamp'2013-11-03 00:00:00-07'", "timestamptz", "timestamp"],
            ["timestamp_ntz'2013-11-03 00:00:00'", "timestamp_ntz", "timestamp_ntz"],
            ["array('a', 'b', 'c')", "array<string>", "array<string>"],
            ["array(1, 2, 3)", "array<int>", "array<int>"],
            ["cast('1' as decimal(10, 2))", "decimal(10, 2)", "decimal(10,2)"],
        ]


class TestTableConstraintsColumnsEqual(Types, suite.BaseTableConstraintsColumnsEqual):
    pass


class TestViewConstraintsColumnsEqual(Types, suite.BaseViewConstraintsColumnsEqual):
    pass


class TestIncrementalConstraintsColumnsEqual(Types, suite.BaseIncrementalConstraintsColumnsEqual):
    pass


class ExpectedSql:
    """The expected statement of this adapter: checks and NOT NULL in the column list, keys as properties."""

    @pytest.fixture(scope="class")
    def expected_sql(self):
        return """
create or replace table <model_identifier> (
    `id` integer not null,
    `color` string,
    `date_day` string,
    check ((id > 0)),
    check (id >= 1)
)
using delta
tblproperties (
    'constraint.primary_key_id' = 'primary key (`id`)',
    'constraint.foreign_key_id' = 'foreign key (`id`) references <foreign_key_model_identifier> (`id`)',
    'constraint.unique_id' = 'unique (`id`)'
)
as
select id, color, date_day
from (
    -- depends_on: <foreign_key_model_identifier>
    select
        'blue' as color,
        1 as id,
        '2019-01-01' as date_day
) as model_subq
"""


class TestTableConstraintsRuntimeDdlEnforcement(ExpectedSql, suite.BaseConstraintsRuntimeDdlEnforcement):
    pass


class TestIncrementalConstraintsRuntimeDdlEnforcement(ExpectedSql, suite.BaseIncrementalConstraintsRuntimeDdlEnforcement):
    pass


class TestModelConstraintsRuntimeEnforcement(suite.BaseModelConstraintsRuntimeEnforcement):
    @pytest.fixture(scope="class")
    def expected_sql(self):
        """Return the expected statement. A constraint with a name keeps its name."""
        return """
create or replace table <model_identifier> (
    `id` integer not null,
    `color` string,
    `date_day` string,
    check ((id > 0)),
    check (id >= 1)
)
using delta
tblproperties (
    'constraint.primary_key_id' = 'primary key (`id`)',
    'constraint.strange_uniqueness_requirement' = 'unique (`color`, `date_day`)',
    'constraint.foreign_key_id' = 'foreign key (`id`) references <foreign_key_model_identifier> (id)'
)
as
select id, color, date_day
from (
    -- depends_on: <foreign_key_model_identifier>
    select
        'blue' as color,
        1 as id,
        '2019-01-01' as date_day
) as model_subq
"""


class TestConstraintQuotedColumn(suite.BaseConstraintQuotedColumn):
    @pytest.fixture(scope="class")
    def models(self):
        """Return the suite's models with names in backquotes."""
        return {
            "my_model.sql": fixtures.my_model_with_quoted_column_name_sql,
            "constraints_schema.yml": fixtures.model_quoted_column_schema_yml.replace('"from"', "`from`"),
        }

    @pytest.fixture(scope="class")
    def expected_sql(self):
        return """
create or replace table <model_identifier> (
    `id` integer not null,
    `from` string not null,
    `date_day` string,
    check ((`from` = 'blue'))
)
using delta
as
select id, `from`, date_day
from (
    select
        'blue' as `from`,
        1 as id,
        '2019-01-01' as date_day
) as model_subq
"""


class BrokenRows:
    @pytest.fixture(scope="class")
    def expected_error_messages(self):
        """Return the error messages of the engine."""
        return ["NOT NULL of column `id`", "Nothing was written"]


class TestTableConstraintsRollback(BrokenRows, suite.BaseConstraintsRollback):
    pass


class TestIncrementalConstraintsRollback(BrokenRows, suite.BaseIncrementalConstraintsRollback):
    pass


# Spark reads a setting of the session as a variable; the time zone is that of all models of this process.
HEADER = {"set session time zone 'Asia/Kolkata'": "declare or replace variable header_value = 'Asia/Kolkata'"}


def in_spark(model):
    for other, ours in {**HEADER, "current_setting('timezone')": "header_value"}.items():
        model = model.replace(other, ours)
    return model


class TestTableContractSqlHeader(suite.BaseTableContractSqlHeader):
    @pytest.fixture(scope="class")
    def models(self):
        return {
            "my_model_contract_sql_header.sql": in_spark(fixtures.my_model_contract_sql_header_sql),
            "constraints_schema.yml": fixtures.model_contract_header_schema_yml,
        }


class TestIncrementalContractSqlHeader(suite.BaseIncrementalContractSqlHeader):
    @pytest.fixture(scope="class")
    def models(self):
        return {
            "my_model_contract_sql_header.sql": in_spark(fixtures.my_model_incremental_contract_sql_header_sql),
            "constraints_schema.yml": fixtures.model_contract_header_schema_yml,
        }


class TestIncrementalForeignKeyConstraint(suite.BaseIncrementalForeignKeyConstraint):
    pass
