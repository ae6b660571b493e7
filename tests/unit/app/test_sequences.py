"""Sequences of steps on resident memory: the bytes of one dispatch after the other, with one wait."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

import vyre
from support.small_programs import catalog_of
from vyre import ProgramBuilder, Step, u32
from vyre.app.shorthand import Keywords
from vyre.domain.errors import InvalidConfig, InvalidInput, InvalidResource, TrapError, UnsupportedFeature
from vyre.testing import cuda_machine

Words: TypeAlias = npt.NDArray[np.uint32]
N: Final = 48
X: Final[Words] = np.arange(N, dtype=np.uint32)


def mix(*, traps: bool) -> vyre.Program:
    """``y = x * k + w``; 7 is no factor where it ``traps``."""
    with ProgramBuilder("mix", workgroup=16) as p:
        k = p.param("k", u32)
        w = p.input("w", u32)
        x = p.input("x", u32)
        y = p.inout("y", u32)
        i = p.global_id()
        if traps:
            with p.if_(k == 7):
                p.trap(i, "seven")
        y[i] = x[i] * k + w[i]
    return p.build()


MIX: Final = mix(traps=True)
MIX_FREE: Final = mix(traps=False)


@pytest.fixture(params=["reference", "reference-scalar", "cpu", "cuda-machine"])
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=False) as opened:
        yield opened


def mixed(k: int, w: int, x: Words) -> Words:
    return x * np.uint32(k) + np.uint32(w)


def host(w: int) -> Words:
    return np.full(N, w, np.uint32)


def test_first_once_then_the_steps_so_many_times(session: vyre.Session) -> None:
    with session.resident(X) as a, session.resident(X) as b:
        to = {"x": a, "y": b}
        fro = {"x": b, "y": a}
        sequence = session.sequence(
            [Step(MIX, {"k": 3, "w": host(1), **to}), Step(MIX, {"k": 5, "w": host(2), **fro})],
            first=[Step(MIX, {"k": 2, "w": host(9), **fro})],
        )
        wanted_a = wanted_b = X
        for rounds in (0, 1, 3):
            timing = sequence(rounds)
            wanted_a = mixed(2, 9, wanted_b)
            for _ in range(rounds):
                wanted_b = mixed(3, 1, wanted_a)
                wanted_a = mixed(5, 2, wanted_b)
            np.testing.assert_array_equal(a.download(), wanted_a)
            np.testing.assert_array_equal(b.download(), wanted_b)
            assert timing.wall_ns > 0


def test_a_run_reads_the_arrays_of_the_host_as_they_are_then(session: vyre.Session) -> None:
    weights = host(4)
    with session.resident(X) as a, session.resident(X) as b:
        sequence = session.sequence([Step(MIX, {"k": 3, "w": weights, "x": a, "y": b})])
        weights[:] = 0
        sequence()
        np.testing.assert_array_equal(b.download(), mixed(3, 0, X))


def test_a_loop_is_one_graph_launch_a_round() -> None:
    with vyre.open("cuda-machine", cache=False) as session, session.resident(X) as a, session.resident(X) as b:
        steps = [
            Step(MIX_FREE, {"k": k, "w": host(1), "x": pair[0], "y": pair[1]})
            for k, pair in enumerate([(a, b), (b, a)] * 20, 1)
        ]
        session.sequence(steps)(rounds=4)
        want = X
        for k in [*range(1, 41)] * 4:
            want = mixed(k, 1, want)
        np.testing.assert_array_equal(a.download(), want)
        metrics = session.metrics()
        assert (metrics["graph_launches"], metrics["kernel_launches"]) == (4, 0)


def test_a_trap_names_its_sequence(session: vyre.Session) -> None:
    with session.resident(X) as a, session.resident(X) as b:
        sequence = session.sequence([Step(MIX, {"k": k, "w": host(1), "x": a, "y": b}) for k in (2, 7)])
        with pytest.raises(TrapError) as caught:
            sequence()
        assert any("<StepSequence mix mix, reads w of the host in each run>" in note for note in caught.value.__notes__)
        np.testing.assert_array_equal(b.download(), mixed(2, 1, X))


def test_what_is_written_must_be_resident(session: vyre.Session) -> None:
    with session.resident(X) as a:
        good = Step(MIX, {"k": 3, "w": host(1), "x": X, "y": a})
        with pytest.raises(InvalidInput, match=r"`y` is written.*Fix:") as caught:
            session.sequence([good, Step(MIX, {"k": 3, "w": host(1), "x": a, "y": X.copy()})])
        assert "steps[1]" in caught.value.__notes__
        with pytest.raises(InvalidInput) as caught:
            session.sequence([good], first=[Step(MIX, {"k": 3, "w": host(1), "x": a})])
        assert "first[0]" in caught.value.__notes__


def scaled() -> vyre.Program:
    """``y[i] = x[i] * k`` for each lane, where ``k`` is 1 unless it is specialized."""
    with ProgramBuilder("scaled", workgroup=16) as p:
        k = p.spec("k", u32(1))
        x = p.input("x", u32)
        y = p.inout("y", u32)
        i = p.global_id()
        y[i] = x[i] * k
    return p.build()


SCALED: Final = scaled()
SHORTHAND: Final[dict[str, tuple[dict[str, Any], int, int]]] = {
    "nothing": ({}, 1, N),
    "grid": ({"grid": 1}, 1, 16),
    "grid of a tuple": ({"grid": (2, 1)}, 1, 32),
    "extent": ({"extent": 20}, 1, 32),
    "constants": ({"spec": {"k": 5}}, 5, N),
    "constants and grid": ({"spec": {"k": 5}, "grid": 1}, 5, 16),
    "constants beside a config": ({"spec": {"k": 5}, "config": vyre.DispatchConfig(grid=1)}, 5, 16),
}
"""Keywords of a step, the factor ``k`` and the number of elements that are written."""


@pytest.mark.parametrize("case", SHORTHAND)
def test_a_step_takes_the_keywords_of_compile(session: vyre.Session, case: str) -> None:
    keywords, k, written = SHORTHAND[case]
    with session.resident(X) as x, session.resident(np.zeros(N, np.uint32)) as y:
        session.sequence([Step(SCALED, {"x": x, "y": y}, **keywords)])()
        wanted = X * np.uint32(k)
        wanted[written:] = 0
        np.testing.assert_array_equal(y.download(), wanted)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"grid": 1, "config": vyre.DispatchConfig(grid=1)}, "grid is given twice"),
        ({"spec": {"l": 5}}, "no specialization constant 'l'"),
        ({"grid": 0}, "grid"),
        ({"output_counts": {"z": 1}}, "z"),
        ({"race_check": 1}, "race_check"),
    ],
)
def test_keywords_of_a_step_are_refused_as_those_of_compile(
    session: vyre.Session, keywords: dict[str, Any], message: str
) -> None:
    with session.resident(X) as a, session.resident(X) as b:
        memory = {"x": a, "y": b}
        with pytest.raises(vyre.VyreError, match=rf"{message}.*Fix:") as caught:
            session.sequence([Step(SCALED, memory), Step(SCALED, memory, **keywords)])
        assert "steps[1]" in caught.value.__notes__
        with pytest.raises(type(caught.value)):
            session.compile(SCALED, **keywords).bind_resident(memory)


def test_every_keyword_of_compile_is_one_of_a_step() -> None:
    assert set(Step(SCALED).shorthand) == set(Keywords.__annotations__)


@pytest.mark.parametrize("rounds", [-1, 1.0, True, None])
def test_rounds_are_counted(session: vyre.Session, rounds: Any) -> None:
    with session.resident(X) as a:
        sequence = session.sequence([Step(MIX, {"k": 3, "w": host(1), "x": X, "y": a})])
        with pytest.raises(InvalidConfig, match=r"rounds=.*Fix:"):
            sequence(rounds)


def test_nothing_is_no_sequence(session: vyre.Session) -> None:
    with pytest.raises(InvalidInput, match=r"without steps.*Fix:"):
        session.sequence([])


def test_memory_that_is_closed_is_refused(session: vyre.Session) -> None:
    with session.resident(X) as a:
        sequence = session.sequence([Step(MIX, {"k": 3, "w": host(1), "x": X, "y": a})])
    with pytest.raises(InvalidResource):
        sequence()


def test_a_closed_session_runs_none() -> None:
    with vyre.open("reference") as session:
        a = session.resident(X)
        sequence = session.sequence([Step(MIX, {"k": 3, "w": host(1), "x": X, "y": a})])
    with pytest.raises(InvalidResource, match=r"closed.*Fix:"):
        sequence()
    with pytest.raises(InvalidResource, match=r"closed.*Fix:"):
        session.sequence([Step(MIX, {"k": 3})])


def test_types_are_those_of_bind_resident(session: vyre.Session) -> None:
    with session.resident(np.zeros(N, np.float32)) as wrong, pytest.raises(InvalidInput, match="u32"):
        session.sequence([Step(MIX, {"k": 3, "w": host(1), "x": X, "y": wrong})])


def test_a_backend_without_resident_executor_runs_no_sequences() -> None:
    backend = replace(cuda_machine().backend, resident_executor=None)
    with vyre.open(backend.id, catalog=catalog_of(backend)) as session, session.resident(X) as a:
        steps = [Step(MIX, {"k": 3, "w": host(1), "x": X, "y": a})]
        with pytest.raises(UnsupportedFeature):
            session.sequence(steps)
