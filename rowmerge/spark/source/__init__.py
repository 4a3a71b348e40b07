"""The source of a MERGE: evaluate it once, count it, and extract its keys."""
