"""The mark of tests that compile native code."""

from __future__ import annotations

from typing import Final

import pytest

from vyre.adapters.cpu.native.compilation import llvm_version

NEEDS_LLVM: Final = pytest.mark.skipif(llvm_version() is None, reason="llvmlite is not installed")
BACKENDS: Final = ["reference", pytest.param("cpu", marks=NEEDS_LLVM), "cuda-machine"]
"""The backends that everybody can have."""
