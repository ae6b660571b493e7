"""Each optimising policy of the emitter can be switched off: the text changes, no byte of any result does.

The fences against miscompiles are no such policies: with an opaque zero that is not zero, exactly the fenced operations
change their results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

import pytest

import vyre
from support.machine_engine import MachineEngine, MachineKernel
from support.programs import Case, Order, generate
from support.running import run
from vyre.adapters.cuda.machine.faults import KernelFault
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.kernel import Assumption
from vyre.adapters.cuda.ptx.options import ALL_OFF, ALL_ON, EmitOptions, Switches
from vyre.adapters.reference.vector.engine import VectorEngine
from vyre.domain.dispatch import DEFAULT_CONFIG
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.ir.builder import ProgramBuilder, Value
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import f32, i32, u32, u64

SWITCHES: Final = tuple(field.name for field in fields(Switches))
ASSUMED: Final = frozenset({Assumption.ALIGNED16, Assumption.NOALIAS})
Build = Callable[[], Program]


def guarded() -> Program:
    with ProgramBuilder("guarded", workgroup=64) as p:
        x = p.input("x", u32)
        y = p.output("y", u32, like="x")
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = x[i] + 1
    return p.build()


def four_at_once() -> Program:
    with ProgramBuilder("four", workgroup=32) as p:
        x = p.input("x", f32, 256)
        y = p.output("y", f32, 256)
        with p.if_(p.global_id() < 64):
            first = p.let(p.global_id() * 4)
            parts = [p.let(x[first + k]) for k in range(4)]
            for k in range(4):
                y[first + k] = parts[3 - k]
    return p.build()


def own_slots() -> Program:
    with ProgramBuilder("slots", workgroup=64) as p:
        y = p.output("y", u32, 256)
        shared = p.workgroup("shared", u32, 64)
        lane = p.local_id()
        shared[lane] = p.global_id()
        p.barrier()
        y[p.global_id()] = shared[63 - lane]
    return p.build()


def sevenths() -> Program:
    with ProgramBuilder("sevenths", workgroup=64) as p:
        y = p.inout("y", u32)
        y[p.global_id()] = y[p.global_id()] / 7
    return p.build()


def by_group() -> Program:
    with ProgramBuilder("groups", workgroup=32) as p:
        y = p.inout("y", u32)
        with p.if_(p.group_id() == 1):
            y[p.global_id()] = p.group_id()
    return p.build()


def tallied() -> Program:
    with ProgramBuilder("tallied", workgroup=32) as p:
        y = p.inout("y", u32)
        y.atomic_add(p.global_id() % 3, u32(1))
    return p.build()


def with_uniforms() -> Program:
    with ProgramBuilder("uniforms", workgroup=32) as p:
        table = p.uniform("table", u32, 4)
        y = p.inout("y", u32)
        y[p.global_id()] = table[p.global_id() % 4]
    return p.build()


EXAMPLES: Final[dict[str, Build]] = {
    "bounds_checks": guarded,
    "wide_access": four_at_once,
    "shared_zeroing": own_slots,
    "constant_division": sevenths,
    "uniform_branches": by_group,
    "relaxed_atomics": tallied,
    "inline_uniforms": with_uniforms,
}


def without(name: str) -> EmitOptions:
    return EmitOptions(assume=ASSUMED, switches=replace(ALL_ON, **{name: False}))


def case_of(program: Program, nbytes: int = 1024) -> Case:
    pattern = bytes((37 * n + 11) & 0xFF for n in range(nbytes))
    inputs = {b.name: pattern[: b.static_nbytes or nbytes] for b in program.abi_buffers if b.takes_input}
    # All floats of the pattern are ordinary numbers.
    return replace(generate(0), program=program, inputs=inputs, config=replace(DEFAULT_CONFIG, grid=(4, 1, 1)))


def test_every_switch_has_an_example() -> None:
    assert set(EXAMPLES) == set(SWITCHES)
    assert not any(getattr(ALL_OFF, name) for name in SWITCHES) and all(getattr(ALL_ON, name) for name in SWITCHES)


@pytest.mark.parametrize("name", SWITCHES)
def test_a_policy_changes_the_text_and_no_byte(name: str) -> None:
    program = EXAMPLES[name]()
    on, off = EmitOptions(assume=ASSUMED), without(name)
    texts = {_body(emit(program, options).ptx) for options in (on, off)}
    assert len(texts) == 2
    case = case_of(program)
    expected = run(VectorEngine(), case, 1)
    for options in (on, off):
        assert run(MachineEngine(RunOptions(), options), case) == expected


def _body(ptx: str) -> str:
    """The text without the entry's name."""
    return ptx.partition("{")[2]


@pytest.mark.parametrize("name", SWITCHES)
def test_random_programs_do_not_notice_a_policy(name: str) -> None:
    compared = 0
    for seed in range(2000, 2045):
        case = generate(seed, order=Order.INDEPENDENT, traps=True)
        case = replace(case, config=replace(case.config, step_budget=None))
        try:
            found = run(MachineEngine(RunOptions(), without(name)), case)
        except UnsupportedFeature:
            continue
        compared += 1
        assert found == run(MachineEngine(RunOptions(), EmitOptions(assume=ASSUMED)), case), f"seed {seed}"
    assert compared > 30


# ---------------------------------------------------------------- fences
@dataclass(frozen=True)
class Unzeroed(MachineEngine):
    """Runs kernels with an opaque zero of 5."""

    def prepare(self, program: Program, spec: Mapping[str, Literal]) -> MachineKernel:
        kernel = super().prepare(program, spec)
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
    from vyre.policies.ptxas_hazards import AssemblerInputs, fences_needed

    kept = fences_needed(AssemblerInputs(90, (13, 5)))
    text = emit(FENCED[name](), EmitOptions(assembler=(13, 5))).ptx
    families = {
        "signed minimum": "MIN_MAX",
        "low half of 64 bits": "NARROWING",
        "difference from the least": "SUBTRACTIONS",
    }
    family = families.get(name)
    assert ("[zero]" in text) == (family is None or any(fence.name == family for fence in kept))
