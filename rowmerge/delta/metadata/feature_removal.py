"""Removal of table features (ALTER TABLE … DROP FEATURE): what a feature leaves in a table, and the protocol and metadata without it.

A removal first makes the newest version independent of the feature. It changes properties and rewrites files. A `FeatureStep` changes what
no other statement can change. A last step removes the feature from the protocol. The rules are those of delta-spark
(`RemovableFeature` in TableFeature.scala).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rowmerge.delta.metadata.actions import Action, Metadata, Protocol, schema_text
from rowmerge.delta.metadata.column_mapping import MAPPING_MODE, MAX_COLUMN_ID, has_mapping, map_fields, without_mapping
from rowmerge.delta.metadata.properties import (
    CHECKPOINT_PROTECTION,
    CONSTRAINT_PREFIX,
    DELETION_VECTORS,
    IN_COMMIT_TIMESTAMPS,
    LOG_PROPERTIES,
    ROW_TRACKING,
    ROW_TRACKING_SUSPENDED,
    TYPE_WIDENING,
    checkpoint_policy,
    is_true,
)
from rowmerge.delta.metadata.registry import CHECKPOINT_POLICY
from rowmerge.delta.metadata.row_tracking import ROW_TRACKING_COLUMNS, ROW_TRACKING_DOMAIN
from rowmerge.delta.metadata.schema_changes import TYPE_CHANGES, check_schema
from rowmerge.errors import PlanError
from rowmerge.table.commits.request import FeatureStep
from rowmerge.table.metadata.schema import Field
from rowmerge.table.metadata.settings import WRITE_MODE, WriteMode

TYPE_WIDENING_FEATURES = ("typeWidening", "typeWidening-preview")
"""The feature, and its name before it was stable."""
FEATURES_OF_READERS = frozenset((*TYPE_WIDENING_FEATURES, "columnMapping", "deletionVectors", "v2Checkpoint", "vacuumProtocolCheck"))
"""The features without which readers cannot read older versions. Their removal protects or truncates the history."""
_FEATURES_OF_WRITERS = frozenset("checkConstraints checkpointProtection domainMetadata inCommitTimestamp rowTracking".split())
REMOVABLE_FEATURES = FEATURES_OF_READERS | _FEATURES_OF_WRITERS
"""The features that Delta 4 can remove, and that rowmerge supports."""
_DEPENDENT_FEATURES = {"domainMetadata": ("clustering", "rowTracking")}
"""The features that need another feature in the protocol, by that feature."""
PROVENANCE = tuple(name for name in LOG_PROPERTIES if name.startswith("delta.inCommitTimestamp"))
"""The properties that record since when commits have timestamps."""


def resolve_feature(table: str, protocol: Protocol, metadata: Metadata, name: str, *, truncates_history: bool) -> str:
    """Return the name of a feature that can be removed from a table, as the protocol spells it.

    Args:
        table: The name of the table, for errors.
        protocol: The protocol of the newest version.
        metadata: The metadata of the newest version.
        name: The name in the statement, in any case.
        truncates_history: Whether the statement has TRUNCATE HISTORY.

    Raises:
        PlanError: The table does not have the feature, or the feature cannot be removed in this way.
    """
    feature = next((each for each in protocol.features if each.lower() == name.lower()), None)
    if feature is None:
        if name.lower().startswith("delta."):
            raise PlanError(f"{name} is a table property, not a table feature. Use ALTER TABLE {table} UNSET TBLPROPERTIES ('{name}').")
        raise PlanError(f"{table} does not have the feature {name}. Its features are {', '.join(sorted(protocol.features))}.")
    if feature not in REMOVABLE_FEATURES:
        removable = ", ".join(sorted(protocol.features & REMOVABLE_FEATURES)) or "none"
        advice = f"Features of {table} that can be dropped: {removable}. Or copy the rows: CREATE TABLE … AS SELECT"
        raise PlanError(f"The feature {feature} cannot be dropped. {advice}.")
    _check_history_option(feature, truncates_history)
    dependents = [each for each in _DEPENDENT_FEATURES.get(feature, ()) if protocol.supports(each)]
    if dependents:
        raise PlanError(f"The feature {feature} cannot be dropped, because {dependents[0]} needs it. Drop {dependents[0]} first.")
    if feature == "checkConstraints":
        _refuse_constraints(table, metadata)
    if feature == "columnMapping":
        _check_unmapped(table, protocol, metadata)
    return feature


def _check_history_option(feature: str, truncates_history: bool) -> None:
    """Raise PlanError if TRUNCATE HISTORY is missing, or has no meaning for the feature."""
    if feature == "checkpointProtection" and not truncates_history:
        raise PlanError("The feature checkpointProtection can only be dropped with the history that it protects. Add TRUNCATE HISTORY.")
    if truncates_history and feature in _FEATURES_OF_WRITERS and feature != "checkpointProtection":
        raise PlanError(f"Older versions remain readable without the feature {feature}. Leave TRUNCATE HISTORY out.")


def _refuse_constraints(table: str, metadata: Metadata) -> None:
    """Raise PlanError if the table has CHECK constraints."""
    names = [name[len(CONSTRAINT_PREFIX) :] for name in sorted(metadata.configuration) if name.lower().startswith(CONSTRAINT_PREFIX)]
    if names:
        statement = f"ALTER TABLE {table} DROP CONSTRAINT {names[0]}"
        raise PlanError(f"The feature checkConstraints cannot be dropped while {table} has constraints. First run {statement}.")


def _check_unmapped(table: str, protocol: Protocol, metadata: Metadata) -> None:
    """Raise PlanError if a table cannot exist without column mapping: a name has a forbidden character, or the table is clustered."""
    check_schema(table, without_mapping(metadata.schema), metadata.partition_columns, has_column_mapping=False)
    if protocol.supports("clustering"):
        reason = f"{table} has the feature clustering, whose columns have physical names"
        raise PlanError(f"The feature columnMapping cannot be dropped: {reason}. Copy the rows with CREATE TABLE … AS SELECT.")


def metadata_uses(feature: str, metadata: Metadata) -> bool:
    """Return whether a `metaData` action depends on a feature of readers.

    Args:
        feature: One of FEATURES_OF_READERS.
        metadata: The metadata of any version.
    """
    properties = metadata.configuration
    if feature == "deletionVectors":
        return is_true(properties, DELETION_VECTORS)
    if feature == "columnMapping":
        return properties.get(MAPPING_MODE, "none").strip().lower() != "none" or has_mapping(metadata.schema)
    if feature == "v2Checkpoint":
        return checkpoint_policy(properties) == "v2"
    # The schema contains the key only in metadata of fields.
    return feature in TYPE_WIDENING_FEATURES and f'"{TYPE_CHANGES}"' in metadata.schema_string


def properties_without(feature: str, metadata: Metadata) -> dict[str, str]:
    """Return the properties of a table after ALTER TABLE has disabled a feature, so that no writer uses it any more.

    Args:
        feature: One of REMOVABLE_FEATURES.
        metadata: The metadata of the newest version.
    """
    properties = dict(metadata.configuration)
    match feature:
        case "deletionVectors":
            properties.pop(DELETION_VECTORS, None)
            if WRITE_MODE.parse(properties) is WriteMode.MERGE_ON_READ:
                del properties[WRITE_MODE.name]
        case "typeWidening" | "typeWidening-preview":
            properties.pop(TYPE_WIDENING, None)
        case "v2Checkpoint":
            properties[CHECKPOINT_POLICY.name] = "classic"
        case "inCommitTimestamp":
            properties = {name: value for name, value in properties.items() if name not in PROVENANCE}
            properties[IN_COMMIT_TIMESTAMPS] = "false"
        case "rowTracking":
            properties |= {ROW_TRACKING: "false", ROW_TRACKING_SUSPENDED: "true"}
    return properties


def after_feature_step(table: str, protocol: Protocol, metadata: Metadata, step: FeatureStep, version: int) -> tuple[Protocol, Metadata]:
    """Return the protocol and metadata after a step of the removal of a feature.

    Args:
        table: The name of the table, for errors.
        protocol: The protocol before the step.
        metadata: The metadata before the step.
        step: The step.
        version: The version that the step commits.

    Raises:
        PlanError: The table cannot exist without the feature.
    """
    if step.feature is None:
        return protocol, metadata
    if step.in_protocol:
        return _downgraded(protocol, metadata, step.feature, version if step.protects_history else None)
    if step.feature == "columnMapping":
        _check_unmapped(table, protocol, metadata)
        mapping = (MAPPING_MODE, MAX_COLUMN_ID)
        configuration = {name: value for name, value in metadata.configuration.items() if name not in mapping}
        metadata = replace(metadata, schema_string=schema_text(without_mapping(metadata.schema)), configuration=configuration)
    elif step.feature in TYPE_WIDENING_FEATURES:
        metadata = replace(metadata, schema_string=schema_text(map_fields(metadata.schema, _without_type_changes)))
    return protocol, metadata


def _downgraded(protocol: Protocol, metadata: Metadata, feature: str, protected_before: int | None) -> tuple[Protocol, Metadata]:
    """Return the protocol without a feature, and the metadata without its last properties.

    `protected_before`: the version before which checkpoints are protected, or None if the history needs no protection.
    """
    removed = {
        "rowTracking": (ROW_TRACKING, ROW_TRACKING_SUSPENDED, *ROW_TRACKING_COLUMNS),
        "checkpointProtection": (CHECKPOINT_PROTECTION,),
    }
    configuration = {name: value for name, value in metadata.configuration.items() if name not in removed.get(feature, ())}
    if protected_before is None:
        return protocol.without_feature(feature), replace(metadata, configuration=configuration)
    configuration[CHECKPOINT_PROTECTION] = str(protected_before)
    return protocol.without_feature(feature, "checkpointProtection"), replace(metadata, configuration=configuration)


def _without_type_changes(field: Field) -> Field:
    return replace(field, metadata={key: value for key, value in field.metadata.items() if key != TYPE_CHANGES})


def domain_actions(domains: Mapping[str, str], step: FeatureStep) -> Iterator[Action]:
    """Yield the actions that remove metadata domains in a step of a removal.

    Args:
        domains: The configurations before the step, by metadata domain.
        step: The step.
    """
    is_last_step_of_row_tracking = step.feature == "rowTracking" and step.in_protocol
    removes_all = step.feature == "domainMetadata" and not step.in_protocol
    for domain, configuration in domains.items():
        if removes_all or (is_last_step_of_row_tracking and domain == ROW_TRACKING_DOMAIN):
            yield {"domainMetadata": {"domain": domain, "configuration": configuration, "removed": True}}
