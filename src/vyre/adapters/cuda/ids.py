"""Names of the CUDA backends."""

from __future__ import annotations

from typing import Final

from vyre.domain.names import BackendId

CUDA: Final = BackendId("cuda")
MACHINE: Final = BackendId("cuda-machine")
VERSION: Final = "1"
"""The version of both backends."""


def emitter_version() -> str:
    """Returns the versions of the backends and of what emits code for them, which are known without a device."""
    from vyre.adapters.source_digest import emitter_digest

    return f"version {VERSION}, emitter {emitter_digest().hex()[:16]}"
