"""Does a kernel take one table of resources, or one parameter for each?

Rule: parameters where they fit, else a table, if the kernel may take one.  O(1).

vyre-driver takes a table from a number of resources on, however many bytes of parameters the device allows.  It also
asks how a program indexes its resources: here each is named, so that no index is known at run time only.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from vyre.policies.record import U32, Reason, record, verdict, why_field

POINTER_BYTES: Final = 8
"""Bytes of a pointer."""


@record
class ResourceTableInputs:
    """A kernel's resources and parameters, in bytes.

    ``may_use_table``: whether the form of the kernel and its caller allow a table.  ``other_parameter_bytes`` excludes
    the pointers; ``parameter_budget_bytes`` is what the device takes for all parameters.
    """

    resource_count: U32
    may_use_table: bool
    other_parameter_bytes: U32
    parameter_budget_bytes: U32


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
    """A table is needed, and the kernel may take none."""

    why: Reason = why_field()


ResourceTableVerdict: TypeAlias = Parameters | PointerTable | Unsupported


def plan_resource_table(inputs: ResourceTableInputs) -> ResourceTableVerdict:
    """Returns a table iff the pointers do not fit the parameters; a budget may be used up."""
    total, budget = POINTER_BYTES * inputs.resource_count + inputs.other_parameter_bytes, inputs.parameter_budget_bytes
    if total <= budget:
        return Parameters(Reason("{} bytes of parameters fit {}", (total, budget)))
    why = Reason("{} bytes of parameters exceed the {} there are", (total, budget))
    return PointerTable(why) if inputs.may_use_table else Unsupported(why)
