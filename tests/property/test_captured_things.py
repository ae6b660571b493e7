"""What kernels capture means what Python says, however it is changed between calls."""

from __future__ import annotations

import os

import pytest

from support.fuzzing.captured import Campaign


def campaign(seed: int, calls: int) -> Campaign:
    """The outcome of so many calls."""
    found = Campaign()
    found.run(seed, calls)
    assert found.failures == []
    assert found.calls >= calls and found.refused < found.calls * 0.6
    return found


def test_captured_things_mean_what_python_says() -> None:
    campaign(0, 300)


@pytest.mark.skipif("VYRE_SOAK" not in os.environ, reason="a long run: set VYRE_SOAK=1 (make soak)")
def test_captured_things_in_many_calls() -> None:
    campaign(5_000_000, 20_000)
