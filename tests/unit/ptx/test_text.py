"""Properties of the emitted text over the gallery and random programs."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gpu_runs.check.reproducers import NEVER_EMITTED
from support.kernels import add, kernel, lit, op
from support.limits import LIMIT_S
from support.programs import generate
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.kernel import EmittedModule
from vyre.adapters.cuda.ptx.options import ALL_OFF, ALL_ON, EmitOptions
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.expr import Atomic
from vyre.domain.ir.operators import AtomicOp, BinaryOp
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.stmt import Store
from vyre.domain.ir.types import f32, i32, u32
from vyre.gallery.registry import examples

SEEDS = range(60)
FORBIDDEN = "|".join(
    (
        # Families that ptxas is known to miscompile.
        *(rf"(?m:^\t(?:@!?%p\d+ )?)(?:{pattern})" for pattern in NEVER_EMITTED),
        r"\bshr\.s32 [^;]*, \d+;",
        r"\bxor\.b(?:32|64) [^;]*, (?:-1|4294967295|18446744073709551615|0x[fF]{8,16});",
        # What would change bits, or depend on scheduling.
        r"\.ftz|\.approx|\bactivemask\b|\bmad\.(?:rn\.)?f|\b(?:add|sub|mul|fma|div|sqrt|rcp)\.f",
    )
)


def corpus() -> Iterator[tuple[str, Program]]:
    for name, example in examples().items():
        yield name, example.program()
    for seed in SEEDS:
        yield f"seed {seed}", generate(seed).program


def modules() -> Iterator[tuple[str, EmittedModule]]:
    for name, program in corpus():
        for switches in (ALL_ON, ALL_OFF):
            for target in (75, 90):
                yield name, emit(program, EmitOptions(target=target, switches=switches))


def test_no_forbidden_instruction_is_written() -> None:
    pattern = re.compile(FORBIDDEN)
    for name, module in modules():
        found = pattern.search(module.ptx)
        assert found is None, f"{name}: {module.ptx[max(0, found.start() - 40) : found.end() + 40]}"


@pytest.mark.parametrize(
    "line",
    [
        "add.cc.u32 %r1, %r2, %r3;",
        "not.b32 %r1, %r2;",
        "xor.b32 %r1, %r2, -1;",
        "shr.s32 %r1, %r2, 3;",
        "add.sat.s32 %r1, %r2, %r3;",
        "@!%p1 lop3.b32 %r1, %r2, %r3, %r4, 0x80;",
        "mul.f32 %f1, %f2, %f3;",
        "add.rn.ftz.f32 %f1, %f2, %f3;",
    ],
)
def test_the_pattern_sees_what_is_forbidden(line: str) -> None:
    assert re.search(FORBIDDEN, f"\t{line}")


def test_the_same_program_gives_the_same_text_in_any_process() -> None:
    script = (
        "import sys; sys.path.insert(0, 'tests'); from support.programs import generate;"
        "from vyre.adapters.cuda.ptx.emit import emit; import hashlib;"
        "print(hashlib.sha256(''.join(emit(generate(s).program).ptx for s in range(25)).encode()).hexdigest())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(seen) == 1


def test_names_of_the_program_never_occur_in_the_text() -> None:
    def build(prefix: str) -> Program:
        with ProgramBuilder(f"{prefix}kernel", workgroup=64) as p:
            source = p.input(f"{prefix}source", u32)
            shared = p.workgroup(f"{prefix}shared", u32, 64)
            out = p.output(f"{prefix}out", u32, like=f"{prefix}source")
            scale = p.param(f"{prefix}scale", u32)
            lane, i = p.local_id(), p.global_id()
            shared[lane] = source[i] * scale
            p.barrier()
            total = p.var(u32(0))
            with p.for_(0, 64) as k:
                total.assign(total + shared[k])
            out[i] = total
        return p.build()

    plain, strange = emit(build("a_")), emit(build("q'\"\\ü; ret; "))
    assert plain.ptx.isascii() and "a_" not in plain.ptx
    # Names are outside the digest, but interface: the entry's name follows the digest alone.
    assert strange.ptx == plain.ptx


def test_every_kernel_of_a_module_has_a_name_of_its_own() -> None:
    for name, program in corpus():
        module = emit(program, EmitOptions(native_grid_sync=False))
        entries = [kernel.entry for kernel in module.kernels]
        assert len(set(entries)) == len(entries), name
        assert all(re.fullmatch(r"vy_[0-9a-f]{16}(_s\d+)?", entry) for entry in entries)
        assert re.findall(r"\.visible \.entry (\w+)\(", module.ptx) == entries


def test_different_options_and_constants_give_different_names() -> None:
    with ProgramBuilder("p", workgroup=32) as p:
        out = p.output("out", i32, 4)
        out[p.global_id()] = p.spec("c", i32(5))
    program = p.build()
    from vyre.domain.ir.expr import Literal

    names = {
        emit(program, options, spec).kernels[0].entry
        for options in (EmitOptions(), EmitOptions(target=80), EmitOptions(switches=ALL_OFF))
        for spec in ({}, {"c": Literal(i32, 5)}, {"c": Literal(i32, 6)})
    }
    assert len(names) == 9


def test_a_literal_nan_keeps_its_bits_until_it_is_stored() -> None:
    with ProgramBuilder("p", workgroup=1) as p:
        out = p.output("out", f32, 1)
        out[0] = f32(float("nan"))
    assert "0f7FC00000" in emit(p.build()).ptx


def test_an_atomic_runs_each_time_that_its_object_is_met() -> None:
    """As the language says: an expression around an atomic is no value that can be kept."""
    counter = Buffer.make("counter", 0, Access.READ_WRITE, u32, 1)
    out = Buffer.make("out", 1, Access.READ_WRITE, u32, 1)
    ticket = add(Atomic(AtomicOp.ADD, "counter", lit(0), None, lit(1)), lit(1))
    program = kernel(Store("out", lit(0), op(BinaryOp.SUB, ticket, ticket)), buffers=(counter, out))
    assert emit(program).ptx.count("atom.") == 2
