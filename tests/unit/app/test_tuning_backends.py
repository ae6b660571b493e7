"""Tuning on the backends there are: real time on the reference, estimates on the emulated device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vyre
from support.small_programs import square_program
from vyre.app.tuning.report import Source
from vyre.app.tuning.tuner import TuningSettings
from vyre.domain.tuning import TimeKind
from vyre.policies.successive_halving import HalvingThresholds

X = np.arange(5000, dtype=np.uint32)
SHORT = TuningSettings(thresholds=HalvingThresholds(first_round=1, growth=1, final_pairs=4), profiles=False)


def test_the_reference_is_tuned_by_the_clock(tmp_path: Path) -> None:
    with vyre.open("reference", cache=tmp_path) as session:
        report = session.tune(square_program(), {"x": X}, settings=SHORT)
        assert (report.kind, report.measured, report.source) == (TimeKind.HOST, True, Source.RUN)
        assert [candidate.size for candidate in report.candidates] == [64, 32, 128, 256, 512, 1024]
        assert min(min(times) for times in report.samples) > 1_000
        assert report.rejected == ()
        assert session.tune(square_program(), {"x": X}, settings=SHORT).source is Source.STORE


def test_the_emulated_device_is_tuned_by_its_model_and_says_so(tmp_path: Path) -> None:
    with vyre.open("cuda-machine", cache=tmp_path) as session:
        report = session.tune(square_program(), {"x": X})
        again = session.tune(square_program(), {"x": X})
        tuned = session.tuned(square_program(), {"x": X})
    assert (report.kind, report.measured) == (TimeKind.ESTIMATED, False)
    assert {len(times) for times in report.samples} == {1}
    assert again == report._replace(source=Source.STORE)
    assert tuned.measured is False
    assert {found.profile for found in report.candidates} == {"", "no-bounds-checks"}


@pytest.mark.parametrize("backend", ["reference", "cuda-machine"])
def test_a_dispatch_as_tuned_gives_the_same_bytes(backend: str, tmp_path: Path) -> None:
    with vyre.open(backend, cache=tmp_path) as session:
        session.tune(square_program(), {"x": X}, settings=SHORT)
        for elements in (1, 63, 64, 4096, 5000):
            plain = session.dispatch(square_program(), {"x": X[:elements]})
            tuned = session.dispatch(square_program(), {"x": X[:elements]}, tune=True)
            assert plain["y"].tobytes() == tuned["y"].tobytes()
