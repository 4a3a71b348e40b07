"""Division of SQL text into tokens, and a cursor that reads expressions and clauses from the tokens."""
