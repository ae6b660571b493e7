"""Names of the CUDA backends."""

from __future__ import annotations

from typing import Final

from vyre.domain.names import BackendId

CUDA: Final = BackendId("cuda")
MACHINE: Final = BackendId("cuda-machine")
