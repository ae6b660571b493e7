"""Random expressions of the language, each with its value, which NumPy computes while the text is made.

NumPy sums floats in pairs: here every fold goes through the elements in order, as the language says.  The smaller and
larger of two floats are those of IEEE's ``minimumNumber``.  All other functions are NumPy's own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Binary: TypeAlias = Callable[[Array, Array], Array]
SHAPES: Final[tuple[tuple[int, ...], ...]] = ((), (6,), (1, 6), (4, 1), (4, 6), (2, 4, 6))
SPECIAL: Final = (0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 3e38, 1e-42, 0.1)
TYPES: Final = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "u32": np.uint32, "bool": np.bool_}
FLOATS: Final = ("f32", "f64")
INTEGERS: Final = ("i32", "u32")


class Value(NamedTuple):
    text: str
    dtype: str
    array: Array


def draw_inputs(rng: random.Random) -> list[Value]:
    """An array of each type and shape, some of whose elements are special."""
    inputs: list[Value] = []
    for dtype in TYPES:
        for number, shape in enumerate(SHAPES):
            count = int(np.prod(shape))
            if dtype in FLOATS:
                numbers = [rng.choice(SPECIAL) if rng.random() < 0.2 else rng.uniform(-9, 9) for _ in range(count)]
                array: Array = np.array(numbers, TYPES[dtype])
            elif dtype == "bool":
                array = np.array([rng.random() < 0.5 for _ in range(count)], np.bool_)
            else:
                bits = [rng.choice((rng.randrange(2**32), rng.randrange(20), 2**31, 2**32 - 1)) for _ in range(count)]
                array = np.array(bits, np.uint32).view(TYPES[dtype])
            inputs.append(Value(f"{dtype}_{number}", dtype, array.reshape(shape)))
    return inputs


def draw(rng: random.Random, known: Sequence[Value], dtype: str, depth: int) -> Value:
    """An expression of a type, of at most so many levels."""
    if depth == 0 or rng.random() < 0.1:
        return rng.choice([each for each in known if each.dtype == dtype])
    if rng.random() < 0.08:
        return _of_many(rng, known, dtype, depth)
    if rng.random() < 0.15:
        return _cast(draw(rng, known, rng.choice([*TYPES]), depth - 1), dtype)
    if rng.random() < 0.1:
        condition = draw(rng, known, "bool", depth - 1)
        one, other = _pair(rng, known, dtype, depth)
        if not _broadcast(condition.array, one.array, other.array):
            condition = next(each for each in known if each.dtype == "bool" and not each.array.shape)
        text = f"where({condition.text}, {one.text}, {other.text})"
        return Value(text, dtype, np.where(condition.array, one.array, other.array))
    if dtype == "bool" and rng.random() < 0.7:
        one, other = _pair(rng, known, rng.choice([*FLOATS, *INTEGERS]), depth)
        symbol, compare = rng.choice([*_COMPARISONS.items()])
        return Value(f"({one.text} {symbol} {other.text})", dtype, compare(one.array, other.array))
    if rng.random() < 0.3:
        x = draw(rng, known, dtype, depth - 1)
        pattern, unary = rng.choice(_UNARY[dtype])
        return Value(pattern.format(x.text), dtype, unary(x.array))
    one, other = _pair(rng, known, dtype, depth)
    pattern, binary = rng.choice(_BINARY[dtype])
    return Value(pattern.format(one.text, other.text), dtype, binary(one.array, other.array))


def _pair(rng: random.Random, known: Sequence[Value], dtype: str, depth: int) -> tuple[Value, Value]:
    """Two operands that broadcast, of which one may be a number."""
    one = draw(rng, known, dtype, depth - 1)
    if dtype != "bool" and rng.random() < 0.2:
        number = rng.choice((0, 1, 2, 7)) if dtype in INTEGERS else rng.choice((0.5, 2.0, 1e-3, 3.25))
        other = Value(str(number), dtype, np.array(number, TYPES[dtype]))
    else:
        other = draw(rng, known, dtype, depth - 1)
    if not _broadcast(one.array, other.array):
        return one, one
    return (one, other) if rng.random() < 0.5 else (other, one)


def _broadcast(*arrays: Array) -> bool:
    try:
        np.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError:
        return False
    return True


def _of_many(rng: random.Random, known: Sequence[Value], dtype: str, depth: int) -> Value:
    """A reduction, a scan, a histogram, a product or a stencil; where it does not fit, its operand."""
    x = draw(rng, known, dtype, depth - 1)
    shape, axes = x.array.shape, x.array.ndim
    kind = rng.choice(("reduce", "along", "shift", "scan", "histogram", "transpose", "@"))
    if kind == "histogram" and dtype == "u32":
        counted = draw(rng, known, rng.choice(INTEGERS), depth - 1)
        bins = (counted.array & np.array(7, counted.array.dtype)).astype(np.int64).ravel()
        return Value(f"histogram({counted.text} & 7, 8)", dtype, np.bincount(bins, minlength=8).astype(np.uint32))
    if kind == "shift" and axes:
        offsets = tuple(rng.randint(-2, 2) if size > 1 else 0 for size in shape)
        return Value(f"shift({x.text}, {', '.join(map(str, offsets))})", dtype, shifted(x.array, offsets))
    if kind == "transpose" and axes == 2:
        return Value(f"transpose({x.text})", dtype, x.array.T)
    if kind == "scan" and axes and dtype in INTEGERS:
        return Value(f"scan({x.text})", dtype, np.cumsum(x.array, -1, dtype=x.array.dtype))
    if dtype == "bool":
        return x
    if kind == "@" and axes == 2:
        columns = [np.multiply(x.array[:, k, None], x.array.T[None, k, :]) for k in range(shape[1])]
        return Value(f"({x.text} @ transpose({x.text}))", dtype, reduce(np.add, columns))
    name, fold = rng.choice((("sum", np.add), ("least", smaller), ("greatest", larger)))
    if kind == "reduce":
        return Value(f"{name}({x.text})", dtype, reduce(fold, list(x.array.reshape(-1, 1))).reshape(()))
    if kind == "along" and axes:
        axis = rng.randrange(axes)
        slices = [np.take(x.array, k, axis) for k in range(shape[axis])]
        return Value(f"{name}({x.text}, {axis})", dtype, np.asarray(reduce(fold, slices)))
    return x


def shifted(array: Array, offsets: tuple[int, ...]) -> Array:
    """The elements at indices that are greater by ``offsets``, and zeros where there are none."""
    result = np.zeros_like(array)
    pairs = list(zip(array.shape, offsets, strict=True))
    inside = tuple(slice(max(0, -offset), max(0, size - max(0, offset))) for size, offset in pairs)
    behind = tuple(slice(max(0, offset), max(0, size - max(0, -offset))) for size, offset in pairs)
    result[inside] = array[behind]
    return result


def smaller(a: Array, b: Array) -> Array:
    """The smaller of two numbers; of floats that of ``minimumNumber``, for which -0 is below +0."""
    if a.dtype.kind != "f":
        return np.minimum(a, b)
    return np.where((a == 0) & (b == 0), np.where(np.signbit(a), a, b), np.fmin(a, b))


def larger(a: Array, b: Array) -> Array:
    """The larger of two numbers, as ``maximumNumber`` is of floats."""
    if a.dtype.kind != "f":
        return np.maximum(a, b)
    return np.where((a == 0) & (b == 0), np.where(np.signbit(a), b, a), np.fmax(a, b))


def _cast(x: Value, dtype: str) -> Value:
    """A conversion; of floats to integers it saturates, which NumPy leaves open."""
    array = x.array
    if array.dtype.kind == "f" and dtype in INTEGERS:
        limits = np.iinfo(np.int32 if dtype == "i32" else np.uint32)
        wide = np.nan_to_num(array.astype(np.float64), nan=0.0, posinf=1e30, neginf=-1e30)
        array = np.clip(np.trunc(wide), limits.min, limits.max)
    return Value(f"{dtype}({x.text})", dtype, array.astype(TYPES[dtype]))


def _left(a: Array, b: Array) -> Array:
    return np.asarray(np.left_shift(a, b & np.array(31, b.dtype)))


def _right(a: Array, b: Array) -> Array:
    return np.asarray(np.right_shift(a, b & np.array(31, b.dtype)))


_COMPARISONS: Final[dict[str, Binary]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
_OF_NUMBERS: Final[list[tuple[str, Binary]]] = [
    ("({} + {})", np.add),
    ("({} - {})", np.subtract),
    ("({} * {})", np.multiply),
    ("min({}, {})", smaller),
    ("max({}, {})", larger),
]
_LOGICAL: Final[list[tuple[str, Binary]]] = [
    ("({} & {})", np.bitwise_and),
    ("({} | {})", np.bitwise_or),
    ("({} ^ {})", np.bitwise_xor),
]
_OF_INTEGERS: Final[list[tuple[str, Binary]]] = [
    *_OF_NUMBERS,
    *_LOGICAL,
    ("({} % {})", np.fmod),
    ("({} << {})", _left),
    ("({} >> {})", _right),
]
_BINARY: Final[dict[str, list[tuple[str, Binary]]]] = {
    **{name: [*_OF_NUMBERS, ("({} / {})", np.divide)] for name in FLOATS},
    **dict.fromkeys(INTEGERS, _OF_INTEGERS),
    "bool": _LOGICAL,
}
_SIGNED: Final[list[tuple[str, Callable[[Array], Array]]]] = [("-{}", np.negative), ("abs({})", np.abs)]
_UNARY: Final[dict[str, list[tuple[str, Callable[[Array], Array]]]]] = {
    **{name: [*_SIGNED, ("sqrt({})", np.sqrt), ("floor({})", np.floor)] for name in FLOATS},
    **{name: [*_SIGNED, ("~{}", np.invert)] for name in INTEGERS},
    "bool": [("~{}", np.logical_not)],
}
