"""Laws of dialects at dispatch: what it costs to check a law and to rewrite by it, and what the reference saves.

The programs call operations whose laws make something shorter.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from functools import cache, partial
from typing import Final, NamedTuple

import vyre
from benchmarks.harness import Metric, Row, Samples, compare
from vyre.app.dialects.registry import DialectRegistry
from vyre.app.dialects.trusted_laws import trusted_laws
from vyre.domain.dialects.expansion import expanded
from vyre.domain.dialects.laws.checker import check
from vyre.domain.dialects.laws.law import Law
from vyre.domain.dialects.operations import Dialect, Operation
from vyre.domain.ir.definitions import Version
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.program import Program
from vyre.domain.ir.text_parser import parse_definition
from vyre.domain.optimize.pass_list import PASSES
from vyre.domain.optimize.passes import run_passes
from vyre.domain.optimize.saturation import with_laws

_LANES: Final = 1 << 12
_CALLS: Final = 8
_OPERATIONS: Final = {
    "define bench.ramp version 1.0.0 (x: i32) -> i32 {\nresult max(x, 0i) * 3i\n}": (
        "bench.ramp(neg(x)) == max(neg(x), 0) * 3",
        "bench.ramp(max(x, 0)) == bench.ramp(x)",
    ),
    "define bench.fold version 1.0.0 (x: u32, y: u32) -> u32 {\nresult (x ^ y) * 3u\n}": (
        "bench.fold(x ^ y, y) == x * 3",
        "bench.fold(x, x) == 0",
    ),
    "define bench.square version 1.0.0 (x: f32) -> f32 {\nresult x * x\n}": (
        "bench.square(neg(x)) == bench.square(x)",
    ),
}
_BODIES: Final = {
    "i32": "bench.ramp(max({0}, 0i))",
    "u32": "bench.fold({0} ^ 77u, 77u)",
    "f32": "bench.square(neg({0}))",
}
"""Calls of a value, by the type of that value."""


class _Case(NamedTuple):
    program: Program
    laws: tuple[Law, ...]


@cache
def _cases() -> tuple[_Case, ...]:
    registry = DialectRegistry()
    operations = [
        Operation.of(parse_definition(text, "a benchmark", 0), law_texts=laws) for text, laws in _OPERATIONS.items()
    ]
    registry.register(Dialect("bench", Version(1), tuple(operations)), registrant="a benchmark")
    found = []
    for dtype, call in _BODIES.items():
        steps = "\n".join(f"let v{k + 1} = {call.format(f'v{k}')}" for k in range(_CALLS))
        body = f"let v0 = y[gid.x]\n{steps}\ny[gid.x] = v{_CALLS}"
        head = f"workgroup_size 64, 1, 1\nbuffer y @0 read_write {dtype}[{_LANES}]"
        program = Program.from_text(f"{head}\nbody {{\n{body}\n}}\n")
        called = registry.snapshot.resolved(program)
        found.append(_Case(expanded(called), trusted_laws(called, registry.snapshot)))
    return tuple(found)


@cache
def _checked() -> tuple[float, ...]:
    """Returns the seconds that the check of each law takes, at all its types."""
    seconds = []
    for case in _cases():
        for law in case.laws:
            started = time.thread_time()
            for dtype in law.types:
                check(law, dtype)
            seconds.append(time.thread_time() - started)
    return tuple(seconds)


def _check(rounds: int) -> Samples:
    return Samples([1e9 * seconds for seconds in _checked()] * rounds)


def _rewrite(place: int, rounds: int) -> Samples:
    """Returns the nanoseconds of the pass for each node."""
    case = _cases()[place]
    step, nodes = with_laws(case.laws), node_facts(case.program).nodes
    step.run(case.program, Counter())  # rules are made of laws once in a process
    samples = []
    for _ in range(rounds):
        fresh = replace(case.program)
        started = time.thread_time()
        step.run(fresh, Counter())
        samples.append(1e9 * (time.thread_time() - started) / nodes)
    return Samples(samples)


def _saved(place: int, rounds: int) -> Samples:
    """Returns the nanoseconds that a run of the reference saves for each node, after the passes that it uses."""
    case = _cases()[place]
    usual = [PASSES[name] for name in ("narrowing", "inlining", "dead_code")]
    with_it = [*usual[:2], with_laws(case.laws), usual[2]]
    programs = [run_passes(replace(case.program), passes).program for passes in (usual, with_it)]
    inputs, config = {"y": bytes(4 * _LANES)}, vyre.DispatchConfig(grid=_LANES // 64, optimize=False)
    with vyre.open("reference", cache=False) as session:
        written, optimized = (session.bind(program, inputs, config) for program in programs)
        both = compare(optimized, written, rounds, time.thread_time)
    nodes = node_facts(case.program).nodes
    return Samples([1e9 * (b - a) / nodes for a, b in zip(both.ours, both.theirs, strict=True)])


ROWS: Final = (
    Row("check", Metric.COST, "ns a law", None, None, _check, "all types of a law"),
    *(
        Row(f"{name}/{dtype}", Metric.COST, unit, None, None, partial(number, place), state)
        for name, number, unit, state in (
            ("saturation", _rewrite, "ns a node", "rules made before"),
            ("saved", _saved, "ns a node and run", f"{_LANES} lanes, after the usual passes"),
        )
        for place, dtype in enumerate(_BODIES)
    ),
)
