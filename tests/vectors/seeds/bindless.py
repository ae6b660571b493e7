"""Does a kernel take one table of resources, or one binding for each, by their number alone?

Rule: the table if there are at least ``min_resources`` resources and the device can index it the way the program does.
O(1).
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from vyre.policies.record import U32, Reason, record, verdict, why_field


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
