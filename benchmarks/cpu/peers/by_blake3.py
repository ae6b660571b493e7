"""The package ``blake3``, whose code is written with the vector instructions of the processor, on one thread."""

from __future__ import annotations

from importlib.metadata import version as installed
from typing import Final

import blake3
import numpy as np

from benchmarks.cpu.job import Contender, Data, Side


def version() -> str:
    """Returns the version of the package."""
    return f"blake3 {installed('blake3')}"


def _blake3(data: Data) -> Side:
    text = data["text"].tobytes()
    found = [b""]

    def run() -> None:
        found[0] = blake3.blake3(text).digest()  # on one thread, unless max_threads is given

    return Side(run, lambda: np.frombuffer(found[0], np.uint32))


SIDES: Final[dict[str, Contender]] = {"blake3-1MiB": _blake3}
