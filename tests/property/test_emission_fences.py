"""The fences against miscompiles are no switches: with an opaque zero that is not zero, exactly the fenced operations
change their results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import pytest

import vyre
from support.machine.engine import MachineEngine, MachineKernel
from support.running import run
from support.small_programs import case_of
from vyre.adapters.cuda.machine.faults import KernelFault
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.domain.ir.builder import ProgramBuilder, Value
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import i32, u32, u64

Build = Callable[[], Program]


@dataclass(frozen=True)
class Unzeroed(MachineEngine):
    """Runs kernels with an opaque zero of 5."""

    def __call__(self, program: Program, spec: Mapping[str, Literal]) -> MachineKernel:
        kernel = super().__call__(program, spec)
        kernels = tuple(
            replace(k, parameters=tuple(replace(p, value=5) if p.value is not None else p for p in k.parameters))
            for k in kernel.kernels
        )
        return replace(kernel, kernels=kernels)


def computed(make: Callable[[ProgramBuilder, Value, Value], Value]) -> Build:
    """A kernel over two loaded words."""

    def build() -> Program:
        with ProgramBuilder("fenced", workgroup=32) as p:
            y = p.inout("y", u32)
            i = p.global_id()
            a, b = p.let(y[i]), p.let(y[i + 1])
            value = make(p, a, b)
            p.barrier()
            y[i] = value
        return p.build()

    return build


def counted(p: ProgramBuilder, a: Value, b: Value) -> Value:
    total = p.var(u32(0))
    with p.for_(0, a % 9) as k:
        total.assign(total + k + 1)
    return total


def evenly(p: ProgramBuilder, a: Value, b: Value) -> Value:
    total = p.var(u32(0))
    with p.for_(0, 9) as k:
        total.assign(total + k + b)
    return total


FENCED: Final[dict[str, Build]] = {
    "signed minimum": computed(lambda p, a, b: vyre.min_(a.bitcast(i32), b.bitcast(i32)).bitcast(u32)),
    "rotation by a literal": computed(lambda p, a, b: vyre.rotl(a, 3)),
    "rotation": computed(lambda p, a, b: vyre.rotr(a, b)),
    "product of computed values": computed(lambda p, a, b: a * b),
    "low half of 64 bits": computed(lambda p, a, b: (a.cast(u64) + b.cast(u64)).cast(u32)),
    "difference from the least": computed(lambda p, a, b: u32(1 << 31) - a),
    "a counted loop that lanes leave apart": computed(counted),
}
FREE: Final[dict[str, Build]] = {
    "unsigned minimum": computed(lambda p, a, b: vyre.min_(a, b)),
    "product with a literal": computed(lambda p, a, b: a * 12345),
    "sum": computed(lambda p, a, b: a + b),
    "shift": computed(lambda p, a, b: (a >> 3) ^ (b << 2)),
    "difference": computed(lambda p, a, b: u32(7) - a),
    "a counted loop that lanes leave together": computed(evenly),
    "complement": computed(lambda p, a, b: ~a),
}


RUNS: Final = RunOptions(check_races=False, step_limit=50_000)


def _results(build: Build) -> tuple[object, object]:
    """With the opaque zero, and with 5 in its place; a loop may then start behind its end."""
    case = case_of(build(), 4 * 129)
    try:
        changed: object = run(Unzeroed(RUNS), case)
    except KernelFault as fault:
        changed = fault.kind
    return run(MachineEngine(RUNS), case), changed


@pytest.mark.parametrize("name", FENCED)
def test_a_fenced_operation_depends_on_the_opaque_zero(name: str) -> None:
    zero, five = _results(FENCED[name])
    assert zero != five


@pytest.mark.parametrize("name", FREE)
def test_other_operations_do_not(name: str) -> None:
    zero, five = _results(FREE[name])
    assert zero == five
    assert "zero" not in emit(FREE[name]()).ptx.partition("{")[0]


@pytest.mark.parametrize("name", FENCED)
def test_an_assembler_known_to_be_sound_needs_no_fence_of_its_own(name: str) -> None:
    from vyre.adapters.cuda.decisions.ptxas_hazards import AssemblerInputs, fences_needed

    kept = fences_needed(AssemblerInputs(90, (13, 5)))
    text = emit(FENCED[name](), EmitOptions(assembler=(13, 5))).ptx
    families = {
        "signed minimum": "MIN_MAX",
        "low half of 64 bits": "NARROWING",
        "difference from the least": "SUBTRACTIONS",
    }
    family = families.get(name)
    assert ("[zero]" in text) == (family is None or any(fence.name == family for fence in kept))
