"""What opening, pruning and committing cost as a table's log and its number of files grow."""
