"""Functions that models call."""

from __future__ import annotations

import pytest
from dbt.tests.util import run_dbt

from tests.functional.dbt_core import since

FUNCTIONS = """
functions:
  - name: cents
    description: It's an amount in cents
    config: {persist_docs: {relation: true, columns: true}}
    arguments:
      - {name: amount, data_type: "decimal(18, 2)", description: What is paid}
      - {name: factor, data_type: bigint, default_value: 100}
    returns: {data_type: bigint}
  - name: spread
    config: {type: aggregate, entry_point: Spread, runtime_version: "3.11"}
    arguments: [{name: value, data_type: bigint}]
    returns: {data_type: bigint}
  - name: shout
    config: {entry_point: shout, runtime_version: "3.11"}
    arguments: [{name: text, data_type: text}]
    returns: {data_type: text}
  - name: both
    arguments: [{name: amount, data_type: double}]
    returns: {data_type: text}
  - name: lacking
    config: {entry_point: f, runtime_version: "3.11", packages: ["nobody-has-this"]}
    arguments: []
    returns: {data_type: int}
"""
SPREAD = """
class Spread:
    def __init__(self):
        self.values = []

    def accumulate(self, value):
        self.values.append(value)

    def finish(self):
        return max(self.values) - min(self.values)
"""
PAYMENTS = """
{{ config(materialized='incremental', unique_key='id') }}
select id, {{ function('cents') }}(amount) as cents, {{ function('shout') }}(name) as name
from values (1, 1.5, 'it'), (2, 2.25, 'they') as given (id, amount, name)
{% if is_incremental() %} where {{ function('cents') }}(amount, 10) > 20 {% endif %}
"""


@since("1.11")
class TestFunctionsOfAProject:
    @pytest.fixture(scope="class")
    def functions(self):
        return {
            "functions.yml": FUNCTIONS,
            "cents.sql": "amount * factor",
            "spread.py": SPREAD,
            "shout.py": "def shout(text):\n    # a $$ in it; and a quote's\n    return text.upper() + '!'\n",
            "both.sql": "select {{ function('shout') }}(cast({{ function('cents') }}(amount) as string))",
            "lacking.py": "def f():\n    return 1\n",
        }

    @pytest.fixture(scope="class")
    def models(self):
        return {
            "payments.sql": PAYMENTS,
            # A model can have the name of a function.
            "spread.sql": "{{ config(materialized='incremental') }} select {{ function('spread') }}(cents) as v from {{ ref('payments') }}",
            "seen.sql": "{{ config(materialized='view') }} select id, {{ function('both') }}(id) as v from {{ ref('payments') }}",
        }

    def test_models_call_functions(self, project):
        for _ in range(2):
            run_dbt(["build", "--exclude", "lacking"])
        assert project.run_sql("select * from {schema}.payments order by id", fetch="all") == [(1, 150, "IT!"), (2, 225, "THEY!")]
        assert project.run_sql("select * from {schema}.spread", fetch="all") == [(75,), (75,)]
        assert project.run_sql("select v from {schema}.seen order by id", fetch="all") == [("100!",), ("200!",)]
        description = [line for (line,) in project.run_sql("describe function extended {schema}.cents", fetch="all")]
        assert "Input: amount decimal(18, 2) 'What is paid', factor bigint DEFAULT 100" in description
        assert "Comment: It's an amount in cents" in description
        assert {node.rsplit(".", 1)[1] for node in run_dbt(["docs", "generate"]).nodes} == {"payments", "spread", "seen"}

    def test_a_missing_package_is_reported_before_the_function_is_created(self, project):
        (result,) = run_dbt(["build", "--select", "lacking"], expect_pass=False)
        assert "The function lacking cannot run" in result.message and "nobody-has-this is not installed" in result.message
        assert project.run_sql("show user functions in {schema} like 'lack*'", fetch="all") == []
