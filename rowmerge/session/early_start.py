"""The start of Spark while Python imports the engine. Both take seconds, and Java starts in another process."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rowmerge.errors import RowmergeError

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
    is_early = not (arguments.get("spark") or arguments.get("catalog") or arguments.get("catalogs"))
    start = threading.Thread(target=_start_spark, args=[arguments], daemon=True, name="rowmerge-spark") if is_early else None
    if start is not None:
        start.start()
    from rowmerge.session.session import connect  # while Java starts

    if start is not None:
        start.join()
    return connect(**arguments)


def _start_spark(arguments: Mapping[str, Any]) -> None:
    """Start Spark for the arguments of `connect`, which uses it then. If this fails, `connect` raises the error."""
    from rowmerge.session.startup.connectors import warehouse_locations
    from rowmerge.session.startup.embedded import start_spark

    with suppress(RowmergeError):
        start_spark(arguments.get("spark_config"), warehouse_locations(arguments.get("location"), None, ()))
