"""Start-up of the embedded Spark, with an archive of its Java classes."""
