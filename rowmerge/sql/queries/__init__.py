"""The tables, files and functions to which a query refers, and their replacement in the query's text."""
