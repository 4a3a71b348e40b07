"""Commits: their actions, conflicts with concurrent commits, RESTORE and CLONE."""
