"""Position-delete files and deletion vectors."""
