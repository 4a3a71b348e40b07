"""The Spark session and the warehouses of the engine's tests."""

from tests.engine.conftest import bare_session, session, spark

__all__ = ["bare_session", "session", "spark"]
