"""What a device can do with subgroups, and the steps of a reduction over one.

The offsets of a reduction halve the width rounded up to a power of two.  O(log width).

The reference has this right, but does not say that for widths that are no power of two the first offset reaches past
the subgroup: emitted code masks lanes from the width on.
"""

from __future__ import annotations

from enum import Enum

from vyre.domain.errors import InvalidField
from vyre.policies.record import U32, record


class SubgroupOp(Enum):
    """Operations over a subgroup, in the order of the reference system."""

    BROADCAST = "Broadcast"
    ADD = "Add"
    MAX = "Max"
    MIN = "Min"
    INCLUSIVE_ADD = "InclusiveAdd"
    EXCLUSIVE_ADD = "ExclusiveAdd"
    SHUFFLE_XOR = "ShuffleXor"


@record
class SubgroupCapabilities:
    """``subgroup_size`` in lanes, 0 = unknown; ``supports_subgroup_vertex``: also in vertex stages."""

    supports_subgroup: bool
    supports_subgroup_vertex: bool
    subgroup_size: U32

    @property
    def is_usable(self) -> bool:
        return self.supports_subgroup and self.subgroup_size > 0

    @classmethod
    def native(cls, subgroup_size: int) -> SubgroupCapabilities:
        """A device whose width is known and fixed."""
        return cls(True, False, subgroup_size)


@record
class SubgroupFeatureRange:
    """What an API reports: a feature bit and the least and greatest width in lanes."""

    supports_feature: bool
    supports_vertex_stage: bool
    min_size: U32
    max_size: U32


def from_feature_range(reported: SubgroupFeatureRange) -> SubgroupCapabilities:
    """Capabilities at the least width; unusable when the range is empty."""
    usable = reported.supports_feature and 0 < reported.min_size <= reported.max_size
    return SubgroupCapabilities(usable, reported.supports_vertex_stage and usable, reported.min_size if usable else 0)


@record
class ReductionInputs:
    subgroup_size: U32


def reduction_offsets(inputs: ReductionInputs) -> tuple[int, ...]:
    """Shuffle distances w/2, w/4, ..., 1 for w = the next power of two of the width.

    A width above 2^31 has no power of two in 32 bits and raises ``InvalidField``.
    """
    size = inputs.subgroup_size
    if size > 2**31:
        raise InvalidField(
            record="ReductionInputs", field="subgroup_size", value=size, expected="an int in 0..2147483648"
        )
    steps = max(size - 1, 0).bit_length()
    return tuple(1 << step for step in reversed(range(steps)))
