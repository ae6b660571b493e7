"""Vector width, copies for atomics, the effort of the compiler and threads of the native CPU backend."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from vyre.adapters.cpu.decisions.effort_choice import (
    EffortInputs,
    EffortThresholds,
    FullEffort,
    LightEffort,
    QuickEffort,
    TextInputs,
    compiler_effort,
    first_effort,
)
from vyre.adapters.cpu.decisions.private_atomics import (
    AtomicBuffer,
    PrivateAtomics,
    PrivateInputs,
    PrivateThresholds,
    SharedAtomics,
    private_atomics,
)
from vyre.adapters.cpu.decisions.thread_plan import ThreadInputs, ThreadPlan, ThreadThresholds, thread_plan
from vyre.adapters.cpu.decisions.vector_width import VectorInputs, VectorWidth, vector_width
from vyre.domain.analysis.atomic_uses import AtomicUse
from vyre.domain.analysis.lane_chains import LaneChains
from vyre.domain.ir.operators import AtomicOp
from vyre.domain.ir.types import ScalarType

ADD, MAX = AtomicOp.ADD, AtomicOp.MAX
LANES = 10**6


def counters(*ops: AtomicOp, name: str = "counts", nbytes: int = 1024, rounds: int = 1, **facts: bool) -> AtomicBuffer:
    return AtomicBuffer(AtomicUse(name, ScalarType.U32, frozenset(ops), rounds=rounds, **facts), nbytes)


def atomics(*buffers: AtomicBuffer, threads: int = 4, lanes: int = LANES, ordered: bool = False) -> PrivateInputs:
    return PrivateInputs(buffers, threads, lanes, ordered)


class Case(NamedTuple):
    decide: Callable[..., Any]
    inputs: tuple[Any, ...]
    verdict: object
    why: str


def _width(bits: int, lanes: int, verdict: VectorWidth, why: str, *others: Any) -> Case:
    return Case(vector_width, (VectorInputs(bits, lanes, *others),), verdict, why)


def _copies(
    inputs: PrivateInputs, verdict: PrivateAtomics, why: str, thresholds: PrivateThresholds | None = None
) -> Case:
    return Case(private_atomics, (inputs, *([thresholds] if thresholds else [])), verdict, why)


def _shared(buffer: AtomicBuffer, why: str, lanes: int = LANES) -> Case:
    verdict = PrivateAtomics((), 0, (SharedAtomics(buffer.use.buffer),))
    return _copies(atomics(buffer, lanes=lanes), verdict, f"`{buffer.use.buffer}`: {why}")


def _first(inputs: TextInputs, verdict: object, why: str) -> Case:
    return Case(first_effort, (inputs,), verdict, why)


def _pipeline(inputs: EffortInputs, verdict: object, why: str) -> Case:
    return Case(compiler_effort, (inputs,), verdict, why)


def _threads(inputs: ThreadInputs, verdict: ThreadPlan, why: str) -> Case:
    return Case(thread_plan, (inputs,), verdict, why)


REGISTER = "a register of {} bits holds {} lanes of 32 bits"
FILLED = "a workgroup of {} lanes fills no more than {}"
TWICE = "lanes wait for their own results, and {} lanes in two registers fill the time"
ROW = "a row of the workgroup has {} lanes"
CHAIN = LaneChains(carried_words=1)
IN_MEMORY = LaneChains(carried_words=1, loops_access_memory=True)
FUNCTION = LaneChains(functions=True)
RAGGED = LaneChains(carried_words=1, ragged_loops=True)
SCATTERED = LaneChains(1, ragged_loops=True, loops_access_memory=True, scattered=True)
WINDOWED = LaneChains(1, ragged_loops=True, loops_access_memory=True, scattered=True, windowed=True)
EVEN = LaneChains(1, loops_access_memory=True, scattered=True)
ALONE = "a load for each lane is faster than a gather on this processor"
RAGGED_ALONE = LaneChains(ragged_loops=True)
HALF = "lanes that leave loops by their data wait for fewer others in vectors of {} lanes"
UNKNOWN = "no vector register of 128 bits is known, and code has 4 lanes at least"
MORE = "copies of {} bytes for each of {} threads save more than they cost"
WORK = "{} ns of work for {} threads that take {} ns to start, {} workgroups at a time"

CASES = [
    _width(512, 64, VectorWidth(16, (16, 8, 4)), REGISTER.format(512, 16)),
    _width(511, 64, VectorWidth(8, (8, 16, 4)), REGISTER.format(511, 8)),
    _width(256, 64, VectorWidth(8, (8, 16, 4)), REGISTER.format(256, 8)),
    _width(255, 9, VectorWidth(4, (4, 16, 8)), REGISTER.format(255, 4)),
    _width(128, 64, VectorWidth(4, (4, 16, 8)), REGISTER.format(128, 4)),
    _width(2**32 - 1, 64, VectorWidth(16, (16, 8, 4)), REGISTER.format(2**32 - 1, 16)),
    _width(127, 64, VectorWidth(4, (4, 16, 8)), UNKNOWN),
    _width(0, 1, VectorWidth(4, (4,)), UNKNOWN),
    _width(512, 9, VectorWidth(16, (16, 8, 4)), REGISTER.format(512, 16)),
    _width(512, 8, VectorWidth(8, (8, 4)), FILLED.format(8, 8)),
    _width(512, 5, VectorWidth(8, (8, 4)), FILLED.format(5, 8)),
    _width(512, 4, VectorWidth(4, (4,)), FILLED.format(4, 4)),
    _width(256, 1, VectorWidth(4, (4,)), FILLED.format(1, 4)),
    _width(256, 5, VectorWidth(8, (8, 4)), REGISTER.format(256, 8)),
    _width(128, 1, VectorWidth(32, (32,)), "subgroup operations need the 32 lanes at once", True, 4),
    _width(512, 64, VectorWidth(4, (4,)), "4 lanes are asked for", False, 4),
    _width(512, 4, VectorWidth(16, (16, 8, 4)), REGISTER.format(512, 16), False, None, True),
    _width(512, 64, VectorWidth(32, (32, 16, 8, 4)), TWICE.format(32), False, None, False, 0, CHAIN),
    _width(512, 32, VectorWidth(32, (32, 16, 8, 4)), TWICE.format(32), False, None, True, 0, CHAIN),
    _width(512, 64, VectorWidth(32, (32, 16, 8, 4)), TWICE.format(32), False, None, False, 32, CHAIN),
    _width(512, 64, VectorWidth(32, (32, 16, 8, 4)), TWICE.format(32), False, None, False, 0, LaneChains(6)),
    _width(512, 64, VectorWidth(32, (32, 16, 8, 4)), TWICE.format(32), False, None, False, 0, FUNCTION),
    _width(256, 64, VectorWidth(16, (16, 8, 4)), TWICE.format(16), False, None, False, 0, CHAIN),
    _width(256, 64, VectorWidth(16, (16, 8, 4)), TWICE.format(16), False, None, False, 16, CHAIN),
    _width(128, 64, VectorWidth(4, (4, 16, 8)), REGISTER.format(128, 4), False, None, False, 0, CHAIN),
    _width(512, 64, VectorWidth(16, (16, 8, 4)), REGISTER.format(512, 16), False, None, False, 0, LaneChains(7)),
    _width(512, 64, VectorWidth(16, (16, 8, 4)), REGISTER.format(512, 16), False, None, False, 0, LaneChains(7, True)),
    _width(512, 64, VectorWidth(8, (8, 16, 4)), HALF.format(8), False, None, False, 0, RAGGED),
    _width(512, 64, VectorWidth(8, (8, 16, 4)), HALF.format(8), False, None, False, 16, RAGGED),
    _width(512, 64, VectorWidth(16, (16, 8, 4)), REGISTER.format(512, 16), False, None, False, 4, RAGGED),
    _width(512, 64, VectorWidth(16, (16, 8, 4)), REGISTER.format(512, 16), False, None, False, 0, RAGGED_ALONE),
    _width(512, 16, VectorWidth(8, (8, 16, 4)), HALF.format(8), False, None, False, 0, RAGGED),
    _width(256, 64, VectorWidth(8, (8, 16, 4)), REGISTER.format(256, 8), False, None, False, 0, RAGGED),
    _width(512, 64, VectorWidth(1, (1, 16, 8, 4)), ALONE, False, None, False, 0, SCATTERED, True),
    _width(256, 8, VectorWidth(1, (1, 8, 4)), ALONE, False, None, False, 0, SCATTERED, True),
    _width(0, 8, VectorWidth(1, (1, 16, 8, 4)), ALONE, False, None, True, 0, SCATTERED, True),
    _width(512, 64, VectorWidth(8, (8, 16, 4)), HALF.format(8), False, None, False, 0, SCATTERED, False),
    _width(512, 64, VectorWidth(8, (8, 16, 4)), HALF.format(8), False, None, False, 0, SCATTERED, True, True),
    _width(512, 64, VectorWidth(8, (8, 16, 4)), HALF.format(8), False, None, False, 0, RAGGED, True),
    _width(512, 64, VectorWidth(16, (16, 8, 4)), REGISTER.format(512, 16), False, None, False, 0, WINDOWED, True),
    _width(512, 64, VectorWidth(16, (16, 8, 4)), REGISTER.format(512, 16), False, None, False, 0, WINDOWED),
    _width(256, 64, VectorWidth(8, (8, 16, 4)), REGISTER.format(256, 8), False, None, False, 0, WINDOWED, True),
    _width(512, 64, VectorWidth(32, (32, 16, 8, 4)), TWICE.format(32), False, None, False, 0, EVEN, True),
    _width(512, 64, VectorWidth(16, (16,)), "16 lanes are asked for", False, 16, False, 0, SCATTERED, True),
    _width(512, 48, VectorWidth(16, (16, 8, 4)), REGISTER.format(512, 16), False, None, False, 0, CHAIN),
    _width(512, 16, VectorWidth(16, (16, 8, 4)), REGISTER.format(512, 16), False, None, True, 0, CHAIN),
    _width(512, 256, VectorWidth(16, (16, 8, 4)), REGISTER.format(512, 16), False, None, False, 16, IN_MEMORY),
    _width(512, 256, VectorWidth(32, (32, 16, 8, 4)), TWICE.format(32), False, None, False, 16, CHAIN),
    _width(512, 256, VectorWidth(32, (32, 16, 8, 4)), TWICE.format(32), False, None, False, 32, IN_MEMORY),
    _width(512, 256, VectorWidth(16, (16, 8, 4)), REGISTER.format(512, 16), False, None, False, 16, FUNCTION),
    _width(512, 8, VectorWidth(8, (8, 4)), FILLED.format(8, 8), False, None, False, 0, CHAIN),
    _width(512, 64, VectorWidth(16, (16,)), "16 lanes are asked for", False, 16, False, 0, CHAIN),
    _width(512, 64, VectorWidth(8, (8, 16, 4)), ROW.format(8), False, None, False, 8),
    _width(256, 64, VectorWidth(4, (4, 16, 8)), ROW.format(4), False, None, False, 4, CHAIN),
    _width(512, 64, VectorWidth(16, (16, 8, 4)), REGISTER.format(512, 16), False, None, False, 4),
    _width(128, 64, VectorWidth(4, (4, 16, 8)), REGISTER.format(128, 4), False, None, False, 2),
    _copies(atomics(), PrivateAtomics(()), "it has no atomics on buffers"),
    _copies(
        atomics(counters(ADD), ordered=True),
        PrivateAtomics(()),
        "the program depends on the order of atomics, and one thread runs it",
    ),
    _copies(atomics(counters(ADD), threads=1), PrivateAtomics(()), "one thread runs it, and needs no lock"),
    _copies(atomics(counters(ADD), threads=2), PrivateAtomics(("counts",), 1024), MORE.format(1024, 2)),
    *(
        _copies(atomics(counters(op)), PrivateAtomics(("counts",), 1024), MORE.format(1024, 4))
        for op in (AtomicOp.OR, AtomicOp.AND, AtomicOp.XOR, AtomicOp.MIN, MAX)
    ),
    _shared(counters(ADD, results_used=True), "the old value that an atomic returns is used"),
    _copies(
        atomics(counters(ADD, plain=True), counters(ADD, name="b", results_used=True)),
        PrivateAtomics((), 0, (SharedAtomics("counts"), SharedAtomics("b"))),
        "`b`: the old value that an atomic returns is used",
    ),
    _shared(counters(ADD, plain=True), "its elements are accessed otherwise than by atomics"),
    _shared(counters(AtomicOp.EXCHANGE), "the results of atomic_exchange cannot be merged"),
    _shared(counters(ADD, AtomicOp.FETCH_NAND), "the results of atomic_fetch_nand cannot be merged"),
    _shared(counters(ADD, MAX), "it has 2 different operators"),
    _shared(counters(ADD, nbytes=0), "it has no elements"),
    _shared(counters(ADD, nbytes=36 * 4), "16 operations save 144 ns, and copies of 36 elements cost 144 ns", lanes=16),
    _shared(
        counters(ADD, nbytes=36 * 4 - 3), "16 operations save 144 ns, and copies of 36 elements cost 144 ns", lanes=16
    ),
    _copies(atomics(counters(ADD, nbytes=35 * 4), lanes=16), PrivateAtomics(("counts",), 140), MORE.format(140, 4)),
    _copies(
        atomics(counters(ADD, nbytes=36 * 4, rounds=2), lanes=16), PrivateAtomics(("counts",), 144), MORE.format(144, 4)
    ),
    _copies(
        atomics(counters(ADD)),
        PrivateAtomics((), 0, (SharedAtomics("counts"),)),
        "`counts`: 1000000 operations save 0 ns, and copies of 256 elements cost 1024 ns",
        PrivateThresholds(locked_ns=1),
    ),
    _copies(
        atomics(counters(ADD, nbytes=100), counters(MAX, name="b", nbytes=80), counters(ADD, name="c", nbytes=20)),
        PrivateAtomics((), 0, (SharedAtomics("counts"), SharedAtomics("b"), SharedAtomics("c"))),
        "`counts`: 100 bytes exceed the 99 left to a thread",
        PrivateThresholds(bytes_per_thread=199),
    ),
    _copies(
        atomics(counters(ADD, nbytes=100), counters(MAX, name="b", nbytes=80), counters(ADD, name="c", nbytes=20)),
        PrivateAtomics(("counts", "b", "c"), 200),
        MORE.format(200, 4),
        PrivateThresholds(bytes_per_thread=200),
    ),
    _copies(
        atomics(counters(ADD, nbytes=100), counters(ADD, name="b", nbytes=100)),
        PrivateAtomics((), 0, (SharedAtomics("counts"), SharedAtomics("b"))),
        "`b`: 100 bytes exceed the 99 left to a thread",
        PrivateThresholds(bytes_per_thread=199),
    ),
    _copies(
        atomics(counters(ADD, nbytes=101)),
        PrivateAtomics((), 0, (SharedAtomics("counts"),)),
        "`counts`: 101 bytes exceed the 100 left to a thread",
        PrivateThresholds(bytes_per_thread=100),
    ),
    _copies(
        atomics(counters(ADD, nbytes=100)),
        PrivateAtomics(("counts",), 100),
        MORE.format(100, 4),
        PrivateThresholds(bytes_per_thread=100),
    ),
    _pipeline(EffortInputs(0, 0, 9, stored=True, compiler=False), FullEffort(), "its full code is stored"),
    _pipeline(
        EffortInputs(99, 10**12, 9, compiler=False),
        LightEffort(),
        "no compiler is installed that could make full code",
    ),
    _pipeline(EffortInputs(1, 10**12, 9), LightEffort(), "1 launches are fewer than 2"),
    _pipeline(
        EffortInputs(2, 250_000_000, 10),
        FullEffort(),
        "full code would have saved 50000000 of 250000000 ns, and takes 50000000 ns to compile",
    ),
    _pipeline(
        EffortInputs(2, 250_000_000, 11),
        LightEffort(),
        "full code would have saved only 50000000 of 250000000 ns, and takes 51000000 ns to compile",
    ),
    _pipeline(EffortInputs(1, 10**12, 9, quick=True), QuickEffort(), "1 launches are fewer than 2"),
    _pipeline(
        EffortInputs(9, 10**15, 4_096, quick=True),
        FullEffort(),
        "full code would have saved 600000000000000 of 1000000000000000 ns, and takes 20520000000 ns to compile",
    ),
    _pipeline(
        EffortInputs(9, 10**15, 4_097, quick=True),
        QuickEffort(),
        "4097 nodes are more than 4096, too many for full code",
    ),
    _pipeline(
        EffortInputs(9, 10**9, 1_000, light_ns=1, quick=True),
        QuickEffort(),
        "full code would have saved only 600000000 of 1000000000 ns, and takes 5040000000 ns to compile",
    ),
    _first(TextInputs(500, 8_000), LightEffort(), "500 basic blocks and 8000 lines of text are few"),
    _first(TextInputs(501, 0), QuickEffort(), "501 basic blocks are more than 500"),
    _first(TextInputs(0, 8_001), QuickEffort(), "8001 lines of text are more than 8000"),
    _pipeline(
        EffortInputs(2, 15, 10, light_ns=1),
        FullEffort(),
        "full code would have saved 3 of 15 ns, and takes 3 ns to compile",
    ),
    _pipeline(
        EffortInputs(2, 14, 0, light_ns=1),
        LightEffort(),
        "full code would have saved only 2 of 14 ns, and takes 3 ns to compile",
    ),
    _threads(
        ThreadInputs(100, 10**6, 1, 8, order_sensitive=True),
        ThreadPlan(1, 100),
        "the program depends on the order of atomics",
    ),
    _threads(
        ThreadInputs(0, 10**6, 1, 8, order_sensitive=True),
        ThreadPlan(1, 1),
        "the program depends on the order of atomics",
    ),
    _threads(ThreadInputs(100, 10**6, 1, 1), ThreadPlan(1, 100), "one thread is available"),
    _threads(ThreadInputs(0, 10**6, 1, 1), ThreadPlan(1, 1), "one thread is available"),
    _threads(ThreadInputs(0, 10**6, 1, 8), ThreadPlan(1, 1), "0 workgroups cannot be divided"),
    _threads(ThreadInputs(1, 10**6, 1, 8), ThreadPlan(1, 1), "1 workgroups cannot be divided"),
    _threads(
        ThreadInputs(2, 999, 1_000, 8), ThreadPlan(1, 2), "2 workgroups of 1998 ns in all repay no hand-off of 1000 ns"
    ),
    _threads(ThreadInputs(2, 1_000, 1_000, 8), ThreadPlan(2, 1), WORK.format(2_000, 2, 1_000, 1)),
    _threads(ThreadInputs(2, 10**6, 0, 8), ThreadPlan(2, 1), WORK.format(2 * 10**6, 2, 0, 1)),
    _threads(ThreadInputs(100, 100, 1_000, 16), ThreadPlan(10, 10), WORK.format(10_000, 10, 1_000, 10)),
    _threads(ThreadInputs(1_000, 10**6, 1_000, 4), ThreadPlan(4, 32), WORK.format(10**9, 4, 1_000, 32)),
    _threads(ThreadInputs(10_000, 10, 1_000, 4), ThreadPlan(4, 500), WORK.format(100_000, 4, 1_000, 500)),
    _threads(ThreadInputs(10_001, 7, 1_000, 4), ThreadPlan(4, 715), WORK.format(70_007, 4, 1_000, 715)),
    _threads(ThreadInputs(10_000, 1, 1_000, 2), ThreadPlan(2, 5_000), WORK.format(10_000, 2, 1_000, 5_000)),
    _threads(ThreadInputs(3, 10**6, 1_000, 8), ThreadPlan(3, 1), WORK.format(3 * 10**6, 3, 1_000, 1)),
    _threads(ThreadInputs(5, 1, 0, 4), ThreadPlan(3, 2), WORK.format(5, 3, 0, 2)),
    _threads(ThreadInputs(2, 0, 0, 4), ThreadPlan(1, 2), "2 workgroups of 0 ns in all repay no hand-off of 0 ns"),
    _threads(ThreadInputs(3, None, 800, 4, group_nodes=100), ThreadPlan(3, 1), WORK.format(4_800, 3, 800, 1)),
    _threads(
        ThreadInputs(3, None, 800, 4, group_nodes=100, rounds=1),
        ThreadPlan(1, 3),
        "3 workgroups of 300 ns in all repay no hand-off of 800 ns",
    ),
    _threads(
        ThreadInputs(30_000, None, 1, 2, group_nodes=0, rounds=1),
        ThreadPlan(1, 30_000),
        "30000 workgroups of 0 ns in all repay no hand-off of 1 ns",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.decide.__name__}: {case.why}")
def test_verdicts_and_their_reasons(case: Case) -> None:
    verdict = case.decide(*case.inputs)
    assert verdict == case.verdict
    assert str(verdict.why) == case.why


@pytest.mark.parametrize("name", sorted({case.decide.__module__ for case in CASES}))
def test_every_reason_has_a_case(name: str) -> None:
    source = import_module(name).__file__
    assert source is not None
    calls = [node for node in ast.walk(ast.parse(Path(source).read_text("utf-8"))) if isinstance(node, ast.Call)]
    written = {ast.literal_eval(call.args[0]) for call in calls if ast.unparse(call.func) == "Reason"}
    found = [case.decide(*case.inputs) for case in CASES if case.decide.__module__ == name]
    seen = {verdict.why.template for verdict in found}
    seen |= {shared.why.template for verdict in found for shared in getattr(verdict, "shared", ())}
    assert written == seen


def test_every_buffer_without_copies_has_its_own_reason() -> None:
    found = private_atomics(atomics(counters(ADD, plain=True), counters(ADD, name="b"), counters(name="c")))
    assert found.buffers == ()
    assert {each.buffer: str(each.why) for each in found.shared} == {
        "counts": "its elements are accessed otherwise than by atomics",
        "b": "the atomics on `c` need a lock, and code locks all or none",
        "c": "it has 0 different operators",
    }


def test_the_first_piece_of_work_beyond_each_threshold() -> None:
    inputs = ThreadInputs(800, 1_000, 1_000, 2)
    assert thread_plan(inputs, ThreadThresholds(pieces=1)).grain == 400
    assert thread_plan(inputs, ThreadThresholds(pieces=100, piece_ns=0)).grain == 4
    assert thread_plan(inputs, ThreadThresholds(piece_ns=10**9)).grain == 400
    assert compiler_effort(EffortInputs(0, 10, 0, 1), EffortThresholds(10_000, 0, 10)) == FullEffort()
