"""Names and shapes that every layer uses."""

from __future__ import annotations

from typing import NewType, TypeAlias

BackendId = NewType("BackendId", str)
OpId = NewType("OpId", str)
Dim3: TypeAlias = tuple[int, int, int]
"""Sizes along x, y and z."""
Grid: TypeAlias = int | tuple[int, ...]
"""Sizes of one to three axes as a caller gives them; axes that are left out have size 1."""
