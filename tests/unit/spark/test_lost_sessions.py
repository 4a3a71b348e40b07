"""Errors of a session that a Spark Connect server does not have any more. tests/functional/adapter/test_connect.py restarts a server."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkAssertionError, PySparkException
from pyspark.errors.exceptions.connect import SparkConnectException, SparkConnectGrpcException

from rowmerge.errors import SparkFailed
from rowmerge.spark.failures import rowmerge_error

ERRORS = (
    SparkConnectException(errorClass="NO_ACTIVE_SESSION", messageParameters={}),
    SparkConnectGrpcException("[INVALID_HANDLE.SESSION_CHANGED] The handle x is invalid.", errorClass="INVALID_HANDLE.SESSION_CHANGED"),
    SparkConnectGrpcException("[INVALID_HANDLE.SESSION_CLOSED] The handle x is invalid.", errorClass="INVALID_HANDLE.SESSION_CLOSED"),
    PySparkAssertionError("Received incorrect server side session identifier for request. (a != b)"),
)


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_the_error_says_how_to_continue_without_the_session(error: PySparkException) -> None:
    translated_error = rowmerge_error(error, "select 1", "t")
    assert isinstance(translated_error, SparkFailed)
    assert "does not have the session any more" in str(translated_error)
    assert "rowmerge.connect" in str(translated_error)
