"""Small programs and what they compute, for tests of everything around the engines."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from support.programs import Case, Order
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import f32, u32
from vyre.ports.backend import Backend, BackendCatalog
from vyre.testing.fakes import function_backend, registration_of


def saxpy_program(name: str = "saxpy") -> Program:
    """``y = a * x + y`` with a scalar parameter, an input and an inout buffer."""
    with ProgramBuilder(name, workgroup=64) as p:
        a = p.param("a", f32)
        x = p.input("x", f32)
        y = p.inout("y", f32)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = a * x[i] + y[i]
    return p.build()


def saxpy_kernel(inputs: Mapping[str, bytes]) -> dict[str, bytes]:
    """The same for ``function_backend``."""
    a, x, y = (np.frombuffer(inputs[name], np.float32) for name in ("a", "x", "y"))
    return {"y": (a * x + y).tobytes()}


def square_program(name: str = "square") -> Program:
    """``y = x * x`` over u32: one input, one output of the same length."""
    with ProgramBuilder(name, workgroup=64) as p:
        x = p.input("x", u32)
        y = p.output("y", u32, like=x)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = x[i] * x[i]
    return p.build()


def square_kernel(inputs: Mapping[str, bytes]) -> dict[str, bytes]:
    """The same for ``function_backend``."""
    x = np.frombuffer(inputs["x"], np.uint32)
    return {"y": (x * x).tobytes()}


def catalog_of(*backends: Backend) -> BackendCatalog:
    """A catalog of production backends, ranked in the order given."""
    return BackendCatalog(tuple(registration_of(b, rank=rank) for rank, b in enumerate(backends)))


def saxpy_catalog() -> BackendCatalog:
    """One production backend that computes saxpy."""
    return catalog_of(function_backend(saxpy_kernel))


def case_of(program: Program, nbytes: int = 1024) -> Case:
    """A dispatch of four workgroups on a fixed pattern, ``nbytes`` for each buffer of open length."""
    pattern = bytes((37 * n + 11) & 0xFF for n in range(nbytes))  # all floats of it are ordinary numbers
    inputs = {b.name: pattern[: b.static_nbytes or nbytes] for b in program.abi_buffers if b.takes_input}
    return Case(program, inputs, DispatchConfig(grid=(4, 1, 1)), Order.INDEPENDENT)
