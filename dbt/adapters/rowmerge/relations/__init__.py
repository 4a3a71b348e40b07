"""Relations and their columns: names in SQL, sources with rows in files, and the catalog of `dbt docs generate`."""
