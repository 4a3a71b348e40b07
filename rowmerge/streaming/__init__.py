"""The format `rowmerge` of Spark: streams that append to a table, streams of its new rows, and reads of one version.

Spark calls the data source API (`pyspark.sql.datasource`) in Python workers of the driver, which have no SparkSession. So this package
opens tables by the options of a query, and uses only parts of the engine that work without Spark's JVM. Arrow reads and writes the data
files on executors (`tasks`). The commit protocol of the table commits a batch.

`pyspark_rowmerge`, a module at the top level, is the entry. `options` opens the table. `reading` divides files into partitions. `source`
has the readers, and `positions` the progress of a stream. `writing` checks and commits batches.
"""
