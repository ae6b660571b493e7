"""Does a kernel take one table of resources, or one parameter for each?

Rule: the table where it is needed, for indices at run time or too many pointers, or cheaper, if the device can index it
the way the program does.  O(1).

vyre-driver takes a table from a number of resources on, and treats run-time indexing as a preference, although it is a
requirement: below the threshold it returns bindings, which cannot be indexed.
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
