"""Sequences: temporary arrays, repeated parts, batches, stated dependencies, modes, and what a run reports."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

import vyre
from vyre import Batch, ExecutionMode, ProgramBuilder, Repeat, Step, u32
from vyre.app.sequences.times import SAMPLES
from vyre.domain.errors import InvalidConfig, InvalidInput, InvalidResource, UnsupportedFeature

Words: TypeAlias = npt.NDArray[np.uint32]
N: Final = 48
X: Final[Words] = np.arange(N, dtype=np.uint32)


def scaled(*, output: bool) -> vyre.Program:
    """``y = x * k + 1``; ``y`` is an ``output``, which a launch zeroes first, or keeps what is not written."""
    with ProgramBuilder("scaled" if output else "kept", workgroup=16) as p:
        k = p.param("k", u32)
        x = p.input("x", u32)
        y = p.output("y", u32, like=x) if output else p.inout("y", u32)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = x[i] * k + 1
    return p.build()


def added() -> vyre.Program:
    """``y = y + x``."""
    with ProgramBuilder("added", workgroup=16) as p:
        x = p.input("x", u32)
        y = p.inout("y", u32)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = y[i] + x[i]
    return p.build()


SCALED: Final = scaled(output=True)
KEPT: Final = scaled(output=False)
ADDED: Final = added()
BACKENDS: Final = ["reference", "reference-scalar", "cpu", "cuda-machine"]


@pytest.fixture(params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=False) as opened:
        yield opened


@pytest.fixture
def cpu() -> Iterator[vyre.Session]:
    with vyre.open("cpu", cache=False) as opened:
        yield opened


def test_a_temporary_array_carries_values_between_steps(session: vyre.Session) -> None:
    with session.resident(X) as x, session.resident(np.zeros(N, np.uint32)) as y:
        between = session.temporary(u32, N, label="between")
        with session.sequence(
            [Step(SCALED, {"k": 3, "x": x, "y": between}), Step(SCALED, {"k": 5, "x": between, "y": y})],
            modes={"fused": False},
        ) as sequence:
            run = sequence()
            assert (run.allocations, run.allocated_bytes, run.kernels) == (1, 4 * N, 2)
            assert sequence().allocations == 0
            np.testing.assert_array_equal(y.download(), (X * 3 + 1) * 5 + 1)


def test_a_temporary_array_holds_zeros_when_a_run_begins(session: vyre.Session) -> None:
    """It is added to itself in each round, and read after that: a later run must not see the sum of an earlier one."""
    with session.resident(X) as x, session.resident(np.zeros(N, np.uint32)) as y:
        total = session.temporary(np.uint32, N)
        with session.sequence(
            [Step(ADDED, {"x": x, "y": total}), Step(SCALED, {"k": 1, "x": total, "y": y})]
        ) as sequence:
            for rounds in (1, 3, 2):
                sequence(rounds)
                np.testing.assert_array_equal(y.download(), X * np.uint32(rounds) + 1)


def test_a_shorter_first_write_does_not_hide_what_was_there_before(session: vyre.Session) -> None:
    short = X[:16]
    with session.resident(short) as x, session.resident(X) as full, session.resident(np.zeros(N, np.uint32)) as y:
        between = session.temporary(u32, N)
        steps: list[Step | Batch | Repeat] = [
            Step(SCALED, {"k": 3, "x": x, "y": between}),  # writes 16 elements
            Step(SCALED, {"k": 1, "x": between, "y": y}),
            Step(ADDED, {"x": full, "y": between}),  # writes all, which the next run must not see
        ]
        with session.sequence(steps) as sequence:
            for _ in range(2):
                sequence()
                want = np.ones(N, np.uint32)
                want[:16] += short * 3 + 1
                np.testing.assert_array_equal(y.download(), want)


def test_the_content_of_a_temporary_array_cannot_be_read(session: vyre.Session) -> None:
    array = session.temporary(u32, N, label="between")
    for use in (array.download, lambda: array.upload(X), array.__dlpack__):
        with pytest.raises(InvalidResource, match=r"Temporary uint32\[48\] between.*one run only.*Fix:"):
            use()
    with pytest.raises(InvalidResource, match=r"`y` is bound to <Temporary.*outside of a sequence.*Fix:"):
        session.dispatch(SCALED, {"k": 1, "x": X, "y": array})
    with pytest.raises(InvalidResource, match=r"`y` is bound to <Temporary.*outside of a sequence.*Fix:"):
        session.bind_resident(SCALED, {"k": 1, "x": X, "y": array})


@pytest.mark.parametrize(
    ("dtype", "count", "error"),
    [
        (object, 1, InvalidConfig),
        ("words", 1, InvalidConfig),
        ("uint32", 1, InvalidConfig),
        (None, 1, InvalidConfig),
        (u32, -1, InvalidInput),
        (u32, 1.0, InvalidInput),
        (u32, True, InvalidInput),
    ],
)
def test_what_is_no_temporary_array_is_refused(session: vyre.Session, dtype: Any, count: Any, error: Any) -> None:
    with pytest.raises(error, match="Fix:"):
        session.temporary(dtype, count)


def test_an_array_of_each_type_is_as_long_as_a_buffer_of_it(session: vyre.Session) -> None:
    for kind in vyre.ScalarType:
        assert session.temporary(kind, 6).nbytes == 6 * kind.size
    assert session.temporary(bool, 6).nbytes == 24


def test_memory_of_temporary_arrays_ends_with_the_sequence_or_the_session(recwarn: pytest.WarningsRecorder) -> None:
    with vyre.open("cpu", cache=False) as session, session.resident(X) as x:
        for closes in (True, False):
            sequence = session.sequence([Step(ADDED, {"x": x, "y": session.temporary(u32, N)})])
            sequence()
            if closes:
                sequence.close()
                sequence.close()
                assert sequence().allocations == 1
        del sequence
        gc.collect()
        kept = session.sequence([Step(ADDED, {"x": x, "y": session.temporary(u32, N)})])
        kept()
    del kept
    gc.collect()
    assert [str(found.message) for found in recwarn if found.category is ResourceWarning] == []


def test_a_part_is_repeated_in_each_round(session: vyre.Session) -> None:
    with session.resident(X) as x, session.resident(np.zeros(N, np.uint32)) as y:
        steps: list[Step | Batch | Repeat] = [
            Step(KEPT, {"k": 1, "x": y, "y": x}),
            Repeat([Step(ADDED, {"x": x, "y": y})], 3),
            Repeat([Step(ADDED, {"x": x, "y": y})], 0),
        ]
        wanted: list[dict[str, bool] | None] = [None, {"plain": True}]
        for modes in wanted:
            run = session.sequence(steps, first=[Repeat([Step(ADDED, {"x": x, "y": y})], 2)], modes=modes)
            x.upload(X)
            y.upload(np.zeros(N, np.uint32))
            assert run(2).kernels == 2 + 2 * 4
            a, b = X, X * 2
            for _ in range(2):
                a = b + 1
                b = b + 3 * a
            np.testing.assert_array_equal(y.download(), b)


def test_a_long_loop_is_no_part_of_what_runs_once(session: vyre.Session) -> None:
    with session.resident(X) as x, session.resident(X) as y:
        add = Step(ADDED, {"x": x, "y": y})
        with pytest.raises(InvalidInput, match=r"first has 5000 launches.*Fix:"):
            session.sequence([add], first=[Repeat([add], 5000)])


def test_long_loops_are_submitted_in_pieces(cpu: vyre.Session) -> None:
    with cpu.resident(X) as x, cpu.resident(np.zeros(N, np.uint32)) as y:
        add = Step(ADDED, {"x": x, "y": y})
        run = cpu.sequence([Repeat([add], 800), Repeat([add], 700)], first=[add])(2)
        assert (run.kernels, run.submissions) == (1 + 2 * 1500, 4)
        np.testing.assert_array_equal(y.download(), X * np.uint32(3001))
        assert cpu.sequence([Repeat([add], 5000)])(2).submissions == 1
        np.testing.assert_array_equal(y.download(), X * np.uint32(13001))


def test_a_batch_is_a_launch_for_each_item(session: vyre.Session) -> None:
    with session.resident(X) as x:
        ys = [session.resident(np.zeros(N, np.uint32)) for _ in range(3)]
        run = session.sequence([Batch(SCALED, [{"k": k, "x": x, "y": y} for k, y in enumerate(ys)])])()
        assert run.kernels == 3
        for k, y in enumerate(ys):
            np.testing.assert_array_equal(y.download(), X * np.uint32(k) + 1)
    with session.resident(X) as x, pytest.raises(InvalidInput) as caught:
        session.sequence([Batch(SCALED, [{"k": 1, "x": x, "y": x.download()}])])
    assert "steps[0][0]" in caught.value.__notes__


def test_stated_dependencies_order_the_steps(session: vyre.Session) -> None:
    with session.resident(X) as x, session.resident(np.zeros(N, np.uint32)) as y:
        early = Step(KEPT, {"k": 2, "x": x, "y": y})
        late = Step(ADDED, {"x": x, "y": y}, after=[early])
        session.sequence([late, early])()
        np.testing.assert_array_equal(y.download(), X * 3 + 1)


def test_dependencies_that_cannot_be_kept_are_refused(session: vyre.Session) -> None:
    with session.resident(X) as x, session.resident(X) as y:
        one = Step(ADDED, {"x": x, "y": y})
        for_later = Step(ADDED, {"x": x, "y": y}, after=[one])
        with pytest.raises(InvalidInput, match=r"steps\[0\] is to run after a step that is not listed.*Fix:"):
            session.sequence([for_later])
        with pytest.raises(InvalidInput, match=r"first\[0\] is to run after a step that is not listed.*Fix:"):
            session.sequence([one], first=[for_later])
        with pytest.raises(InvalidInput, match=r"after.*Fix:"):
            session.sequence([Step(ADDED, {"x": x, "y": y}, after=[3])])  # type: ignore[list-item]
        circle: list[Step] = []
        a = Step(ADDED, {"x": x, "y": y}, after=circle)
        circle.append(Step(ADDED, {"x": x, "y": y}, after=[a]))
        with pytest.raises(InvalidInput, match=r"is to run after itself.*Fix:"):
            session.sequence([a, *circle])


@pytest.mark.parametrize("item", [3, "steps", None, [Step(SCALED)], Repeat([Repeat([], 1)], 1)])  # type: ignore[list-item]
def test_what_is_no_step_is_refused(session: vyre.Session, item: Any) -> None:
    with pytest.raises(InvalidInput, match=r"steps\[0\].*Fix:"):
        session.sequence([item])


@pytest.mark.parametrize("times", [-1, 1.0, True, None, 2**32])
def test_repetitions_are_counted(session: vyre.Session, times: Any) -> None:
    with pytest.raises(InvalidConfig, match=r"steps\[0\]: times=.*Fix:"):
        session.sequence([Repeat([Step(SCALED)], times)])


MODES: Final[dict[str, tuple[dict[Any, Any], str]]] = {
    "an unknown mode": ({"quick": True}, r"modes has 'quick'"),
    "no truth value": ({"graph": 1}, r"modes\['graph'\]"),
    "two that exclude each other": ({"plain": True, "graph": True}, r"forces plain and graph"),
    "nothing is left": ({"plain": False, "graph": False}, r"forbids plain launches and a graph"),
}


@pytest.mark.parametrize("case", MODES)
def test_modes_that_make_no_sense_are_refused(cpu: vyre.Session, case: str) -> None:
    modes, message = MODES[case]
    with cpu.resident(X) as x, cpu.resident(X) as y, pytest.raises(InvalidConfig, match=rf"{message}.*Fix:"):
        cpu.sequence([Step(ADDED, {"x": x, "y": y})], modes=modes)


def test_a_forced_mode_that_cannot_run_is_a_typed_error() -> None:
    with vyre.open("reference", cache=False) as session, session.resident(X) as x, session.resident(X) as y:
        steps = [Step(ADDED, {"x": x, "y": y})]
        for modes in ({"graph": True}, {"plain": False}, {"persistent": True}):
            with pytest.raises(UnsupportedFeature, match=r"forced mode (graph|persistent).*Fix:"):
                session.sequence(steps, modes=modes)
        assert session.sequence(steps, modes={"graph": False})().plan.mode is ExecutionMode.PLAIN


def test_a_list_is_one_submission_and_plain_launches_are_many(cpu: vyre.Session) -> None:
    with cpu.resident(X) as x, cpu.resident(np.zeros(N, np.uint32)) as y:
        steps = [Step(ADDED, {"x": x, "y": y})] * 3
        for modes, mode, submissions in (
            ({ExecutionMode.GRAPH: True, ExecutionMode.FUSED: False}, ExecutionMode.GRAPH, 1),
            ({"plain": True}, ExecutionMode.PLAIN, 30),
        ):
            before = cpu.metrics()
            sequence = cpu.sequence(steps, modes=modes)
            run = sequence(10)
            after = cpu.metrics()
            assert (run.plan.mode, run.submissions, run.kernels) == (mode, submissions, 30)
            assert run.bound_bytes == 30 * 2 * 4 * N
            assert "asked for" in run.plan.why and "asked for" in str(sequence.plan())
            assert after["resident_runs"] - before["resident_runs"] == (1 if submissions == 1 else 0)
            assert [group.steps for group in run.plan.groups] == [("steps[0]",), ("steps[1]",), ("steps[2]",)]
        np.testing.assert_array_equal(y.download(), X * np.uint32(60))


def test_a_list_that_ran_often_takes_few_calls_in_python(cpu: vyre.Session) -> None:
    """The calls of a run do not grow with its steps, and hardly any are left: a list replaces launches of 0.3 us."""
    called: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.append(frame.f_code.co_qualname)

    with cpu.resident(X) as x, cpu.resident(np.zeros(N, np.uint32)) as y:
        steps = [Step(ADDED, {"x": x, "y": y})] * 100
        sequence = cpu.sequence(steps, modes={"graph": True, "fused": False})
        for _ in range(70):  # then the time of a run is not wanted, because no decision is near
            sequence()
        assert not sequence._planner.is_curious
        sys.setprofile(note)
        try:
            sequence()
        finally:
            sys.setprofile(None)
        assert len(called) <= 24, called
        np.testing.assert_array_equal(y.download(), X * np.uint32(7_100))


def test_times_are_taken_before_decisions(cpu: vyre.Session) -> None:
    """Decisions come after 1, 2, 4, 8, ... runs, and look at the times of the last few."""
    with cpu.resident(X) as x, cpu.resident(np.zeros(N, np.uint32)) as y:
        sequence = cpu.sequence([Step(ADDED, {"x": x, "y": y})])
        taken = []
        for _ in range(70):
            taken.append(sequence._planner.is_curious)
            sequence()
        assert [number for number, wanted in enumerate(taken) if not wanted] == [
            *range(17, 32 - SAMPLES),
            *range(33, 64 - SAMPLES),
            *range(65, 70),
        ]


def test_a_part_that_never_runs_writes_no_temporary_array(session: vyre.Session) -> None:
    """Without its write the array holds zeros when a run begins, also after a run that left something else there."""
    with session.resident(X) as x, session.resident(np.zeros(N, np.uint32)) as y:
        between = session.temporary(u32, N)
        steps: list[Step | Repeat] = [
            Repeat([Step(SCALED, {"k": 3, "x": x, "y": between})], 0),
            Step(SCALED, {"k": 1, "x": between, "y": y}),
            Step(ADDED, {"x": x, "y": between}),
        ]
        with session.sequence(steps) as sequence:
            for _ in range(2):
                sequence()
                np.testing.assert_array_equal(y.download(), np.ones(N, np.uint32))
