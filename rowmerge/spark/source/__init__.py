"""The source of a MERGE: evaluate it once, count its rows, and extract its keys."""
