"""The engines of the benchmark."""
