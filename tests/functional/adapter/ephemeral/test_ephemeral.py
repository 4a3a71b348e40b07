"""Ephemeral models become common table expressions."""

from __future__ import annotations

import re
from pathlib import Path

from dbt.tests.adapter.ephemeral import test_ephemeral as suite
from dbt.tests.util import check_relations_equal, run_dbt


def statement_of(model):
    text = Path(f"target/run/test/models/{model}.sql").read_text(encoding="utf-8")
    return "".join(re.sub(r"\d+", "", text).split())


class TestEphemeralMulti(suite.BaseEphemeralMulti):
    def test_ephemeral_multi(self, project):
        """As in the suite, which compares with the CREATE VIEW of Postgres."""
        run_dbt(["seed"])
        assert len(run_dbt(["run"])) == 3
        for model in ("dependent", "double_dependent", "super_dependent"):
            check_relations_equal(project.adapter, ["seed", model])
        assert statement_of("double_dependent") == (
            "createorreplaceview`test_test_ephemeral`.`double_dependent`as"
            "with__dbt__cte__baseas(select*fromtest_test_ephemeral.seed),"
            "__dbt__cte__base_copyas(select*from__dbt__cte__base)"
            "--base_copyjustpullsfrombase.Makesurethelisted--graphofCTEsallsharethesamedbt_cte__basecte"
            "select*from__dbt__cte__basewheregender='Male'unionallselect*from__dbt__cte__base_copywheregender='Female'"
        )


class TestEphemeralNested(suite.BaseEphemeralNested):
    def test_ephemeral_nested(self, project):
        """As in the suite, which compares with the CREATE VIEW of Postgres."""
        assert len(run_dbt(["run"])) == 2
        assert statement_of("root_view") == (
            "createorreplaceview`test_test_ephemeral`.`root_view`as"
            "with__dbt__cte__ephemeral_level_twoas(select*from`test_test_ephemeral`.`source_table`),"
            "__dbt__cte__ephemeralas(select*from__dbt__cte__ephemeral_level_two)select*from__dbt__cte__ephemeral"
        )


class TestEphemeralErrorHandling(suite.BaseEphemeralErrorHandling):
    pass
