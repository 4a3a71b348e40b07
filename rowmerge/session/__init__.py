"""Statements in, results out: the public face of the engine."""
