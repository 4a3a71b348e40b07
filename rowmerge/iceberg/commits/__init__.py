"""Commits: the files of a new snapshot, conflicts with concurrent commits, the update of the metadata."""
