"""Random kernels in plain Python compute what Python computes."""

from __future__ import annotations

import linecache
import os

import pytest

import vyre
from support.fuzzing.python_kernels import Campaign, differences, kernel_of
from support.python_kernels import Writer

QUICK = 150


@pytest.mark.parametrize("part", range(4))
def test_random_kernels_compute_what_python_computes(part: int) -> None:
    with vyre.open("reference", cache=False) as session:
        for seed in range(part * QUICK, (part + 1) * QUICK):
            assert differences(seed, session) is None


def test_guessed_types_give_the_program_of_found_ones() -> None:
    for seed in range(QUICK):
        name, source = f"<guessed {seed}>", Writer(seed).source()
        try:
            definition = kernel_of(source, name).definition
            guessed, found = (definition.walked({}, {}, guess=guess) for guess in (True, False))
        finally:
            linecache.cache.pop(name, None)
        assert guessed.finish() == found.finish()
        assert guessed.buffers == found.buffers


def test_random_kernels_as_native_code() -> None:
    with vyre.open("cpu", cache=False, threads=1) as session:
        for seed in range(5000, 5020):
            assert differences(seed, session) is None


@pytest.mark.skipif("VYRE_SOAK" not in os.environ, reason="a long run: set VYRE_SOAK=1 (make soak)")
def test_many_random_kernels() -> None:
    campaign = Campaign(100_000, 100_000, "reference")
    campaign.run(20_000, stop_after=1, record=None)
    assert campaign.failures == []
    assert campaign.kernels == 20_000
