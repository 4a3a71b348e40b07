"""Encode Puffin files: blobs, and a footer that describes them (Puffin specification of Iceberg)."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from rowmerge.version import __version__

_MAGIC = b"PFA1"
_NO_FLAGS = bytes(4)
_PROPERTIES = {"created-by": f"dbt-rowmerge {__version__}"}


def blob_offsets(blobs: Sequence[bytes]) -> list[int]:
    """Return the offset of each blob in the Puffin file that `encode_puffin` returns for them."""
    return list(accumulate(map(len, blobs), initial=len(_MAGIC)))[:-1]


def encode_puffin(blobs: Sequence[bytes], descriptions: Sequence[Mapping[str, Any]]) -> tuple[bytes, int]:
    """Return the bytes of a Puffin file with uncompressed blobs, and the size of its footer.

    Args:
        blobs: The content of each blob.
        descriptions: The entry of each blob in the footer ("BlobMetadata" in the specification), with or without its place in the file.
    """
    places = zip(descriptions, blob_offsets(blobs), blobs, strict=True)
    entries = [{**description, "offset": offset, "length": len(blob)} for description, offset, blob in places]
    payload = json.dumps({"blobs": entries, "properties": _PROPERTIES}).encode()
    footer = b"".join([_MAGIC, payload, struct.pack("<i", len(payload)), _NO_FLAGS, _MAGIC])
    return b"".join([_MAGIC, *blobs, footer]), len(footer)
