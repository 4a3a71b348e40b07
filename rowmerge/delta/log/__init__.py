"""The transaction log: commits, checkpoints and checksums, and the table versions that they define."""
