"""``dispatch_many`` through a persistent engine: the same bytes and errors, and the mode that is predicted to win."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vyre
from support.llvm import NEEDS_LLVM
from support.small_programs import square_program
from vyre.app.persistent.kept import MOST_KEPT, MOST_KEPT_BYTES
from vyre.app.persistent.many import ItemTimes, pays, plan_items, run_all
from vyre.domain.dispatch import PersistentThreadMode
from vyre.domain.launch_costs import ASSUMED, Provenance
from vyre.policies.launching.persistent_kernel import PersistentKernelInputs

SQUARE = square_program()


@pytest.fixture
def session() -> Iterator[vyre.Session]:
    with vyre.open("cpu", threads=2) as made:
        yield made


def batch(count: int) -> list[Any]:
    return [{"x": np.arange(n, n + 5, dtype=np.uint32)} for n in range(count)]


def times(dispatched: int, kept: int | None) -> ItemTimes:
    return ItemTimes(deque([dispatched] * 8), deque([] if kept is None else [kept] * 8), deque())


def decided(items: int, found: ItemTimes, kernel_ns: list[int]) -> bool:
    return pays(plan_items(items, found, kernel_ns, ASSUMED, Provenance.MEASURED, None))


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
    assert pays(plan_items(1000, times(30_000, 10_000), [2_000] * 8, ASSUMED, Provenance.MEASURED, journal))
    (inputs,) = journal.decisions[0].arguments
    assert inputs == PersistentKernelInputs(1000, 30_000 - 8_000 - 2_000, 2_000, 50_000 - 2_000)


@pytest.mark.parametrize(("waking", "wins"), [([], True), ([100_000] * 8, True), ([900_000] * 8, False)])
def test_an_engine_that_is_open_only_has_to_wake(waking: list[int], wins: bool) -> None:
    """Dispatches of 20 items take 600 us, and jobs of them 200 us."""
    found = times(30_000, 10_000)._replace(waking=deque(waking))
    assert pays(plan_items(20, found, [2_000] * 8, ASSUMED, Provenance.MEASURED, None, is_open=True)) is wins


def test_what_a_batch_takes_beside_its_items_is_told() -> None:
    """Four items of 50 ns; the first takes 700 ns more, and collecting takes 10 ns for each."""
    now = iter([0, 0, 750, 750, 800, 800, 850, 850, 900, 900, 940])
    each, beside = deque[int](), deque[int]()
    run_all(
        range(4), lambda item: SimpleNamespace(result=lambda: item), lambda _: None, each, beside, lambda: next(now)
    )
    assert list(each) == [760, 60, 60, 60]
    assert list(beside) == [940 - 4 * 60]


@NEEDS_LLVM
@pytest.mark.parametrize("wins", [True, False])
def test_both_ways_give_the_same_bytes(session: vyre.Session, monkeypatch: pytest.MonkeyPatch, wins: bool) -> None:
    monkeypatch.setattr("vyre.app.persistent.many.pays", lambda *_, **__: wins)
    for count in (0, 3, 16, 300):
        found = session.dispatch_many(SQUARE, batch(count))
        assert [list(result["y"]) for result in found] == [[(n + k) ** 2 for k in range(5)] for n in range(count)]
    assert (session.metrics()["persistent_jobs"] > 0) is wins
    assert session.metrics()["persistent_launches"] == (1 if wins else 0), "the engine is kept"


@NEEDS_LLVM
@pytest.mark.parametrize("wins", [True, False])
def test_the_first_failure_is_raised_after_all_have_ended(
    session: vyre.Session, monkeypatch: pytest.MonkeyPatch, wins: bool
) -> None:
    monkeypatch.setattr("vyre.app.persistent.many.pays", lambda *_, **__: wins)
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


@NEEDS_LLVM
def test_what_an_engine_cannot_run_is_dispatched(session: vyre.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vyre.app.persistent.many.pays", lambda *_, **__: True)
    off = vyre.DispatchConfig(persistent_thread=PersistentThreadMode.DISABLE)
    assert len(session.dispatch_many(SQUARE, batch(20), off)) == 20
    assert session.metrics()["persistent_launches"] == 0


@NEEDS_LLVM
def test_an_engine_can_be_forced(session: vyre.Session) -> None:
    force = vyre.DispatchConfig(persistent_thread=PersistentThreadMode.FORCE)
    for count in (2, 0, 2):
        found = session.dispatch_many(SQUARE, batch(count), force)
        assert [list(result["y"]) for result in found] == [[(n + k) ** 2 for k in range(5)] for n in range(count)]
    metrics = session.metrics()
    assert (metrics["persistent_jobs"], metrics["persistent_launches"]) == (4, 1)
    with session.persistent(SQUARE, config=force) as jobs:
        assert jobs.submit(batch(2)[1]).result()["y"].tolist() == [1, 4, 9, 16, 25]
    with (
        session.resident(np.arange(5, dtype=np.uint32)) as x,
        pytest.raises(vyre.UnsupportedFeature, match=r"Fix: .*host data"),
    ):
        session.dispatch_many(SQUARE, [{"x": x}], force)
    with pytest.raises(vyre.UnsupportedFeature, match=r"Fix: .*session\.dispatch_many"):
        session.dispatch(SQUARE, batch(1)[0], force)
    with vyre.open("reference") as reference, pytest.raises(vyre.UnsupportedFeature, match="persistent threads"):
        reference.dispatch_many(SQUARE, batch(2), force)


@NEEDS_LLVM
def test_batches_are_timed_and_teach_later_ones(session: vyre.Session) -> None:
    pipeline = session.compile(SQUARE)
    for _ in range(6):
        session.dispatch_many(SQUARE, batch(64))
    found = session._item_times[pipeline]
    assert len(found.dispatched) >= 8 and all(ns > 0 for ns in found.dispatched)
    assert session.metrics()["submitted"] + session.metrics()["persistent_jobs"] == 6 * 64


def test_an_open_engine_costs_nothing_to_open() -> None:
    few = times(30_000, 10_000)
    assert not decided(2, few, [2_000] * 8)
    journal = vyre.DecisionJournal()
    assert pays(plan_items(2, few, [2_000] * 8, ASSUMED, Provenance.MEASURED, journal, is_open=True))
    (inputs,) = journal.decisions[0].arguments
    assert inputs == PersistentKernelInputs(2, 20_000, 2_000, 30_000 - 2_000)


@NEEDS_LLVM
@pytest.mark.parametrize(("kept_ns", "verdict"), [(1_000_000, "PersistentKernel"), (40_000_000, "StandardLaunches")])
def test_the_times_of_items_decide_which_way_they_go(kept_ns: int, verdict: str) -> None:
    journal = vyre.DecisionJournal()
    with vyre.open("cpu", cache=False, journal=journal) as session:
        pipeline = session.compile(SQUARE)
        for inputs in batch(16):
            pipeline(inputs)
        session._item_times[pipeline] = times(3_000_000, kept_ns)
        found = session.dispatch_many(SQUARE, batch(64))
        jobs = session.metrics().get("persistent_jobs", 0)
    assert [list(each["y"]) for each in found] == [[x * x for x in range(n, n + 5)] for n in range(64)]
    asked = [each for each in journal.decisions if each.name == "decide_persistent_kernel"]
    assert [type(each.verdict).__name__ for each in asked] == [verdict]
    assert jobs == (64 if verdict == "PersistentKernel" else 0)


def words_of(count: int, length: int) -> list[Any]:
    return [{"x": np.arange(n, n + length, dtype=np.uint32)} for n in range(count)]


@NEEDS_LLVM
def test_engines_are_kept_and_the_oldest_make_room(session: vyre.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    monkeypatch.setattr("vyre.app.persistent.many.plan_items", lambda *_, is_open: seen.append(is_open))
    monkeypatch.setattr("vyre.app.persistent.many.pays", lambda _: True)
    programs = [square_program() for _ in range(MOST_KEPT + 2)]
    for program in programs:
        session.dispatch_many(program, batch(20))
    assert (len(session._kept_jobs), session.metrics()["persistent_launches"]) == (MOST_KEPT, MOST_KEPT + 2)
    session.dispatch_many(programs[-1], batch(20))
    session.dispatch_many(programs[0], batch(20))
    assert session.metrics()["persistent_launches"] == MOST_KEPT + 3
    assert session.metrics()["persistent_jobs"] == (MOST_KEPT + 4) * 20
    assert seen == [False] * (MOST_KEPT + 2) + [True, False]


@NEEDS_LLVM
def test_engines_that_take_much_memory_are_not_kept(session: vyre.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vyre.app.persistent.many.pays", lambda *_, **__: True)
    large = MOST_KEPT_BYTES // 1024 // 8 + 1
    found = session.dispatch_many(SQUARE, words_of(20, large))
    assert found[3]["y"][5] == 64 and len(session._kept_jobs) == 0
    session.dispatch_many(SQUARE, words_of(20, large - 1))
    assert len(session._kept_jobs) == 1


@NEEDS_LLVM
def test_any_number_of_lengths_is_served(session: vyre.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vyre.app.persistent.many.pays", lambda *_, **__: True)
    items = [{"x": np.arange(1 + n % 11, dtype=np.uint32)} for n in range(60)]
    for _ in range(2):
        found = session.dispatch_many(SQUARE, items)
        assert [list(result["y"]) for result in found] == [[k * k for k in range(1 + n % 11)] for n in range(60)]


@NEEDS_LLVM
def test_kept_engines_survive_errors_of_jobs_but_no_interrupt(
    session: vyre.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vyre.app.persistent.many.pays", lambda *_, **__: True)
    with pytest.raises(vyre.InvalidInput):
        session.dispatch_many(SQUARE, [*batch(20), [5]])
    assert len(session._kept_jobs) == 1
    (jobs,) = session._kept_jobs._jobs.values()
    with pytest.raises(KeyboardInterrupt), session._kept_jobs.taken((session.compile(SQUARE), None), lambda: jobs):
        raise KeyboardInterrupt
    assert jobs.closed and len(session._kept_jobs) == 0
    assert len(session.dispatch_many(SQUARE, batch(20))) == 20


@NEEDS_LLVM
def test_threads_do_not_share_a_kept_engine_at_once(session: vyre.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vyre.app.persistent.many.pays", lambda *_, **__: True)
    pipeline = session.compile(SQUARE)
    session.dispatch_many(SQUARE, batch(20))
    with session._kept_jobs.taken((pipeline, None), lambda: pytest.fail("one is kept")) as jobs:
        assert not session._kept_jobs.has((pipeline, None))
        session.dispatch_many(SQUARE, batch(20))
        (other,) = session._kept_jobs._jobs.values()
        assert other is not jobs
    assert jobs.closed and not other.closed, "one is enough"


@NEEDS_LLVM
def test_kept_engines_end_with_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vyre.app.persistent.many.pays", lambda *_, **__: True)
    with vyre.open("cpu", threads=2) as made:
        made.dispatch_many(SQUARE, batch(20))
        (jobs,) = made._kept_jobs._jobs.values()
        with made._kept_jobs.taken((made.compile(SQUARE), None), lambda: jobs):
            made.close()
    assert jobs.closed and len(made._kept_jobs) == 0


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
