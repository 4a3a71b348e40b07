"""Manifests and manifest lists: their entries, statistics and files."""
