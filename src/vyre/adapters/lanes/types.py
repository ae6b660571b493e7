"""Shapes of rules, and the NumPy dtypes of lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from vyre.domain.ir.types import ScalarType

if TYPE_CHECKING:
    from numpy.typing import NDArray

Lanes: TypeAlias = "NDArray[Any]"
UnaryRule: TypeAlias = Callable[[Any], Any]
BinaryRule: TypeAlias = Callable[[Any, Any], Any]
TernaryRule: TypeAlias = Callable[[Any, Any, Any], Any]

LANE_DTYPE: Final[dict[ScalarType, np.dtype[Any]]] = {
    ScalarType.U32: np.dtype(np.uint32),
    ScalarType.I32: np.dtype(np.int32),
    ScalarType.U64: np.dtype(np.uint64),
    ScalarType.I64: np.dtype(np.int64),
    ScalarType.F32: np.dtype(np.float32),
    ScalarType.F64: np.dtype(np.float64),
    ScalarType.BOOL: np.dtype(np.bool_),
}
