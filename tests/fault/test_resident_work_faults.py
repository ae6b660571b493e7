"""A driver call fails in the middle of what works on resident memory: queries, packed transfers, queues, waves, caches.

After each: a typed error that says what to do, nothing leaked, and the same session gives the right bytes, after
``recover`` and with new arrays where the device was lost.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias

import numpy as np
import pytest

from support.fixed_points import DISTANCES, Graph, bound
from support.profiles import SOAK
from support.speculations import Case
from support.speculations import bound as bound_speculation
from support.work_queues import Tree, tree_queue
from vyre import DeviceLost, FixpointExecutor, GridOverflow, Indirect, ProgramBuilder, Session, Step, u32
from vyre.adapters.cuda.machine.fault_plan import NO_FAULTS, Fault, FaultPlan
from vyre.domain.errors import BackendError
from vyre.testing import CudaMachine, cuda_machine

Run: TypeAlias = Callable[[], bytes]
"""Sets all contents anew, works, and returns the bytes of what it found: the same whenever it is called."""

KINDS: Final = {"out of memory": 2, "illegal address": 700}
LOST: Final = 700
MOST: Final = 14 if SOAK else 2
"""The calls of a run that are made to fail, spread over all of them: other ones for each kind of failure."""
WORDS: Final = np.arange(256, dtype=np.uint32)
TREE: Final = Tree.of([k // 3 for k in range(40)])


def adding() -> Any:
    """``y = x + y + k``."""
    with ProgramBuilder("adding", workgroup=32) as p:
        x, y, k = p.input("x", u32), p.inout("y", u32), p.param("k", u32)
        i = p.global_id()
        with p.if_(i < y.length):
            y[i] = x[i] + y[i] + k
    return p.build()


ADDING: Final = adding()


def queries(session: Session) -> Run:
    x = session.resident(WORDS)
    rows = {"y": np.arange(8 * 256, dtype=np.uint32).reshape(8, 256), "k": np.arange(8, dtype=np.uint32)}
    asked = session.queries(ADDING, {"x": x})
    return lambda: np.asarray(asked(rows)["y"]).tobytes()


def transfers(session: Session) -> Run:
    """Fused uploads and packed downloads of parts with gaps between them."""
    whole = session.resident(WORDS)
    parts = [whole[16 * k : 16 * k + 8] for k in range(16)]

    def run() -> bytes:
        whole.upload(WORDS)
        session.upload([(part, np.full(8, k, np.uint32)) for k, part in enumerate(parts)])
        return b"".join(found.tobytes() for found in session.download(parts))

    return run


def slots(session: Session) -> Run:
    data, lengths = session.resident(WORDS.reshape(32, 8)), session.resident((np.arange(32) % 9).astype(np.uint32))
    marks = session.resident((np.arange(32) % 3 == 0).astype(np.uint32))

    def run() -> bytes:
        used = session.download_slots(data, lengths)
        marked = session.download_marked(data, marks, limit=16)
        return b"".join(found.tobytes() for found in used) + np.asarray(marked.items).tobytes()

    return run


def queue(session: Session, **options: Any) -> Run:
    found = tree_queue(session, TREE, 64, **options)

    def run() -> bytes:
        found.hits.upload(np.zeros(TREE.tasks, np.uint32))
        found.queue(found.start)
        return bytes(found.hits.download().tobytes())

    return run


def waves(session: Session) -> Run:
    a, b = session.resident(WORDS), session.resident(WORDS)
    steps = [Step(ADDING, {"x": a, "y": b, "k": 1}), Step(ADDING, {"x": b, "y": a, "k": 2})]
    graph = session.sequence(steps * 3, modes={"megakernel": True})

    def run() -> bytes:
        a.upload(WORDS)
        b.upload(WORDS)
        assert graph().kernels == 1
        return bytes(a.download().tobytes() + b.download().tobytes())

    return run


def grid(session: Session) -> Run:
    """A step whose grid is in memory: too large, which is told once, and then as it may be."""
    y, counts = session.resident(WORDS), session.resident(WORDS[:3])
    step = Step(ADDING, {"x": WORDS, "y": y, "k": 1}, grid=Indirect(counts, 4))
    sequence = session.sequence([step])

    def run() -> bytes:
        y.upload(WORDS)
        counts.upload(np.array([5, 1, 1], np.uint32))
        with suppress(GridOverflow):
            sequence()
        counts.upload(np.array([3, 1, 1], np.uint32))
        sequence()
        return bytes(y.download().tobytes())

    return run


def fixed_point(session: Session, executor: FixpointExecutor) -> Run:
    """The distances in a path."""
    found = bound(session, Graph.chain(9), DISTANCES, 16, executor=executor)

    def run() -> bytes:
        found.found.upload(found.values)  # type: ignore[attr-defined]
        assert found.run().iterations == 9
        return found.content().tobytes()

    return run


def cache(session: Session) -> Run:
    """Arrays that leave for each other and come back."""
    x = session.resident(WORDS)

    def run() -> bytes:
        with session.resident_cache(2 * WORDS.nbytes) as held:
            for name in "abc":
                held.add(name, WORDS)
            for name in "abcab":
                with held.use(name) as y:
                    session.dispatch(ADDING, {"x": x, "y": y, "k": 3})
            return b"".join(held.remove(name).tobytes() for name in "abc")

    return run


def speculation(session: Session) -> Run:
    """A run that fails commits nothing, unless the device is lost with its memory."""
    case = Case(tiles=8, width=4, stray=1)
    y = np.full((8, 4), 9, np.uint32)
    found = bound_speculation(session, case, case.x(), y)

    def run() -> bytes:
        found.y.upload(y)
        try:
            assert found().committed
        except BackendError as error:
            if not isinstance(error, DeviceLost):
                np.testing.assert_array_equal(found.y.download(), y)
            raise
        return bytes(found.y.download().tobytes())

    return run


def parts(session: Session) -> Run:
    """A launch on parts of one array, and one in place on an array of the host."""
    whole = session.resident(WORDS)

    def run() -> bytes:
        whole.upload(WORDS)
        session.dispatch(ADDING, {"x": whole[:128], "y": whole[128:], "k": 5})
        own = WORDS.copy()
        session.dispatch(ADDING, {"x": WORDS, "y": own, "k": 7}, out={"y": own})
        return bytes(whole.download().tobytes() + own.tobytes())

    return run


FEATURES: Final[Mapping[str, Callable[[Session], Run]]] = {
    "queries": queries,
    "transfers": transfers,
    "slots": slots,
    "a queue in phases": queue,
    "bounded launches": lambda session: queue(session, items_per_launch=10),
    "a ring": lambda session: queue(session, discipline="ring"),
    "waves": waves,
    "a grid from memory": grid,
    "a fixed point in a kernel": lambda session: fixed_point(session, FixpointExecutor.COOPERATIVE),
    "a fixed point in a graph": lambda session: fixed_point(session, FixpointExecutor.WHILE_GRAPH),
    "a cache": cache,
    "parts": parts,
    "a speculation": speculation,
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Arrays that a failing run could not close warn when they are collected."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield


def calls_of(make: Callable[[Session], Run]) -> tuple[int, bytes]:
    """The driver's calls of a first run, and its bytes, which those of a second run are."""
    machine = cuda_machine()
    with machine.open() as session:
        run = make(session)
        before = sum(machine.driver.calls.values())
        expected = run()
        after = sum(machine.driver.calls.values())
        assert run() == expected
    assert not any(machine.driver.live().values()), "a run without faults leaks"
    return after - before, expected


def fail(machine: CudaMachine, run: Run, nth: int, code: int, expected: bytes) -> BackendError | None:
    machine.driver.inject(FaultPlan(calls=(Fault(code=code, nth=nth),)))
    try:
        assert run() == expected
    except BackendError as error:
        assert "Fix: " in str(error) and error.code
        return error
    finally:
        machine.driver.inject(NO_FAULTS)
    return None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FEATURES)
def test_a_call_in_the_middle_fails(name: str, kind: str) -> None:
    make, code = FEATURES[name], KINDS[kind]
    calls, expected = calls_of(make)
    told, apart = 0, -(-calls // MOST)
    for nth in range(1 + [*KINDS].index(kind) * apart // len(KINDS), calls + 1, apart):
        machine = cuda_machine()
        with machine.open() as session:
            run = make(session)
            error = fail(machine, run, nth, code, expected)
            told += error is not None
            if code != LOST or error is None:
                assert run() == expected, f"after call {nth} of {calls}"
            else:
                session.recover()
                with pytest.raises(BackendError, match="Fix: "):
                    run()
                assert make(session)() == expected, f"after call {nth} of {calls} and recover()"
            del run, error
            gc.collect()
        assert not any(machine.driver.live().values()), f"call {nth} of {calls}: {machine.driver.live()}"
        assert not machine.driver.violations, machine.driver.violations
    assert told
