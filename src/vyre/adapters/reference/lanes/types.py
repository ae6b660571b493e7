"""Shapes of rules, and the NumPy dtypes of lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vyre.domain.ir.types import ScalarType

Lanes: TypeAlias = NDArray[Any]
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
