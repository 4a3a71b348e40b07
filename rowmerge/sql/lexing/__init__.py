"""Tokens of a text, and a cursor that reads expressions and clauses from them."""
