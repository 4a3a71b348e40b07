"""The format `rowmerge` of Spark. PySpark finds it in this module: it imports each installed module whose name begins with `pyspark_`.

Every Spark application on the machine does that, so this module imports little, and the engine only when a query uses the format.
Executors get the class by value, because rowmerge need not be installed there. So functions import what they need.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class DefaultSource(DataSource):
    """The format `rowmerge`: `spark.read`, `spark.readStream` and `writeStream` on Delta and Iceberg tables (docs/streaming.md)."""

    @classmethod
    def name(cls) -> str:
        return "rowmerge"

    def schema(self) -> StructType:
        self._check_pyspark()
        from rowmerge.streaming.source import table_schema

        return table_schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        self._check_pyspark()
        from rowmerge.streaming.source import TableReader

        return TableReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        self._check_pyspark()
        from rowmerge.streaming.source import TableStreamReader

        return TableStreamReader(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        self._check_pyspark()
        from rowmerge.streaming.writing import TableStreamWriter

        return TableStreamWriter(self.options, schema, overwrite=overwrite)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from rowmerge.errors import UnsupportedStatement

        raise UnsupportedStatement("df.write.format('rowmerge') is not supported. Use session.write(df, name) of rowmerge.connect(…).")

    def _check_pyspark(self) -> None:
        from rowmerge.streaming.spark_versions import check_pyspark

        check_pyspark()
