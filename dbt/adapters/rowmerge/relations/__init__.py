"""Relations and their columns: names in SQL, sources whose rows are in files, descriptions for `dbt docs generate`."""
