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
    # Catalogs can name locations for which Spark needs a connector, so they must be open before Spark starts.
    if not (arguments.get("spark") or arguments.get("catalog") or arguments.get("catalogs")):
        from rowmerge.session.startup.connectors import warehouse_locations
        from rowmerge.session.startup.embedded import start_spark_early

        start_spark_early(arguments.get("spark_config"), warehouse_locations(arguments.get("location"), None, ()))
    from rowmerge.session.session import connect  # while Java starts

    return connect(**arguments)
