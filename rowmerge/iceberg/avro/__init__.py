"""Read and write Avro files of Iceberg's metadata."""
