"""SQL text that computes, casts and checks the values of the rows to write."""
