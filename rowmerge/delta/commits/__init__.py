"""Commits to a Delta table: their actions, conflicts with concurrent commits, RESTORE, CLONE and DROP."""
