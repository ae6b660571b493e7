"""The versions of everything that makes machine code of programs here."""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.native.compilation import llvm_version
from vyre.adapters.cpu.native.features import CpuFeatures
from vyre.adapters.source_digest import LLVM, emitter_digest

VERSION: Final = "1"
"""The version of the backend."""


def toolchain_of(features: CpuFeatures) -> str:
    """Returns the versions of the backend, its emitter and its compiler, and the features of the processor."""
    compiler = llvm_version() or "no compiler"
    return f"version {VERSION}, emitter {emitter_digest(LLVM).hex()[:16]}, {compiler}, {features.text}"
