"""Functions of the warehouse: which one a call means, and its registration in Spark."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING
from uuid import uuid4

from rowmerge.catalog import Catalog, Function
from rowmerge.session.names.spark_views import view_name
from rowmerge.spark.functions import is_known, register_python, register_sql, unregister
from rowmerge.table.metadata.schema import backquote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_FUNCTIONS = 256
"""The number of functions that stay registered. The least recently used one is dropped first."""


class WarehouseFunctions:
    """Finds functions in the catalog, and registers them in one Spark session. Thread-safe."""

    def __init__(self, spark: SparkSession, catalog: Catalog) -> None:
        self._spark = spark
        self._catalog = catalog
        self._session_id = uuid4().hex  # a drop must not affect another session over the same Spark
        self._registered: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, schema: str, name: str, *, is_qualified: bool) -> Function | None:
        """Return the function of this name, or None. Without a schema in the call, a function of the Spark session comes first."""
        function = self._catalog.functions.get(schema, name)
        return None if function is not None and not is_qualified and is_known(self._spark, name) else function

    def register(self, function: Function, body: str) -> str:
        """Register a function in Spark, and return its quoted name there. `body`: the bound SQL of a function in SQL."""
        name = view_name("function", self._session_id, str(function), repr(function.definition), body)
        with self._lock:
            if name not in self._registered:
                self._register(name, function, body)
            self._registered.move_to_end(name)
        return backquote(name)

    def _register(self, name: str, function: Function, body: str) -> None:
        if function.definition.language == "sql":
            register_sql(self._spark, name, function.definition, body)
        else:
            register_python(self._spark, name, str(function), function.definition)
        self._registered[name] = None
        while len(self._registered) > MOST_FUNCTIONS:
            least_recent, _ = self._registered.popitem(last=False)
            unregister(self._spark, least_recent)
