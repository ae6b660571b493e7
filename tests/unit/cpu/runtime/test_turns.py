"""Launches with atomics on one resident array, begun by several threads at once: no update is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, cast

import numpy as np
import pytest

import vyre
from support.limits import LIMIT_S
from support.storms.interrupt_storm import Interrupt, Places, Tracer
from vyre.adapters.cpu.native.compilation import llvm_version
from vyre.adapters.forks import is_held_here, process_lock
from vyre.adapters.host.memory import HostBuffer, in_turn, turns_of
from vyre.domain.dispatch import DispatchConfig
from vyre.testing.backend_contract.bench import parsed

COUNT = parsed("""
    workgroup_size 64, 1, 1
    buffer x @0 read u32[runtime]
    buffer h @1 read_write u32[16]
    body { for k in 0u..4u { let old = atomic_add(h, (x[gid.x] + lid.x * 7u) & 15u, 1u) } }
    """)
LOOP = parsed("""
    workgroup_size 64, 1, 1
    buffer x @0 read u32[runtime]
    buffer h @1 read_write u32[16]
    body { for k in 0u..(x[0u] + 1u) { let old = atomic_add(h, x[gid.x] & 15u, 1u) } }
    """)
"""It is not proved short."""
TICKETS = parsed("""
    workgroup_size 64, 1, 1
    buffer x @0 read u32[runtime]
    buffer h @1 read_write u32[16]
    body { let t = atomic_add(h, 0u, 1u) if t % 2u == 0u { let u = atomic_add(h, x[gid.x] & 15u, 1u) } }
    """)
"""It depends on the order of its atomics."""
PLAIN = parsed("""
    workgroup_size 16, 1, 1
    buffer x @0 read u32[runtime]
    buffer h @1 read_write u32[16]
    body { if gid.x < 16u { h[gid.x] = x[gid.x] } }
    """)
SESSIONS = {
    "one thread": ("cpu", {"threads": 1}),
    "two threads": ("cpu", {"threads": 2}),
    "reference": ("reference", {}),
}


@pytest.fixture(params=SESSIONS)
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    backend, options = SESSIONS[request.param]
    if backend == "cpu" and llvm_version() is None:
        pytest.skip("llvmlite is not installed")
    with vyre.open(backend, **options) as opened:  # type: ignore[arg-type]
        yield opened


def ways(session: vyre.Session, program: vyre.Program, memory: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """The ways to run a program once on resident memory."""
    return {
        "bound launch": session.bind_resident(program, memory),
        "sequence": session.sequence([vyre.Step(program, memory)]),
        "dispatch": lambda: session.dispatch(program, memory),
        "many": session.bind_resident(program, memory, DispatchConfig(fixpoint_iterations=3)),
        "sequence of many": session.sequence([vyre.Step(program, memory, DispatchConfig(fixpoint_iterations=20))]),
    }


def in_threads(work: Callable[[], object], count: int) -> None:
    problems: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive()
    assert problems == []


def test_no_update_is_lost(session: vyre.Session) -> None:
    lanes, each = (1 << 17, 100) if session.backend == "cpu" else (1 << 9, 5)
    with session.resident(np.zeros(lanes, np.uint32)) as x, session.resident(np.zeros(16, np.uint32)) as h:
        together = threading.Barrier(4)

        def work() -> None:
            with session.bind_resident(COUNT, {"x": x, "h": h}) as launch:
                together.wait(LIMIT_S)
                for _ in range(each):
                    launch()

        in_threads(work, 4)
        assert h.download().tolist() == [4 * each * lanes // 4] * 16


class Watched:
    """A turn that records the content of its buffer when it is taken and when it is given back."""

    def __init__(self, buffer: HostBuffer) -> None:
        self.seen: list[int] = []
        self._buffer = buffer

    def __enter__(self) -> None:
        self.seen.append(int(self._buffer.data.view(np.uint32).sum()))

    def __exit__(self, *error: object) -> None:
        self.seen.append(int(self._buffer.data.view(np.uint32).sum()))


@pytest.mark.parametrize("program", [COUNT, LOOP, TICKETS])
def test_a_launch_with_atomics_takes_its_turn(session: vyre.Session, program: vyre.Program) -> None:
    with session.resident(np.zeros(64, np.uint32)) as x, session.resident(np.zeros(16, np.uint32)) as h:
        assert isinstance(h.buffer, HostBuffer)
        turn = Watched(h.buffer)
        h.buffer._turn = turn  # type: ignore[assignment]
        for name, run in ways(session, program, {"x": x, "h": h}).items():
            for _ in range(70):
                turn.seen.clear()
                before = int(h.download().sum())
                run()
                after = int(h.download().sum())
                assert after > before
                assert (turn.seen[0], turn.seen[-1]) == (before, after), name
                assert len(turn.seen) % 2 == 0


def test_a_launch_without_atomics_takes_no_turn(session: vyre.Session) -> None:
    with session.resident(np.zeros(64, np.uint32)) as x, session.resident(np.zeros(16, np.uint32)) as h:
        turn = Watched(h.buffer)  # type: ignore[arg-type]
        h.buffer._turn = turn  # type: ignore[attr-defined]
        for run in ways(session, PLAIN, {"x": x, "h": h}).values():
            run()
        assert turn.seen == []


# ---------------------------------------------------------------- several buffers
class Lock:
    """A lock that notes what is done to it, and may fail."""

    def __init__(self, name: str, log: list[str], *, fails: bool = False) -> None:
        self.name, self.log, self.fails = name, log, fails

    def __enter__(self) -> None:
        if self.fails:
            raise KeyboardInterrupt
        self.log.append(f"take {self.name}")

    def __exit__(self, *_: object) -> None:
        self.log.append(f"give {self.name}")


class Buffer:
    def __init__(self, lock: Lock) -> None:
        self.turn = lock


def test_turns_are_taken_in_one_order_and_given_back_in_the_other() -> None:
    log: list[str] = []
    buffers: list[Any] = [Buffer(Lock(str(number), log)) for number in range(4)]
    orders = []
    for given in (buffers, buffers[::-1], buffers + buffers):
        assert in_turn(turns_of(given), lambda: len(log)) == 4
        orders.append(tuple(log))
        log.clear()
    assert len(set(orders)) == 1
    taken = [entry.split()[1] for entry in orders[0]]
    assert taken[:4] == taken[:3:-1]
    assert turns_of([]) == () and in_turn((), lambda number: number + 1, 1) == 2


def test_an_interrupt_of_a_wait_gives_back_what_was_taken() -> None:
    log: list[str] = []
    buffers: list[Any] = [Buffer(Lock(str(number), log)) for number in range(4)]
    last = max(buffers, key=lambda buffer: id(buffer.turn))
    last.turn.fails = True
    with pytest.raises(KeyboardInterrupt):
        in_turn(turns_of(buffers), pytest.fail, "entered")
    assert len(log) == 6
    assert [entry.split()[0] for entry in log] == ["take"] * 3 + ["give"] * 3
    assert last.turn.name not in {entry.split()[1] for entry in log}


def test_an_interrupt_anywhere_leaves_no_turn_taken() -> None:
    locks = [process_lock() for _ in range(3)]
    turns = turns_of([cast(HostBuffer, Buffer(cast(Lock, lock))) for lock in locks])
    for places in Places:
        number = 0
        while True:
            tracer = Tracer(places, number)
            with suppress(Interrupt), tracer.tracing():
                in_turn(turns, lambda: None)
            assert not any(map(is_held_here, locks)), tracer.where
            if tracer.raised is None:
                break
            number += 1
        assert number > 4
