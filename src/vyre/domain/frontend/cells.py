"""Types that are not known yet: those of variables that start as a bare Python number, and of what is made of them."""

from __future__ import annotations

from typing import Final

from vyre.domain.ir.types import ScalarType
from vyre.domain.source_location import SourceLocation


class Cell:
    """One unknown type, shared by everything that must have the same type.

    ``fractional``: a float stands among the numbers.  ``whole``: only an integer type will do, since a loop counts in
    it.  ``negative``: a negative number stands among them.  ``dtype`` is the type once it is known, and ``decided_at``
    the line that decided it.
    """

    __slots__ = ("_parent", "decided_at", "dtype", "fractional", "negative", "whole")

    def __init__(self, *, fractional: bool = False, whole: bool = False, negative: bool = False) -> None:
        self._parent: Cell | None = None
        self.fractional: bool = fractional
        self.whole: bool = whole
        self.negative: bool = negative
        self.dtype: ScalarType | None = None
        self.decided_at: SourceLocation | None = None

    @property
    def root(self) -> Cell:
        """Returns the cell that stands for all that were joined with this one."""
        cell = self
        while cell._parent is not None:
            cell = cell._parent
        return cell

    def fits(self, dtype: ScalarType) -> bool:
        """Returns whether the numbers can have a type."""
        root = self.root
        return dtype.is_float or (dtype.is_integer and not root.fractional)

    def decide(self, dtype: ScalarType, loc: SourceLocation) -> None:
        """Fixes the type, unless it is fixed already or does not fit."""
        root = self.root
        if root.dtype is None and self.fits(dtype) and not (root.whole and dtype.is_float):
            root.dtype, root.decided_at = dtype, loc

    def join(self, other: Cell, loc: SourceLocation) -> None:
        """Makes two unknown types one."""
        root, absorbed = self.root, other.root
        if root is absorbed:
            return
        if absorbed.dtype is not None:
            root.decide(absorbed.dtype, absorbed.decided_at or loc)
        absorbed._parent = root
        root.fractional |= absorbed.fractional
        root.whole |= absorbed.whole
        root.negative |= absorbed.negative

    @property
    def result(self) -> ScalarType:
        """Returns the type: the one that was found, else f32 for fractions, i32 for negative numbers, else u32."""
        root = self.root
        if root.dtype is not None:
            return root.dtype
        if root.fractional and not root.whole:
            return _S.F32
        return _S.I32 if root.negative else _S.U32


_S: Final = ScalarType
