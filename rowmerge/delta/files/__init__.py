"""The live files of a table version as Arrow tables, with their statistics."""
