"""The transaction log: commits, checkpoints and checksums, and the versions that they make."""
