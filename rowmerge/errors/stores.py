"""What to do about a failed request to an object store. The reason is the message of the library that sent the request.

Metadata files are read and written by obstore, data files by Arrow (AWS SDK for C++), and scans by Spark (Hadoop, AWS SDK for Java).
"""

from __future__ import annotations

import re

_STATUS = r"status(?: code)?:? "
_DENIED = re.compile(rf"{_STATUS}40[13]|access.?denied|permission.?denied|necessary privileges|AuthorizationPermission", re.IGNORECASE)
_BUSY = re.compile(rf"{_STATUS}(?:429|503)|slow.?down|too ?many ?requests|throttl", re.IGNORECASE)
_FAILED = re.compile(rf"{_STATUS}5\d\d|internal.?failure|internal.?error", re.IGNORECASE)
_UNREACHABLE = re.compile(
    r"HTTP error|network|curlCode|connect|resolve|timed? ?out|(?<!retry_)timeout|failed to respond|response body|premature|"
    r"broken pipe",
    re.IGNORECASE,
)
_OF_OBJECT_STORE = re.compile(r"AWS Error|Azure Error|google::cloud::Status|curlCode|Status Code: \d|awssdk|S3Exception|s3a|Content-Length")
"""Signs of a message from an object store instead of a local disk or a damaged file."""
_RETRIES = "max_retries of retry_config in storage_options"
_PERMISSIONS = (
    (re.compile(r"performing DELETE|\?delete\b|DeleteObject|deleteobjects|DeleteBlob", re.IGNORECASE), "delete objects", "s3:DeleteObject"),
    (re.compile(r"list-type=2|ListObjects|list request|listStatus", re.IGNORECASE), "list objects", "s3:ListBucket"),
    (re.compile(r"performing (?:PUT|POST)|PutObject|MultipartUpload|UploadPart", re.IGNORECASE), "write objects", "s3:PutObject"),
    (re.compile(r"performing (?:GET|HEAD)|GetObject|HeadObject|getFileStatus|open|read", re.IGNORECASE), "read objects", "s3:GetObject"),
)
"""The permissions of requests, as a pattern of the message, the permitted action, and the name of the permission in S3."""


def is_store_failure(reason: str) -> bool:
    """Return whether an error message reports a failure of an object store. Otherwise, the file that cannot be read may be damaged.

    Args:
        reason: The message of the library that read the file.
    """
    return bool(_OF_OBJECT_STORE.search(reason)) and any(sign.search(reason) for sign in (_DENIED, _BUSY, _FAILED, _UNREACHABLE))


def advice_on_store(path: str, reason: str) -> str:
    """Return a sentence that says what to do about a failed request.

    Args:
        path: The absolute path of the object or folder.
        reason: The message of the library that sent the request.
    """
    scheme, _, bucket_and_path = path.partition("://")
    if scheme in ("", "file"):
        return "Check that the path exists and that you may write there."
    if _DENIED.search(reason):
        return _advice_on_permission(scheme, bucket_and_path.partition("/")[0], reason)
    if _BUSY.search(reason):
        return f"The store limits the rate of requests. Run fewer statements at a time, or raise {_RETRIES}."
    if _FAILED.search(reason):
        return f"The store failed. Run the statement again. If it fails often, raise {_RETRIES}."
    if _UNREACHABLE.search(reason):
        advice = "Check that the store runs and that its endpoint is reachable. For a slow network, raise timeout of client_options and"
        return f"{advice} {_RETRIES}."
    return "Check that the bucket exists, that you may write there, and that storage_options are correct."


def _advice_on_permission(scheme: str, bucket: str, reason: str) -> str:
    """Return a sentence that names the missing permission and the bucket. `reason`: the message, which contains the kind of the request."""
    action, permission = next(
        ((action, permission) for pattern, action, permission in _PERMISSIONS if pattern.search(reason)), ("read and write objects", "")
    )
    is_s3 = scheme in ("s3", "s3a", "s3n") and permission
    sentence = f"Grant the permission to {action}{f' ({permission})' if is_s3 else ''} in the bucket {bucket}."
    if permission == "s3:GetObject":
        sentence += " Without the permission to list objects (s3:ListBucket), S3 also denies requests for missing objects."
    return sentence
