"""Indices, values and masks for the lanes of single accesses to memory."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final

from support.cpu.accesses import Case
from support.profiles import SOAK
from vyre.domain.ir.types import ScalarType

_S = ScalarType
STRIDES: Final = (0, 1, -1, 3, 1 << 31, None)
INDICES: Final = (_S.U32, _S.I32, _S.U64, _S.I64)
PAIRS: Final = (
    *((element, 16) for element in ScalarType),
    *(
        (element, lanes)
        for number, element in enumerate((_S.U32, _S.U8, _S.I16, _S.U64))
        for lanes in ((4, 8, 32) if SOAK else ((4, 8, 32)[number % 3],))
    ),
)
"""Types of elements and numbers of lanes for which loads and stores are written; a soak has more pairs of both."""
_SPECIAL: Final = {
    32: (0, 1 << 31, 0x7F80_0000, 0xFF80_0000, 0x7FC0_0001, 0xFF80_0001, 1, 0x4780_0000, 0x3380_0000, 0x477F_F000),
    64: (0, 1 << 63, 0x7FF << 52, 0xFFF << 52, (0x7FF << 52) + 1, (0xFFF << 52) + (1 << 51), 1),
}


def to_number(dtype: ScalarType, bits: int) -> int:
    """Returns an index as a number, negative if it is so."""
    bits &= (1 << dtype.bits) - 1
    return bits - (1 << dtype.bits) if dtype.is_signed and bits >> (dtype.bits - 1) else bits


def lane_indices(case: Case, lanes: int, given: Sequence[int]) -> list[int]:
    """Returns the numbers that the indices of the lanes stand for."""
    if case.number is not None:
        return [to_number(case.index, case.number)] * lanes
    if case.stride is None:
        return [to_number(case.index, bits) for bits in given]
    return [to_number(case.index, given[0] + lane * case.stride) for lane in range(lanes)]


def lane_values(dtype: ScalarType, stride: int | None, given: Sequence[int]) -> list[int]:
    """Returns the bits of the values of the lanes."""
    if stride is None:
        return list(given)
    return [(given[0] + lane * stride) & ((1 << dtype.bits) - 1) for lane in range(len(given))]


def starts(case: Case, lanes: int, length: int, rng: random.Random) -> Iterator[list[int]]:
    """Yields tables of indices: in range, across both ends, and at the limits of the types."""
    edges = [0, 1, length - 1, length, length + 1, length - lanes, length - lanes + 1, lanes - 1, lanes]
    edges += [-1, -2, 1 - lanes, -lanes, (1 << 31) - 1, (1 << 31) - 3, 1 << 31, (1 << 32) - 1, (1 << 32) - lanes + 1]
    edges += [1 << 32, (1 << 32) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - lanes // 2]
    if case.number is not None:
        yield [0] * lanes
    elif case.stride is None:
        for _ in range(3):
            yield [rng.choice((rng.choice(edges), rng.randrange(length + 2))) % (1 << 64) for _ in range(lanes)]
        yield list(range(lanes))
    else:
        for edge in [0, length - lanes, *rng.sample(edges, 7)]:
            yield [edge % (1 << 64)] * lanes


def some_masks(lanes: int, rng: random.Random) -> tuple[int, ...]:
    """Returns masks with at least one active lane."""
    return (rng.choice((1, 1 << lanes - 1, (1 << lanes) - 1)), rng.randrange(1, 1 << lanes))


def random_values(dtype: ScalarType, lanes: int, rng: random.Random) -> list[int]:
    """Returns bits of values, with special floating-point numbers among them."""
    if dtype is _S.BOOL:
        return [rng.randrange(2) for _ in range(lanes)]
    special = _SPECIAL[dtype.bits]
    return [rng.choice((rng.choice(special), rng.randrange(1 << dtype.bits))) for _ in range(lanes)]


def data_of(element: ScalarType, length: int, rng: random.Random) -> bytes:
    """Returns random bytes, with bytes that stand for special floating-point numbers among them."""
    return bytes(rng.choice((0, 0x7F, 0x80, 0xFF, 0x7C, rng.randrange(256))) for _ in range(length * element.size))
