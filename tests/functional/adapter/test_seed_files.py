"""Seeds are written in one commit, with the configured types and the values of the file."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal

import pytest
from dbt.tests.util import run_dbt, write_file

PEOPLE = '''id,name,born,price,code,seen
1,"O'Hara ""Bob""",1990-02-03,1.50,007,2024-01-01 12:00:00
2,,,,,
'''


class TestSeed:
    @pytest.fixture(scope="class")
    def seeds(self):
        return {
            "people.csv": PEOPLE,
            "schema.yml": """
seeds:
  - name: people
    description: People
    config:
      column_types: {code: string, PRICE: "decimal(10,2)"}
      persist_docs: {relation: true, columns: true}
    columns: [{name: NAME, description: "What they're called"}]
""",
        }

    def test_values_types_and_comments_match_the_seed_config(self, project):
        result = run_dbt(["seed"])[0]
        assert re.fullmatch(r"OK insert: 2 inserted, \d files? \([\d.]+ kB\), version 0", result.message)
        with project.adapter.connection_named("test"):
            description = project.adapter.session.describe(project.test_schema, "people")
        assert [(field.name, field.sql_type) for field in description.columns] == [
            ("id", "bigint"),
            ("name", "string"),
            ("born", "date"),
            ("price", "decimal(10,2)"),
            ("code", "string"),
            ("seen", "timestamp"),
        ]
        assert description.comment == "People"
        assert description.columns[1].comment == "What they're called"
        first, second = project.run_sql("select * from {schema}.people order by id", fetch="all")
        assert first[:5] == (1, 'O\'Hara "Bob"', date(1990, 2, 3), Decimal("1.50"), "007")
        assert second == (2, None, None, None, None, None)
        assert first[5].replace(tzinfo=None) == datetime(2024, 1, 1, 12, 0)
        assert first[5].tzinfo is not None

    @pytest.mark.parametrize("arguments", [[], ["--full-refresh"]])
    def test_seeding_again_replaces_rows_and_columns_in_one_commit(self, project, arguments):
        write_file(PEOPLE, project.project_root, "seeds", "people.csv")
        old_version = run_dbt(["seed", *arguments])[0].adapter_response["version"]
        write_file("id,name,code,price,town\n3,c,1,2,Rome\n", project.project_root, "seeds", "people.csv")
        new_version = run_dbt(["seed", *arguments])[0].adapter_response["version"]
        assert new_version == old_version + 1
        assert project.run_sql("select * from {schema}.people", fetch="all") == [(3, "c", "1", Decimal("2.00"), "Rome")]

    def test_a_value_out_of_range_fails_the_seed(self, project):
        write_file("id,name,code,price\n3,c,1,much\n", project.project_root, "seeds", "people.csv")
        message = run_dbt(["seed"], expect_pass=False)[0].message
        assert "'much'" in message
        assert "DECIMAL(10,2)" in message


class TestEmptySeed:
    @pytest.fixture(scope="class")
    def seeds(self):
        return {"nothing.csv": "a,b\n"}

    def test_a_seed_without_rows_creates_an_empty_table(self, project):
        run_dbt(["seed"])
        assert project.run_sql("select count(*) from {schema}.nothing", fetch="one") == (0,)
