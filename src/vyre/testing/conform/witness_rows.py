"""Operands for one operation: all combinations of boundary values, then random ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from typing import Final

from vyre.domain.ir.types import ScalarType, bf16, bool_, f16, f32
from vyre.domain.numerics.witnesses import WITNESSES
from vyre.testing.operations import Operation, Row
from vyre.testing.samples import samples

LEAST_WITNESSES: Final = 1024
"""The least number of operands for which an operation is run, unless its operands have fewer values."""
_BOUNDARIES: Final = 48
"""The most boundary values of a type that are combined with each other."""
_BIAS: Final = {32: 127, 64: 1023}
_FRACTION: Final = {32: 23, 64: 52}
_SUBGROUP: Final = 32


def operation_rows(operation: Operation, seed: int) -> tuple[Row, ...]:
    """Returns the operands of every lane; the rows of an operation whose lanes see each other fill subgroups."""
    source = f"{seed} {operation.name}"
    if operation.stored is not None:
        return rounding_rows(operation.stored, source)
    rows = witness_rows(operation.operands, source)
    if operation.rounds:
        return (*rows, *halfway_rows(operation.operands[0], operation.result, source))
    return rows if operation.separate else (*rows, *rows[: -len(rows) % _SUBGROUP])


def boundaries(dtype: ScalarType) -> tuple[int, ...]:
    """Returns bit patterns at which the rules of a type change; all of them for types of at most 8 bits."""
    if dtype is bool_:
        return (0, 1)
    if dtype.size == 1:
        return tuple(range(256))
    if dtype not in WITNESSES:
        return tuple(range(1 << 16))
    return tuple(dict.fromkeys((*samples(dtype), *WITNESSES[dtype])))[:_BOUNDARIES]


def witness_rows(operands: tuple[ScalarType, ...], seed: str) -> tuple[Row, ...]:
    """Returns the rows of operands, a bit pattern for each operand.

    All combinations of boundary values come first, then random rows until there are ``LEAST_WITNESSES``; three
    operands combine every third boundary value.  ``seed`` decides the random rows alone.
    """
    values = [boundaries(dtype) for dtype in operands]
    if len(operands) > 2:
        values = [bits[::3] if len(bits) > 2 else bits for bits in values]
    rows = list(product(*values))
    if all(dtype is bool_ or dtype not in WITNESSES for dtype in operands):
        return tuple(rows)
    source = random.Random(seed)
    while len(rows) < LEAST_WITNESSES:
        rows.append(tuple([_any_bits(source, dtype) for dtype in operands]))
    return tuple(rows)


def rounding_rows(dtype: ScalarType, seed: str) -> tuple[Row, ...]:
    """Returns values of the widened type of a narrow one, for a store: each narrow value, and where rounding turns.

    For floats these are, for every finite narrow value, its exact value, the value halfway to the next one, and the
    neighbours of that; for integers all narrow values with any bits above them.
    """
    source = random.Random(seed)
    if dtype in (f16, bf16):
        return tuple((bits,) for bits in _float_turns(dtype))
    top = 1 << dtype.widened.bits
    narrow = 1 << dtype.bits
    times = max(1, LEAST_WITNESSES // narrow)
    above = (bits + narrow * source.randrange(top // narrow) for bits in range(narrow) for _ in range(times))
    return tuple((bits,) for bits in (*above, *boundaries(dtype.widened)))


def halfway_rows(source: ScalarType, target: ScalarType, seed: str) -> tuple[Row, ...]:
    """Returns values of ``source`` at which its conversion to the narrower float type ``target`` turns.

    They are, at every magnitude, a value halfway between two of ``target`` and those one unit of ``source`` beside it:
    a conversion by way of a third format rounds some of them twice.  There are none for types that ``target`` holds.
    """
    chosen = random.Random(seed)
    kept = _FRACTION.get(target.bits, 0) + 1  # significant bits of the target
    if source.is_float:
        lost = _FRACTION[source.bits] + 1 - kept
        tops = [chosen.getrandbits(source.bits - lost) for _ in range(LEAST_WITNESSES)] if lost > 0 else []
        tops += [(_BIAS[source.bits] + exponent) << (kept - 1) | 1 for exponent in range(-160, 160)] if lost > 0 else []
        return tuple((top << lost | low,) for top in tops for low in _beside_half(lost))
    rows: list[Row] = []
    for size in range(kept + 1, source.bits + (source.text[0] == "u")):  # the bits of the magnitude
        lost = size - kept
        for top in (
            1 << (kept - 1),
            (1 << (kept - 1)) + 1,
            (1 << kept) - 1,
            chosen.getrandbits(kept) | 1 << (kept - 1),
        ):
            rows.extend((top << lost | low,) for low in _beside_half(lost))
    negative = [((1 << source.bits) - value,) for (value,) in rows] if source.text[0] == "i" else []
    return (*rows, *negative)


def _beside_half(lost: int) -> tuple[int, ...]:
    half = 1 << (lost - 1)
    return (half, half - 1, half + 1) if lost > 1 else (half,)


def _float_turns(dtype: ScalarType) -> Iterator[int]:
    yield from boundaries(f32)
    if dtype is bf16:
        for high in range(1 << 16):
            yield from (high << 16, high << 16 | 0x8000, high << 16 | 0x7FFF, high << 16 | 0x8001)
        return
    for exponent in range(127 - 25, 127 + 17):  # from below half of the smallest subnormal to beyond the largest
        kept = 10 if exponent >= 127 - 14 else max(0, 10 - (127 - 14 - exponent))
        for fraction in range(1 << kept):
            exact = exponent << 23 | fraction << (23 - kept)
            half = 1 << (22 - kept)
            for bits in (exact, exact | half, (exact | half) - 1, (exact | half) + 1):
                yield from (bits, bits | 1 << 31)


def _any_bits(source: random.Random, dtype: ScalarType) -> int:
    """Any bits, but for floats in half of the cases an exponent near that of 1."""
    if dtype is bool_:
        return source.randrange(2)
    if dtype.is_float and source.randrange(2):
        bits, fraction = dtype.bits, _FRACTION[dtype.bits]
        exponent = source.randrange(_BIAS[bits] - 40, _BIAS[bits] + 40)
        return source.getrandbits(1) << (bits - 1) | exponent << fraction | source.getrandbits(fraction)
    if not dtype.is_float and source.randrange(4) == 0:
        return source.randrange(1 << source.randrange(1, dtype.bits + 1))
    return source.getrandbits(dtype.bits)
