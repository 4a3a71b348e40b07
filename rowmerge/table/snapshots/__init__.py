"""The versions of a table: their files, deleted rows and change rows."""
