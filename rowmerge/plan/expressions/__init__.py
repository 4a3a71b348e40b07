"""Analysis of the expressions in statements: their column references, and the side to which each condition belongs."""
