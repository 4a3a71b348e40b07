"""Find the target rows that a statement changes: by a join on Spark, or by looking up the keys of the source."""
