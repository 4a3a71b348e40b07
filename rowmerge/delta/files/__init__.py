"""The live files of a version as Arrow rows, with their statistics."""
