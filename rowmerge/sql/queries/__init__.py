"""Tables, files and functions that a query names, and their replacement in its text."""
