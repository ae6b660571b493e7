"""Tuning on the backends there are: real time on the reference, estimates on the emulated device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vyre
from support.small_programs import square_program
from vyre.adapters.cuda.machine.presets import H200, SM_86, SM_120, DevicePreset
from vyre.app.tuning.report import Rejected, TuningSource
from vyre.app.tuning.tuner import TuningSettings
from vyre.domain.tuning import Candidate, TimeKind
from vyre.policies.tuning.successive_halving import HalvingThresholds
from vyre.testing import cuda_machine

X = np.arange(5000, dtype=np.uint32)
SHORT = TuningSettings(thresholds=HalvingThresholds(first_round=1, growth=1, final_pairs=4), profiles=False)


def test_the_reference_is_tuned_by_the_clock(tmp_path: Path) -> None:
    with vyre.open("reference", cache=tmp_path) as session:
        report = session.tune(square_program(), {"x": X}, settings=SHORT)
        assert (report.kind, report.measured, report.source) == (TimeKind.HOST, True, TuningSource.RUN)
        assert [candidate.size for candidate in report.candidates] == [64, 32, 128, 256, 512, 1024]
        assert min(min(times) for times in report.samples) > 1_000
        assert report.rejected == ()
        assert session.tune(square_program(), {"x": X}, settings=SHORT).source is TuningSource.STORE


def test_the_emulated_device_is_tuned_by_its_model_and_says_so(tmp_path: Path) -> None:
    with vyre.open("cuda-machine", cache=tmp_path) as session:
        report = session.tune(square_program(), {"x": X})
        again = session.tune(square_program(), {"x": X})
        tuned = session.tuned(square_program(), {"x": X})
    assert (report.kind, report.measured) == (TimeKind.ESTIMATED, False)
    assert {len(times) for times in report.samples} == {1}
    assert again == report._replace(source=TuningSource.STORE)
    assert tuned.measured is False
    assert {found.profile for found in report.candidates} == {"", "no-bounds-checks"}


@pytest.mark.parametrize(("preset", "occupancy_bps"), [(H200, 5_000), (SM_86, 3_333), (SM_120, 5_000)])
def test_occupancy_decides_which_sizes_are_tried(preset: DevicePreset, occupancy_bps: int) -> None:
    """Too few workgroups of 32 lanes are resident on some devices to fill half of a multiprocessor."""
    machine = cuda_machine(preset=preset)
    with machine.open() as session:
        report = session.tune(square_program(), {"x": X}, settings=SHORT)
    tried = occupancy_bps >= 5_000
    assert (Candidate(32) in report.candidates) is tried
    told = Rejected(Candidate(32), f"it keeps {occupancy_bps} bps of the warps resident, the best 10000")
    assert (told in report.rejected) is not tried
    assert {candidate.size for candidate in report.candidates} >= {64, 128, 256, 512}


@pytest.mark.parametrize("backend", ["reference", "cuda-machine"])
def test_a_dispatch_as_tuned_gives_the_same_bytes(backend: str, tmp_path: Path) -> None:
    with vyre.open(backend, cache=tmp_path) as session:
        session.tune(square_program(), {"x": X}, settings=SHORT)
        for elements in (1, 63, 64, 4096, 5000):
            plain = session.dispatch(square_program(), {"x": X[:elements]})
            tuned = session.dispatch(square_program(), {"x": X[:elements]}, tune=True)
            assert plain["y"].tobytes() == tuned["y"].tobytes()
