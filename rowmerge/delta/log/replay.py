"""The state of a table at one version, and how commits change it (PROTOCOL.md, Action Reconciliation)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.files.columns import partition_type, repartitioned, row_schema, tombstone_schema
from rowmerge.delta.files.live_files import LiveFiles
from rowmerge.delta.log.ndjson import Document, FileActions, file_actions, other_actions
from rowmerge.delta.metadata.actions import Action, Metadata, Protocol, Transaction
from rowmerge.errors import CorruptLog

_PIECES = 64
"""In so many pieces a column may be held; each commit brings one."""


@dataclass(frozen=True)
class State:
    """Everything that a version is. `tombstones` is a table as `rowmerge.delta.files.columns` says.

    `commit_info`: the version's own, empty when its commit was not read.
    """

    version: int
    files: LiveFiles
    tombstones: pa.Table
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: Mapping[str, Transaction] = field(default_factory=dict)
    domains: Mapping[str, str] = field(default_factory=dict)
    commit_info: Mapping[str, Any] = field(default_factory=dict)


def empty_state() -> State:
    """Before the first commit."""
    return State(-1, LiveFiles((), row_schema(()).empty_table()), tombstone_schema(()).empty_table())


def advance(state: State, commits: Sequence[Document]) -> State:
    """The state after commits that follow it, one document a version. Raises CorruptLog."""
    if not commits:
        return state
    small = [other_actions(commit) for commit in commits]
    changed = with_actions(replace(state, commit_info={}), [action for actions in small for action in actions], commits[0].path)
    assert changed.metadata is not None
    partition = changed.metadata.stored_partition_columns
    files, tombstones = reconcile(state, file_actions(commits, partition), partition)
    info: Mapping[str, Any] = next((action["commitInfo"] for action in small[-1] if action.get("commitInfo")), {})
    return replace(changed, version=state.version + len(commits), files=files, tombstones=tombstones, commit_info=info)


def described(actions: Sequence[Action], path: str) -> State:
    """What the actions of a file say of a table apart from its files. Raises CorruptLog."""
    return with_actions(empty_state(), actions, path)


def state_of(version: int, actions: Sequence[Action], files: LiveFiles, removes: pa.Table, path: str) -> State:
    """The state that a checkpoint holds. Raises CorruptLog."""
    state = described(actions, path)
    assert state.metadata is not None
    type_ = partition_type(state.metadata.stored_partition_columns)
    return replace(state, version=version, files=files.repartitioned(type_), tombstones=repartitioned(removes, type_))


def reconcile(state: State, actions: FileActions, partition_columns: Sequence[str]) -> tuple[LiveFiles, pa.Table]:
    """Live files and tombstones after file actions: of each logical file the newest action counts."""
    type_ = partition_type(partition_columns)
    files, tombstones = state.files.repartitioned(type_), repartitioned(state.tombstones, type_)
    adds, removes = actions.adds, actions.removes
    if not adds.num_rows and not removes.num_rows:
        return files, tombstones
    last = _last_of_each(adds, removes)
    added = adds.take(pa.array(last[last < adds.num_rows])).drop_columns(["document"])
    removed = removes.take(pa.array(last[last >= adds.num_rows] - adds.num_rows)).drop_columns(["document"])
    named = pa.concat_arrays([*adds["key"].chunks, *removes["key"].chunks])
    return files.replace_files(named, added), _replaced(tombstones, named, removed)


def _last_of_each(adds: pa.Table, removes: pa.Table) -> np.ndarray[Any, Any]:
    """The rows (of adds, then removes) with the newest action of each key; in one document, whose order means nothing, an add wins."""
    total = adds.num_rows + removes.num_rows
    rank = np.concatenate([adds["document"].to_numpy() * 2 + 1, removes["document"].to_numpy() * 2])
    order = pa.array(rank * total + np.arange(total), pa.int64())
    table = pa.table({"key": pa.chunked_array([*adds["key"].chunks, *removes["key"].chunks], pa.string()), "order": order})
    newest = table.group_by("key").aggregate([("order", "max")])["order_max"].to_numpy()
    rows: np.ndarray[Any, Any] = np.sort(newest % total)
    return rows


def _replaced(rows: pa.Table, named: pa.Array, new: pa.Table) -> pa.Table:
    replaced = pc.is_in(rows["key"], value_set=named)
    if pc.any(replaced).as_py():
        rows = rows.filter(pc.invert(replaced))
    together = pa.concat_tables([rows, new], promote_options="default") if rows.num_rows else new
    return together.combine_chunks() if together["key"].num_chunks > _PIECES else together


def with_actions(state: State, actions: Sequence[Action], path: str) -> State:
    """The state with the newest protocol, metadata, transactions and domains of actions that were checked.

    Raises CorruptLog with this path if there is no protocol or metadata yet.
    """
    protocol, metadata = state.protocol, state.metadata
    transactions, domains = dict(state.transactions), dict(state.domains)
    for action in actions:
        if fields := action.get("protocol"):
            protocol = Protocol.of(fields)
        elif fields := action.get("metaData"):
            metadata = Metadata.of(fields)
        elif fields := action.get("txn"):
            transactions[fields["appId"]] = Transaction(fields["version"], fields.get("lastUpdated"))
        elif fields := action.get("domainMetadata"):
            if fields.get("removed"):
                domains.pop(fields["domain"], None)
            else:
                domains[fields["domain"]] = fields["configuration"]
    if protocol is None or metadata is None:
        raise CorruptLog(path, f"no {'protocol' if protocol is None else 'metaData'} action up to this version")
    metadata = replace(metadata, mapping_supported=protocol.supports("columnMapping"))
    return replace(state, protocol=protocol, metadata=metadata, transactions=transactions, domains=domains)
