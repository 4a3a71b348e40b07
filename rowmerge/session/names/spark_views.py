"""The temporary views of Spark under which the tables, files and views that a statement reads are known to Spark's SQL."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import uuid4

from rowmerge.spark.reading.change_feed import read_changes
from rowmerge.spark.reading.scan import read_snapshot
from rowmerge.spark.spark_session import drop_view, register_view
from rowmerge.table.metadata.schema import backquote
from rowmerge.table.snapshots.change_feed import TableChanges
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_VIEWS = 512
"""The number of views that stay registered. Spark drops the least recently used one first: its statement has long been analysed."""


class SparkViews:
    """Registers views in one Spark session. The methods `register_…` return quoted names. Thread-safe.

    A view of a snapshot is named by a digest of the table's location and version, so statements that read one version share one view.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._frames: OrderedDict[str, DataFrame] = OrderedDict()
        self._lock = threading.Lock()

    def rows(self, snapshot: Snapshot) -> DataFrame:
        """Return the rows of a snapshot."""
        return self._register_once(view_name(snapshot.shape.location, snapshot.identity), lambda: read_snapshot(self._spark, snapshot))

    def register_snapshot(self, snapshot: Snapshot) -> str:
        """Register the rows of a snapshot."""
        self.rows(snapshot)
        return backquote(view_name(snapshot.shape.location, snapshot.identity))

    def register_changes(self, changes: TableChanges) -> str:
        """Register the change rows between two versions of a table."""
        snapshot = changes.snapshot
        name = view_name("changes", snapshot.shape.location, snapshot.identity, str(changes.first), str(changes.last))
        self._register_once(name, lambda: read_changes(self._spark, changes))
        return backquote(name)

    def register_query(self, text: str, columns: tuple[str, ...] = ()) -> str:
        """Register a query in Spark's SQL, with its columns renamed to `columns` if there are any."""

        def read() -> DataFrame:
            frame = self._spark.sql(text)
            return frame.toDF(*columns) if columns and list(columns) != frame.columns else frame

        name = view_name(text, *columns)
        self._register_once(name, read)
        return backquote(name)

    def register_frame(self, frame: DataFrame) -> str:
        """Register rows that no later statement may read again, such as a listing of files."""
        name = f"__rowmerge_{uuid4().hex}"
        with self._lock:
            self._register(name, frame)
        return backquote(name)

    def _register_once(self, name: str, read: Callable[[], DataFrame]) -> DataFrame:
        """Return the rows of a view, which the first call reads and registers."""
        with self._lock:
            if name not in self._frames:
                self._register(name, read())
            self._frames.move_to_end(name)
            return self._frames[name]

    def _register(self, name: str, frame: DataFrame) -> None:
        register_view(frame, name)
        self._frames[name] = frame
        while len(self._frames) > MOST_VIEWS:
            least_recent, _ = self._frames.popitem(last=False)
            drop_view(self._spark, least_recent)


def view_name(*identity: str) -> str:
    """Return the unquoted name of the view of what these texts identify."""
    return f"__rowmerge_{hashlib.sha256(chr(0).join(identity).encode()).hexdigest()[:24]}"
