"""All 2^32 inputs of each transcendental function, by checksum.

The inputs, as bit patterns, fall into 64 chunks of 2^26.  Word k of a function is the sum over the inputs x of chunk k
of ``bits(f(x)) * (2x + 1)`` modulo 2^64; a CPU computed the words once, checking every result.  The device sums up by
an ordinary program.  A chunk whose word differs is read back and its first wrong input named.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

import vyre
from gpu_runs.check.basics import NEEDS_TESTS
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from vyre import Program, ProgramBuilder, Session, Value, f32, u32, u64
from vyre.domain.ir.operators import TRANSCENDENTALS, UnaryOp
from vyre.domain.numerics.evaluate import evaluate_lanes
from vyre.domain.numerics.transcendentals import transcendental
from vyre.testing.outcomes import Outcome, Verdict

CHUNKS: Final = 64
CHUNK: Final = 2**32 // CHUNKS
_WORKGROUP: Final = 256
_BLOCK: Final = 1 << 22
"""Inputs read back at a time."""

Words = npt.NDArray[np.uint32]


class Scope(NamedTuple):
    """The first ``inputs`` inputs of each of ``chunks``, by ``lanes`` lanes; both powers of two."""

    inputs: int
    lanes: int
    chunks: Sequence[int]


EVERYTHING: Final = Scope(CHUNK, 1 << 18, range(CHUNKS))
REHEARSAL: Final = Scope(1 << 11, 1 << 9, (0, 15, 16, 47))


def checksum_program(op: UnaryOp) -> Program:
    """``total`` := sum over x = first .. first + each * lanes - 1 of bits(f(x)) * (2x + 1), modulo 2^64."""
    with ProgramBuilder(f"checksum_{op.name.lower()}", workgroup=_WORKGROUP) as p:
        first = p.param("first", u32)
        each = p.param("each", u32)
        total = p.output("total", u64, 1)
        lanes = p.let(p.num_groups() * _WORKGROUP)
        start = p.let(first + p.global_id())
        partial = p.var(u64(0))
        with p.for_(0, each) as k:
            x = p.let(start + k * lanes)
            partial.assign(partial + _result(op, x).cast(u64) * (x.cast(u64) * 2 + 1))
        total.atomic_add(0, partial)
    return p.build()


def results_program(op: UnaryOp) -> Program:
    """``bits[i]`` := bits(f(first + i))."""
    with ProgramBuilder(f"results_{op.name.lower()}", workgroup=_WORKGROUP) as p:
        first = p.param("first", u32)
        bits = p.output("bits", u32)
        i = p.global_id()
        with p.if_(i < bits.length):
            bits[i] = _result(op, first + i)
    return p.build()


def _result(op: UnaryOp, x: Value) -> Value:
    function: Callable[[Value], Value] = getattr(vyre, op.name.lower())
    return function(x.bitcast(f32)).bitcast(u32)


def expected_results(op: UnaryOp, x: Words) -> Words:
    """The same by NumPy on this machine's CPU."""
    with np.errstate(all="ignore"):
        return evaluate_lanes(transcendental(op), x.view(np.float32)).view(np.uint32)


def checksum(x: Words, results: Words) -> int:
    weights = x.astype(np.uint64) * np.uint64(2) + np.uint64(1)
    return int((results.astype(np.uint64) * weights).sum(dtype=np.uint64))


def first_wrong(session: Session, op: UnaryOp, first: int, inputs: int, block: int = _BLOCK) -> str:
    """Read ``inputs`` results from ``first`` on back and name the first wrong one."""
    program = results_program(op)
    for start in range(first, first + inputs, block):
        count = min(block, first + inputs - start)
        got = session.dispatch(program, {"first": start}, extent=count, output_counts={"bits": count})["bits"]
        x = np.arange(start, start + count, dtype=np.uint32)
        wrong = np.flatnonzero(got != expected_results(op, x))
        if wrong.size:
            at = int(wrong[0])
            wanted = int(expected_results(op, x[at : at + 1])[0])
            return f"input {start + at:#010x} gives {int(got[at]):#010x}, not {wanted:#010x}"
    return "yet every result read back is right: the sum or the recorded word is wrong"


def check_function(session: Session, op: UnaryOp, scope: Scope, words: Sequence[int] | None) -> Iterator[Outcome]:
    """One outcome a chunk.  ``words``: what whole chunks sum to; None: NumPy computes it for the scope at hand."""
    program = checksum_program(op)
    for chunk in scope.chunks:
        first = chunk * CHUNK
        arguments = {"first": first, "each": scope.inputs // scope.lanes}
        got = int(session.dispatch(program, arguments, grid=scope.lanes // _WORKGROUP)["total"][0])
        if words is None:
            x = np.arange(first, first + scope.inputs, dtype=np.uint32)
            wanted = checksum(x, expected_results(op, x))
        else:
            wanted = words[chunk]
        name = f"{op.name.lower()} chunk {chunk}"
        if got == wanted:
            yield Outcome(name, Verdict.PASSED)
        else:
            where = first_wrong(session, op, first, scope.inputs)
            yield Outcome(name, Verdict.FAILED, f"sums to {got:#018x}, not {wanted:#018x}: {where}")


def recorded_words(tests: Path) -> dict[UnaryOp, list[int]]:
    """The committed words by function."""
    stored = json.loads((tests / "data" / "function_checksums.json").read_text(encoding="utf-8"))
    return {op: [int(word, 16) for word in stored[op.name.lower()]] for op in TRANSCENDENTALS}


def checksums(context: Context) -> Iterator[Finding]:
    scope = REHEARSAL if context.emulated else EVERYTHING
    if context.tests is None:
        yield Outcome("all inputs of all functions", Verdict.SKIPPED, NEEDS_TESTS)
        return
    recorded = recorded_words(context.tests)
    seconds: dict[str, float] = {}
    with vyre.open(context.backend) as session:
        for op in sorted(TRANSCENDENTALS, key=lambda op: op.name):
            started = time.perf_counter()
            yield from check_function(session, op, scope, None if context.emulated else recorded[op])
            seconds[op.name.lower()] = round(time.perf_counter() - started, 3)
            yield Fact("seconds", dict(seconds))
    yield Fact("inputs_of_each_function", scope.inputs * len(scope.chunks))
