"""The Delta Lake format: log, checkpoints, deletion vectors and commits, as specified in PROTOCOL.md of delta-io/delta."""

from rowmerge.delta.table import DeltaTable

__all__ = ["DeltaTable"]
