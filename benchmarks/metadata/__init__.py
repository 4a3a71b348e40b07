"""The cost of opening, pruning and committing for logs with many commits and files."""
