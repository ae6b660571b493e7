"""Evidence of runs that end in an error of the program: recorded, run again, and told from other ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre
from support.evidence import (
    TRAPPING_INPUTS,
    FakeRepository,
    looping,
    racy,
    scale,
    trapping,
    words,
    write,
    write_failed,
)
from vyre import In, Out, like, u32
from vyre.app.evidence.bundle import read_evidence
from vyre.app.evidence.replaying import EndDifference
from vyre.app.evidence.writing import Outcome, write_bundle
from vyre.app.pipeline import Pipeline
from vyre.domain.errors import (
    DataRaceError,
    DispatchFailed,
    InvalidInput,
    MalformedJson,
    StepBudgetExceeded,
    TrapError,
    UnsupportedFeature,
)
from vyre.domain.evidence.failures import (
    Failure,
    RacesFound,
    StepsExhausted,
    Trapped,
    failure_bytes,
    failure_from,
    failure_of,
)
from vyre.domain.races import DataRace, LanePlace, RacingAccess
from vyre.testing.execution import open_backend

BACKENDS = ("reference", "cpu", "cuda-machine")
TRAP = Trapped("too large", 9, (1, 0, 0))


def failure(path: Path) -> Failure:
    bundle = read_evidence(path)
    assert bundle.run.got.slots == () and bundle.run.timings == ()
    found = bundle.outcome(bundle.run.got)
    assert isinstance(found, Failure)
    return found


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_trap_is_recorded_and_comes_again_everywhere(tmp_path: Path, backend: str) -> None:
    path = tmp_path / "e.zip"
    write_failed(path, backend)
    found = failure(path)
    assert (found.error, found.code, found.cause) == ("TrapError", 1011, TRAP)
    for other in BACKENDS:
        again = vyre.replay_evidence(path, other)
        assert (again.ok, again.as_recorded, again.end, again.backend) == (True, True, None, other)


def test_an_exhausted_budget_is_recorded_and_comes_again_where_steps_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "e.zip"
    with vyre.open("reference") as session:
        given = {"x": np.array([1, 2, 90, 91], np.uint32)}
        session.write_evidence(path, looping(), given, vyre.DispatchConfig(step_budget=50), runs=3)
    assert failure(path).cause == StepsExhausted(50, (2, 0, 0))
    for other in ("reference", "reference-scalar"):
        assert vyre.replay_evidence(path, other).ok
    with pytest.raises(UnsupportedFeature, match="step_budget"):
        vyre.replay_evidence(path, "cuda-machine")


def test_races_are_recorded_and_one_of_their_elements_comes_again(tmp_path: Path) -> None:
    """The emulated device tells the first race that it finds, in another order of lanes."""
    path = tmp_path / "e.zip"
    with vyre.open("reference") as session:
        session.write_evidence(path, racy(), grid=(2, 1, 1), race_check=True)
    cause = failure(path).cause
    assert isinstance(cause, RacesFound)
    assert {(race.buffer, race.element) for race in cause.races} == {("y", 0), ("y", 1)}
    for other in ("reference", "cuda-machine"):
        assert vyre.replay_evidence(path, other).ok


@pytest.mark.parametrize(
    ("recorded", "found"),
    [
        (Trapped("too large", 8, (1, 0, 0)), "TrapError (1011): trap `too large` at address 8"),
        (Trapped("too large", 9, (3, 0, 0)), "by the lane with global id (3, 0, 0)"),
        (Trapped("another", 9, (1, 0, 0)), "trap `another`"),
    ],
)
def test_another_payload_is_another_end(tmp_path: Path, recorded: Trapped, found: str) -> None:
    error = TrapError(tag=recorded.tag, address=recorded.address, global_id=recorded.global_id)
    path = tmp_path / "e.zip"
    write_outcome(path, failure_of(error))
    again = vyre.replay_evidence(path)
    assert not again.ok and not again.as_recorded and again.differences == ()
    assert again.end is not None and again.end.expected is not None and found in again.end.expected
    assert "expected was TrapError (1011)" in str(again.end)


def write_outcome(path: Path, got: Outcome | None, **options: Any) -> None:
    """Writes evidence of ``trapping`` that says that it came to ``got``."""
    assert got is not None
    chosen: dict[str, Any] = {"config": vyre.DispatchConfig(), "backend": open_backend("reference")} | options
    write_bundle(path, trapping(), TRAPPING_INPUTS, got, repository=FakeRepository(), **chosen)


def test_an_end_without_an_error_is_another_end(tmp_path: Path) -> None:
    path = tmp_path / "e.zip"
    write_outcome(path, {"y": words(1, 9, 2, 8)})
    again = vyre.replay_evidence(path)
    assert again.end is not None and again.end.expected is None
    assert str(again.end).endswith("expected was no error")
    error = failure_of(TrapError(tag="too large", address=9, global_id=(1, 0, 0)))
    assert error is not None
    write(path, got=error)  # of a program without a trap
    assert vyre.replay_evidence(path).end == EndDifference(str(error), None)


def test_the_right_error_beside_a_wrong_answer(tmp_path: Path) -> None:
    """As a check by another backend writes it: one returned something, the other found a trap."""
    path, trap = tmp_path / "e.zip", failure_of(TrapError(tag="too large", address=9, global_id=(1, 0, 0)))
    write_outcome(path, {"y": words(1, 9, 2, 8)}, expected=trap, expected_by="oracle")
    again = vyre.replay_evidence(path)
    assert (again.ok, again.as_recorded, again.expected_by) == (True, False, "oracle")


def test_an_error_of_the_machine_is_no_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise DispatchFailed("the device is gone")

    monkeypatch.setattr(Pipeline, "fill", fail)
    with vyre.open("reference") as session, pytest.raises(DispatchFailed, match="is gone"):
        session.write_evidence(tmp_path / "e.zip", trapping(), TRAPPING_INPUTS)
    assert not list(tmp_path.iterdir())


def test_runs_must_end_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = iter(range(3))

    def fail(*arguments: object) -> None:
        raise TrapError(tag="t", address=0, global_id=(next(lanes), 0, 0))

    monkeypatch.setattr(Pipeline, "fill", fail)
    with vyre.open("reference") as session, pytest.raises(InvalidInput, match="run 2 of `trapping` came to something"):
        session.write_evidence(tmp_path / "e.zip", trapping(), TRAPPING_INPUTS, runs=2)
    assert not list(tmp_path.iterdir())


def test_a_session_is_usable_after_a_recorded_trap(tmp_path: Path) -> None:
    with vyre.open("cpu") as session:
        session.write_evidence(tmp_path / "e.zip", trapping(), TRAPPING_INPUTS)
        result = session.dispatch(trapping(), {"x": words(1, 2), "y": words(0, 0)})
        assert result["y"].tolist() == [1, 2]


@vyre.kernel(workgroup=4)
def checked(x: In[u32], y: Out[u32, like("x")]) -> None:  # type: ignore[valid-type]
    i = vyre.global_id()
    if i < len(x):
        if x[i] >= 7:
            vyre.trap(x[i], "too large")
        y[i] = x[i]


def test_a_kernel_in_plain_python_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "e.zip"
    with vyre.open("reference") as session:
        session.write_evidence(path, checked, {"x": np.array([1, 8], np.uint32)})
    assert failure(path).cause == Trapped("too large", 8, (1, 0, 0))
    assert vyre.replay_evidence(path).ok


# ---------------------------------------------------------------- the record
def races(lane: int, element: int = 3) -> DataRaceError:
    place = LanePlace.of((2, 1, 1), (4, 1, 1), (0, 0, 0), (lane, 0, 0))
    return DataRaceError(races=(DataRace("y", element, RacingAccess("store", place), RacingAccess("load", place)),))


ERRORS = (
    TrapError(tag="t", address=2**32 - 1, global_id=(1, 2, 3)),
    StepBudgetExceeded(budget=5, global_id=(0, 0, 1)),
    races(2),
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_failure_is_read_as_it_was_written(error: TrapError) -> None:
    found = failure_of(error)
    assert found is not None and (found.error, found.code) == (type(error).__name__, error.code)
    assert failure_from(failure_bytes(found)) == found and found.repeats(found)
    assert str(found) == f"{type(error).__name__} ({int(error.code)}): {error.message}"


def test_of_races_an_element_must_repeat() -> None:
    one, other, elsewhere = (failure_of(races(*where)) for where in ((1,), (2,), (1, 4)))
    assert one is not None and other is not None and elsewhere is not None
    assert one != other and one.repeats(other)
    assert not one.repeats(elsewhere)


def test_other_errors_are_none_of_the_program() -> None:
    assert failure_of(DispatchFailed("no")) is None


def test_a_failure_of_another_class_or_form_is_refused() -> None:
    found = failure_of(ERRORS[0])
    assert found is not None
    good = failure_bytes(found)
    for wrong in (
        failure_bytes(replace(found, error="StepBudgetExceeded")),
        failure_bytes(replace(found, code=1012)),
        failure_bytes(replace(found, cause=StepsExhausted(1, (0, 0, 0)))),
        good + b"\n",
        good.replace(b'"address":4294967295', b'"address":"1"'),
        b"{",
        b"\xff",
    ):
        with pytest.raises(MalformedJson):
            failure_from(wrong)


def test_a_bundle_without_a_failure_says_so(tmp_path: Path) -> None:
    evidence = write(tmp_path / "e.zip")
    assert evidence.run is not None and evidence.run.got.error is None
    assert read_evidence(tmp_path / "e.zip").program == scale()
