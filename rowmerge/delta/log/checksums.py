"""Version checksums: the totals and small actions of a version, in a file beside its commit (PROTOCOL.md, Version Checksum File)."""

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
_MOST_TRANSACTIONS = 100
"""The most transactions that a checksum lists, as in delta-spark. A checksum without the list says nothing of them."""


class FileTotals(NamedTuple):
    """The number and bytes of files, and the number and deleted records of their deletion vectors. A missing size counts as 0."""

    files: int
    size: int
    vectors: int
    deleted: int


def checksum_after(state: State, actions: Sequence[Action], folder: str) -> bytes:
    """Return the checksum of the version that a commit makes of a state. Raises CorruptLog, which names the log's folder."""
    after = apply_table_actions(state, [action for action in actions if _FILE_ACTIONS.isdisjoint(action)], folder)
    info = next(action["commitInfo"] for action in actions if "commitInfo" in action)
    fields = _checksum_fields(after, _sum_totals([totals_of(state.files), *_changes_of_totals(actions)]), info)
    # In ASCII, because names in a foreign log may be no UTF-8.
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def _checksum_fields(state: State, totals: FileTotals, info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the checksum of a state with these totals. `info`: the version's `commitInfo`."""
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
    # Which transactions have expired depends on the time at which a state is read, so a checksum cannot tell.
    if transaction_retention(state.metadata.configuration) is None and len(state.transactions) <= _MOST_TRANSACTIONS:
        fields["setTransactions"] = transaction_fields(sorted(state.transactions.items()))
    return fields


def totals_of(files: LiveFiles) -> FileTotals:
    """Return the totals of all files of a version. Those of a block are computed once."""
    return _sum_totals([block.cached("totals", partial(_totals_of_block, block)) for block in files.blocks])


def _sum_totals(totals: Iterable[FileTotals]) -> FileTotals:
    return FileTotals(*map(sum, zip(FileTotals(0, 0, 0, 0), *totals, strict=True)))


def _totals_of_block(block: Block) -> FileTotals:
    vectors = block.rows["deletionVector"]
    deleted = pc.sum(pc.struct_field(vectors, ["cardinality"])).as_py() or 0
    return FileTotals(block.rows.num_rows, pc.sum(block.rows["size"]).as_py() or 0, len(vectors) - vectors.null_count, deleted)


def _changes_of_totals(actions: Sequence[Action]) -> Iterator[FileTotals]:
    """Yield what each file action of a commit adds to totals. Each `add` is a file that the state lacks, each `remove` one that it has."""
    for action in actions:
        sign = 1 if "add" in action else -1
        if file := action.get("add") or action.get("remove"):
            vector = file.get("deletionVector") or {}
            yield FileTotals(sign, sign * (file.get("size") or 0), sign * bool(vector), sign * (vector.get("cardinality") or 0))


def put_checksum(storage: Storage, version: int, checksum: bytes) -> None:
    """Put the checksum of a committed version, unless there is one. On a distant store, a thread puts it. It never raises."""
    # A power cut may leave a part of it, which counts as missing.
    put = partial(storage.without_sync().put_if_absent, checksum_path(version), checksum)
    run_in_background(put, ignored=RowmergeError, is_remote=storage.is_remote)


def read_checksum(storage: Storage, version: int) -> Mapping[str, Any] | None:
    """Return the checksum of a version, None without one. An unreadable checksum, which a crash can leave, counts as missing."""
    try:
        checksum = json.loads(storage.get(checksum_path(version)))
        if not isinstance(checksum, dict):
            raise ValueError("it is no JSON object")
    except FileNotFoundError:
        return None
    except (StorageError, ValueError, RecursionError) as error:
        logger.warning("The checksum %s/%s is unreadable, and not compared: %s", storage.location, checksum_path(version), error)
        return None
    return checksum


def check_state(storage: Storage, state: State, checksum: Mapping[str, Any], is_fatal: Callable[[], bool]) -> None:
    """Compare a state with the checksum of its version. Raises ChecksumMismatch, or logs a warning if a mismatch is not fatal."""
    differences = list(_differences(state, checksum))
    if not differences:
        return
    path = f"{storage.location}/{checksum_path(state.version)}"
    if _is_of_another_commit(storage, state, checksum):
        logger.warning("The checksum %s was written for another commit, and is not compared.", path)
        return
    error = ChecksumMismatch(path, state.version, differences)
    if is_fatal():
        raise error
    logger.warning("%s", error.message)


def _differences(state: State, checksum: Mapping[str, Any]) -> Iterable[str]:
    """Yield the differences between the state and the checksum. Fields that the checksum lacks are not compared."""
    yield from _number_differences(state, checksum)
    try:
        yield from _action_differences(state, checksum)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        yield f"a field has a wrong type ({type(error).__name__}: {error})"


def _number_differences(state: State, checksum: Mapping[str, Any]) -> Iterable[str]:
    """Yield the differences in totals, in numbers of actions and in the in-commit timestamp."""
    totals = totals_of(state.files)
    log_numbers = {
        "tableSizeBytes": totals.size,
        "numFiles": totals.files,
        "numMetadata": 1,
        "numProtocol": 1,
        "numDeletionVectorsOpt": totals.vectors,
        "numDeletedRecordsOpt": totals.deleted,
        "inCommitTimestampOpt": state.commit_info.get("inCommitTimestamp"),
    }
    for name, log_number in log_numbers.items():
        checksum_number = checksum.get(name)
        if log_number is not None and checksum_number is not None and checksum_number != log_number:
            yield f"{name} is {checksum_number}, the log has {log_number}"


def _action_differences(state: State, checksum: Mapping[str, Any]) -> Iterable[str]:
    """Yield the differences in protocol, metadata, domains and transactions. A field of a wrong type raises an error."""
    protocol, metadata, domains = (checksum.get(name) for name in ("protocol", "metadata", "domainMetadata"))
    if protocol is not None and Protocol.of(protocol) != state.protocol:
        yield "the protocol is another one"
    if metadata is not None:
        yield from _metadata_differences(Metadata.of(metadata), state.metadata)
    if domains is not None:
        yield from _domain_differences(domains, state.domains)
    yield from _transaction_differences(checksum.get("setTransactions") or (), state.transactions)


def _domain_differences(domains: Iterable[Mapping[str, Any]], log_domains: Mapping[str, str]) -> Iterable[str]:
    configurations = {fields["domain"]: fields["configuration"] for fields in domains if not fields.get("removed")}
    if configurations != log_domains:
        yield f"domainMetadata has the domains {sorted(configurations)}, the log has {sorted(log_domains)} or other values"


def _transaction_differences(transactions: Iterable[Mapping[str, Any]], log: Mapping[str, Transaction]) -> Iterable[str]:
    for fields in transactions:
        # A transaction may have expired in the checkpoint that the state was read from.
        transaction = log.get(fields["appId"])
        if transaction is not None and transaction.version != fields["version"]:
            yield f"the transaction {fields['appId']} has version {fields['version']}, the log has {transaction.version}"


def _metadata_differences(checksum: Metadata, state: Metadata) -> Iterable[str]:
    """Yield the differences between two definitions of a table. An empty name or description equals a missing one."""
    for name in ("id", "name", "description", "provider", "partition_columns"):
        checksum_value, log_value = getattr(checksum, name) or None, getattr(state, name) or None
        if checksum_value != log_value:
            yield f"metadata.{name} is {checksum_value!r}, the log has {log_value!r}"
    properties = checksum.configuration.items() ^ state.configuration.items()
    if properties:
        yield f"metadata.configuration has other properties or values: {', '.join(sorted({name for name, _ in properties}))}"
    if checksum.schema_string != state.schema_string and json.loads(checksum.schema_string) != json.loads(state.schema_string):
        yield "metadata.schemaString is another schema"


def _is_of_another_commit(storage: Storage, state: State, checksum: Mapping[str, Any]) -> bool:
    """Return whether the checksum has another transaction id than the commit of the version."""
    # A slow writer can put it after another engine deleted the log and created a table in its place.
    try:
        commit_info = state.commit_info or read_commit_info(storage, state.version)
    except RowmergeError:
        return False
    # Some engines give their transactions no id.
    transaction_id = checksum.get("txnId")
    return bool(commit_info) and transaction_id is not None and transaction_id != commit_info.get("txnId")
