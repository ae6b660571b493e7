"""How are integers divided by a literal without a division instruction?

A power of two is a shift.  Any other divisor is a multiplication by a scaled reciprocal that keeps the high half
(Granlund and Montgomery, "Division by invariant integers using multiplication", 1994): the multiplier has ``width``
bits where such a one is exact for every dividend, else ``width + 1`` bits, the top bit of which is added separately.
O(1).

A plan says how to compute the quotient ``q`` of the dividend ``n``.  Below, ``>>`` is a logical shift, ``>>>`` an
arithmetic one, ``mulhi`` the high half of the product (signed for signed types), and everything wraps modulo
``2**width``.  Unless a plan says otherwise, the remainder is ``n - q * divisor``.

The rules for zero and for the least integer are those of the language: unsigned ``n / 0`` is all ones, signed ``n / 0``
is 0, ``n % 0`` is 0, and ``MIN / -1`` is ``MIN`` with remainder 0.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from vyre.domain.errors import InvalidField
from vyre.policies.record import U64, IntRange, record, verdict


@record
class DivisionInputs:
    """A division by a literal; ``divisor`` is a bit pattern of ``width`` bits, which is 32 or 64."""

    divisor: U64
    width: Annotated[int, IntRange(32, 64)]
    signed: bool

    def __post_init__(self) -> None:
        if self.width not in (32, 64):
            raise InvalidField(record="DivisionInputs", field="width", value=self.width, expected="32 or 64")
        if self.divisor >> self.width:
            expected = f"a pattern of {self.width} bits"
            raise InvalidField(record="DivisionInputs", field="divisor", value=self.divisor, expected=expected)


@verdict
class ByZero:
    """Division by 0: ``q`` is the bit pattern ``quotient`` for every dividend, and the remainder is 0."""

    quotient: int


@verdict
class ByOne:
    """Division by 1, or by -1 with ``negate``: ``q = n`` or ``q = 0 - n``; the remainder is 0."""

    negate: bool


@verdict
class Shift:
    """Unsigned division by ``2**shift``: ``q = n >> shift``; the remainder is ``n & mask``."""

    shift: int
    mask: int


@verdict
class SignedShift:
    """Signed division by ``2**shift`` or, with ``negate``, its negative.

    ``t = n + ((n >>> (width - 1)) >> bias_shift)``, ``q = t >>> shift``, negated with ``negate``.  The remainder is ``n
    - (t & keep)``.
    """

    shift: int
    bias_shift: int
    keep: int
    negate: bool


@verdict
class Compare:
    """Unsigned division by more than half of the range: ``q = 1`` if ``n >= threshold``, else 0.

    The remainder is ``n - (threshold if n >= threshold else 0)``.
    """

    threshold: int


@verdict
class Multiply:
    """Unsigned division by a reciprocal.

    Without ``add``: ``q = mulhi(n >> pre_shift, multiplier) >> post_shift``.  With ``add``, where ``pre_shift`` is 0:
    ``t = mulhi(n, multiplier)``, ``q = (t + ((n - t) >> 1)) >> post_shift``.
    """

    multiplier: int
    pre_shift: int
    post_shift: int
    add: bool


@verdict
class SignedMultiply:
    """Signed division by a reciprocal.

    ``t = mulhi(n, multiplier)``, plus ``n`` with ``add``; ``s = t >>> post_shift``; ``q = s - (n >>> (width - 1))``, or
    the negative of that with ``negate``.  ``multiplier`` is the bit pattern of a signed number.
    """

    multiplier: int
    post_shift: int
    add: bool
    negate: bool


DivisionPlan: TypeAlias = ByZero | ByOne | Shift | SignedShift | Compare | Multiply | SignedMultiply


def divide_by(inputs: DivisionInputs) -> DivisionPlan:
    """Returns how to divide integers of the given width by the divisor."""
    plan = _signed if inputs.signed else _unsigned
    return plan(inputs.divisor, inputs.width)


def _unsigned(divisor: int, width: int) -> DivisionPlan:
    if divisor == 0:
        return ByZero((1 << width) - 1)
    if divisor == 1:
        return ByOne(negate=False)
    if divisor.bit_count() == 1:
        return Shift(divisor.bit_length() - 1, divisor - 1)
    if divisor >> (width - 1):
        return Compare(divisor)
    multiplier, post_shift = _reciprocal(divisor, width, width)
    if multiplier >> width == 0:
        return Multiply(multiplier, 0, post_shift, add=False)
    pre_shift = (divisor & -divisor).bit_length() - 1
    if pre_shift:
        # The shifted dividend has fewer bits, for which a shorter reciprocal is exact.
        multiplier, post_shift = _reciprocal(divisor >> pre_shift, width, width - pre_shift)
        return Multiply(multiplier, pre_shift, post_shift, add=False)
    return Multiply(multiplier - (1 << width), 0, post_shift - 1, add=True)


def _signed(divisor: int, width: int) -> DivisionPlan:
    negate = bool(divisor >> (width - 1))
    size = (1 << width) - divisor if negate else divisor
    if size == 0:
        return ByZero(0)
    if size == 1:
        return ByOne(negate)
    if size.bit_count() == 1:
        shift = size.bit_length() - 1
        return SignedShift(shift, width - shift, (1 << width) - size, negate)
    multiplier, post_shift = _reciprocal(size, width, width - 1)
    return SignedMultiply(multiplier, post_shift, bool(multiplier >> (width - 1)), negate)


def _reciprocal(divisor: int, width: int, precision: int) -> tuple[int, int]:
    """Returns the least ``(m, s)`` such that ``n // divisor == n * m >> (width + s)`` for all ``n < 2**precision``."""
    shift = (divisor - 1).bit_length()
    low = (1 << (width + shift)) // divisor
    high = ((1 << (width + shift)) + (1 << (width + shift - precision))) // divisor
    # A multiplier remains between the two when both are halved, as long as they differ above the dropped bits.
    halvings = min(shift, (low ^ high).bit_length() - 1)
    return high >> halvings, shift - halvings
