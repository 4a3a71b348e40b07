"""Our functions on their way to executors, which need not have rowmerge installed: they travel with the job, by value."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Iterator
from functools import cache

import pyarrow as pa
from pyspark import cloudpickle

from rowmerge import concurrency
from rowmerge.parquet import data_files, filesystems, fitting, lineage, outcomes, partitions, reading, rewriting, transforms, uuids
from rowmerge.spark.writing import sink

BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_MODULES = (uuids, fitting, transforms, partitions, lineage, concurrency, filesystems, data_files, reading, rewriting, outcomes, sink)
"""The code that runs on executors. It imports only PyArrow, NumPy, pyroaring, PySpark and the standard library."""

for module in (*_MODULES, sys.modules[__name__]):
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]

_CLASSES = (data_files.WriteSpec, data_files.HeldColumns, lineage.FilesLineage, outcomes.OutcomeColumns, partitions.PartitionKey)
"""Of what is given to functions."""


def shipped(function: Callable[..., BatchFunction], *arguments: object) -> BatchFunction:
    """What `function(*arguments)` returns, for mapInArrow. `function` is one of sink.py.

    Its code is pickled once in a process: to do so for each job would take longer than to plan a small one.
    """
    return _loaded(_code(function), pickle.dumps(arguments))


@cache
def _code(function: Callable[..., BatchFunction]) -> bytes:
    code: bytes = cloudpickle.dumps((function, {made.__name__: made for made in _CLASSES}))  # type: ignore[no-untyped-call]
    return code


def _loaded(code: bytes, given: bytes) -> BatchFunction:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        function, classes = pickle.loads(code)

        class Arguments(pickle.Unpickler):
            def find_class(self, module: str, name: str) -> object:
                # Only the code that came along has these classes here.
                return classes[name] if name in classes and module.startswith("rowmerge.") else super().find_class(module, name)

        made: BatchFunction = function(*Arguments(io.BytesIO(given)).load())
        return made(batches)

    return run
