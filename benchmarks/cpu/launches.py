"""Solutions in vyre: bound launches on resident memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import vyre
from benchmarks.cpu.job import Array, Side, aligned
from vyre import Program, ResidentArray, Session, Step
from vyre.adapters.cpu.registration import cpu_catalog
from vyre.adapters.cpu.runtime.options import CpuOptions


class Memory:
    """The resident arrays of a solution, by name."""

    def __init__(self, session: Session, arrays: Mapping[str, Array]) -> None:
        self.arrays: dict[str, ResidentArray] = {
            name: session.resident(aligned(array), label=name) for name, array in arrays.items()
        }

    def named(self, **names: str) -> dict[str, Any]:
        """Returns the arrays of these names, under the names that a program has for them."""
        return {buffer: self.arrays[name] for buffer, name in names.items()}

    def close(self) -> None:
        """Frees the arrays."""
        for array in self.arrays.values():
            array.close()


def one_launch(
    session: Session, program: Program, inputs: Mapping[str, Any], output: str, zeros: Array, **shorthand: Any
) -> Side:
    """Binds a launch of one program; ``inputs`` are arrays, made resident, and numbers.

    ``zeros`` has the type and the size of ``output``.
    """
    memory = Memory(session, {**{name: value for name, value in inputs.items() if np.ndim(value)}, output: zeros})
    bound = session.bind_resident(program, {**inputs, **memory.arrays}, **shorthand)

    def close() -> None:
        bound.close()
        memory.close()

    return Side(bound.launch, memory.arrays[output].download, close)


def in_order(session: Session, memory: Memory, steps: Sequence[Step], answer: Callable[[], Array]) -> Side:
    """Returns what runs a sequence of launches."""
    return Side(session.sequence(steps), answer, memory.close)


def opened(backend: str, threads: int = 1, vector_bits: int | None = None, **options: Any) -> Session:
    """Opens a session; ``options`` are those of ``vyre.open``.

    ``threads`` limits the threads of backend ``cpu``, and ``vector_bits`` the width of its vectors; other backends
    choose for themselves.
    """
    if backend == "cpu":
        options["threads"] = threads
        if vector_bits is not None:
            options["catalog"] = cpu_catalog(CpuOptions(vector_bits=vector_bits))
    return vyre.open(backend, **options)
