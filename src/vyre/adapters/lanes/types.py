"""Types of rules, and the NumPy dtypes of lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import numpy as np

from vyre.domain.ir.types import ScalarType

if TYPE_CHECKING:
    from numpy.typing import NDArray

Lanes: TypeAlias = "NDArray[Any]"
"""An array of one of the dtypes in ``LANE_DTYPE``, or of stored elements."""
LaneScalar: TypeAlias = np.uint32 | np.int32 | np.uint64 | np.int64 | np.float32 | np.float64 | np.bool_
"""One value shared by all lanes."""
Dense: TypeAlias = "Lanes | LaneScalar"
"""The operands and results of rules."""
UnaryRule: TypeAlias = Callable[[Dense], Dense]
BinaryRule: TypeAlias = Callable[[Dense, Dense], Dense]
TernaryRule: TypeAlias = Callable[[Dense, Dense, Dense], Dense]


class InPlaceRule(Protocol):
    """A binary rule that can write its result into an existing array, as ufuncs do."""

    def __call__(self, a: Dense, b: Dense, /, *, out: Lanes) -> Lanes: ...


LANE_DTYPE: Final[dict[ScalarType, np.dtype[Any]]] = {
    ScalarType.U32: np.dtype(np.uint32),
    ScalarType.I32: np.dtype(np.int32),
    ScalarType.U64: np.dtype(np.uint64),
    ScalarType.I64: np.dtype(np.int64),
    ScalarType.F32: np.dtype(np.float32),
    ScalarType.F64: np.dtype(np.float64),
    ScalarType.BOOL: np.dtype(np.bool_),
}


def lane_scalar(dtype: ScalarType, bits: int) -> LaneScalar:
    """Returns the value of an executable type that has these bits."""
    value: LaneScalar = np.frombuffer(bits.to_bytes(dtype.size, "little"), LANE_DTYPE[dtype])[0]
    return value
