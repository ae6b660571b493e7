"""``cvt``: between all integer and float types, with every rounding that PTX allows for the pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from vyre.adapters.cuda.machine.instructions.operation import LANE_DTYPE, Noise, Operation, Rule, Table, bits_of

_TO_INTEGRAL: Final[dict[str, Callable[[Any], Any]]] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}
_DIRECTED: Final = ("rz", "rm", "rp")
_ROUNDED: Final = ("rn", *_DIRECTED)
_HALF_NAN: Final = np.uint16(0x7FFF)


def conversion(opcode: str) -> Operation | None:
    """Returns the operation of a ``cvt`` opcode, or None if PTX has no such form."""
    modifiers = opcode.split(".")[1:]
    if len(modifiers) < 2 or not {modifiers[-1], modifiers[-2]} <= set(LANE_DTYPE) - {"pred"}:
        return None
    *flags, target, source = modifiers
    saturates = "sat" in flags
    roundings = [flag for flag in flags if flag != "sat"]
    if len(roundings) > 1 or flags.count("sat") > 1:
        return None
    rule = _rule(target, source, roundings[0] if roundings else None, saturates)
    noise = Noise.NAN if target in ("f32", "f64") and _is_float(source) else Noise.NONE
    return None if rule is None else Operation(target, (source,), rule, noise)


def _is_float(kind: str) -> bool:
    return "f" in kind


def _rule(target: str, source: str, rounding: str | None, saturates: bool) -> Rule | None:
    match _is_float(source), _is_float(target):
        case False, False:
            return _between_integers(target, source, saturates) if rounding is None else None
        case True, False:
            return _to_integer(target, source, _TO_INTEGRAL[rounding]) if rounding in _TO_INTEGRAL else None
        case False, True:
            known = rounding in _ROUNDED and target != "bf16" and not saturates
            return _from_integer(target, source, str(rounding)) if known else None
        case _:
            return _between_floats(target, source, rounding, saturates)


# ------------------------------------------------------------------------------ integers


def _between_integers(target: str, source: str, saturates: bool) -> Rule:
    dtype = LANE_DTYPE[target]
    if not saturates:
        return lambda x: x.astype(dtype)
    to, of = np.iinfo(dtype), np.iinfo(LANE_DTYPE[source])
    low, high = max(to.min, of.min), min(to.max, of.max)
    return lambda x: np.clip(x, low, high).astype(dtype)


def _to_integer(target: str, source: str, integral: Callable[[Any], Any]) -> Rule:
    """Values out of range saturate.  NaN gives 0, but only the sign bit set if one of the types has 64 bits."""
    dtype = LANE_DTYPE[target]
    info = np.iinfo(dtype)
    low, high = dtype.type(info.min), dtype.type(info.max)
    # The least value and the first value beyond the range are exact in binary64, for all types.
    floor, ceiling = np.float64(info.min), np.float64(2.0 ** (bits_of(target) - (info.min != 0)))
    wide = source == "f64" or bits_of(target) == 64
    nan = np.array(1 << (bits_of(target) - 1) if wide else 0, f"u{dtype.itemsize}").view(dtype)[()]
    widen = _widened(source)

    def rule(x: Any) -> Any:
        value = integral(widen(x).astype(np.float64))
        inside = (value >= floor) & (value < ceiling)
        if inside.all():
            return value.astype(dtype)
        result = np.where(inside, value, np.float64(0)).astype(dtype)
        result = np.where(value >= ceiling, high, np.where(value < floor, low, result))
        return np.where(np.isnan(value), nan, result)

    return rule


def _from_integer(target: str, source: str, rounding: str) -> Rule:
    dtype = LANE_DTYPE[target]
    if rounding == "rn":
        return lambda x: x.astype(dtype)
    adjust = _directed(rounding)
    word = np.dtype("i8" if source[0] == "s" else "u8")
    low_half, half = word.type(0xFFFF_FFFF), word.type(32)

    def rule(x: Any) -> Any:
        value = x.astype(word)
        nearest = value.astype(dtype)
        # Both halves and both differences are exact in binary64.
        high = (value >> half).astype(np.float64) * 2.0**32
        error = (nearest.astype(np.float64) - high) - (value & low_half).astype(np.float64)
        return adjust(nearest, error)

    return rule


# ------------------------------------------------------------------------------ floats


def _directed(rounding: str) -> Callable[[Any, Any], Any]:
    """Returns a function that moves a nearest value to its other neighbour if ``error`` (nearest - exact) has the wrong
    sign.
    """

    def adjust(nearest: Any, error: Any) -> Any:
        infinity = nearest.dtype.type(np.inf)
        down = np.nextafter(nearest, -infinity)
        up = np.nextafter(nearest, infinity)
        too_high = error > 0
        too_low = error < 0
        match rounding:
            case "rm":
                return np.where(too_high, down, nearest)
            case "rp":
                return np.where(too_low, up, nearest)
            case _:
                positive = nearest > 0
                return np.where(too_high & positive, down, np.where(too_low & (nearest < 0), up, nearest))

    return adjust


def _widened(source: str) -> Rule:
    """Returns a rule that gives the value in f32 or wider, exactly."""
    if source == "bf16":
        return lambda x: np.left_shift(x, np.uint32(16), dtype=np.uint32).view(np.float32)
    if source == "f16":
        return lambda x: x.astype(np.float32)
    return lambda x: x


def _to_half(x: Any) -> Any:
    half = x.astype(np.float16)
    unordered = np.isnan(x)
    return np.where(unordered, _HALF_NAN, half.view(np.uint16)).view(np.float16) if unordered.any() else half


def _to_bf16(x: Any) -> Any:
    word = x.view(np.uint32)
    odd = word >> np.uint32(16) & np.uint32(1)
    rounded = (word + (np.uint32(0x7FFF) + odd) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(x), _HALF_NAN, rounded)


def _between_floats(target: str, source: str, rounding: str | None, saturates: bool) -> Rule | None:
    if saturates and target not in ("f32", "f64"):
        return None
    if target == source:
        rule = _same_float(target, rounding)
    elif bits_of(target) > bits_of(source):
        dtype = LANE_DTYPE[target]
        widen = _widened(source)
        rule = None if rounding else lambda x: widen(x).astype(dtype)
    else:
        rule = _narrowed(target, source, rounding)
    if rule is None or not saturates:
        return rule
    unclamped: Rule = rule
    return lambda x: _clamped(unclamped(x))


def _clamped(x: Any) -> Any:
    """Clamps to [+0, 1]; NaN gives 0."""
    zero, one = x.dtype.type(0), x.dtype.type(1)
    return np.where(x >= one, one, np.where(x > zero, x, zero))


def _pair(to_word: Rule) -> Rule:
    """Returns a rule that converts two numbers to the halves of a word, the first one to the upper half."""

    def rule(upper: Any, lower: Any) -> Any:
        high, low = (to_word(x).view(np.uint16).astype(np.uint32) for x in (upper, lower))
        return high << np.uint32(16) | low

    return rule


TABLE: Final[Table] = {
    "cvt.rn.f16x2.f32": Operation("b32", ("f32", "f32"), _pair(_to_half)),
    "cvt.rn.bf16x2.f32": Operation("b32", ("f32", "f32"), _pair(_to_bf16)),
}
"""Conversions of two numbers to the halves of a word."""


def _same_float(kind: str, rounding: str | None) -> Rule | None:
    if rounding is None:
        return lambda x: x.copy()
    if kind in ("f32", "f64") and rounding in _TO_INTEGRAL:
        integral = _TO_INTEGRAL[rounding]
        return lambda x: integral(x)
    return None


def _narrowed(target: str, source: str, rounding: str | None) -> Rule | None:
    if (target, source) == ("f32", "f64") and rounding in _DIRECTED:
        adjust = _directed(str(rounding))

        def rule(x: Any) -> Any:
            nearest = x.astype(np.float32)
            return adjust(nearest, np.where(np.isinf(x), 0.0, nearest.astype(np.float64) - x))

        return rule
    if rounding != "rn":
        return None
    rules: dict[tuple[str, str], Rule] = {
        ("f32", "f64"): lambda x: x.astype(np.float32),
        ("f16", "f32"): _to_half,
        ("f16", "f64"): _to_half,
        ("bf16", "f32"): _to_bf16,
    }
    return rules.get((target, source))
