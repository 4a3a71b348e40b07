"""Send functions of rowmerge to executors by value, with the job: executors need not have rowmerge installed."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Iterator
from functools import cache

import pyarrow as pa
from pyspark import cloudpickle

from rowmerge import concurrency
from rowmerge.parquet import data_files, filesystems, fitting, outcomes, partitions, rewriting, transforms
from rowmerge.spark.writing import sink
from rowmerge.spark.writing.sink import BatchFunction

_MODULES = (fitting, transforms, partitions, concurrency, filesystems, data_files, rewriting, outcomes, sink)
"""The code that runs on executors. It imports only PyArrow, NumPy, pyroaring, PySpark and the standard library."""

for module in (*_MODULES, sys.modules[__name__]):
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]

_CLASSES = (data_files.WriteSpec, data_files.StoredColumns, data_files.FilesLineage, outcomes.OutcomeColumns, partitions.PartitionKey)
"""The classes of rowmerge among the arguments of these functions."""


def ship(function: Callable[..., BatchFunction], *arguments: object) -> BatchFunction:
    """Return what `function(*arguments)` returns, for mapInArrow, in a form that executors can load. `function` is one of sink.py.

    Its code is pickled once in a process: to do so for each job would take longer than to plan a small one.
    """
    code, pickled_arguments = _pickled_code(function), pickle.dumps(arguments)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        loaded_function, classes = pickle.loads(code)

        class Arguments(pickle.Unpickler):
            def find_class(self, module: str, name: str) -> object:
                # Executors know these classes only from the code that travels with the job.
                return classes[name] if name in classes and module.startswith("rowmerge.") else super().find_class(module, name)

        batch_function: BatchFunction = loaded_function(*Arguments(io.BytesIO(pickled_arguments)).load())
        return batch_function(batches)

    return run


@cache
def _pickled_code(function: Callable[..., BatchFunction]) -> bytes:
    code: bytes = cloudpickle.dumps((function, {class_.__name__: class_ for class_ in _CLASSES}))  # type: ignore[no-untyped-call]
    return code
