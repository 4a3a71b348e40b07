"""Convert SQL conditions to predicates that are evaluated with the bounds of files."""
