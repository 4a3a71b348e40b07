"""The advice about a failed request, by the messages of obstore, Arrow and Hadoop."""

from __future__ import annotations

import pytest

from rowmerge.errors import StorageError, UnreadableDataFile
from rowmerge.errors.environment import unreadable_data_file
from rowmerge.errors.stores import advice_on_store

OBSTORE = "Error performing {} http://127.0.0.1:9000/lake/t{} in 1ms, retry_timeout: 3s - Server returned non-2xx status code: {}"
HADOOP = "open s3a://lake/t/a.parquet at 0: s3.model.S3Exception: x (Service: S3, Status Code: {}, Request ID: 5)"
CASES = [
    (OBSTORE.format("GET", "?list-type=2&prefix=t", "403 Forbidden"), "s3:ListBucket) in the bucket lake"),
    (OBSTORE.format("GET", "/403/a.json", "403 Forbidden"), "s3:GetObject) in the bucket lake"),
    (OBSTORE.format("PUT", "/a.json", "403 Forbidden"), "s3:PutObject) in the bucket lake"),
    (OBSTORE.format("POST", "?delete", "403 Forbidden"), "s3:DeleteObject) in the bucket lake"),
    (
        "Generic S3 error: DeleteObjects request failed for key t/a: Access Denied (code: AccessDenied)",
        "s3:DeleteObject) in the bucket lake",
    ),
    ("When delete key 't/a' in bucket 'lake': AWS Error ACCESS_DENIED during DeleteObject operation: x", "s3:DeleteObject) in the bucket"),
    ("AWS Error ACCESS_DENIED during ListObjectsV2 operation: x", "s3:ListBucket) in the bucket lake"),
    ("AWS Error ACCESS_DENIED during HeadObject operation: No response body.", "s3:GetObject) in the bucket lake"),
    ("AWS Error ACCESS_DENIED during CreateMultipartUpload operation: x", "s3:PutObject) in the bucket lake"),
    (HADOOP.format(403), "s3:GetObject) in the bucket lake"),
    (OBSTORE.format("PUT", "/a.json", "503 Service Unavailable"), "limits the rate of requests"),
    ("AWS Error SLOW_DOWN during PutObject operation: x", "limits the rate of requests"),
    ("AWS Error UNKNOWN (HTTP status 503) during HeadObject operation: No response body.", "limits the rate of requests"),
    (HADOOP.format(503), "limits the rate of requests"),
    (OBSTORE.format("GET", "/503.json", "500 Internal Server Error"), "The store failed. Run the statement again"),
    ("AWS Error INTERNAL_FAILURE during PutObject operation: x", "The store failed. Run the statement again"),
    (HADOOP.format(500), "The store failed. Run the statement again"),
    ("Error performing GET http://127.0.0.1:9000/x in 1ms - HTTP error: error sending request", "endpoint is reachable"),
    ("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 28, Timeout was reached", "endpoint is reachable"),
    ("Error getting list response body: HTTP error: request or response body error", "endpoint is reachable"),
    ("Premature end of Content-Length delimited message body (expected: 535; received: 267)", "endpoint is reachable"),
    ("no such bucket", "Check that the bucket exists"),
]


@pytest.mark.parametrize(("reason", "advice"), CASES)
def test_the_advice_names_the_remedy(reason: str, advice: str) -> None:
    assert advice in advice_on_store("s3://lake/t", reason)
    assert advice in StorageError("s3://lake/t", reason).message


def test_permissions_of_other_stores_have_no_name() -> None:
    reason = OBSTORE.format("DELETE", "/a", "403 Forbidden")
    assert advice_on_store("gs://lake/t", reason) == "Grant the permission to delete objects in the bucket lake."


def test_a_local_disk_has_other_advice() -> None:
    assert advice_on_store("file:///lake/t", "Permission denied") == "Check that the path exists and that you may write there."


@pytest.mark.parametrize("reason", [reason for reason, _ in CASES if reason.startswith(("AWS Error", "open s3a", "Premature"))])
def test_a_file_of_a_failed_store_is_not_damaged(reason: str) -> None:
    assert isinstance(unreadable_data_file("t", "s3://lake/t/a.parquet", reason), StorageError)


@pytest.mark.parametrize(
    "reason", ["Parquet magic bytes not found in footer.", "Couldn't deserialize thrift: 403", "[Errno 13] Permission denied"]
)
def test_a_damaged_file_is_no_failure_of_the_store(reason: str) -> None:
    assert isinstance(unreadable_data_file("t", "file:///lake/t/a.parquet", reason), UnreadableDataFile)
