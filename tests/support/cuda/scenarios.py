"""Whole uses of a CUDA backend, for tests that fail each driver call in them: what runs, and what must come out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, TypeAlias

import numpy as np

from support.limits import LIMIT_S
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.domain.dispatch import DispatchConfig, OutputArena
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import u32
from vyre.ports.backend import Backend
from vyre.ports.cost_probe import CostExperiment
from vyre.ports.requests import DispatchRequest, Readback, ResidentSequence, ResidentStep, Upload
from vyre.testing.backend_contract.persistent import EngineJobs

N: Final = 96
RECORDING: Final = CudaOptions(graph_after=1)
"""Options with which the scenarios of graphs record some."""
Scenario: TypeAlias = Callable[[Backend], bytes]


def scaled_sum() -> Program:
    """``y = x * k + y``, with workgroup memory and a scalar, so that every part of a launch is in it."""
    with ProgramBuilder("scaled_sum", workgroup=32) as p:
        k = p.param("k", u32)
        x = p.input("x", u32)
        y = p.inout("y", u32)
        out = p.output("out", u32, like="x")
        shared = p.workgroup("shared", u32, 32)
        i, lane = p.global_id(), p.local_id()
        shared[lane] = x[i] * k
        p.barrier()
        y[i] = shared[lane] + y[i]
        out[i] = shared[31 - lane]
    return p.build()


PROGRAM: Final = scaled_sum()
X: Final = np.arange(N, dtype=np.uint32)
Y: Final = np.full(N, 7, np.uint32)
INPUTS: Final = tuple(memoryview(a.tobytes()) for a in (np.uint32(3), X, Y))


def _expected(rounds: int = 1) -> bytes:
    y = Y + rounds * 3 * X
    return y.tobytes() + (3 * X).reshape(-1, 32)[:, ::-1].tobytes()


def dispatch(backend: Backend) -> bytes:
    """A cold dispatch and a warm one."""
    arena = OutputArena()
    for _ in range(2):
        backend.executor.execute(DispatchRequest(PROGRAM, INPUTS), arena)
    return b"".join(arena.to_bytes())


def graph(backend: Backend) -> bytes:
    """Dispatches enough to be recorded and replayed, the last with another scalar and back."""
    arena = OutputArena()
    other = (memoryview(np.uint32(5).tobytes()), *INPUTS[1:])
    for inputs in (INPUTS, INPUTS, INPUTS, INPUTS, other, INPUTS):
        backend.executor.execute(DispatchRequest(PROGRAM, inputs), arena)
    return b"".join(arena.to_bytes())


def asynchronous(backend: Backend) -> bytes:
    """Two dispatches in flight."""
    assert backend.async_executor is not None
    pending = [backend.async_executor.submit(DispatchRequest(PROGRAM, INPUTS)) for _ in range(2)]
    arena = OutputArena()
    for submitted in pending:
        submitted.wait(arena)
    return b"".join(arena.to_bytes())


def resident(backend: Backend) -> bytes:
    """Memory that stays: allocate, upload, three launches in one sequence, read back, free."""
    memory, executor = backend.require_memory(), backend.require_resident_executor()
    back = bytearray(8 * N)
    with memory.allocate(4 * N) as y, memory.allocate(4 * N) as out:
        memory.upload([Upload(y, INPUTS[2])])
        step = ResidentStep(PROGRAM, (*INPUTS[:2], y, out))
        reads = (Readback(y, memoryview(back)[: 4 * N]), Readback(out, memoryview(back)[4 * N :]))
        executor.run(ResidentSequence(prefix=(step,), repeated=(step,), repeat_count=2, reads=reads))
    return bytes(back)


def replayed(backend: Backend) -> bytes:
    """Sequences enough to be recorded and replayed, with other scalars and other memory in between."""
    memory, executor = backend.require_memory(), backend.require_resident_executor()
    back = bytearray(8 * N)
    other = memoryview(np.uint32(5).tobytes())
    with memory.allocate(4 * N) as y, memory.allocate(4 * N) as out, memory.allocate(4 * N) as apart:
        reads = (Readback(y, memoryview(back)[: 4 * N]), Readback(out, memoryview(back)[4 * N :]))
        for scalar, last in ((INPUTS[0], out), (INPUTS[0], out), (other, out), (INPUTS[0], apart), (INPUTS[0], out)):
            memory.upload([Upload(y, INPUTS[2])])
            step = ResidentStep(PROGRAM, (scalar, INPUTS[1], y, last))
            executor.run(ResidentSequence(repeated=(step,), repeat_count=3, reads=reads))
    return bytes(back)


def fed(backend: Backend) -> bytes:
    """Steps with host bytes of their own, plain and replayed, one of which waits for the one before."""
    memory, executor = backend.require_memory(), backend.require_resident_executor()
    back = bytearray(8 * N)
    with memory.allocate(4 * N) as y, memory.allocate(4 * N) as out:
        reads = (Readback(y, memoryview(back)[: 4 * N]), Readback(out, memoryview(back)[4 * N :]))
        zeros = memoryview(bytes(4 * N))
        steps = tuple(ResidentStep(PROGRAM, (INPUTS[0], x, y, out)) for x in (zeros, INPUTS[1]))
        for _ in range(3):
            memory.upload([Upload(y, INPUTS[2])])
            executor.run(ResidentSequence(prefix=steps, repeated=steps, repeat_count=2, reads=reads))
    return bytes(back)


COUNT_DOWN: Final = Program.from_text("""
    workgroup_size 32, 1, 1
    param first @0 u32
    buffer x @1 read_write u32[runtime]
    buffer changed @2 read_write u32[1]
    body { if x[gid.x] > first { x[gid.x] = x[gid.x] - 1u let old = atomic_or(changed, 0u, 1u) } }
""")


def looped(backend: Backend) -> bytes:
    """Rounds that a graph repeats until nothing changes, twice with one limit and once with another, and their ends."""
    memory, executor = backend.require_memory(), backend.require_resident_executor()
    back, ends = bytearray(8 * N), bytearray()
    with memory.allocate(4 * N) as x, memory.allocate(4) as flag:
        for limit, first in ((50, 4), (50, 4), (3, 0)):
            memory.upload([Upload(x, memoryview(np.full(N, 9, np.uint32).tobytes()))])
            scalar = memoryview(np.uint32(first).tobytes())
            step = ResidentStep(COUNT_DOWN, (scalar, x, flag))
            reads = (Readback(x, memoryview(back)[4 * N * (limit == 3) :][: 4 * N]),)
            timing = executor.run(ResidentSequence(repeated=(step,), repeat_count=limit, reads=reads, flag=flag))
            ends += f"{timing.rounds} {timing.converged} ".encode()
    return bytes(back + ends)


def bound(backend: Backend) -> bytes:
    """A launch prepared once, run three times."""
    memory = backend.require_memory()
    assert backend.resident_binder is not None
    back = bytearray(8 * N)
    with memory.allocate(4 * N) as y, memory.allocate(4 * N) as out:
        memory.upload([Upload(y, INPUTS[2])])
        launch = backend.resident_binder.bind(ResidentStep(PROGRAM, (*INPUTS[:2], y, out)))
        try:
            for _ in range(3):
                launch()
        finally:
            launch.close()
        memory.download([Readback(y, memoryview(back)[: 4 * N]), Readback(out, memoryview(back)[4 * N :])])
    return bytes(back)


def kept(backend: Backend) -> bytes:
    """A kernel that stays: jobs alone, one more of them than its queue holds, and a batch."""
    assert backend.persistent is not None
    lengths = tuple(view.nbytes for view in INPUTS)
    engine = EngineJobs(backend.persistent.open(PROGRAM, DispatchConfig(), lengths, 2))
    try:
        first = [engine.submit(INPUTS) for _ in range(2)]
        into = [bytearray(8 * N), bytearray(8 * N)]
        engine.wait_room(LIMIT_S)
        batch = engine.submit_many(INPUTS, 2, [memoryview(each) for each in into])
        arena = OutputArena()
        for ticket in first:
            assert ticket is not None
            engine.wait(ticket, arena, timeout=LIMIT_S)
        assert batch is not None
        ended = engine.wait_many(batch, 2, timeout=LIMIT_S)
        for row in range(2):
            engine.wait(batch + row, None, timeout=LIMIT_S)
        assert ended.failed == () and all(each[: 4 * N] == each[4 * N :] for each in into)
        return b"".join(arena.to_bytes())
    finally:
        engine.close()


def costs(backend: Backend) -> bytes:
    """Every experiment about launch costs, once, but that of a kernel that stays; there are no bytes to get wrong."""
    assert backend.cost_probe is not None
    return _measured(backend, backend.cost_probe.experiments - {CostExperiment.PERSISTENT})


def kept_costs(backend: Backend) -> bytes:
    """The experiment about a kernel that stays, which ends only where kernels run."""
    return _measured(backend, {CostExperiment.PERSISTENT})


def _measured(backend: Backend, experiments: Collection[CostExperiment]) -> bytes:
    assert backend.cost_probe is not None
    with backend.cost_probe.measuring() as timed:
        for experiment in sorted(experiments, key=lambda found: found.value):
            timed(experiment, 2)
    return b""


SCENARIOS: Final[dict[str, tuple[Scenario, bytes]]] = {
    "dispatch": (dispatch, _expected()),
    "graph": (graph, _expected()),
    "asynchronous": (asynchronous, _expected()),
    "resident": (resident, _expected(3)),
    "replayed": (replayed, _expected(3)),
    "fed": (fed, _expected(3)),
    "looped": (
        looped,
        np.full(N, 4, np.uint32).tobytes() + np.full(N, 6, np.uint32).tobytes() + b"6 True 6 True 3 False ",
    ),
    "kept": (kept, _expected()),
    "bound": (bound, _expected(3)),
    "costs": (costs, b""),
    "kept costs": (kept_costs, b""),
}
