"""The files that COPY INTO has loaded into a table. Each file is loaded once, so a commit records the files together with their rows.

A key identifies a file by its path. Delta tables have one application transaction (`txn`) for each key, and Iceberg tables have keys in
table properties. Checkpoints and metadata files contain both, so neither log cleanup nor expiry of snapshots forgets a file.
"""

from __future__ import annotations

import base64
import hashlib
import re

RESERVED = "rowmerge.copy-into."
"""The beginning of the application ids, and of the names of table properties, that record loaded files."""
OF_ONE_TABLE = (RESERVED, "schema.name-mapping.default")
"""The beginnings of the names of properties that no other table can have: the record of loaded files, and the ids of columns."""
KEY_LENGTH = 16
_S3_SCHEME = re.compile(r"^s3[an]:")


def file_key(path: str) -> str:
    """Return the key of a file: 16 characters of a hash of its path. The schemes `s3a` and `s3n` mean the same as `s3`.

    Args:
        path: The absolute path or URL of the file.
    """
    digest = hashlib.sha256(_S3_SCHEME.sub("s3:", path).encode()).digest()
    return base64.urlsafe_b64encode(digest[: KEY_LENGTH * 6 // 8]).decode()
