"""The version of the adapter, read by dbt and by the build."""

version = "0.1.0"
