"""The optimizer on programs that another compiler lowered (``tests/data/kernels``): sizes, times, and its own speed.

Each program is compared with itself as it is written.  Where a row has one number for each program, its value is the
median over the programs and its spread their interquartile range.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from math import prod
from pathlib import Path
from typing import Final, NamedTuple, cast

import vyre
from benchmarks.harness import Metric, NotMeasured, Row, Samples, compare
from support.sass import listings
from vyre.adapters.cpu.llvm.emit import emit as emit_llvm
from vyre.adapters.cpu.native.compilation import Effort, compile_object
from vyre.adapters.cpu.native.features import host
from vyre.adapters.cpu.registration import cpu_catalog
from vyre.adapters.cpu.runtime.options import CpuOptions
from vyre.adapters.cuda.code_tools import assemble, assemblers, find_tools
from vyre.adapters.cuda.ptx.emit import emit as emit_ptx
from vyre.domain.ir.expr import Binary, Cast, IdKind, LaunchId, Literal, Load, Var
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Let, Stmt, Store, walk_statements
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.witnesses import buffer_bytes
from vyre.domain.optimize.pass_list import DEFAULT_ORDER, PASSES
from vyre.domain.optimize.passes import Pass, run_passes

KERNELS: Final = Path(__file__).parents[1] / "tests" / "data" / "kernels"
_SMALL: Final = 1 << 14
_LARGE: Final = 1 << 18
_GROUPS: Final = 4
_RECOMPILED_S: Final = 8.0
"""How long a kernel is run, so that full effort compiles it."""
_HEAVY: Final = 6
"""How many programs, those with the most nodes, are run as code of both pipelines."""


class Pair(NamedTuple):
    """A program as it is written, and after the optimizer."""

    written: Program
    optimized: Program


def _programs() -> Iterator[Program]:
    for path in sorted(KERNELS.glob("*.vyre")):
        yield Program.from_text(path.read_text("utf-8"), path.name)


@cache
def _pairs() -> tuple[Pair, ...]:
    found = tuple(Pair(program, vyre.optimize(program).program) for program in _programs())
    if not found:
        raise NotMeasured(f"there are no programs in {KERNELS.name}")
    return found


def _statements(program: Program) -> int:
    return sum(1 for _ in walk_statements(program.body))


def _per_program(number: Callable[[Pair], float], rounds: int) -> Samples:
    """Returns a number of each program, so many times that the harness is satisfied with their count."""
    numbers = [number(pair) for pair in _pairs()]
    return Samples(numbers * max(1, -(-rounds // len(numbers))))


# ---------------------------------------------------------------- sizes
def _fewer_statements(pair: Pair) -> float:
    return _statements(pair.written) / _statements(pair.optimized)


def _fewer_nodes(pair: Pair) -> float:
    return node_facts(pair.written).nodes / node_facts(pair.optimized).nodes


def _shorter_ptx(pair: Pair) -> float:
    written, optimized = (emit_ptx(program).ptx.count("\n") for program in pair)
    return optimized / written


def _longer_sass(pair: Pair) -> float:
    if not assemblers() or not find_tools("nvdisasm"):
        raise NotMeasured("no assembler and disassembler of CUDA are here")
    written, optimized = map(instructions, pair)
    return optimized / written


def instructions(program: Program) -> int:
    module = emit_ptx(program)
    cubin, _ = assemble(assemblers()[-1], module.ptx, module.target)
    return sum(text.count("\n") + 1 for text in listings(find_tools("nvdisasm")[0], cubin).values())


# ---------------------------------------------------------------- times
def _inputs(program: Program) -> dict[str, bytes]:
    return {
        buffer.name: buffer_bytes(place, cast("ScalarType", buffer.element), buffer.count or 4096)
        for place, buffer in enumerate(program.abi_buffers)
        if buffer.takes_input
    }


def _config(program: Program) -> vyre.DispatchConfig:
    first = program.abi_buffers[0]
    groups = max(1, (first.count or 4096) // prod(program.workgroup_size))
    return vyre.DispatchConfig(grid=min(groups, _GROUPS), optimize=False)


def _reference_speedup(pair: Pair) -> float:
    inputs, config = _inputs(pair.written), _config(pair.written)
    with vyre.open("reference", cache=False) as session:
        runs = [partial(session.dispatch, program, inputs, config) for program in pair]
        if _bytes(runs[0]()) != _bytes(runs[1]()):
            raise AssertionError(f"{pair.written.name}: the optimized program gives other bytes")
        both = compare(runs[1], runs[0], 5, time.thread_time)
    return statistics.median(both.theirs) / statistics.median(both.ours)


def _bytes(result: vyre.Result) -> list[bytes]:
    return [array.tobytes() for _, array in result.items()]


def _compiled(program: Program) -> object:
    return compile_object(emit_llvm(replace(program)).text, host(), Effort.LIGHT)


def _compile_speedup(pair: Pair) -> float:
    both = compare(partial(_compiled, pair.optimized), partial(_compiled, pair.written), 5, time.thread_time)
    return statistics.median(both.theirs) / statistics.median(both.ours)


def _compile_and_optimize_speedup(pair: Pair) -> float:
    def optimized() -> object:
        return _compiled(vyre.optimize(replace(pair.written)).program)

    both = compare(optimized, partial(_compiled, pair.written), 5, time.thread_time)
    return statistics.median(both.theirs) / statistics.median(both.ours)


def _light_code(rounds: int) -> Samples:
    longest = sorted(_pairs(), key=lambda pair: node_facts(pair.written).nodes)[-_HEAVY:]
    numbers = [_light_beside_full(pair) for pair in longest]
    return Samples(numbers * -(-rounds // len(numbers)))


def _light_beside_full(pair: Pair) -> float:
    """The time of optimized light code, divided by that of the code that full effort makes of the program."""
    inputs, config = _inputs(pair.written), _config(pair.written)
    config = replace(config, grid=(_GROUPS, 1, 1))
    with (
        vyre.open("cpu", catalog=cpu_catalog(CpuOptions(threads=1, recompile=False)), cache=False) as light,
        vyre.open("cpu", catalog=cpu_catalog(CpuOptions(threads=1)), cache=False) as full,
    ):
        ours = light.bind(pair.optimized, inputs, config)
        theirs = full.bind(pair.optimized, inputs, config)
        until = time.monotonic() + _RECOMPILED_S
        while not full.metrics().get("swaps") and time.monotonic() < until:
            theirs()
        both = compare(ours, theirs, 7, time.thread_time)
    return statistics.median(both.ours) / statistics.median(both.theirs)


# ---------------------------------------------------------------- the speed of the optimizer
def straight_line(nodes: int) -> Program:
    """A program of about so many nodes: blocks of index arithmetic with casts, loads and a running sum."""
    u32, i32 = ScalarType.U32, ScalarType.I32
    declared = Program.from_text(
        "program long\nworkgroup_size 64, 1, 1\n"
        "buffer x @0 read f32[runtime]\nbuffer y @1 read_write f32[runtime]\nbody {\n}\n"
    )
    lane = LaunchId(IdKind.GLOBAL, 0)
    body: list[Stmt] = [Let("s0", Literal.of(ScalarType.F32, 0.0))]
    for k in range(max(1, nodes // 16)):
        scaled = Binary(BinaryOp.MUL, lane, Literal.of(u32, 4))
        shifted = Binary(BinaryOp.ADD, scaled, Literal.of(u32, k % 64))
        body.append(Let(f"i{k}", Cast(i32, shifted)))
        body.append(Let(f"v{k}", Load("x", Cast(u32, Var(f"i{k}")))))
        product = Binary(BinaryOp.MUL, Var(f"v{k}"), Literal.of(ScalarType.F32, 1.0 + k % 7))
        body.append(Let(f"s{k + 1}", Binary(BinaryOp.ADD, Var(f"s{k}"), product)))
    body.append(Store("y", lane, Var(f"s{len(body) // 3}")))
    return replace(declared, body=tuple(body))


def _rate(passes: tuple[Pass, ...], rounds: int) -> Samples:
    """Nodes per second of these passes on a long program, whose facts are new each time."""
    program = straight_line(_SMALL)
    nodes = node_facts(program).nodes
    numbers = []
    for _ in range(rounds):
        fresh = replace(program)
        started = time.thread_time()
        run_passes(fresh, passes)
        numbers.append(nodes / (time.thread_time() - started))
    return Samples(numbers)


def _all_passes() -> tuple[Pass, ...]:
    return tuple(PASSES[name] for name in DEFAULT_ORDER)


def _growth(rounds: int) -> Samples:
    """Seconds a node of a long program, beside those of short ones with as many nodes; the sides alternate.

    Both sides hold as many nodes in memory, so that caches and garbage collections cost them alike.
    """
    sides = [[straight_line(size) for _ in range(_LARGE // size)] for size in (_LARGE, _SMALL)]
    nodes = [sum(node_facts(program).nodes for program in programs) for programs in sides]
    found: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            fresh = [replace(program) for program in sides[side]]
            started = time.thread_time()
            for program in fresh:
                run_passes(program, _all_passes())
            found[side].append((time.thread_time() - started) / nodes[side])
    return Samples(*found)


def _row(
    name: str, number: Callable[[Pair], float], metric: Metric, unit: str, required: float | None, state: str
) -> Row:
    return Row(name, metric, unit, required, None, partial(_per_program, number), state)


def _worst(number: Callable[[Pair], float], _: int) -> Samples:
    return Samples([max(number(pair) for pair in _pairs())] * 9)


ROWS: Final = (
    _row("statements", _fewer_statements, Metric.RATE, "x fewer", 3.0, "median over the programs"),
    _row("nodes", _fewer_nodes, Metric.RATE, "x fewer", None, "median over the programs"),
    _row("reference", _reference_speedup, Metric.RATE, "x faster", 1.3, "compiled, arrays in memory"),
    _row("cpu-compile", _compile_speedup, Metric.RATE, "x faster", 1.3, "emission and light effort"),
    _row(
        "cpu-compile-and-optimize", _compile_and_optimize_speedup, Metric.RATE, "x faster", None, "all passes included"
    ),
    Row("cpu-light-code", Metric.COST, "x full", 1.1, None, _light_code, "bound launches of the longest programs"),
    _row("ptx", _shorter_ptx, Metric.COST, "of the lines", 0.95, "median over the programs"),
    Row("sass", Metric.COST, "of the length", 1.02, None, partial(_worst, _longer_sass), "longest of the programs"),
    *(
        Row(f"pass/{name}", Metric.RATE, "nodes/s", 100_000.0, None, partial(_rate, (PASSES[name],)), "2^14 nodes")
        for name in PASSES
    ),
    Row("passes", Metric.RATE, "nodes/s", 20_000.0, None, lambda rounds: _rate(_all_passes(), rounds), "2^14 nodes"),
    Row("growth", Metric.RATIO, "x a node", 1.3, None, _growth, "2^18 nodes beside sixteen times 2^14"),
)
