"""The rows measure the time of the host besides the kernel: compiling, dispatching, reading programs."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import Final

import numpy as np

import vyre
from benchmarks import kernels
from benchmarks.harness import Metric, Row, Samples, measure, measure_each
from vyre.domain.ir.expr import walk
from vyre.domain.ir.stmt import operands, walk_statements

_STATEMENTS: Final = 1000
_VARIANTS: Final = count()


def nodes(program: vyre.Program) -> int:
    """Statements and expression nodes."""
    return sum(1 + sum(1 for e in operands(s) for _ in walk(e)) for s in walk_statements(program.body))


def _first_compile(rounds: int) -> Samples:
    """Programs that nothing has seen: neither validated, nor hashed, nor compiled."""
    fresh = [kernels.fifty_nodes(next(_VARIANTS)) for _ in range(rounds + 1)]
    if not 45 <= nodes(fresh[0]) <= 55:
        raise AssertionError(f"a fifty-node program of {nodes(fresh[0])} nodes")
    with vyre.open(backend="reference") as session:
        session.compile(fresh[0])
        return measure_each([partial(_compile, session, program) for program in fresh[1:]])


def _compile(session: vyre.Session, program: vyre.Program) -> None:
    """Validates, names and compiles, as a dispatch does; the lints of ``vyre.validate`` are no part of that."""
    if session.compile(program).program is not program or len(program.digest) != 32:
        raise AssertionError("the program does not compile")


def _warm_dispatch(rounds: int) -> Samples:
    program, x = kernels.one_store(), np.arange(64, dtype=np.uint32)
    with vyre.open(backend="reference") as session:
        if not np.array_equal(session.dispatch(program, {"x": x})["y"], x + 1):
            raise AssertionError("one_store computes something else")
        return measure(lambda: session.dispatch(program, {"x": x})["y"], rounds)


def _text_parse(rounds: int) -> Samples:
    program = kernels.long_program(_STATEMENTS)
    text = program.to_text()
    if vyre.Program.from_text(text) != program:
        raise AssertionError("the text form does not round-trip")
    return _rates(measure(lambda: vyre.Program.from_text(text), rounds), program)


def _wire_decode(rounds: int) -> Samples:
    program = kernels.long_program(_STATEMENTS)
    wire = program.to_wire()
    if vyre.Program.from_wire(wire) != program:
        raise AssertionError("the wire form does not round-trip")
    return _rates(measure(lambda: vyre.Program.from_wire(wire), rounds), program)


def _rates(samples: Samples, program: vyre.Program) -> Samples:
    size = nodes(program)
    return Samples([size / seconds for seconds in samples.ours])


ROWS: Final = (
    Row("first-compile", Metric.COST, "ms", 12.0, 6.0, _first_compile, "process warm, programs new", scale=1e3),
    Row("warm-dispatch", Metric.COST, "us", 60.0, 35.0, _warm_dispatch, "program compiled", scale=1e6),
    Row("text-parse", Metric.RATE, "knodes/s", 60.0, 120.0, _text_parse, "text in memory", scale=1e-3),
    Row("wire-decode", Metric.RATE, "knodes/s", 100.0, 200.0, _wire_decode, "bytes in memory", scale=1e-3),
)
