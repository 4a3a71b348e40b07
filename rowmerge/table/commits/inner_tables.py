"""Tables and views in folders below a table's folder. A statement on the outer table deletes none of their files."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rowmerge.storage.store import StoredObject

_LOG = re.compile(r"(.+?/)(?:_delta_log/.|metadata/[^/]*\.metadata\.json(?:\.gz)?$)")


def inner_tables(found: Iterable[StoredObject]) -> tuple[str, ...]:
    """Return the folders of tables and views below a table's folder, each with a slash at its end. `found`: a listing of that folder."""
    return tuple({match[1] for each in found if (match := _LOG.match(each.path))})
