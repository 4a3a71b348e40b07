"""Version checksums: the totals and non-file actions of a version, in a file next to its commit.

PROTOCOL.md describes them under "Version Checksum File".
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow.compute as pc

from rowmerge.concurrency import run_in_background
from rowmerge.delta.files.live_files import Block, LiveFiles
from rowmerge.delta.log.history import read_commit_info
from rowmerge.delta.log.log_files import checksum_path
from rowmerge.delta.log.replay import State, apply_table_actions
from rowmerge.delta.metadata.actions import Action, Metadata, Protocol, Transaction, domain_fields, transaction_fields
from rowmerge.delta.metadata.properties import transaction_retention
from rowmerge.errors import ChecksumMismatch, RowmergeError, StorageError
from rowmerge.storage.store import Storage

logger = logging.getLogger(__name__)

_FILE_ACTIONS = frozenset(("add", "remove", "cdc"))
_MAX_TRANSACTIONS = 100
"""The maximum number of transactions in a checksum, as in delta-spark. If a version has more, its checksum lists none."""


class FileTotals(NamedTuple):
    """The number and total size of files, and the number of their deletion vectors and deleted rows. A missing size counts as 0."""

    files: int
    size: int
    vectors: int
    deleted: int


def checksum_after(state: State, actions: Sequence[Action], folder: str) -> bytes:
    """Return the content of the checksum file for the version after a commit.

    Args:
        state: The state before the commit.
        actions: All actions of the commit, including `commitInfo`.
        folder: The path of the log's folder, for the error.

    Raises:
        CorruptLog: The new version has no protocol or no metadata.
    """
    table_actions = [action for action in actions if _FILE_ACTIONS.isdisjoint(action)]
    new_state = apply_table_actions(state, table_actions, folder)
    # The totals of the files follow from those before the commit, without the new file list.
    totals = _sum_totals([totals_of(state.files), *_changes_of_totals(actions)])
    info = next(action["commitInfo"] for action in actions if "commitInfo" in action)
    # `dumps` escapes all characters outside ASCII, because names from another writer may be invalid in UTF-8.
    return json.dumps(_checksum_fields(new_state, totals, info), separators=(",", ":")).encode() + b"\n"


def _checksum_fields(state: State, totals: FileTotals, info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checksum fields of a version.

    `state`: the state of the version, except its files. `totals`: the totals of its files. `info`: the fields of its `commitInfo`.
    """
    fields: dict[str, Any] = {
        "txnId": info["txnId"],
        "tableSizeBytes": totals.size,
        "numFiles": totals.files,
        "numMetadata": 1,
        "numProtocol": 1,
        "domainMetadata": domain_fields(sorted(state.domains.items())),
        "metadata": state.metadata.action()["metaData"],
        "protocol": state.protocol.action()["protocol"],
    }
    if "inCommitTimestamp" in info:
        fields["inCommitTimestampOpt"] = info["inCommitTimestamp"]
    if state.protocol.supports("deletionVectors"):
        fields |= {"numDeletedRecordsOpt": totals.deleted, "numDeletionVectorsOpt": totals.vectors}
    # With a retention, the transactions of a version depend on the time at which it is read, so a checksum cannot list them.
    if transaction_retention(state.metadata.configuration) is None and len(state.transactions) <= _MAX_TRANSACTIONS:
        fields["setTransactions"] = transaction_fields(sorted(state.transactions.items()))
    return fields


def totals_of(files: LiveFiles) -> FileTotals:
    """Return the totals of all live files of a version. The totals of each block of files are computed only once."""
    return _sum_totals([block.cached("totals", partial(_totals_of_block, block)) for block in files.blocks])


def _sum_totals(totals: Iterable[FileTotals]) -> FileTotals:
    return FileTotals(*map(sum, zip(FileTotals(0, 0, 0, 0), *totals, strict=True)))


def _totals_of_block(block: Block) -> FileTotals:
    """Return the totals of the files in a block."""
    vectors = block.rows["deletionVector"]
    deleted = pc.sum(pc.struct_field(vectors, ["cardinality"])).as_py() or 0
    return FileTotals(block.rows.num_rows, pc.sum(block.rows["size"]).as_py() or 0, len(vectors) - vectors.null_count, deleted)


def _changes_of_totals(actions: Sequence[Action]) -> Iterator[FileTotals]:
    """Yield the change that each file action of a commit makes to the totals.

    Each `add` must add a new file, and each `remove` must remove a live file.
    """
    for action in actions:
        sign = 1 if "add" in action else -1
        if file := action.get("add") or action.get("remove"):
            vector = file.get("deletionVector") or {}
            yield FileTotals(sign, sign * (file.get("size") or 0), sign * bool(vector), sign * (vector.get("cardinality") or 0))


def put_checksum(storage: Storage, version: int, checksum: bytes) -> None:
    """Write the checksum file of a committed version, unless it exists. Ignore errors, because readers do not need the file.

    Args:
        storage: The storage of the table. If it is remote, a background thread writes the file.
        version: The committed version.
        checksum: The content of the checksum file.
    """
    # A power cut may leave an incomplete file, which counts as missing.
    put = partial(storage.without_sync().put_if_absent, checksum_path(version), checksum)
    run_in_background(put, ignored=RowmergeError, is_remote=storage.is_remote)


def read_checksum(storage: Storage, version: int) -> Mapping[str, Any] | None:
    """Read the checksum of a version.

    Args:
        storage: The storage of the table.
        version: The version.

    Returns:
        The fields of the checksum, or None if the file is missing or unreadable, for example after a crash.
    """
    try:
        checksum = json.loads(storage.get(checksum_path(version)))
        if isinstance(checksum, dict):
            return checksum
        problem: object = "it is not a JSON object"
    except FileNotFoundError:
        return None
    except (StorageError, ValueError, RecursionError) as error:
        problem = error
    logger.warning("The checksum file %s/%s is unreadable and is ignored: %s", storage.location, checksum_path(version), problem)
    return None


def check_state(storage: Storage, state: State, checksum: Mapping[str, Any], is_fatal: Callable[[], bool]) -> None:
    """Compare a state with the checksum of its version, and log a warning for a mismatch that is not fatal.

    Args:
        storage: The storage of the table.
        state: The state of a version.
        checksum: The fields of the version's checksum.
        is_fatal: A function that returns whether a mismatch is an error. It is called only if there is a mismatch.

    Raises:
        ChecksumMismatch: The state differs from the checksum, and the mismatch is fatal.
    """
    differences = list(_differences(state, checksum))
    if not differences:
        return
    path = f"{storage.location}/{checksum_path(state.version)}"
    if _is_of_another_commit(storage, state, checksum):
        logger.warning("The checksum file %s belongs to another commit and is ignored.", path)
        return
    error = ChecksumMismatch(path, state.version, differences)
    if is_fatal():
        raise error
    logger.warning("%s", error.message)


def _differences(state: State, checksum: Mapping[str, Any]) -> Iterable[str]:
    """Yield a description of each difference between the state and the checksum. Fields that the checksum lacks are ignored."""
    yield from _number_differences(state, checksum)
    try:
        yield from _action_differences(state, checksum)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        yield f"a field has the wrong type ({type(error).__name__}: {error})"


def _number_differences(state: State, checksum: Mapping[str, Any]) -> Iterable[str]:
    """Yield the differences between the checksum file and the log in totals, numbers of actions, and the in-commit timestamp."""
    totals = totals_of(state.files)
    log_numbers = {
        "tableSizeBytes": totals.size,
        "numFiles": totals.files,
        "numMetadata": 1,  # each version has exactly one metadata and one protocol
        "numProtocol": 1,
        "numDeletionVectorsOpt": totals.vectors,
        "numDeletedRecordsOpt": totals.deleted,
        "inCommitTimestampOpt": state.commit_info.get("inCommitTimestamp"),
    }
    for name, log_number in log_numbers.items():
        checksum_number = checksum.get(name)
        if log_number is not None and checksum_number is not None and checksum_number != log_number:
            yield f"{name} is {checksum_number}, but the log has {log_number}"


def _action_differences(state: State, checksum: Mapping[str, Any]) -> Iterable[str]:
    """Yield the differences in the protocol, metadata, domains and transactions. Raises an error if a field has a wrong type."""
    protocol, metadata, domains = (checksum.get(name) for name in ("protocol", "metadata", "domainMetadata"))
    if protocol is not None and Protocol.of(protocol) != state.protocol:
        yield "the protocol differs"
    if metadata is not None:
        yield from _metadata_differences(Metadata.of(metadata), state.metadata)
    if domains is not None:
        yield from _domain_differences(domains, state.domains)
    yield from _transaction_differences(checksum.get("setTransactions") or (), state.transactions)


def _domain_differences(domains: Iterable[Mapping[str, Any]], log_domains: Mapping[str, str]) -> Iterable[str]:
    """Yield the difference between the metadata domains of a checksum and of the log."""
    configurations = {fields["domain"]: fields["configuration"] for fields in domains if not fields.get("removed")}
    if configurations != log_domains:
        yield f"domainMetadata has the domains {sorted(configurations)}, but the log has {sorted(log_domains)} or different values"


def _transaction_differences(transactions: Iterable[Mapping[str, Any]], log: Mapping[str, Transaction]) -> Iterable[str]:
    """Yield the applications whose transaction versions differ between a checksum and the log."""
    for fields in transactions:
        # The state may lack a transaction that expired before its checkpoint was written.
        transaction = log.get(fields["appId"])
        if transaction is not None and transaction.version != fields["version"]:
            yield f"the transaction {fields['appId']} has version {fields['version']}, but the log has {transaction.version}"


def _metadata_differences(checksum: Metadata, state: Metadata) -> Iterable[str]:
    """Yield the differences between two definitions of a table. An empty name or description counts as missing."""
    for name in ("id", "name", "description", "provider", "partition_columns"):
        checksum_value, log_value = getattr(checksum, name) or None, getattr(state, name) or None
        if checksum_value != log_value:
            yield f"metadata.{name} is {checksum_value!r}, but the log has {log_value!r}"
    properties = checksum.configuration.items() ^ state.configuration.items()
    if properties:
        yield f"metadata.configuration has different properties or values: {', '.join(sorted({name for name, _ in properties}))}"
    if checksum.schema_string != state.schema_string and json.loads(checksum.schema_string) != json.loads(state.schema_string):
        yield "metadata.schemaString differs"


def _is_of_another_commit(storage: Storage, state: State, checksum: Mapping[str, Any]) -> bool:
    """Return whether the checksum's transaction id differs from that of the version's commit."""
    # A slow writer can write a checksum after another engine has deleted the log and created a table in its place.
    try:
        commit_info = state.commit_info or read_commit_info(storage, state.version)
    except RowmergeError:
        return False
    # Some engines write no transaction id.
    transaction_id = checksum.get("txnId")
    return bool(commit_info) and transaction_id is not None and transaction_id != commit_info.get("txnId")
