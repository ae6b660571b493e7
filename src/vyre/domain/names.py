"""Names and shapes that every layer uses."""

from __future__ import annotations

from typing import NewType, TypeAlias

BackendId = NewType("BackendId", str)
OpId = NewType("OpId", str)
Dim3: TypeAlias = tuple[int, int, int]
