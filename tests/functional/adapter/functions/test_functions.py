"""What is refused of functions."""

from __future__ import annotations

from dbt.tests.adapter.functions import test_udfs as suite


class TestErrorForUnsupportedType(suite.ErrorForUnsupportedType):
    pass


class TestPythonUDFRuntimeVersionRequired(suite.PythonUDFRuntimeVersionRequired):
    pass


class TestPythonUDFEntryPointRequired(suite.PythonUDFEntryPointRequired):
    pass


class TestPythonUDFNotSupported(suite.PythonUDFNotSupported):
    pass
