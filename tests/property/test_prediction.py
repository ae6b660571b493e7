"""Whatever is prepared ahead and whenever, results are right, and what prediction keeps stays within its bounds."""

from __future__ import annotations

from typing import Final
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import vyre
from support.forgetful_backend import ForgetfulCompiler, forgetful_backend
from support.profiles import examples
from support.small_programs import catalog_of, square_kernel, square_program
from vyre.app import preparing
from vyre.app.prediction import PredictionConfig
from vyre.policies.prediction.shape_prediction import PredictionThresholds
from vyre.policies.prediction.trace_jit import TraceJitThresholds

PROGRAMS: Final = [square_program(name) for name in "abc"]
EAGER: Final = TraceJitThresholds(hot_hits=0, min_confidence_bps=0)

configs = st.builds(
    PredictionConfig,
    learning=st.builds(PredictionThresholds, max_order=st.integers(0, 4)),
    jit=st.sampled_from([EAGER, TraceJitThresholds()]),
    shapes=st.integers(1, 6),
    log=st.integers(1, 8),
    patience=st.integers(1, 20),
)
steps = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), st.booleans()), min_size=1, max_size=12)


@given(steps=steps, laps=st.integers(1, 4), keeps=st.integers(1, 3), at_hand=st.integers(1, 4), config=configs)
@examples(60)
def test_results_and_bounds(
    steps: list[tuple[int, int, bool]], laps: int, keeps: int, at_hand: int, config: PredictionConfig
) -> None:
    """A step: a program, a length, and whether the background may finish first."""
    backend = forgetful_backend(ForgetfulCompiler(square_kernel, keeps))
    with (
        mock.patch.object(preparing, "PREPARED", at_hand),
        vyre.open(catalog=catalog_of(backend), predict=config) as session,
    ):
        for program, length, wait in steps * laps:
            x = np.arange(length, dtype=np.uint32)
            np.testing.assert_array_equal(session.dispatch(PROGRAMS[program], [x])["y"], x * x)
            if wait:
                session._background.join()
        report = session.predictions()
        assert report.shapes <= config.shapes and len(session._prepared) <= at_hand
        assert report.used <= report.ahead and report.right <= report.asked <= len(steps) * laps
        assert report.failed == 0
