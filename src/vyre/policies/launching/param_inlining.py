"""Does a small parameter block go into the launch itself, or into a uniform buffer?

Units: bytes.  Rule: round the length up to the alignment; inline when that fits the budget (and, where padding is not
allowed, when nothing was added).  O(1).

As in vyre-driver, which guesses the budget; it must be probed on the device and exclude the bytes of pointers and
counts.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from vyre.policies.record import U32, Reason, record, verdict, why_field


@record
class ParamInliningPolicy:
    """The budget and the alignment in bytes; 0 for either switches inlining off."""

    max_inline_bytes: U32
    align_bytes: U32
    allow_padding_to_align: bool


LARGE_INLINE_DEFAULT: Final = ParamInliningPolicy(3072, 4, True)
SMALL_INLINE_DEFAULT: Final = ParamInliningPolicy(128, 4, True)
DISABLED: Final = ParamInliningPolicy(0, 4, False)


@record
class ParamInliningInputs:
    """The length of the parameter block in bytes."""

    bytes_len: U32


@verdict
class Inline:
    """The block goes into the launch; ``padded_bytes`` is its length, rounded up to the alignment."""

    padded_bytes: int
    why: Reason = why_field()


@verdict
class UniformBuffer:
    """The block goes into a uniform buffer."""

    why: Reason = why_field()


ParamInliningVerdict: TypeAlias = Inline | UniformBuffer


def decide_param_inlining(
    inputs: ParamInliningInputs, policy: ParamInliningPolicy = LARGE_INLINE_DEFAULT
) -> ParamInliningVerdict:
    """Returns ``Inline`` iff the padded length is allowed and at most ``max_inline_bytes`` (equality fits)."""
    length, align, budget = inputs.bytes_len, policy.align_bytes, policy.max_inline_bytes
    if budget == 0 or align == 0:
        return UniformBuffer(Reason("inlining is switched off"))
    padded = -(-length // align) * align
    if padded != length and not policy.allow_padding_to_align:
        return UniformBuffer(Reason("{} bytes are no multiple of {} and padding is not allowed", (length, align)))
    if padded <= budget:
        return Inline(padded, Reason("{} bytes fit the budget of {}", (padded, budget)))
    return UniformBuffer(Reason("{} bytes exceed the budget of {}", (padded, budget)))
