"""Comments that dbt adds to statements."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.query_comment import test_query_comment as suite


class Above:
    """Configures comments above statements, as the suite expects. Their default position in this adapter is below."""

    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"query-comment": {"comment": self.comment, "append": False}}


class TestQueryComments(Above, suite.BaseQueryComments):
    comment = "dbt\nrules!\n"


class TestMacroQueryComments(Above, suite.BaseMacroQueryComments):
    comment = "{{ query_header_no_args() }}"


class TestMacroArgsQueryComments(Above, suite.BaseMacroArgsQueryComments):
    comment = "{{ return(ordered_to_json(query_header_args(target.name))) }}"


class TestMacroInvalidQueryComments(suite.BaseMacroInvalidQueryComments):
    pass


class TestNullQueryComments(suite.BaseNullQueryComments):
    pass


class TestEmptyQueryComments(suite.BaseEmptyQueryComments):
    pass
