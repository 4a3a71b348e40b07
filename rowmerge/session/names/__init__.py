"""Name resolution: from a name in a statement to a table, view, function or file, and to the Spark view that replaces it."""
