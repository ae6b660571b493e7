"""A review of costs is asked for now and then, and keeps no run waiting."""

from __future__ import annotations

import subprocess
import sys
from threading import Event, Semaphore, Thread
from typing import Final

import pytest

from support.limits import LIMIT_S
from vyre.app.calibration.review import CostReview
from vyre.app.lease import BackendLease
from vyre.testing.fakes import function_backend
from vyre.testing.recording_telemetry import RecordingTelemetry

SOON: Final = 30.0
"""Seconds that something in the background takes at most."""


class Reviewed:
    """How many reviews there were."""

    def __init__(self) -> None:
        self.count = 0
        self._came = Semaphore(0)
        self.telemetry = RecordingTelemetry()
        self.review = CostReview(self._look, self.telemetry)

    def run(self, times: int = 1) -> None:
        for _ in range(times):
            self.review.launched()

    def wait(self) -> None:
        """For one review, and the end of its thread."""
        assert self._came.acquire(timeout=SOON)
        self.review._background.join()

    def _look(self) -> None:
        self.count += 1
        self._came.release()


def test_it_comes_after_nine_runs_and_each_time_they_have_doubled() -> None:
    reviewed = Reviewed()
    for count, runs in enumerate((9, 9, 18, 36)):
        reviewed.run(runs - 1)
        assert reviewed.count == count
        reviewed.run()
        reviewed.wait()
    assert reviewed.count == 4
    reviewed.review.close()


def test_runs_of_all_threads_count() -> None:
    reviewed = Reviewed()
    threads = [Thread(target=reviewed.run) for _ in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reviewed.wait()
    reviewed.review.close()
    assert reviewed.count == 1


def test_no_run_waits_for_it_and_the_end_of_a_session_does() -> None:
    began, go_on = Event(), Event()
    ended: list[bool] = []

    def look() -> None:
        began.set()
        ended.append(go_on.wait(SOON))

    lease = BackendLease(function_backend(dict))
    lease.review_with(CostReview(look, RecordingTelemetry()))
    for _ in range(9):
        lease.launched()
    assert began.wait(SOON)
    for _ in range(100):
        lease.launched()
    assert ended == []  # and none begins meanwhile
    closing = Thread(target=lease.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    go_on.set()
    closing.join(SOON)
    assert ended == [True]
    for _ in range(10_000):
        lease.launched()
    assert ended == [True]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3)])
def test_what_it_raises_is_told_and_raised_nowhere(error: BaseException) -> None:
    def look() -> None:
        raise error

    telemetry = RecordingTelemetry()
    review = CostReview(look, telemetry)
    for _ in range(9):
        review.launched()
    review._background.join()
    review.close()
    assert [event.name for event in telemetry.events] == ["vyre.background.failed"]


def test_who_plans_nothing_imports_nothing_of_it() -> None:
    code = (
        "import sys, numpy, vyre\n"
        "from vyre.gallery.registry import BASICS, load\n"
        "with vyre.ProgramBuilder('p', workgroup=64) as p:\n"
        "    y = p.inout('y', vyre.u32)\n"
        "    y[p.global_id()] = y[p.global_id()] + 1\n"
        "with vyre.open('reference', cache=False) as session:\n"
        "    session.dispatch(p.build(), {'y': numpy.ones(64, numpy.uint32)})\n"
        "print([name for name in sys.modules if 'calibration' in name])"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=LIMIT_S
    )
    assert done.stdout == "[]\n"
