"""The kernels of ``tests/data/kernels``, which another compiler lowered, with inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from support.programs import Case, Order
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.witnesses import buffer_bytes

FOLDER: Final = Path(__file__).parents[1] / "data" / "kernels"
NAMES: Final = tuple(sorted(path.stem for path in FOLDER.glob("*.vyre")))


def kernel(name: str) -> Program:
    """The program of a kernel."""
    return Program.from_text((FOLDER / f"{name}.vyre").read_text("utf-8"))


def kernel_case(name: str) -> Case:
    """A dispatch of two workgroups of a kernel on values at which arithmetic goes wrong."""
    program = kernel(name)
    inputs = {}
    for buffer in program.abi_buffers:
        assert isinstance(buffer.element, ScalarType)
        if buffer.takes_input:
            inputs[buffer.name] = buffer_bytes(buffer.binding, buffer.element, buffer.count)
    return Case(program, inputs, DispatchConfig(grid=(2, 1, 1)), Order.INDEPENDENT)
