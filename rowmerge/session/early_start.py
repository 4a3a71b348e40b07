"""The start of Spark while Python imports the engine. Both take seconds, and Java starts in another process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rowmerge.session.session import Session


def open_session(arguments: Mapping[str, Any]) -> Session:
    """Open a session in this process as `connect` does. If Spark does not run yet, it starts while Python imports the engine.

    Args:
        arguments: The arguments of `connect`.

    Raises:
        RowmergeError: The errors of `connect`.
    """
    from rowmerge.session.startup.connectors import warehouse_locations
    from rowmerge.session.startup.embedded import discard_early_start, start_spark_early

    start = arguments.get("spark_config"), warehouse_locations(arguments.get("location"), None, ())
    # Catalogs can name locations for which Spark needs a connector, so they must be open before Spark starts.
    if not (arguments.get("spark") or arguments.get("catalog") or arguments.get("catalogs")):
        start_spark_early(*start)
    # While Java starts: PySpark imports pandas for the first DataFrame from Arrow.
    import pandas  # type: ignore[import-untyped]  # noqa: F401

    from rowmerge.session.session import connect

    try:
        return connect(**arguments)
    finally:
        discard_early_start(*start)  # if `connect` has failed before it needs Spark
