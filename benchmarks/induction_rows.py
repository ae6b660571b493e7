"""The pass ``induction`` where it finds something: loops that multiply their variable, after the usual passes, with and
without it.

The programs of another compiler (``tests/data/kernels``), those of the gallery and the filetests have no such product:
theirs are powers of two, or indices, which the pass leaves alone.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Final

import vyre
from benchmarks.harness import Metric, NotMeasured, Row, Samples, compare
from benchmarks.optimizer_rows import Pair, instructions
from vyre.adapters.cpu.registration import cpu_catalog
from vyre.adapters.cpu.runtime.options import CpuOptions
from vyre.adapters.cuda.assembler import assemblers, find_tools
from vyre.adapters.cuda.ptx.emit import emit as emit_ptx
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.program import Program
from vyre.domain.optimize.pass_list import DEFAULT_ORDER, PASSES
from vyre.domain.optimize.passes import run_passes

_LANES: Final = 1 << 16
_HEAD: Final = f"""workgroup_size 64, 1, 1
buffer x @0 read u32[{_LANES}]
buffer n @1 read u32[1]
buffer y @2 read_write u32[{_LANES}]
"""
_U32: Final = "let a = x[gid.x]\nfor k in 0u .. 64u {{\na := (a ^ {}) + 1u\n}}\ny[gid.x] = a"
PROGRAMS: Final = {
    "literal": _U32.format("k * 2654435761u"),
    "sum": _U32.format("(k * 2654435761u + 12345u)"),
    "uniform": f"let m = n[0u] | 1u\n{_U32.format('k * m')}",
    "64-bit": (
        "let a = cast<u64>(x[gid.x])\nfor k in 0u64 .. 64u64 step 1u64 {\n"
        "a := (a ^ k * 6364136223846793005u64) >> 1u64\n}\ny[gid.x] = cast<u32>(a)"
    ),
    "lanes": "let a = x[gid.x]\nfor k in gid.x .. gid.x + 64u {\na := (a ^ k * 77u) + 1u\n}\ny[gid.x] = a",
}


@cache
def _pairs() -> tuple[Pair, ...]:
    """Returns each program without the pass, and with it."""
    found = []
    usual = [PASSES[name] for name in DEFAULT_ORDER]
    at = DEFAULT_ORDER.index("inlining")
    with_it = [*usual[:at], PASSES["induction"], *usual[at:]]
    for body in PROGRAMS.values():
        program = Program.from_text(f"{_HEAD}body {{\n{body}\n}}\n")
        pair = Pair(run_passes(program, usual).program, run_passes(program, with_it).program)
        if pair.written == pair.optimized:
            raise AssertionError("the pass found nothing in a program that was written for it")
        found.append(pair)
    return tuple(found)


def _nodes(pair: Pair) -> float:
    return node_facts(pair.optimized).nodes / node_facts(pair.written).nodes


def _lines(pair: Pair) -> float:
    return emit_ptx(pair.optimized).ptx.count("\n") / emit_ptx(pair.written).ptx.count("\n")


def _sass(pair: Pair) -> float:
    if not assemblers() or not find_tools("nvdisasm"):
        raise NotMeasured("no assembler and disassembler of CUDA are here")
    return instructions(pair.optimized) / instructions(pair.written)


def _time(backend: str, pair: Pair) -> float:
    catalog = cpu_catalog(CpuOptions(threads=1, recompile=False)) if backend == "cpu" else None
    inputs = {"x": bytes(4 * _LANES), "n": (77).to_bytes(4, "little"), "y": bytes(4 * _LANES)}
    config = vyre.DispatchConfig(grid=_LANES // 64, optimize=False)
    with vyre.open(backend, catalog=catalog, cache=False) as session:
        one, other = (session.dispatch(program, inputs, config) for program in pair)
        if one["y"].tobytes() != other["y"].tobytes():
            raise AssertionError("the pass has changed a result")
        written, optimized = (session.bind(program, inputs, config) for program in pair)
        both = compare(optimized, written, 15, time.process_time)
    return statistics.median(both.ours) / statistics.median(both.theirs)


def _each(number: Callable[[Pair], float], place: int, rounds: int) -> Samples:
    return Samples([number(_pairs()[place])] * rounds)


ROWS: Final = tuple(
    Row(f"{name}/{program}", Metric.COST, unit, None, None, partial(_each, number, place), state)
    for name, number, unit, state in (
        ("nodes", _nodes, "of the nodes", "after the usual passes"),
        ("reference", partial(_time, "reference"), "of the time", "compiled, arrays in memory"),
        ("cpu", partial(_time, "cpu"), "of the time", "light pipeline, one thread, arrays in memory"),
        ("ptx", _lines, "of the lines", "after the usual passes"),
        ("sass", _sass, "of the length", "after the usual passes"),
    )
    for place, program in enumerate(PROGRAMS)
)
