"""Commits: the files of a new snapshot, conflicts with concurrent commits, and the update of the metadata."""
