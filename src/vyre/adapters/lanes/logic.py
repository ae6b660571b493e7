"""Comparisons of all types, and bool operators."""

from __future__ import annotations

from typing import Final

import numpy as np

from vyre.adapters.lanes.types import BinaryRule, UnaryRule
from vyre.domain.ir.operators import BinaryOp, UnaryOp

# IEEE comparisons are NumPy's: an unordered pair is unequal, and nothing else.
COMPARE: Final[dict[BinaryOp, BinaryRule]] = {
    BinaryOp.EQ: np.equal,
    BinaryOp.NE: np.not_equal,
    BinaryOp.LT: np.less,
    BinaryOp.GT: np.greater,
    BinaryOp.LE: np.less_equal,
    BinaryOp.GE: np.greater_equal,
}
BOOL_BINARY: Final[dict[BinaryOp, BinaryRule]] = {BinaryOp.AND: np.logical_and, BinaryOp.OR: np.logical_or}
BOOL_UNARY: Final[dict[UnaryOp, UnaryRule]] = {UnaryOp.LOGICAL_NOT: np.logical_not}
