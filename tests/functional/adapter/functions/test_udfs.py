"""SQL and Python functions."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.functions import files, test_udafs as aggregates, test_udfs as suite

from tests.functional.dbt_core import since


@since("1.11")
class TestUDFsBasic(suite.UDFsBasic):
    pass


@since("1.11")
class TestDeterministicUDF(suite.DeterministicUDF):
    pass


@since("1.11")
class TestStableUDF(suite.StableUDF):
    pass


@since("1.11")
class TestNonDeterministicUDF(suite.NonDeterministicUDF):
    pass


@since("1.11")
class TestErrorForUnsupportedType(suite.ErrorForUnsupportedType):
    pass


@since("1.11")
class TestPythonUDFSupported(suite.PythonUDFSupported):
    pass


@since("1.11")
class TestPythonUDFRuntimeVersionRequired(suite.PythonUDFRuntimeVersionRequired):
    pass


@since("1.11")
class TestPythonUDFEntryPointRequired(suite.PythonUDFEntryPointRequired):
    pass


@since("1.11")
class TestSqlUDFDefaultArgSupport(suite.SqlUDFDefaultArgSupport):
    expect_default_arg_support = True


@since("1.11")
class TestPythonUDFDefaultArgSupport(suite.PythonUDFDefaultArgSupport):
    expect_default_arg_support = True


@since("1.11")
class TestPythonUDFVolatilitySupport(suite.PythonUDFVolatilitySupport):
    pass


@since("1.11")
class TestCanFindScalarFunctionRelation(suite.CanFindScalarFunctionRelation):
    pass


@since("1.11")
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


@since("1.11")
class TestUDAFBase(aggregates.UDAFBase):
    @pytest.fixture(scope="class")
    def functions(self):
        """Return the suite's aggregate without the methods that Snowflake needs; the suite's base class has none of them."""
        return {"sum_squared.py": MAXIMUM, "sum_squared.yml": files.SUM_SQUARED_UDAF_PYTHON_YML.replace("SumSquared", "Peak")}


@since("1.11")
class TestBasicPythonUDAF(aggregates.BasicPythonUDAF):
    pass


@since("1.11")
class TestBasicSQLUDAF(aggregates.BasicSQLUDAF):
    pass


@since("1.11")
class TestPythonUDAFDefaultArgSupport(aggregates.PythonUDAFDefaultArgSupport):
    expect_default_arg_support = True
