"""Steps that resident workers run: waves in order, steps of a wave at once, errors, rings that are given back."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from support.cpu.backends import ADD, ENDLESS, CountedTools, backend_of
from support.cpu.pool import until
from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from support.storms.interrupt_storm import Places
from support.storms.interrupts import interrupted_everywhere
from vyre.adapters.cpu.pool.ring import MOST_ROWS
from vyre.adapters.cpu.runtime import kept_steps
from vyre.adapters.cpu.runtime.kept_steps import RINGS, CpuKeptSteps
from vyre.adapters.forks import is_held_here
from vyre.domain.errors import DispatchFailed, DispatchTimeout, InvalidResource, StepBudgetExceeded, TrapError
from vyre.ports.backend import Backend
from vyre.ports.requests import ResidentStep
from vyre.testing.backend_contract.bench import Bench, Subject, parsed, words
from vyre.testing.execution import find_backend

pytestmark = NEEDS_LLVM

MIXED = parsed("""
    workgroup_size 4, 1, 1
    param a @0 u32
    buffer x @1 read u32[runtime]
    buffer y @2 read_write u32[runtime]
    body { y[gid.x] = y[gid.x] * 3u + x[gid.x] + a }
    """)
REPLACED = parsed("""
    workgroup_size 4, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 write u32[4] output
    body { if gid.x < 2u { y[gid.x] = x[gid.x] + 1u } }
    """)
TRAPS = parsed("""
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body { if x[gid.x] == 13u { trap(gid.x + 7u, "unlucky") }  x[gid.x] = x[gid.x] + 1u }
    """)
LOOPS = parsed("""
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body { for k in 0u..x[gid.x] { x[gid.x] = x[gid.x] + 1u } }
    """)
MEETS = parsed("""
    workgroup_size 1, 1, 1
    buffer mine @0 read_write u32[1]
    buffer other @1 read_write u32[1]
    body {
      let old = atomic_add(mine, 0u, 1u)
      for k in 0u..4294967295u {
        for l in 0u..4294967295u { if atomic_add(other, 0u, 0u) > 0u { return } }
      }
    }
    """)
"""It ends only while another runs that adds to what this one looks at."""


@pytest.fixture(scope="module")
def tools() -> CountedTools:
    return CountedTools()


@pytest.fixture
def backend(tools: CountedTools) -> Iterator[Backend]:
    with backend_of(tools.tools, threads=2) as made:
        yield made


@pytest.fixture
def bench(backend: Backend) -> Iterator[Bench]:
    found = Bench(Subject(find_backend("cpu")), backend)
    yield found
    found.close()


def kept(bench: Bench, *parts: list[list[ResidentStep]]) -> CpuKeptSteps:
    assert bench.backend.persistent_steps is not None
    found = bench.backend.persistent_steps.keep(parts)
    assert isinstance(found, CpuKeptSteps)
    return found


def apart(*steps: ResidentStep) -> list[list[ResidentStep]]:
    return [[step] for step in steps]


def metrics(bench: Bench) -> dict[str, int]:
    return dict(bench.metric_source.metrics())


# ---------------------------------------------------------------- order
def test_one_launch_serves_every_run_and_a_run_is_one_submission(bench: Bench) -> None:
    x = bench.holding(1, 2, 3, 4)
    steps = kept(bench, apart(bench.step(ADD, x)))
    for _ in range(50):
        ran = steps.run(0, 3)
        assert (ran.submissions, ran.timing.launches) == (1, 0)
        assert ran.timing.device_ns is not None and 0 < ran.timing.device_ns <= ran.timing.wall_ns
    assert bench.content(x) == [151, 152, 153, 154]
    found = steps.counters()
    assert [found[name] for name in ("launches", "jobs", "submissions", "waits")] == [1, 150, 50, 50]
    steps.close()
    assert metrics(bench)["persistent_launches"] == 1 and metrics(bench)["persistent_jobs"] == 150
    assert metrics(bench)["kernel_launches"] == metrics(bench)["list_kernels"] == 0


@pytest.mark.parametrize("rounds", [0, 1, 7, 1000])
def test_waves_and_rounds_keep_their_order(bench: Bench, rounds: int) -> None:
    """Each wave reads what the one before it wrote; most have two steps, which two workers take."""
    values = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [0, 0, 0, 1]]
    a, b, c, d = (bench.holding(*each) for each in values)
    one = [bench.step(MIXED, words(1), a, b), bench.step(MIXED, words(2), a, c)]
    two = [bench.step(MIXED, words(3), b, a), bench.step(MIXED, words(4), c, d)]
    three = [bench.step(MIXED, words(5), d, b)]
    steps = kept(bench, [one, two, three])

    def mixed(value: int, x: int, y: int) -> None:
        values[y] = [(old * 3 + new + value) % 2**32 for old, new in zip(values[y], values[x], strict=True)]

    for _ in range(rounds):
        for value, x, y in ((1, 0, 1), (2, 0, 2), (3, 1, 0), (4, 2, 3), (5, 3, 1)):
            mixed(value, x, y)
    assert steps.run(0, rounds).submissions == (1 if rounds else 0)
    assert [bench.content(buffer) for buffer in (a, b, c, d)] == values


def test_steps_of_a_wave_run_at_once(bench: Bench) -> None:
    x, y = bench.holding(0), bench.holding(0)
    steps = kept(bench, [[bench.step(MEETS, x, y, timeout_s=LIMIT_S), bench.step(MEETS, y, x, timeout_s=LIMIT_S)]])
    steps.run(0, 1)
    assert bench.content(x) == bench.content(y) == [1]


def test_a_wave_does_not_begin_before_the_one_before_has_ended(bench: Bench) -> None:
    """The control of the test above: apart, the first waits for the second until its time is over."""
    x, y = bench.holding(0), bench.holding(0)
    steps = kept(bench, apart(bench.step(MEETS, x, y, timeout_s=0.1), bench.step(MEETS, y, x)))
    with pytest.raises(DispatchTimeout, match=r"0\.1 s"):
        steps.run(0, 1)
    assert (bench.content(x), bench.content(y)) == ([1], [0])


def test_parts_are_run_by_number(bench: Bench) -> None:
    x = bench.holding(1, 1, 1, 1)
    add, double = bench.step(ADD, x), bench.step(MIXED, words(0), bench.holding(0, 0, 0, 0), x)
    steps = kept(bench, apart(add), [], apart(double, add))
    assert [steps.run(part, times).submissions for part, times in ((0, 2), (1, 5), (2, 1), (0, 0))] == [1, 0, 1, 0]
    assert bench.content(x) == [10] * 4


def test_more_steps_than_an_entry_holds_are_several_submissions(bench: Bench) -> None:
    x = bench.holding(0, 0, 0, 0)
    steps = kept(bench, apart(*[bench.step(ADD, x)] * 3))
    rounds = MOST_ROWS // 3 + 5
    assert steps.run(0, rounds).submissions == 2
    assert bench.content(x) == [3 * rounds] * 4


def test_outputs_are_zeroed_and_iterations_repeat(bench: Bench) -> None:
    x, y = bench.holding(1, 2, 3, 4), bench.holding(9, 9, 9, 9)
    steps = kept(bench, apart(bench.step(REPLACED, x, y), bench.step(ADD, x, fixpoint_iterations=40)))
    steps.run(0, 2)
    assert (bench.content(x), bench.content(y)) == ([81, 82, 83, 84], [42, 43, 0, 0])


def test_steps_that_are_spread_over_threads_give_the_same_bytes(bench: Bench) -> None:
    slow = parsed("""
        workgroup_size 64, 1, 1
        buffer x @0 read_write u32[runtime]
        body { for k in 0u..2000u { x[gid.x] = x[gid.x] * 3u + k } }
        """)
    x, again = bench.allocate(4 << 16), bench.allocate(4 << 16)
    for _ in range(4):
        bench.launch(slow, again)
    step = bench.step(slow, x)
    bench.launch(slow, x)
    steps = kept(bench, apart(step, step))
    assert max(command.threads for one in steps._parts[0].prepared for command in one.kernels) == 2  # type: ignore[union-attr]
    steps.run(0, 1)
    bench.launch(slow, x)
    assert bench.content(x) == bench.content(again)


# ---------------------------------------------------------------- errors
def test_a_trap_names_its_step_and_keeps_later_ones_from_running(bench: Bench) -> None:
    x, y = bench.holding(10, 0, 0, 0), bench.holding(0, 0, 0, 0)
    steps = kept(bench, apart(bench.step(ADD, y), bench.step(TRAPS, x), bench.step(ADD, y)))
    with pytest.raises(TrapError) as error:
        steps.run(0, 100)
    assert (error.value.address, error.value.tag, error.value.global_id) == (7, "unlucky", (0, 0, 0))
    assert bench.content(x)[0] == 13
    assert bench.content(y) == [7] * 4
    assert metrics(bench)["traps"] == 1
    with pytest.raises(TrapError):
        steps.run(0, 1)
    assert bench.content(y) == [8] * 4


def test_budgets_and_timeouts_are_those_of_their_steps(bench: Bench) -> None:
    x, y = bench.holding(2, 2, 2, 2), bench.holding(1, 2, 3, 4)
    steps = kept(bench, apart(bench.step(LOOPS, x, step_budget=9), bench.step(ADD, y, timeout_s=LIMIT_S)))
    steps.run(0, 3)
    with pytest.raises(StepBudgetExceeded, match="9"):
        steps.run(0, 1)
    assert bench.content(y) == [4, 5, 6, 7]
    late = kept(bench, apart(bench.step(ADD, y), bench.step(ENDLESS, x, timeout_s=0.05), bench.step(ADD, y)))
    for _ in range(2):
        with pytest.raises(DispatchTimeout, match=r"0\.05 s"):
            late.run(0, 1)
    assert bench.content(y) == [6, 7, 8, 9]
    steps = kept(bench, apart(bench.step(ADD, y)))
    steps.run(0, 1)
    assert bench.content(y) == [7, 8, 9, 10]


def test_closed_memory_is_refused(bench: Bench) -> None:
    x, y = bench.holding(1, 2, 3, 4), bench.holding(1, 2, 3, 4)
    steps = kept(bench, apart(bench.step(ADD, y), bench.step(ADD, x)))
    steps.run(0, 1)
    x.close()
    with pytest.raises(InvalidResource, match="after close"):
        steps.run(0, 1)
    assert bench.content(y) == [2, 3, 4, 5]


# ---------------------------------------------------------------- the end
def test_closing_is_idempotent_and_ends_every_use(bench: Bench) -> None:
    steps = kept(bench, apart(bench.step(ADD, bench.holding(1, 2, 3, 4))))
    steps.close()
    steps.close()
    with pytest.raises(InvalidResource, match="closed"):
        steps.run(0, 1)
    assert steps.counters()["launches"] == 0


def test_closing_ends_a_run_of_another_thread(bench: Bench) -> None:
    x = bench.holding(1, 2, 3, 4)
    steps, failures = kept(bench, apart(bench.step(ENDLESS, x))), []

    def run() -> None:
        try:
            steps.run(0, 1)
        except DispatchFailed as error:
            failures.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: steps.counters()["launches"] == 1)
    steps.close()
    thread.join(LIMIT_S)
    assert not thread.is_alive() and "its steps were closed" in failures[0]
    bench.launch(ADD, x)


def test_closing_the_backend_ends_a_run(tools: CountedTools) -> None:
    failures: list[BaseException] = []
    with backend_of(tools.tools, threads=2) as backend:
        bench = Bench(Subject(find_backend("cpu")), backend)
        steps = kept(bench, apart(bench.step(ENDLESS, bench.holding(1, 2, 3, 4))))

        def run() -> None:
            try:
                steps.run(0, 5)
            except DispatchFailed as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        until(lambda: steps.counters()["launches"] == 1)
        backend.lifecycle.close()
        thread.join(LIMIT_S)
        assert not thread.is_alive() and "is closed" in str(failures[0])
        with pytest.raises(InvalidResource, match="closed"):
            steps.run(0, 1)
        bench.close()


def test_rings_are_given_back_to_others_and_had_again(bench: Bench) -> None:
    x = bench.holding(0, 0, 0, 0)
    many = [kept(bench, apart(bench.step(ADD, x))) for _ in range(3 * RINGS)]
    for _ in range(2):
        for steps in many:
            steps.run(0, 1)
    assert bench.content(x) == [6 * RINGS] * 4
    assert [steps.counters()["launches"] for steps in many] == [2] * len(many)
    many[-1].run(0, 1)
    assert many[-1].counters()["launches"] == 2
    assert many[0].counters()["jobs"] == 2


def test_dropped_steps_give_their_ring_back(bench: Bench) -> None:
    x = bench.holding(0, 0, 0, 0)
    for _ in range(200):
        kept(bench, apart(bench.step(ADD, x))).run(0, 1)
        gc.collect(0)
    assert bench.content(x) == [200] * 4


def test_threads_run_steps_of_their_own_beside_each_other(bench: Bench) -> None:
    arrays = [bench.holding(0, 0, 0, 0) for _ in range(4)]
    each = [kept(bench, apart(*[bench.step(ADD, array)] * 2)) for array in arrays]

    def run(steps: CpuKeptSteps) -> None:
        for _ in range(100):
            steps.run(0, 3)

    threads = [threading.Thread(target=run, args=(steps,)) for steps in each]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert [bench.content(array) for array in arrays] == [[600] * 4] * 4


def test_better_code_is_taken_between_runs(tools: CountedTools) -> None:
    with backend_of(tools.tools, threads=2, recompile=True) as backend:
        bench = Bench(Subject(find_backend("cpu")), backend)
        x = bench.holding(*range(64))
        program = parsed("""
            workgroup_size 64, 1, 1
            buffer x @0 read_write u32[runtime]
            body { for k in 0u..2000u { x[gid.x] = x[gid.x] * 3u + k } }
            """)
        steps = kept(bench, apart(bench.step(program, x)))

        def swapped() -> bool:
            steps.run(0, 50)
            return metrics(bench)["swaps"] > 0

        until(swapped)
        runs = steps.counters()["jobs"]
        steps.run(0, 1)
        again: Any = bench.holding(*range(64))
        for _ in range(runs + 1):
            bench.launch(program, again)
        assert bench.content(x) == bench.content(again)
        bench.close()


def test_an_interrupt_of_the_search_for_a_ring_leaves_no_steps_locked(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_steps, "RINGS", 1)
    x = bench.holding(0, 0, 0, 0)
    first, second = (kept(bench, apart(bench.step(ADD, x))) for _ in range(2))

    def run() -> None:
        first.run(0, 1)
        second.run(0, 1)

    def works() -> None:
        assert not is_held_here(first._lock) and not is_held_here(second._lock)

    for places in Places:
        assert interrupted_everywhere((kept_steps,), run, works, places, every=2) > 20


def test_an_interrupt_anywhere_ends_the_run_and_leaves_the_steps_whole(bench: Bench) -> None:
    x = bench.holding(0, 0, 0, 0)
    steps = kept(bench, apart(*[bench.step(ADD, x)] * 2))
    steps.run(0, 1)

    def works() -> None:
        before = bench.content(x)[0]
        steps.run(0, 3)
        assert bench.content(x) == [before + 6] * 4

    def run() -> None:
        steps.run(0, 2)

    for places in Places:
        assert interrupted_everywhere((kept_steps,), run, works, places) > 10
    assert steps.counters()["launches"] > 1, "an interrupted run gives its workers back"
