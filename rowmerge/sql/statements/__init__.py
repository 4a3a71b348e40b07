"""Grammar of each kind of statement: from tokens to a command of rowmerge.commands."""
