"""Expire snapshots, delete files, rewrite delete files and manifests, move branches, and drop tables."""
