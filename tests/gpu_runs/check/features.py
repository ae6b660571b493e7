"""What a single blocking dispatch does not show: overlap, shared addresses, prepared steps, grid barriers, graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from gpu_runs.check.judging import refused, same
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import Array, Workbench, backend_with, has_driver, session_on
from vyre import InvalidResource, Program, ProgramBuilder, Session, u32
from vyre.adapters.cuda.ptx.kernel import Assumption
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.adapters.cuda.runtime.device import DEFAULT_OPTIONS, CudaOptions
from vyre.policies.launching.grid_sync_mode import GridSyncMode
from vyre.ports.requests import Readback, ResidentSequence, ResidentStep, Upload
from vyre.testing.outcomes import Outcome, Verdict

_SCALE: Final = 0x9E37_79B1


def mixing(name: str = "mixing") -> Program:
    """``y[i] = (x[i] ^ i) * key``: an element is read and written by one lane only."""
    with ProgramBuilder(name, workgroup=128) as p:
        key = p.param("key", u32)
        x = p.input("x", u32)
        y = p.inout("y", u32)
        i = p.global_id()
        with p.if_(i < y.length):
            y[i] = (x[i] ^ i) * key
    return p.build()


def mixed(x: Array, key: int) -> Array:
    return (x ^ np.arange(x.size, dtype=np.uint32)) * np.uint32(key)


def ring(lanes: int, rounds: int, workgroup: int = 128) -> Program:
    """Every round each lane takes what its neighbour had: two grid barriers a round."""
    with ProgramBuilder("ring", workgroup=workgroup) as p:
        a = p.inout("a", u32, lanes)
        b = p.inout("b", u32, lanes)
        i = p.global_id()
        for _ in range(rounds):
            with p.if_(i < lanes):
                b[i] = a[(i + 1) % lanes] + 1
            p.grid_sync()
            with p.if_(i < lanes):
                a[i] = b[(i + 1) % lanes] * 3
            p.grid_sync()
    return p.build()


def ring_result(a: Array, rounds: int) -> tuple[Array, Array]:
    b = np.zeros_like(a)
    for _ in range(rounds):
        b = np.roll(a, -1) + np.uint32(1)
        a = np.roll(b, -1) * np.uint32(3)
    return a, b


def features(context: Context) -> Iterator[Finding]:
    with session_on(backend_with(context.backend, DEFAULT_OPTIONS)) as session:
        yield from _overlapping(session, 8 if context.emulated else 64, 1000 if context.emulated else 1 << 20)
    yield from _repeated(context)
    yield from _resident(context)
    if not has_driver(context.backend):
        yield Outcome("variants and grid barriers", Verdict.SKIPPED, f"`{context.backend}` has no CUDA driver")
        return
    yield from _variants(context)
    for mode in GridSyncMode:
        yield from _grid_barriers(context, mode)


def _overlapping(session: Session, dispatches: int, elements: int) -> Iterator[Finding]:
    """Many dispatches in flight at once, taken back in reverse order."""
    program = mixing()
    inputs = [np.arange(k, k + elements, dtype=np.uint32) * np.uint32(_SCALE) for k in range(dispatches)]
    zeros = np.zeros(elements, np.uint32)
    pending = [session.submit(program, {"key": 2 * k + 1, "x": x, "y": zeros}) for k, x in enumerate(inputs)]
    for k, future in reversed(list(enumerate(pending))):
        yield same(f"submitted dispatch {k}", future.result(timeout=60)["y"], mixed(inputs[k], 2 * k + 1))


def _repeated(context: Context) -> Iterator[Finding]:
    """The same dispatch again and again, with other scalars and other data, recorded and replayed as a graph."""
    backend = backend_with(context.backend, CudaOptions(graph_after=2))
    program, elements = mixing(), 1000
    with session_on(backend) as session:
        for k in range(8):
            x = np.arange(k, k + elements, dtype=np.uint32) * np.uint32(_SCALE)
            key = 5 if k < 4 else 2 * k + 1
            found = session.dispatch(program, {"key": key, "x": x, "y": np.zeros_like(x)})
            yield same(f"repeated dispatch {k}", found["y"], mixed(x, key))
        if has_driver(context.backend) and backend.metric_source is not None:
            replayed = backend.metric_source.metrics()["graph_launches"]
            yield Outcome("replays as a graph", Verdict.PASSED if replayed else Verdict.FAILED, f"{replayed} replays")


def _resident(context: Context) -> Iterator[Finding]:
    backend = backend_with(context.backend, DEFAULT_OPTIONS)
    if backend.memory is None or backend.resident_executor is None:
        yield Outcome("resident buffers", Verdict.SKIPPED, f"`{context.backend}` has no device memory of its own")
        return
    backend.lifecycle.prepare()
    program, elements = mixing(), 1000 if context.emulated else 1 << 20
    x = np.arange(elements, dtype=np.uint32) * np.uint32(_SCALE)
    key = memoryview(np.uint32(7).tobytes())
    one, two = (backend.memory.allocate(x.nbytes, label=label) for label in ("one", "two"))
    try:
        backend.memory.upload([Upload(one, memoryview(x.tobytes()))])
        forth, back = ResidentStep(program, (key, one, two)), ResidentStep(program, (key, two, one))
        wanted = x
        for _ in range(2 * 20):
            wanted = mixed(wanted, 7)
        found = np.zeros_like(x)
        into = memoryview(found.view(np.uint8))  # type: ignore[arg-type]  # ndarray has __buffer__ in stubs from 3.12 on
        backend.resident_executor.run(
            ResidentSequence(repeated=(forth, back), repeat_count=20, reads=(Readback(one, into),))
        )
        yield same("a repeated sequence on resident memory", found, wanted)
        yield refused(
            "memory bound twice and written",
            lambda: backend.require_resident_executor().run(
                ResidentSequence(prefix=(ResidentStep(program, (key, one, one)),))
            ),
            InvalidResource,
        )
        if backend.resident_binder is not None:
            prepared = backend.resident_binder.bind(forth)
            prepared()
            prepared.close()
            backend.memory.download([Readback(two, into)])
            yield same("a prepared step", found, mixed(wanted, 7))
    finally:
        one.close()
        two.close()
        backend.lifecycle.close()


def _variants(context: Context) -> Iterator[Finding]:
    """The default variant on misaligned and on overlapping memory, and every variant where its assumptions hold."""
    program, elements = mixing(), 1000 if context.emulated else (1 << 20) + 3
    x = np.arange(elements, dtype=np.uint32) * np.uint32(_SCALE)
    key = {"key": np.uint32(_SCALE).tobytes()}
    both = frozenset({Assumption.ALIGNED16, Assumption.NOALIAS})
    with Workbench(context.backend) as bench:
        source, target = bench.allocate(x.nbytes + 16), bench.allocate(x.nbytes + 16)
        grid = (-(-elements // 128), 1, 1)
        for name, assume, offset, in_place in (
            ("as assumed", both, 0, False),
            ("aligned", frozenset({Assumption.ALIGNED16}), 0, False),
            ("apart", frozenset({Assumption.NOALIAS}), 4, False),
            ("misaligned", frozenset[Assumption](), 12, False),
            ("in place", frozenset[Assumption](), 0, True),
            ("in place, misaligned", frozenset[Assumption](), 8, True),
        ):
            origin = bench.upload(x, source + offset)
            result = origin if in_place else target + offset
            with bench.module(program, EmitOptions(assume=assume)) as module:
                counts = (1, elements, elements)
                bench.prepare(program, module, grid, (0, origin, result), counts, key)()
                yield same(f"variant {name}", bench.download(result, elements, np.uint32), mixed(x, _SCALE))


def _grid_barriers(context: Context, mode: GridSyncMode) -> Iterator[Finding]:
    """As many lanes as fit at once, many barriers; the two ways must agree with NumPy."""
    backend = backend_with(context.backend, CudaOptions(grid_sync=mode))
    groups = 4 if context.emulated else (backend.profile.compute_units or 1) * 4
    workgroup, rounds, repeats = (32, 2, 1) if context.emulated else (256, 8, 60)
    lanes = groups * workgroup
    a = np.arange(lanes, dtype=np.uint32)
    wanted = ring_result(a, rounds)
    program, wrong = ring(lanes, rounds, workgroup), 0
    with session_on(backend) as session:
        for _ in range(repeats):
            found = session.dispatch(program, {"a": a, "b": np.zeros_like(a)})
            wrong += not (np.array_equal(found["a"], wanted[0]) and np.array_equal(found["b"], wanted[1]))
    name = f"{mode.value} grid barriers"
    yield Fact(f"{name}: barriers passed", 2 * rounds * repeats)
    yield Outcome(name, Verdict.FAILED if wrong else Verdict.PASSED, f"{wrong} of {repeats} runs" if wrong else "")
