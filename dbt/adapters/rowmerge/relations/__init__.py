"""Relations and their columns: names in SQL, sources whose rows are in files, and the catalog of `dbt docs generate`."""
