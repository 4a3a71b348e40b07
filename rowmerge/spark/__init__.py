"""Row plans on Spark: reading snapshots, finding rows, writing files. The only place, with the session's start-up, that knows PySpark."""
