"""Names and shapes that every layer uses."""

from __future__ import annotations

from typing import NewType, TypeAlias

from vyre.domain.ir.numpy_scalars import Size as Size

BackendId = NewType("BackendId", str)
OpId = NewType("OpId", str)
Dim3: TypeAlias = tuple[int, int, int]
"""Sizes along x, y and z."""
Grid: TypeAlias = Size | tuple[Size, ...]
"""Sizes of one to three axes as a caller gives them; axes that are left out have size 1."""
