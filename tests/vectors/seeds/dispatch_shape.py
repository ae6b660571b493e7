"""Do two dispatches share a launch shape, so that a captured graph or compiled launch may be replayed?

Deadline and label never matter.  ``launch_shape_key`` is the equivalence as a hashable key.  O(1); input shapes O(total
inputs).

As in vyre-driver, which compares two configurations field by field; a key can also be looked up.
"""

from __future__ import annotations

from typing import TypeAlias

from vyre.domain.dispatch import PersistentThreadMode, SpeculationMode, launches_of
from vyre.policies.record import U32, U64, record

Dim3: TypeAlias = tuple[U32, U32, U32]


@record
class LaunchConfig:
    """The policy fields of a dispatch; None means unset."""

    profile: str | None = None
    ulp_budget: U32 | None = None
    timeout_ms: U64 | None = None
    label: str | None = None
    max_output_bytes: U64 | None = None
    workgroup_override: Dim3 | None = None
    grid_override: Dim3 | None = None
    fixpoint_iterations: U32 | None = None
    speculation: SpeculationMode | None = None
    persistent_thread: PersistentThreadMode | None = None
    cooperative: bool = False


LaunchShapeKey: TypeAlias = tuple[object, ...]


def launch_shape_key(config: LaunchConfig) -> LaunchShapeKey | None:
    """Returns a key that is equal for configurations of one launch shape.

    It is None for an explicit fixpoint count of 0, which shares a shape with no configuration.  An absent budget means
    0, and an absent fixpoint count means 1.
    """
    if config.fixpoint_iterations == 0:
        return None
    return (
        config.profile,
        config.ulp_budget or 0,
        config.max_output_bytes,
        config.workgroup_override,
        config.grid_override,
        launches_of(config.fixpoint_iterations),
        config.speculation,
        config.persistent_thread,
        config.cooperative,
    )


def dispatch_configs_share_launch_shape(compiled: LaunchConfig, runtime: LaunchConfig) -> bool:
    """Returns whether a launch compiled under one configuration may run under the other."""
    key = launch_shape_key(compiled)
    return key is not None and key == launch_shape_key(runtime)


def input_batch_shapes_match(batch_input_lengths: tuple[tuple[int, ...], ...]) -> bool:
    """Returns whether all items have the arity and byte lengths of the first; an empty batch matches."""
    return all(item == batch_input_lengths[0] for item in batch_input_lengths[1:])
