"""The grammar of each kind of statement. Its functions parse tokens and return a command of rowmerge.commands."""
