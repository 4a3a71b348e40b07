"""The state of a table at one version, and its change by commits (PROTOCOL.md, Action Reconciliation)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.files.columns import partition_type, repartitioned, tombstone_schema
from rowmerge.delta.files.live_files import LiveFiles
from rowmerge.delta.log.ndjson import Document, FileActions, commit_info, file_actions, non_file_actions
from rowmerge.delta.metadata.actions import Action, Metadata, Protocol, Transaction
from rowmerge.errors import CorruptLog

_NO_PROTOCOL, _NO_METADATA = Protocol(0, 0), Metadata(id="", schema_string="")
"""Those of the state before the first commit."""
_MOST_CHUNKS = 64
"""The most chunks of a column of tombstones. Each commit adds a chunk."""


@dataclass(frozen=True)
class State:
    """The state of a version. `tombstones` is a table as described in `rowmerge.delta.files.columns`.

    `commit_info`: that of the version's commit, empty if the commit was not read.
    """

    version: int
    files: LiveFiles
    tombstones: pa.Table
    protocol: Protocol = _NO_PROTOCOL
    metadata: Metadata = _NO_METADATA
    transactions: Mapping[str, Transaction] = field(default_factory=dict)
    domains: Mapping[str, str] = field(default_factory=dict)
    commit_info: Mapping[str, Any] = field(default_factory=dict)


def empty_state() -> State:
    """Return the state before the first commit."""
    return State(-1, LiveFiles(), tombstone_schema(()).empty_table())


def advance(state: State, commits: Sequence[Document]) -> State:
    """Return the state after the commits that follow it, one document per version. Raises CorruptLog."""
    if not commits:
        return state
    actions_by_commit = [non_file_actions(commit) for commit in commits]
    new_state = apply_table_actions(state, list(chain.from_iterable(actions_by_commit)), commits[0].path)
    partition_columns = new_state.metadata.stored_partition_columns
    files, tombstones = reconcile(state, file_actions(commits, partition_columns), partition_columns)
    version, info = state.version + len(commits), commit_info(actions_by_commit[-1])
    return replace(new_state, version=version, files=files, tombstones=tombstones, commit_info=info)


def reconcile(state: State, actions: FileActions, partition_columns: Sequence[str]) -> tuple[LiveFiles, pa.Table]:
    """Return live files and tombstones after file actions. The newest action of each logical file counts."""
    type_ = partition_type(partition_columns)
    files, tombstones = state.files.repartitioned(type_), repartitioned(state.tombstones, type_)
    adds, removes = actions.adds, actions.removes
    if not adds.num_rows and not removes.num_rows:
        return files, tombstones
    newest_rows = _newest_rows(adds, removes)
    is_add = newest_rows < adds.num_rows
    added_files = adds.take(pa.array(newest_rows[is_add])).drop_columns(["document"])
    removed_files = removes.take(pa.array(newest_rows[~is_add] - adds.num_rows)).drop_columns(["document"])
    keys = pa.concat_arrays([*adds["key"].chunks, *removes["key"].chunks])
    return files.replace_files(keys, added_files), _replace_rows(tombstones, keys, removed_files)


def _newest_rows(adds: pa.Table, removes: pa.Table) -> np.ndarray[Any, Any]:
    """Return the rows, in adds followed by removes, of each key's newest action. In one document, which has no order, an add wins."""
    total = adds.num_rows + removes.num_rows
    rank = np.concatenate([adds["document"].to_numpy() * 2 + 1, removes["document"].to_numpy() * 2])
    # The maximum of rank and row in one number: the row of the highest rank.
    order = pa.array(rank * total + np.arange(total), pa.int64())
    table = pa.table({"key": pa.chunked_array([*adds["key"].chunks, *removes["key"].chunks], pa.string()), "order": order})
    newest = table.group_by("key").aggregate([("order", "max")])["order_max"].to_numpy()
    rows: np.ndarray[Any, Any] = np.sort(newest % total)
    return rows


def _replace_rows(rows: pa.Table, keys: pa.Array, added: pa.Table) -> pa.Table:
    """Return the rows without those of `keys`, followed by the added rows."""
    is_replaced = pc.is_in(rows["key"], value_set=keys)
    if pc.any(is_replaced).as_py():
        rows = rows.filter(pc.invert(is_replaced))
    result = pa.concat_tables([rows, added], promote_options="default") if rows.num_rows else added
    return result.combine_chunks() if result["key"].num_chunks > _MOST_CHUNKS else result


def apply_table_actions(state: State, actions: Sequence[Action], path: str) -> State:
    """Return the state after these checked actions. Raises CorruptLog with the path if there is no protocol or metadata yet."""
    protocol, metadata = state.protocol, state.metadata
    transactions, domains = dict(state.transactions), dict(state.domains)
    for action in actions:
        match action:
            case {"protocol": Mapping() as fields}:
                protocol = Protocol.of(fields)
            case {"metaData": Mapping() as fields}:
                metadata = Metadata.of(fields)
            case {"txn": Mapping() as fields}:
                transactions[fields["appId"]] = Transaction(fields["version"], fields.get("lastUpdated"))
            case {"domainMetadata": Mapping() as fields} if fields.get("removed"):
                domains.pop(fields["domain"], None)
            case {"domainMetadata": Mapping() as fields}:
                domains[fields["domain"]] = fields["configuration"]
    if protocol is _NO_PROTOCOL:
        raise CorruptLog(path, "no protocol action up to this version")
    if metadata is _NO_METADATA:
        raise CorruptLog(path, "no metaData action up to this version")
    metadata = replace(metadata, mapping_supported=protocol.supports("columnMapping"))
    return replace(state, protocol=protocol, metadata=metadata, transactions=transactions, domains=domains)
