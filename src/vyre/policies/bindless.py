"""One table of resources, or one binding for each?

Rule: the table when there are at least ``min_resources`` resources and the device can index it the way the
program does.  O(1).

What the reference rule gets wrong: run-time indexing is a requirement, not a preference, yet below the
threshold it answers with bindings that cannot be indexed.  ``plan_resource_table`` is the sound decision
for a device whose parameters are pointers.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from vyre.policies.record import U32, Reason, record, verdict, why_field


class BindlessSupport(Enum):
    """FULL: any index at run time. STATIC: a table whose slots are indexed by constants only."""

    FULL = "full"
    STATIC = "static"
    UNSUPPORTED = "unsupported"


@record
class BindlessInputs:
    """``dynamic_indexing``: the index varies per lane or per dispatch."""

    resource_count: U32
    support: BindlessSupport
    dynamic_indexing: bool


@record
class BindlessThresholds:
    """``min_resources``: the table pays from this many resources on."""

    min_resources: U32 = 24


@verdict
class Bindless:
    why: Reason = why_field()


@verdict
class TraditionalBindings:
    why: Reason = why_field()


BindlessVerdict: TypeAlias = Bindless | TraditionalBindings
DEFAULT_THRESHOLDS = BindlessThresholds()


def decide_bindless(inputs: BindlessInputs, thresholds: BindlessThresholds = DEFAULT_THRESHOLDS) -> BindlessVerdict:
    """``Bindless`` iff enough resources and FULL support, or STATIC support and no run-time indexing."""
    count, support = inputs.resource_count, inputs.support
    if count < thresholds.min_resources:
        return TraditionalBindings(
            Reason("{} resource(s) are below the threshold of {}", (count, thresholds.min_resources))
        )
    if support is BindlessSupport.UNSUPPORTED:
        return TraditionalBindings(Reason("the device has no resource tables"))
    if support is BindlessSupport.STATIC and inputs.dynamic_indexing:
        return TraditionalBindings(Reason("the device indexes tables by constants only, the program at run time"))
    return Bindless(Reason("{} resources reach the threshold of {}", (count, thresholds.min_resources)))
