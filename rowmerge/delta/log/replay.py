"""The state of a table at one version, and how commits change it (PROTOCOL.md, Action Reconciliation)."""

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
"""The protocol and metadata of the state before the first commit."""
_MAX_CHUNKS = 64
"""The maximum number of chunks in a column of tombstones. Each commit adds a chunk."""


@dataclass(frozen=True)
class State:
    """The state of a table at one version.

    `tombstones`: the removed files, as a table that `rowmerge.delta.files.columns` describes.

    `commit_info`: the fields of `commitInfo` in the version's commit, or an empty mapping if the commit was not read.
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


def has_deletion_vectors(state: State) -> bool:
    """Return whether a data file of a version has a deletion vector."""
    descriptors = state.files.column("deletionVector")
    return bool(descriptors.null_count < len(descriptors))


def advance(state: State, commits: Sequence[Document]) -> State:
    """Return the state after the next commits.

    Args:
        state: The state before the commits.
        commits: The commits of the following versions, oldest first, without a gap.

    Raises:
        CorruptLog: A commit is unreadable, or the table has no protocol or metadata after the commits.
    """
    if not commits:
        return state
    actions_by_commit = [non_file_actions(commit) for commit in commits]
    new_state = apply_table_actions(state, list(chain.from_iterable(actions_by_commit)), commits[0].path)
    # File actions are parsed separately and last, because their columns depend on the partition columns in the metadata.
    partition_columns = new_state.metadata.stored_partition_columns
    files, tombstones = reconcile(state, file_actions(commits, partition_columns), partition_columns)
    version, info = state.version + len(commits), commit_info(actions_by_commit[-1])
    return replace(new_state, version=version, files=files, tombstones=tombstones, commit_info=info)


def reconcile(state: State, actions: FileActions, partition_columns: Sequence[str]) -> tuple[LiveFiles, pa.Table]:
    """Return the live files and the tombstones after file actions. For each logical file, only the newest action counts.

    A logical file is a data file together with its deletion vector. The column `key` identifies it.

    Args:
        state: The state before the actions.
        actions: The file actions of the commits after the state.
        partition_columns: The physical names of the partition columns after the actions.

    Returns:
        The live files, and a table of tombstones.
    """
    type_ = partition_type(partition_columns)
    # The commits may have changed the partition columns, so the older rows get the new type of the column `partition`.
    files, tombstones = state.files.repartitioned(type_), repartitioned(state.tombstones, type_)
    adds, removes = actions.adds, actions.removes
    if not adds.num_rows and not removes.num_rows:
        return files, tombstones
    add_rows, remove_rows = _rows_of_newest_actions(adds, removes)
    added_files = adds.take(add_rows).drop_columns(["document_index"])
    removed_files = removes.take(remove_rows).drop_columns(["document_index"])
    keys = pa.concat_arrays([*adds["key"].chunks, *removes["key"].chunks])
    return files.replace_files(keys, added_files), _replace_rows(tombstones, keys, removed_files)


def _rows_of_newest_actions(adds: pa.Table, removes: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Return the row indices, in `adds` and in `removes`, of the newest action of each key (a logical file).

    The column `document_index` has the index of the commit that contains the action, oldest first. The actions of one commit have no
    order. If a commit adds and removes the same file, its `add` counts.
    """
    row_count = adds.num_rows + removes.num_rows
    # A newer action has a higher rank. The first commit has the ranks 0 (`remove`) and 1 (`add`), the second has 2 and 3.
    ranks = np.concatenate([adds["document_index"].to_numpy() * 2 + 1, removes["document_index"].to_numpy() * 2])
    # One number contains both the rank and the row of an action. With 100 rows, 307 is the rank 3 and the row 7. So the maximum for a key
    # is that of its newest action. Rows count through `adds`, and then through `removes`.
    ranked_rows = pa.array(ranks * row_count + np.arange(row_count), pa.int64())
    keys = pa.chunked_array([*adds["key"].chunks, *removes["key"].chunks], pa.string())
    newest_by_key = pa.table({"key": keys, "ranked_row": ranked_rows}).group_by("key").aggregate([("ranked_row", "max")])
    rows = np.sort(newest_by_key["ranked_row_max"].to_numpy() % row_count)
    is_add = rows < adds.num_rows
    return pa.array(rows[is_add]), pa.array(rows[~is_add] - adds.num_rows)


def _replace_rows(rows: pa.Table, keys: pa.Array, added: pa.Table) -> pa.Table:
    """Return the rows whose key is not in `keys`, followed by the added rows."""
    is_replaced = pc.is_in(rows["key"], value_set=keys)
    if pc.any(is_replaced).as_py():
        rows = rows.filter(pc.invert(is_replaced))
    result = pa.concat_tables([rows, added], promote_options="default") if rows.num_rows else added
    return result.combine_chunks() if result["key"].num_chunks > _MAX_CHUNKS else result


def apply_table_actions(state: State, actions: Sequence[Action], path: str) -> State:
    """Return the state after the actions of commits, except file actions.

    Args:
        state: The state before the actions. Its version and files do not change.
        actions: The actions, oldest first. The caller must have checked them with `check_action`.
        path: The path of the log file, for the error.

    Raises:
        CorruptLog: The protocol or the metadata is missing in both the state and the actions.
    """
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
        raise CorruptLog(path, "the log has no protocol action up to this version")
    if metadata is _NO_METADATA:
        raise CorruptLog(path, "the log has no metaData action up to this version")
    # Without the feature in the protocol, the property `delta.columnMapping.mode` has no effect.
    metadata = replace(metadata, mapping_supported=protocol.supports("columnMapping"))
    return replace(state, protocol=protocol, metadata=metadata, transactions=transactions, domains=domains)
