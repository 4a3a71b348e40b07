"""The commit protocol that the table formats share."""
