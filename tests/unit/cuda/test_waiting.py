"""Waits poll, then sleep longer and longer, and never outlast their deadline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

from vyre.adapters.cuda.runtime.waiting import SPIN_NS, Waiter, WaitingClock, deadline_after
from vyre.adapters.cuda.seam import CudaDriver


@dataclass
class Device:
    """Time passes by 1 us a query; the event completes at ``ready_at_ns``."""

    ready_at_ns: float
    now: int = 0
    sleeps: list[float] = field(default_factory=list)
    queries: int = 0
    blocked: int = 0

    def event_ready(self, event: int) -> bool:
        self.now += 1_000
        self.queries += 1
        return self.now >= self.ready_at_ns

    def event_synchronize(self, event: int) -> None:
        self.blocked += 1

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += round(seconds * 1e9)

    def wait(self, deadline_ns: int | None) -> bool:
        waiter = Waiter(cast(CudaDriver, self), WaitingClock(lambda: self.now, self.sleep))
        return waiter.event(7, deadline_ns)


def test_a_short_wait_only_polls() -> None:
    device = Device(ready_at_ns=30_000)
    assert device.wait(None)
    assert (device.sleeps, device.blocked) == ([], 0)


def test_without_a_deadline_polling_ends_in_the_blocking_call() -> None:
    device = Device(ready_at_ns=float("inf"))
    assert device.wait(None)
    assert device.blocked == 1
    assert device.now <= SPIN_NS + 2_000
    assert device.sleeps == []


def test_with_a_deadline_sleeps_double_up_to_a_millisecond() -> None:
    device = Device(ready_at_ns=10_000_000)
    assert device.wait(1_000_000_000)
    assert device.blocked == 0
    assert device.sleeps[:7] == pytest.approx([20e-6, 40e-6, 80e-6, 160e-6, 320e-6, 640e-6, 1e-3])
    assert set(device.sleeps[7:]) == {1e-3}


@pytest.mark.parametrize("deadline_ns", [0, 10_000, 64_000, 70_000, 1_000_000, 5_000_000])
def test_a_wait_ends_at_its_deadline(deadline_ns: int) -> None:
    device = Device(ready_at_ns=float("inf"))
    assert not device.wait(deadline_ns)
    assert deadline_ns <= device.now <= deadline_ns + 3_000


def test_what_completes_at_the_last_moment_counts() -> None:
    device = Device(ready_at_ns=5_000_000)
    assert device.wait(4_999_999)


def test_deadlines_are_counted_from_now() -> None:
    clock = WaitingClock(lambda: 5_000, lambda seconds: None)
    assert deadline_after(clock, None) is None
    assert deadline_after(clock, 0.25) == 250_005_000
