"""``dispatch_many`` through a persistent engine: the same bytes and errors, and the mode that is predicted to win."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import vyre
from support.small_programs import square_program
from vyre.adapters.cpu.native.compilation import llvm_version
from vyre.app.persistent.many import ItemTimes, pays, run_all
from vyre.domain.dispatch import PersistentThreadMode
from vyre.domain.launch_costs import ASSUMED, Provenance
from vyre.policies.launching.plan_execution import ExecutionInputs

SQUARE = square_program()
native = pytest.mark.skipif(llvm_version() is None, reason="llvmlite is not installed")


@pytest.fixture
def session() -> Iterator[vyre.Session]:
    with vyre.open("cpu", threads=2) as made:
        yield made


def batch(count: int) -> list[Any]:
    return [{"x": np.arange(n, n + 5, dtype=np.uint32)} for n in range(count)]


def times(dispatched: int, kept: int | None) -> ItemTimes:
    return ItemTimes(deque([dispatched] * 8), deque([] if kept is None else [kept] * 8))


def decided(items: int, found: ItemTimes, kernel_ns: list[int]) -> bool:
    return pays(items, found, kernel_ns, ASSUMED, Provenance.MEASURED, None)


@pytest.mark.parametrize(
    ("items", "found", "kernel_ns", "wins"),
    [
        (1000, times(30_000, 10_000), [2_000] * 8, True),
        (1000, times(30_000, None), [2_000] * 8, True),  # an engine was not tried: the assumed costs speak for it
        (1000, times(30_000, 40_000), [2_000] * 8, False),  # it was tried, and lost
        (2, times(30_000, 10_000), [2_000] * 8, False),  # the setup takes longer
        (1000, times(30_000, 2_010_000), [2_000_000] * 8, False),  # launches are hidden behind long kernels
        (1000, times(30_000, 10_000), [], False),  # nothing is known of the kernel
    ],
)
def test_the_engine_is_used_where_it_is_predicted_to_win(
    items: int, found: ItemTimes, kernel_ns: list[int], wins: bool
) -> None:
    assert decided(items, found, kernel_ns) is wins


def test_the_decision_is_recorded_with_its_inputs() -> None:
    journal = vyre.DecisionJournal()
    assert pays(1000, times(30_000, 10_000), [2_000] * 8, ASSUMED, Provenance.MEASURED, journal)
    (inputs,) = journal.decisions[0].arguments
    assert isinstance(inputs, ExecutionInputs)
    assert inputs.costs.launch is not None and inputs.costs.launch.median_ns == 30_000
    assert inputs.costs.persistent_poll is not None and inputs.costs.persistent_poll.median_ns == 8_000


@native
@pytest.mark.parametrize("wins", [True, False])
def test_both_ways_give_the_same_bytes(session: vyre.Session, monkeypatch: pytest.MonkeyPatch, wins: bool) -> None:
    monkeypatch.setattr("vyre.app.persistent.many.pays", lambda *_: wins)
    for count in (0, 3, 16, 300):
        found = session.dispatch_many(SQUARE, batch(count))
        assert [list(result["y"]) for result in found] == [[(n + k) ** 2 for k in range(5)] for n in range(count)]
    assert (session.metrics()["persistent_jobs"] > 0) is wins
    assert session.metrics()["persistent_launches"] == (2 if wins else 0)


@native
@pytest.mark.parametrize("wins", [True, False])
def test_the_first_failure_is_raised_after_all_have_ended(
    session: vyre.Session, monkeypatch: pytest.MonkeyPatch, wins: bool
) -> None:
    monkeypatch.setattr("vyre.app.persistent.many.pays", lambda *_: wins)
    with vyre.ProgramBuilder("traps", workgroup=4) as p:
        x = p.inout("x", vyre.u32)
        with p.if_(x[p.global_id()] % 10 == 3):
            p.trap(x[p.global_id()], "unlucky")
    program, items = p.build(), [[np.full(1, n, np.uint32)] for n in range(40)]
    with pytest.raises(vyre.TrapError) as found:
        session.dispatch_many(program, items)
    assert found.value.address == 3
    with pytest.raises(vyre.InvalidInput, match="not an array"):
        session.dispatch_many(program, [*items[:20], [5]])


@native
def test_what_an_engine_cannot_run_is_dispatched(session: vyre.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vyre.app.persistent.many.pays", lambda *_: True)
    off = vyre.DispatchConfig(persistent_thread=PersistentThreadMode.DISABLE)
    assert len(session.dispatch_many(SQUARE, batch(20), off)) == 20
    assert session.metrics()["persistent_launches"] == 0


@native
def test_batches_are_timed_and_teach_later_ones(session: vyre.Session) -> None:
    pipeline = session.compile(SQUARE)
    for _ in range(6):
        session.dispatch_many(SQUARE, batch(64))
    found = session._item_times[pipeline]
    assert len(found.dispatched) >= 8 and all(ns > 0 for ns in found.dispatched)
    assert session.metrics()["submitted"] + session.metrics()["persistent_jobs"] == 6 * 64


def test_a_failure_to_start_waits_for_what_was_started() -> None:
    ended: list[int] = []

    def start(item: int) -> int:
        if item == 5:
            raise KeyError(item)
        return item

    def failure(item: int) -> None:
        ended.append(item)

    with pytest.raises(KeyError):
        run_all(range(9), start, failure, deque())
    assert ended == [0, 1, 2, 3, 4]
