"""Row plans on Spark: read snapshots, find rows, write files. Only this package and the session's start-up use PySpark."""
