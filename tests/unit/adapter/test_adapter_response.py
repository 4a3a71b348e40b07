"""The message of a statement, and its counts in run_results.json."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dbt.adapters.rowmerge.response import response_from
from rowmerge import RowCounts, StatementOutcome, StatementResult, TableScan
from rowmerge.table.snapshots.files import FileListing, MatchingFiles, listing_schema


def scan_of(selected, files):
    """Return the scan of the first `selected` of some files of 1,000 bytes."""
    empty = pa.struct([])
    rows = [{"path": str(number), "size": 1000, "records": 1, "deleted": 0} for number in range(files)]
    listing = FileListing(pa.Table.from_pylist(rows, listing_schema(empty, empty, empty)))
    return TableScan(None, matching=MatchingFiles(FileListing(listing.rows.slice(0, selected)), files, 1000 * files))


def outcome_of(operation, changes=None, version=None, seconds=None, attempts=1, scans=()):
    return StatementOutcome.of(StatementResult(None, operation, changes, version, seconds or {}, attempts), scans)


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (
            outcome_of("MERGE", RowCounts(1204, 310, 2, 3, bytes_added=1_234_567), 7),
            "OK merge: 1,204 inserted, 310 updated, 2 deleted, 3 files (1.2 MB), version 7",
        ),
        (outcome_of("MERGE", RowCounts(), 7), "OK merge: nothing to do, version 7"),
        (
            outcome_of("INSERT", RowCounts(inserted=1, files_added=1, bytes_added=700), 1),
            "OK insert: 1 inserted, 1 file (700 bytes), version 1",
        ),
        (
            outcome_of("CREATE TABLE AS SELECT", RowCounts(inserted=1, files_added=1, bytes_added=1000), 0),
            "OK create: 1 row, 1 file (1.0 kB), version 0",
        ),
        (outcome_of("CREATE TABLE AS SELECT", RowCounts(), 4), "OK create: 0 rows, version 4"),
        (outcome_of("VACUUM", RowCounts(files_removed=4), 4), "OK vacuum: 4 files removed, version 4"),
        (outcome_of("DELETE", RowCounts(deleted=2, files_removed=1), 5, attempts=2), "OK delete: 2 deleted, version 5, 1 retry"),
        (outcome_of("CLONE", RowCounts(files_added=3), 0), "OK clone: 3 files, version 0"),
        (outcome_of("SELECT"), "OK"),
    ],
)
def test_the_message_describes_the_statement(outcome, message):
    assert str(response_from(outcome)) == message


def test_the_message_and_the_response_add_the_files_that_all_scans_read():
    response = response_from(outcome_of("MERGE", RowCounts(inserted=1), 2, scans=[scan_of(1, 1200), scan_of(2, 300)]))
    assert str(response) == "OK merge: 1 inserted, read 3 of 1,500 files, version 2"
    assert (response.files_read, response.files_total, response.bytes_read, response.bytes_total) == (3, 1500, 3000, 1_500_000)
    assert str(response_from(outcome_of("SELECT", scans=[scan_of(1, 1)]))) == "OK: read 1 of 1 file"


def test_the_total_is_missing_if_the_metadata_do_not_tell_it():
    listing = scan_of(3, 3).matching.listing
    response = response_from(outcome_of("SELECT", scans=[scan_of(1, 2), TableScan(None, matching=MatchingFiles(listing, None, None))]))
    assert (str(response), response.files_read, response.files_total) == ("OK: read 4 files", 4, None)


def test_tables_without_files_are_not_in_the_message():
    assert str(response_from(outcome_of("SELECT", scans=[scan_of(0, 0)]))) == "OK"


def test_the_response_has_the_row_counts():
    response = response_from(outcome_of("MERGE", RowCounts(2, 3, 4, 5, 6, 7, 8), 9, {"plan": 0.12345}, attempts=4)).to_dict(omit_none=True)
    del response["_message"]
    assert response == {
        "code": "MERGE",
        "rows_affected": 9,
        "rows_inserted": 2,
        "rows_updated": 3,
        "rows_deleted": 4,
        "files_added": 5,
        "files_removed": 6,
        "files_marked": 7,
        "bytes_added": 8,
        "version": 9,
        "retries": 3,
        "seconds": {"plan": 0.123},
    }
