"""What users' own tests need: an emulated device, and runners for conformance files and filetests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vyre.testing.machine import CudaMachine, cuda_machine

__all__ = ["CudaMachine", "cuda_machine"]


def __getattr__(name: str) -> object:
    """The double is imported on first use: the runners of this package start without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vyre.testing import machine

    return getattr(machine, name)
