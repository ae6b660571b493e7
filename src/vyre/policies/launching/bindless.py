"""Does a kernel take one table of resources, or one binding for each?

Rule: the table if there are at least ``min_resources`` resources and the device can index it the way the program does.
O(1).

vyre-driver has this rule, which treats run-time indexing as a preference, although it is a requirement: below the
threshold it returns bindings, which cannot be indexed.  ``plan_resource_table`` is the sound decision for a device
whose parameters are pointers: a table where it is needed or cheaper, or a refusal.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias

from vyre.policies.record import U32, Nanoseconds, Reason, record, verdict, why_field


class BindlessSupport(Enum):
    """Support for resource tables.

    - ``FULL``: any index at run time.
    - ``STATIC``: a table whose slots are indexed by constants only.
    - ``UNSUPPORTED``: no tables.
    """

    FULL = "full"
    STATIC = "static"
    UNSUPPORTED = "unsupported"


@record
class BindlessInputs:
    """A program's resources; ``dynamic_indexing`` says that the index varies per lane or per dispatch."""

    resource_count: U32
    support: BindlessSupport
    dynamic_indexing: bool


@record
class BindlessThresholds:
    """``min_resources`` is the number of resources from which on a table is used."""

    min_resources: U32 = 24


@verdict
class Bindless:
    """The kernel takes one table."""

    why: Reason = why_field()


@verdict
class TraditionalBindings:
    """The kernel takes one binding for each resource."""

    why: Reason = why_field()


BindlessVerdict: TypeAlias = Bindless | TraditionalBindings
DEFAULT_THRESHOLDS = BindlessThresholds()


def decide_bindless(inputs: BindlessInputs, thresholds: BindlessThresholds = DEFAULT_THRESHOLDS) -> BindlessVerdict:
    """Returns ``Bindless`` iff there are enough resources and FULL support, or STATIC support and no run-time
    indexing.
    """
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


POINTER_BYTES: Final = 8
"""Bytes of a pointer."""


@record
class ResourceTableInputs:
    """A program's resources and parameters: sizes in bytes, costs in ns.

    ``other_parameter_bytes`` excludes the pointers; ``parameter_budget_bytes`` is for all parameters.
    ``expected_updates`` is how often a recorded launch will be given other resources, each time at ``update_cost_ns``
    as parameters, or once at ``table_upload_cost_ns`` as a table.
    """

    resource_count: U32
    support: BindlessSupport
    dynamic_indexing: bool
    other_parameter_bytes: U32
    parameter_budget_bytes: U32
    expected_updates: U32
    update_cost_ns: Nanoseconds
    table_upload_cost_ns: Nanoseconds


@verdict
class Parameters:
    """The kernel takes one parameter for each pointer."""

    why: Reason = why_field()


@verdict
class PointerTable:
    """The kernel takes a table of pointers on the device."""

    why: Reason = why_field()


@verdict
class Unsupported:
    """A table is needed, and the device has none that can be indexed this way."""

    why: Reason = why_field()


ResourceTableVerdict: TypeAlias = Parameters | PointerTable | Unsupported


def plan_resource_table(inputs: ResourceTableInputs) -> ResourceTableVerdict:
    """Returns a table iff it is needed (run-time indices, too many pointers) or cheaper, and the device can
    index it.
    """
    indexable = inputs.support is BindlessSupport.FULL or (
        inputs.support is BindlessSupport.STATIC and not inputs.dynamic_indexing
    )
    total, budget = POINTER_BYTES * inputs.resource_count + inputs.other_parameter_bytes, inputs.parameter_budget_bytes
    updates = inputs.expected_updates * inputs.update_cost_ns
    if inputs.dynamic_indexing:
        needed = Reason("resources are indexed at run time")
    elif total > budget:
        needed = Reason("{} bytes of parameters exceed the {} there are", (total, budget))
    elif indexable and updates > inputs.table_upload_cost_ns:
        return PointerTable(
            Reason("updates of {} ns cost more than a table of {} ns", (updates, inputs.table_upload_cost_ns))
        )
    else:
        return Parameters(Reason("{} bytes of parameters fit {}", (total, budget)))
    return PointerTable(needed) if indexable else Unsupported(needed)
