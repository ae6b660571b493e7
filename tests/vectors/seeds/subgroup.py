"""What can a device do with subgroups, and what are the steps of a reduction over one?

The offsets of a reduction halve the width rounded up to a power of two.  O(log width).

As in vyre-driver; it does not mention that, for widths that are no power of two, the first offset reaches past the
subgroup.  Emitted code masks lanes from the width on.
"""

from __future__ import annotations

from enum import Enum

from vyre.domain.errors import InvalidField
from vyre.policies.record import U32, record


class SubgroupOp(Enum):
    """Operations over a subgroup, in vyre-driver's order."""

    BROADCAST = "Broadcast"
    ADD = "Add"
    MAX = "Max"
    MIN = "Min"
    INCLUSIVE_ADD = "InclusiveAdd"
    EXCLUSIVE_ADD = "ExclusiveAdd"
    SHUFFLE_XOR = "ShuffleXor"


@record
class SubgroupCapabilities:
    """Support for subgroups.

    ``subgroup_size`` is in lanes, 0 if unknown.  ``supports_subgroup_vertex`` says that vertex stages have them, too.
    """

    supports_subgroup: bool
    supports_subgroup_vertex: bool
    subgroup_size: U32

    @property
    def is_usable(self) -> bool:
        """Whether subgroups are supported and their size is known."""
        return self.supports_subgroup and self.subgroup_size > 0

    @classmethod
    def native(cls, subgroup_size: int) -> SubgroupCapabilities:
        """Returns the capabilities of a device whose width is known and fixed."""
        return cls(True, False, subgroup_size)


@record
class SubgroupFeatureRange:
    """The report of a graphics API: a feature bit and the least and greatest width in lanes."""

    supports_feature: bool
    supports_vertex_stage: bool
    min_size: U32
    max_size: U32


def from_feature_range(reported: SubgroupFeatureRange) -> SubgroupCapabilities:
    """Returns the capabilities at the least width; they are unusable if the range is empty."""
    usable = reported.supports_feature and 0 < reported.min_size <= reported.max_size
    return SubgroupCapabilities(usable, reported.supports_vertex_stage and usable, reported.min_size if usable else 0)


@record
class ReductionInputs:
    """The width of the subgroup in lanes."""

    subgroup_size: U32


def reduction_offsets(inputs: ReductionInputs) -> tuple[int, ...]:
    """Returns the shuffle distances w/2, w/4, ..., 1, where w is the width rounded up to a power of two.

    Example: a width of 32 gives 16, 8, 4, 2, 1.  Raises ``InvalidField`` for a width above 2^31, whose power of two
    exceeds 32 bits.
    """
    size = inputs.subgroup_size
    if size > 2**31:
        raise InvalidField(
            record="ReductionInputs", field="subgroup_size", value=size, expected="an int in 0..2147483648"
        )
    steps = max(size - 1, 0).bit_length()
    return tuple(1 << step for step in reversed(range(steps)))
