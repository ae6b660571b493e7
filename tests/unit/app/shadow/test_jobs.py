"""Persistent jobs and asynchronous dispatches are sampled, and run right code once their program is in quarantine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre
from support.shadowed_programs import RIGHT, ULP, WAIT_S, numbers, roots, roots_in_place, settled, shadowed
from vyre import ShadowStatus

BASES = ["cpu", "cuda-machine"]


def right(x: Any) -> Any:
    return np.where(x > 1, np.sqrt(x), x)


@pytest.mark.parametrize("base", BASES)
def test_a_job_that_is_kept_running(base: str, tmp_path: Path) -> None:
    x = numbers(above=5)
    with shadowed(ULP, tmp_path, base) as session:
        with session.persistent(roots(), {"x": x}) as jobs:
            first = jobs.submit({"x": x}).result(WAIT_S)
            state = settled(first)
            assert state.status is ShadowStatus.DIFFERS and state.difference is not None
            assert state.difference[:4] == (1, "y", 5, 20)
            second = jobs.submit({"x": x}).result(WAIT_S)
            assert second["y"].tobytes() == right(x).tobytes()
            assert settled(second).status is ShadowStatus.AGREED
        with session.persistent(roots(), {"x": x}) as jobs:
            third = jobs.submit({"x": x}).result(WAIT_S)
            assert third["y"].tobytes() == right(x).tobytes()


@pytest.mark.parametrize("base", BASES)
def test_a_batch_of_jobs(base: str, tmp_path: Path) -> None:
    rows = np.stack([numbers(above=5) + np.float32(row) for row in range(4)])
    with shadowed(ULP, tmp_path, base) as session, session.persistent(roots(), {"x": rows[0]}) as jobs:
        assert (jobs.submit_many({"x": rows}).result(WAIT_S)["y"] != right(rows)).any()
        report = session.shadow(wait_s=WAIT_S)
        assert report is not None and len(report.quarantined) == 1 and report.sampled == 1
        batch = jobs.submit_many({"x": rows})
        assert batch.result(WAIT_S)["y"].tobytes() == right(rows).tobytes()
        again = jobs.submit_many({"x": rows})
        assert [each["y"].tobytes() for each in again] == [right(row).tobytes() for row in rows]


def test_a_job_that_updates_its_input(tmp_path: Path) -> None:
    x = numbers(above=5)
    with shadowed(ULP, tmp_path) as session, session.persistent(roots_in_place(), {"x": x}) as jobs:
        assert settled(jobs.submit({"x": x}).result(WAIT_S)).status is ShadowStatus.DIFFERS
        assert jobs.submit({"x": x}).result(WAIT_S)["x"].tobytes() == right(x).tobytes()


def test_a_job_that_nobody_waits_for_is_dropped_and_counted(tmp_path: Path) -> None:
    with shadowed(RIGHT, tmp_path) as session, session.persistent(roots(), {"x": numbers()}) as jobs:
        ticket = jobs.submit({"x": numbers()})
        jobs.flush(WAIT_S)
        del ticket
        report = session.shadow()
        assert report is not None and report.dropped == {"nobody waited for its outputs": 1}


@pytest.mark.parametrize("base", ["cpu", "reference", "cuda-machine"])
def test_a_dispatch_that_is_submitted(base: str, tmp_path: Path) -> None:
    x = numbers(above=5)
    with shadowed(ULP, tmp_path, base) as session:
        state = settled(session.submit(roots(), {"x": x}).result(WAIT_S))
        assert state.status is ShadowStatus.DIFFERS and state.difference is not None
        assert state.difference[:4] == (1, "y", 5, 20)
        again = session.submit(roots(), {"x": x}).result(WAIT_S)
        assert again["y"].tobytes() == right(x).tobytes()


@pytest.mark.parametrize("base", ["cpu", "cuda-machine"])
def test_many_dispatches_at_once(base: str, tmp_path: Path) -> None:
    items = [{"x": numbers(above=5) + np.float32(row)} for row in range(10)]
    with shadowed(ULP, tmp_path, base, most_waiting=1000) as session:
        program = roots()
        settled(session.dispatch_many(program, items)[0])
        assert session.shadow(wait_s=WAIT_S)
        for item, result in zip(items, session.dispatch_many(program, items), strict=True):
            assert result["y"].tobytes() == right(item["x"]).tobytes()


def test_a_specialized_call_and_a_tuned_one_are_sampled_too(tmp_path: Path) -> None:
    with vyre.ProgramBuilder("scaled roots", workgroup=64) as p:
        a = p.param("a", vyre.f32)
        x = p.inout("x", vyre.f32)
        i = p.global_id()
        with p.if_(i < x.length):
            x[i] = a * vyre.sqrt(x[i])
    with shadowed(RIGHT, tmp_path) as session:
        pipeline = session.specialize(p.build())
        for _ in range(4):
            result = pipeline({"a": 2.0, "x": numbers()})
            assert settled(result).status is ShadowStatus.AGREED
