"""The Delta Lake format: its log, checkpoints, deletion vectors and commits, after PROTOCOL.md of delta-io/delta."""

from rowmerge.delta.table import DeltaTable

__all__ = ["DeltaTable"]
