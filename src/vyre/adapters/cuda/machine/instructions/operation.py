"""Instructions that map lanes to lanes: a rule over arrays, and the types of its operands."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

Rule: TypeAlias = Callable[..., Any]

LANE_DTYPE: Final[dict[str, np.dtype[Any]]] = {
    "pred": np.dtype(np.bool_),
    **{f"{kind}{bits}": np.dtype(f"u{bits // 8}") for kind in "bu" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(np.uint16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
"""The dtype in which a rule receives operands of each PTX type."""


class Noise(Enum):
    """The part of a result that is unspecified on hardware, and that the machine therefore draws at random.

    NAN: sign and payload of a NaN, BFLOAT_NAN: of one of bf16.  APPROXIMATE: the last place too.
    """

    NONE = auto()
    NAN = auto()
    BFLOAT_NAN = auto()
    APPROXIMATE = auto()


class Operation(NamedTuple):
    """An instruction by its rule.

    ``rule`` takes one array or NumPy scalar per source, of the dtypes of ``sources``, and returns fresh lanes of the
    dtype of ``result``.
    """

    result: str
    sources: tuple[str, ...]
    rule: Rule
    noise: Noise = Noise.NONE


Table: TypeAlias = dict[str, Operation]


def bits_of(kind: str) -> int:
    """Returns the width of a PTX type in bits."""
    return 8 * LANE_DTYPE[kind].itemsize


def unsigned(kind: str) -> np.dtype[Any]:
    """Returns the unsigned dtype of the same width."""
    return np.dtype(f"u{LANE_DTYPE[kind].itemsize}")
