"""Put a small parameter block into the launch itself, or into a uniform buffer?

Units: bytes.  Rule: round the length up to the alignment; inline when that fits the budget (and, where padding is
not allowed, when nothing was added).  O(1).

The reference has the rule right and guesses the budget, which must be probed on the device and be net of what pointers
and counts already take.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from vyre.policies.record import U32, Reason, record, verdict, why_field


@record
class ParamInliningPolicy:
    """``max_inline_bytes`` 0 switches inlining off, as does ``align_bytes`` 0."""

    max_inline_bytes: U32
    align_bytes: U32
    allow_padding_to_align: bool


LARGE_INLINE_DEFAULT: Final = ParamInliningPolicy(3072, 4, True)
SMALL_INLINE_DEFAULT: Final = ParamInliningPolicy(128, 4, True)
DISABLED: Final = ParamInliningPolicy(0, 4, False)


@record
class ParamInliningInputs:
    bytes_len: U32


@verdict
class Inline:
    """``padded_bytes`` >= the length, a multiple of the alignment."""

    padded_bytes: int
    why: Reason = why_field()


@verdict
class UniformBuffer:
    why: Reason = why_field()


ParamInliningVerdict: TypeAlias = Inline | UniformBuffer


def decide_param_inlining(
    inputs: ParamInliningInputs, policy: ParamInliningPolicy = LARGE_INLINE_DEFAULT
) -> ParamInliningVerdict:
    """``Inline`` iff the padded length is allowed and at most ``max_inline_bytes`` (the boundary fits)."""
    length, align, budget = inputs.bytes_len, policy.align_bytes, policy.max_inline_bytes
    if budget == 0 or align == 0:
        return UniformBuffer(Reason("inlining is switched off"))
    padded = -(-length // align) * align
    if padded != length and not policy.allow_padding_to_align:
        return UniformBuffer(Reason("{} bytes are no multiple of {} and padding is not allowed", (length, align)))
    if padded <= budget:
        return Inline(padded, Reason("{} bytes fit the budget of {}", (padded, budget)))
    return UniformBuffer(Reason("{} bytes exceed the budget of {}", (padded, budget)))
