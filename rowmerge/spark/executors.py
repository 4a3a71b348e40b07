"""Send functions of rowmerge to executors by value, as part of a job, so that rowmerge need not be installed on executors."""

from __future__ import annotations

import gc
import io
import pickle
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext, cloudpickle

from rowmerge import concurrency, redaction
from rowmerge.parquet import (
    bitmaps,
    calendars,
    data_files,
    dictionaries,
    file_writers,
    filesystems,
    fitting,
    key_lookup,
    leaf_columns,
    lookup_tasks,
    outcomes,
    partitions,
    rewriting,
    small_files,
    source_keys,
    transforms,
)
from rowmerge.parquet.statistics import theta_sketches

T = TypeVar("T")
BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function for `DataFrame.mapInArrow`."""
_MODULES = (
    *(bitmaps, calendars, fitting, leaf_columns, transforms, partitions, concurrency, redaction, filesystems, data_files),
    *(dictionaries, file_writers, rewriting, outcomes, small_files, theta_sketches, source_keys, key_lookup, lookup_tasks),
)
"""The modules that run on executors, as well as the module of a job's function. They import only each other, PyArrow, NumPy, PySpark
and the standard library."""

for module in (*_MODULES, sys.modules[__name__]):
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]

_CLASSES = (
    data_files.WriteSpec,
    data_files.StoredColumns,
    data_files.FilesLineage,
    lookup_tasks.LookupSpec,
    leaf_columns.ColumnOptions,
    leaf_columns.BloomFilter,
    outcomes.OutcomeColumns,
    partitions.PartitionKey,
    partitions.HashedPaths,
    small_files.SmallFilesSpec,
    source_keys.KeyColumn,
    source_keys.SourceKeys,
)
"""The rowmerge classes whose instances are arguments of the functions that executors call."""


class _ArgumentUnpickler(pickle.Unpickler):
    """An unpickler for arguments on an executor, which gets the classes of rowmerge only from the pickled code of a job."""

    def __init__(self, pickled_arguments: bytes, classes: Mapping[str, type]) -> None:
        super().__init__(io.BytesIO(pickled_arguments))
        self._classes = classes

    def find_class(self, module: str, name: str) -> object:
        """Return a rowmerge class from the code of the job, or any other class from its module."""
        return self._classes[name] if name in self._classes and module.startswith("rowmerge.") else super().find_class(module, name)


def bind_for_executors(function: Callable[..., BatchFunction], *arguments: object) -> BatchFunction:
    """Return `function(*arguments)`, a function for `DataFrame.mapInArrow`, in a form that executors without rowmerge can load.

    Args:
        function: A function that executors call with the arguments. Its module is sent by value, too.
        arguments: Builtins, Arrow objects and instances of `_CLASSES`.
    """
    call_function, pickled_arguments = callable_on_executors(function), pickle.dumps(arguments)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return call_function(pickled_arguments)(batches)

    return run


def callable_on_executors(function: Callable[..., T]) -> Callable[[bytes], T]:
    """Return a function that executors without rowmerge can load. It calls `function` with arguments that the driver has pickled.

    Spark sends the inner function `call` and two byte strings:

    - The code is the same in every job and is pickled once per process, because pickling it takes longer than planning a small job.
    - The arguments are pickled for each job. They contain instances of rowmerge classes, which an executor cannot import as usual. So the
      pickled code also contains these classes, and an unpickler (`_ArgumentUnpickler`) that gets them from there.
    """
    pickled_code = _pickle_code(function)

    def call(pickled_arguments: bytes) -> T:
        # Loading the code takes as long as reading a hundred small files. So a worker process, which runs many tasks, loads it once.
        loaded = vars(sys).setdefault("_rowmerge_code", {})
        if pickled_code not in loaded:
            loaded[pickled_code] = pickle.loads(pickled_code)
            # PySpark collects garbage after each task. Visiting the objects of all modules, which live as long as the process, takes 35 ms.
            gc.collect()
            gc.freeze()
        # `unpickler_class` is `_ArgumentUnpickler`, as `_pickle_code` has pickled it. The classes must be loaded before the arguments.
        loaded_function, unpickler_class, rowmerge_classes = loaded[pickled_code]
        loaded_arguments = unpickler_class(pickled_arguments, rowmerge_classes).load()
        result: T = loaded_function(*loaded_arguments)
        return result

    return call


def report(message: dict[str, Any]) -> dict[str, Any]:
    """Return the message of a task with the name of its host, the id of its stage, and whether Spark ran the task before."""
    context = TaskContext.get()
    is_repeated, stage = (False, None) if context is None else (context.attemptNumber() > 0, context.stageId())
    return {"message": message, "host": socket.gethostname(), "is_repeated": is_repeated, "stage": stage}


@cache
def _pickle_code(function: Callable[..., object]) -> bytes:
    """Return the code of a job, pickled by value: the function, `_ArgumentUnpickler`, and a dictionary of the rowmerge classes by name."""
    cloudpickle.register_pickle_by_value(sys.modules[function.__module__])  # type: ignore[no-untyped-call]
    classes = {class_.__name__: class_ for class_ in _CLASSES}
    pickled_code: bytes = cloudpickle.dumps((function, _ArgumentUnpickler, classes))  # type: ignore[no-untyped-call]
    return pickled_code
