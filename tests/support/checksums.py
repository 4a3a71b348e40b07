"""Compare the checksum of each version of a Delta table with the state that its log has."""

from __future__ import annotations

from rowmerge.delta.log.checksums import check_state, read_checksum
from rowmerge.delta.log.log_files import list_log
from rowmerge.delta.log.versions import read_state
from rowmerge.storage.store import Storage


def check_checksums(location: str) -> int:
    """Compare the checksums of all versions in the log, and return their number. Raises ChecksumMismatch for a difference."""
    storage = Storage(location)
    listing = list_log(storage)
    for version in listing.checksums:
        checksum = read_checksum(storage, version)
        assert checksum is not None
        check_state(storage, read_state(storage, listing, version), checksum, lambda: True)
    return len(listing.checksums)
