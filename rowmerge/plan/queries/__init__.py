"""Push the conditions of a query down to the tables that it reads, so that reads skip files."""
