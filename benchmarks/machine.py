"""A record of what a result depends on: the machine, versions, the load."""

from __future__ import annotations

import os
from typing import Final

from gpu_runs import provenance

PACKAGES: Final = ("vyre", "numpy", "numba", "llvmlite", "cuda-bindings", "nvidia-cuda-nvrtc", "scipy", "tinygrad")


def describe() -> dict[str, object]:
    """Machine, versions, revision and load average now."""
    load = list(os.getloadavg()) if hasattr(os, "getloadavg") else None
    return provenance.describe(None, packages=PACKAGES) | {"load_average": load}
